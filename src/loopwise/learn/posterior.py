r"""How sure a trained system is of its weights: a Gaussian around them, and what it says of predictions.

In: a trained system, the examples and the goal it was trained with, its prior. Out: :class:`Laplace`, which draws
weights, and :class:`Predictive`, marginals with intervals. Stage: learning. The curvature is seen through
Hessian-vector products only, so the whole truncated system is inside it, as it was in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.gradient.hvp import hvp
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.evaluate import Goal, risk
from loopwise.learn.system import CHUNK, Given, System
from loopwise.learn.system_loss import whole_risk
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.notices import GradientWarning, warn
from loopwise.potentials.priors import L2

Floats = NDArray[np.float64]

RANK = 200  # directions of largest curvature that are found where there are more weights
PROBES = 100  # random directions by which the curvature that is left is shared out among single weights
NEAR = 0.01  # the part of a draw's deviation over which log-marginals are differenced
NEGATIVE = 1e-6  # a curvature below minus this share of the largest is no rounding


@dataclass(frozen=True, eq=False)
class Predictive:
    """Marginals under draws of the weights, ``draws`` ``[samples, *batch, variables, largest cardinality]``."""

    draws: Tensor

    @property
    def mean(self) -> Tensor:
        """The predictive marginals: the mean over draws."""
        return self.draws.mean(0)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Between which numbers the middle ``level`` of the draws lie, cell by cell.

        Parameters
        ----------
        level: how much of the draws, between 0 and 1.

        Returns
        -------
        The lower and the upper end, each of the shape of :attr:`mean`.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level}")
        ends = torch.tensor([0.5 - level / 2, 0.5 + level / 2], dtype=self.draws.dtype)
        lower, upper = torch.quantile(self.draws, ends, dim=0)
        return lower, upper


@dataclass(frozen=True, eq=False)
class Laplace:
    r"""The Gaussian :math:`N(\theta^*, \Lambda^{-1})` around trained weights (MacKay 1992), with precision

    .. math:: \Lambda = \beta n\,\big(\lambda I + \nabla^2 L(\theta^*)\big),

    where L is the mean loss of the n training examples and λ the strength of the L2 prior it was trained with. For a
    likelihood, β = 1 is Bayes' rule; for another loss this is a Gibbs posterior, and β says how much a unit of loss
    counts. The largest curvatures are found with their directions. Of what is left of the Hessian the diagonal is
    estimated (Bekas, Kokiopoulou & Saad 2007), as if the data spoke of single weights there; the prior alone would
    leave thousands of weights nearly free that the data do know. Where the data's curvature is negative (the weights
    are not at a minimum, or the loss is not convex) it counts as 0, with a warning.

    Make one by :meth:`of`.

    >>> import loopwise as lw
    >>> graph = lw.FactorGraph([2], {"bias": [[0]]})
    >>> examples = lw.Examples.of(graph, [[1]] * 30 + [[0]] * 10, [lw.Role.OUTPUT])
    >>> system = lw.System(lw.TablePotentials(graph), lw.BP())
    >>> goal, prior = lw.loss.SurrogateLikelihood(), lw.prior.L2(0.01)
    >>> _ = lw.fit(system, examples, goal, prior=prior, optimizer=lw.optim.LBFGS, epochs=1, progress=False)
    >>> posterior = lw.posterior.Laplace.of(system, examples, goal, prior)
    >>> predicted = posterior.predict_marginals(examples[:1], samples=200)
    >>> lower, upper = predicted.interval(0.9)
    >>> bool(0.55 < lower[0, 0, 1] < 0.75 < upper[0, 0, 1] < 0.9)
    True
    """

    system: System
    weights: Floats  # the centre, [parameters]
    precision: Floats  # of each weight by itself, [parameters]: the prior's, and what directions leave of the data's
    directions: Floats  # [parameters, rank], orthonormal
    curvatures: Floats  # [rank], of the data, β n times an eigenvalue of the mean loss's Hessian
    negative: int = 0  # how many curvatures were below 0 and count as 0

    @staticmethod
    def of(
        system: System,
        examples: Given,
        goal: Goal,
        prior: L2,
        *,
        scale: float | None = None,
        rank: int = RANK,
    ) -> Laplace:
        r"""The Gaussian around a system's weights as they are.

        Parameters
        ----------
        system:
            A trained system, whose inference is differentiated by ``Unroll`` (or is exact).
        examples, goal, prior:
            What it was trained with.
        scale:
            β, how much the loss of an example counts. By default 1 for likelihoods; other losses need one.
        rank:
            How many directions of largest curvature are found, by Lanczos iterations: a few Hessian-vector products
            over all examples each. With more weights than that, 100 further products share out what is left.

        Returns
        -------
        The posterior, over all parameters of the system that want a gradient.
        """
        beta = _checked(goal, prior, scale, rank)
        corpus = system.examples(examples)
        params = [param for param in system.parameters() if param.requires_grad]
        if not params or not len(corpus):
            raise ValueError("there is nothing to be unsure of: the system has no weights, or there are no examples")

        def product(vector: Floats) -> Floats:
            direction = _like(vector, params)
            with ignored_convergence():
                pieces = [_flat(hvp(loss, params, direction)) for loss in _losses(system, corpus, goal)]
            total: Floats = np.sum(pieces, axis=0)
            return total

        size = sum(param.numel() for param in params)
        values, directions = _largest(product, size, rank)
        negative = int((values < -NEGATIVE * max(np.abs(values).max(initial=0.0), 1e-300)).sum())
        if negative:
            warn(
                f"the loss bends down in {negative} of {len(values)} directions: the weights are not at a minimum, or "
                "the loss is not convex there. The prior alone speaks of these; train on, or strengthen the prior",
                GradientWarning,
            )
        left = _diagonal_of_rest(product, values, directions) if len(values) < size else np.zeros(size)
        count = beta * len(corpus)
        precision = count * (prior.strength + np.maximum(left, 0.0))
        return Laplace(system, _flat(params), precision, directions, count * np.maximum(values, 0.0), negative)

    @cached_property
    def _narrowed(self) -> tuple[Floats, Floats]:
        """Directions, orthonormal where each weight is measured by its own precision, and by how much less than 1 the
        deviation is along each."""
        scaled = self.directions * np.sqrt(self.curvatures) / np.sqrt(self.precision)[:, None]
        axes, lengths, _ = np.linalg.svd(scaled, full_matrices=False)
        return axes, 1 - (1 + np.square(lengths)) ** -0.5

    def draw(self, samples: int, seed: int = 0) -> Floats:
        """Weights from the posterior, ``[samples, parameters]``, in the order of the system's parameters."""
        checked_whole("samples", samples)
        noise = np.random.default_rng(seed).standard_normal((samples, len(self.weights)))
        axes, narrower = self._narrowed
        found: Floats = self.weights + (noise - (noise @ axes * narrower) @ axes.T) / np.sqrt(self.precision)
        return found

    @property
    def variances(self) -> Floats:
        """The variance of each weight, ``[parameters]``."""
        axes, narrower = self._narrowed
        found: Floats = (1 - np.square(axes) @ (1 - np.square(1 - narrower))) / self.precision
        return found

    def predict_marginals(
        self, given: Given = None, *, samples: int = 30, seed: int = 0, linear: bool = True
    ) -> Predictive:
        r"""Marginals under draws of the weights; the system's own weights are put back.

        Parameters
        ----------
        given: as :meth:`System.predict_marginals` takes it, over one graph.
        samples: how many draws; inference is run twice for each, once where ``linear`` is off.
        seed: of the draws.
        linear:
            Whether log-marginals follow the draws along their tangent at the trained weights, which is what the
            Gaussian was fitted to (Immer, Korzepa & Bauer 2021): :math:`\log b(\theta) \approx \log b(\theta^*) +
            J(\theta - \theta^*)`, the product by a symmetric difference. Without it, inference is run at each draw
            itself, which may be so far out that the Gaussian says nothing true of it.

        Returns
        -------
        The draws with their mean and intervals.
        """
        drawn = self.draw(samples, seed)
        with self._borrowed() as put:

            def at(weights: Floats) -> Tensor:
                put(weights)
                answer = self.system.predict_marginals(given)
                if isinstance(answer, list):
                    raise ValueError(
                        "intervals are for examples of one graph, and those of a template have one each; ask for one "
                        "kind of example at a time with a system of potentials that have a graph"
                    )
                return answer

            if not linear:
                return Predictive(torch.stack([at(weights) for weights in drawn]))
            centre, steps = at(self.weights), NEAR * (drawn - self.weights)
            return Predictive(
                torch.stack([_along(centre, at(self.weights + step), at(self.weights - step)) for step in steps])
            )

    @contextmanager
    def _borrowed(self) -> Iterator[_Put]:
        """The system, to be given other weights for a while."""
        params = [param for param in self.system.parameters() if param.requires_grad]
        before = _flat(params)
        put = _Put(params)
        try:
            with ignored_convergence():
                yield put
        finally:
            put(before)


class _Put:
    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = params

    def __call__(self, weights: Floats) -> None:
        with torch.no_grad():
            for param, piece in zip(self.params, _like(weights, self.params), strict=True):
                param.copy_(piece)


def _checked(goal: Goal, prior: L2, scale: float | None, rank: int) -> float:
    if not isinstance(prior, L2) or prior.strength <= 0:
        raise ValueError(
            "a posterior needs the L2 prior of training, with a strength above 0, such as lw.prior.L2(0.01)"
        )
    if scale is None and not isinstance(goal, LikelihoodObjective):
        raise ValueError(
            f"{type(goal).__name__} is no likelihood: say by scale= how much a unit of it counts, for instance chosen "
            "by the log-loss of development data"
        )
    if scale is not None and not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")
    checked_whole("rank", rank)
    return 1.0 if scale is None else scale


def _losses(system: System, corpus: Corpus, goal: Goal) -> list[Callable[[], Tensor]]:
    """Functions that add up to the mean loss: a likelihood a part at a time, a pooled loss as a whole."""
    rows = np.arange(len(corpus))
    if not isinstance(goal, LikelihoodObjective):
        return [lambda: whole_risk(system, corpus, goal, [rows])]
    parts = [corpus[rows[first : first + CHUNK]] for first in range(0, len(rows), CHUNK)]
    return [partial(_share, system, part, goal, len(rows)) for part in parts]


def _share(system: System, part: Corpus, goal: Goal, count: int) -> Tensor:
    return risk(system, part, goal) * (len(part) / count)


def _along(centre: Tensor, ahead: Tensor, behind: Tensor) -> Tensor:
    """Marginals whose logarithms go on from the centre as they do a step ahead and a step behind; zeros stay."""
    slope = (torch.log(ahead) - torch.log(behind)).nan_to_num(0.0, 0.0, 0.0) / (2 * NEAR)
    return torch.softmax(torch.log(centre) + slope, dim=-1).nan_to_num(0.0)


def _largest(product: Callable[[Floats], Floats], size: int, rank: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues of a symmetric operator, and their vectors; all of them where there are no more."""
    if rank >= size - 1:
        dense = np.stack([product(row) for row in np.eye(size)])
        values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
        return values, vectors
    start = np.random.default_rng(0).standard_normal(size)  # so that the same call gives the same answer
    operator = LinearOperator((size, size), product, dtype=np.float64)
    found: tuple[Floats, Floats] = eigsh(operator, k=rank, which="LA", v0=start)
    return found


def _diagonal_of_rest(product: Callable[[Floats], Floats], values: Floats, directions: Floats) -> Floats:
    """The diagonal of an operator without its part in some of its eigenvectors, from what it makes of random signs; to
    the digit where there are no more weights than probes."""
    size = len(directions)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, size)) if size > PROBES else np.eye(size)
    rest = np.stack([product(row) for row in signs]) - (signs @ directions * values) @ directions.T
    found: Floats = (signs * rest).sum(0) / np.square(signs).sum(0)
    return found


def _flat(parts: Sequence[Tensor]) -> Floats:
    return np.concatenate([part.detach().double().reshape(-1).numpy() for part in parts])


def _like(vector: Floats, params: Sequence[Tensor]) -> list[Tensor]:
    ends = np.cumsum([param.numel() for param in params])[:-1]
    pieces = np.split(np.asarray(vector).reshape(-1), ends)
    given = zip(pieces, params, strict=True)
    return [torch.from_numpy(piece.copy()).to(param).reshape(param.shape) for piece, param in given]
