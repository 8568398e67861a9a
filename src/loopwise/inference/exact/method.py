"""Exact inference by junction tree: marginals, log-partition function, joint maximum, samples, entropy.

In: a :class:`Problem`. Out: :class:`ExactBeliefs`. Stage: inference. Marginals and log-partition function are
differentiable: d log Z = marginals, and the Jacobian of marginals is a covariance, whose product with
adjoints is one more pass over the tree with tangents."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Gradient, check_gradient_of
from loopwise.gradient.covariance import Covariance
from loopwise.gradient.marginals import MarginalGradient
from loopwise.gradient.once import taken_once
from loopwise.gradient.perturbation import Perturbation
from loopwise.graph.elimination import LARGEST_TOTAL, JunctionTree
from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import COLDEST, Inference, Problem, check_temperature
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.bethe import expectation
from loopwise.inference.exact.junction_tree import Calibration, Floats
from loopwise.inference.maximum.method import exact_maximum
from loopwise.inference.messages.implicit import ImplicitBeliefs, implicit_beliefs
from loopwise.inference.messages.operator import opaque, transformed, transforms
from loopwise.inference.pruning import PrunedCalibration, StatePruning
from loopwise.inference.unfolding import unfolded
from loopwise.notices import ImpossibleError
from loopwise.potentials.checks import broadcast_batches

logger = logging.getLogger(__name__)

GIB = 2.0**30
WORTH_PRUNING = 2.0**22  # clique cells: below, inference takes less time than looking for impossible values


class TooLargeError(ValueError):
    """Exact inference would need more memory, or visit more cells, than it was given."""


@dataclass(frozen=True)
class Exact(Inference):
    r"""Exact marginals by message passing on a junction tree (Lauritzen and Spiegelhalter 1988).

    ``temperature`` t gives the marginals of :math:`p^{1/t}` and :math:`t \log Z(\theta / t)`; 0 gives a
    configuration of largest score (``assignment``), its score as ``log_partition`` and its indicators as
    marginals.

    Time is O(cells of all cliques * tables in a clique), memory two numbers per separator cell; clique tables
    are never stored. Beyond ``memory_limit`` bytes, or ``cell_limit`` clique cells an example, it refuses.

    Parameters
    ----------
    memory_limit: bytes beyond which it refuses.
    temperature: see above.
    cell_limit: clique cells of an example beyond which it refuses.
    gradient: how the backward is computed.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> round(float(Exact()(graph, lw.TablePotentials(graph)).log_partition.exp()))  # all configurations weigh 1
    512
    """

    gradients: ClassVar[tuple[type[Gradient], ...]] = (Covariance, Perturbation)

    memory_limit: float = 2 * GIB
    temperature: float = 1.0
    cell_limit: float = 2.0**35
    gradient: Gradient = field(default_factory=Covariance)

    def __post_init__(self) -> None:
        check_gradient_of(self, self.gradient, self.gradients)
        if not (self.temperature == 0 or COLDEST <= self.temperature < math.inf):
            raise ValueError(f"temperature must be 0 or a number from {COLDEST:g} on, not {self.temperature}")
        if not self.memory_limit > 0:
            raise ValueError(f"memory_limit must be a positive number of bytes, not {self.memory_limit}")

    @opaque
    def __call__(
        self,
        graph: FactorGraph,
        potentials: object,
        evidence: EvidenceLike = None,
        *,
        initial: Tensor | None = None,
    ) -> ExactBeliefs | ConditionedExactBeliefs:
        """See :meth:`Inference.__call__`; the beliefs have ``sample`` and ``entropy`` besides."""
        if initial is not None:
            super().__call__(graph, potentials, evidence, initial=initial)  # says that there are no messages
        if transforms() is not None:
            return transformed(self, graph, potentials, evidence, None)  # type: ignore[return-value]
        keeper = _Keeper(self)
        beliefs = Inference.__call__(keeper, graph, potentials, evidence)
        if isinstance(beliefs, ExactBeliefs):
            return beliefs
        return ConditionedExactBeliefs(beliefs, keeper.beliefs, torch.as_tensor(clamped_values(graph, evidence)))

    def run(self, problem: Problem) -> ExactBeliefs:
        if problem.differentiable and isinstance(self.gradient, MarginalGradient):
            return PerturbedExactBeliefs(problem, implicit_beliefs(self, problem, None))
        check_temperature(problem, self.temperature)
        given, problem = problem, unfolded(problem)
        graph = problem.graph
        tables = [problem.table(group.name) for group in graph.groups if group.arity]
        arities = [group.arity for group in graph.groups if group.arity]
        batch = broadcast_batches(*(table.shape[: -1 - arity] for table, arity in zip(tables, arities, strict=True)))
        examples = math.prod(batch)
        flat = [
            table.expand(*batch, *table.shape[-1 - arity :]).reshape(examples, math.prod(table.shape[-1 - arity :]))
            for table, arity in zip(tables, arities, strict=True)
        ]
        theta = torch.cat(flat, 1) if flat else problem.like.new_zeros(1, 0)
        theta = theta.to("cpu", torch.float64) / (self.temperature or 1.0)
        calibration = self._calibrated(graph, np.ascontiguousarray(theta.detach().numpy()))
        _check_possible(calibration.log_partition, batch)
        return ExactBeliefs(_Results(given, graph, calibration, theta, batch, self.temperature))

    def _calibrated(self, graph: FactorGraph, theta: Floats) -> Calibration | PrunedCalibration:
        maximise, tree = self.temperature == 0, graph.layout.junction_tree
        if len(theta) and (tree is None or tree.total_cells > WORTH_PRUNING):
            possible = np.isfinite(theta.max(0))
            pruning = None if possible.all() else StatePruning.of(graph, possible)
            if pruning is not None:
                if pruning.empty is not None:
                    raise ImpossibleError(
                        f"variable {pruning.empty} has no possible value: the zeros rule out each; "
                        "allow one, or take back evidence"
                    )
                small = self._affordable(pruning.graph, len(theta))
                return PrunedCalibration(pruning, small, theta, maximise)
        return Calibration(self._affordable(graph, len(theta)), theta, maximise)

    def _affordable(self, graph: FactorGraph, examples: int) -> JunctionTree:
        tree = graph.layout.junction_tree
        remedy = "use BP or TRW, which are approximate"
        if tree is None:
            raise TooLargeError(f"exact inference on {graph!r} would visit over {LARGEST_TOTAL:.2g} cells: {remedy}")
        cells = sum(group.count * group.cells for group in graph.groups if group.arity)
        needed = Calibration.bytes_needed(tree, cells, examples, self.temperature == 0)
        width = f"the induced width of the best elimination order found is {tree.induced_width}"
        if needed > self.memory_limit:
            raise TooLargeError(
                f"exact inference on {graph!r} needs {needed / GIB:.3g} GiB for {examples} example(s), over the limit "
                f"of {self.memory_limit / GIB:.3g} ({width}): raise memory_limit (--memory-limit), or {remedy}"
            )
        if tree.total_cells > self.cell_limit:
            raise TooLargeError(
                f"exact inference on {graph!r} would visit {tree.total_cells:.3g} cells an example, over the "
                f"limit of {self.cell_limit:.3g} ({width}): raise cell_limit, or {remedy}"
            )
        logger.debug("junction tree of %.3g cells, %.3g bytes; %s", tree.total_cells, needed, width)
        return tree


class ExactBeliefs(Beliefs):
    """Exact beliefs, which also know their entropy and can be sampled from."""

    def __init__(self, results: _Results) -> None:
        batch = results.problem.batch
        status = Status(
            method="Exact",
            exact=True,
            converged=True,
            sweeps=torch.zeros(batch, dtype=torch.int64),
            residual=torch.zeros(batch, dtype=torch.float64),
            engine="compiled",
            domain="log",
            maximum=exact_maximum(results.best, results.log_partition) if results.calibration.maximise else None,
        )
        super().__init__(
            results.problem.graph,
            results.states(),
            results.factor,
            results.log_partition,
            status,
            assignment=results.best if results.calibration.maximise else None,
        )
        self._results = results

    def entropy(self) -> Tensor:
        r"""Entropy of the joint distribution, :math:`\log Z - E[\text{score}]`, in nats, ``[*batch]``."""
        return self._results.entropy()

    def sample(self, count: int, seed: int) -> Tensor:
        """Independent joint samples, ``[count, *batch, variables]``; the best configuration at temperature 0.

        Examples that share all their tables share their samples.
        """
        if count < 0:
            raise ValueError(f"count must be zero or more, not {count}")
        return self._results.sample(count, seed)


class PerturbedExactBeliefs(ExactBeliefs):
    """Exact beliefs whose gradient comes from further runs."""

    def __init__(self, problem: Problem, beliefs: ImplicitBeliefs) -> None:
        plain = beliefs.plain
        assert isinstance(plain, ExactBeliefs)
        Beliefs.__init__(
            self, beliefs.graph, beliefs.states, beliefs.factor, lambda: beliefs.log_partition, beliefs.status,
            gradient=beliefs.gradient,
        )  # fmt: skip
        self._results, self._problem = plain._results, problem

    def entropy(self) -> Tensor:
        self.check_unchanged()
        problem = self._problem
        total = self.log_partition - problem.constant() - expectation(problem.unary(), self.states).sum(-1)
        for member in problem.graph.layout.message_groups:
            group = member.group
            energy = expectation(problem.table(group.name), self.factor(group.name))
            total = total - energy.flatten(-1 - group.arity).sum(-1)
        return total / self._results.temperature


@dataclass(frozen=True)
class _Results:
    """What one run found, in the shapes of the call. ``graph``: the one that was run on, see :func:`unfolded`.

    Apart from :class:`ExactBeliefs` so that beliefs refer to it and nothing refers back: gigabytes of
    messages go with the last reference, not with the next garbage collection."""

    problem: Problem
    graph: FactorGraph
    calibration: Calibration | PrunedCalibration
    theta: Tensor  # [examples, cells], divided by the temperature
    batch: torch.Size  # of the tables: what the call's batch is broadcast from
    temperature: float

    def states(self) -> Tensor:
        return self._to_batch(_Marginals.apply(self.theta, self.calibration, "states"))  # type: ignore[no-untyped-call]

    def factor(self, name: str) -> Tensor:
        batch, group = self.problem.batch, self.problem.graph.group(name)
        if group.arity == 0:
            return torch.ones(*batch, group.count, dtype=self.problem.like.dtype, device=self.problem.like.device)
        if group.arity == 1 and self.problem.folded is not None:
            first = self.graph.layout.state_start[group.scopes[:, 0]]
            return self.states()[..., torch.as_tensor(first[:, None] + np.arange(group.shape[0]))]
        names = [other.name for other in self.graph.groups]
        before = [other for other in self.graph.groups[: names.index(name)] if other.arity]
        start = sum(other.count * other.cells for other in before)
        flat = self._to_batch(self._flat_factors[:, start : start + group.count * group.cells])
        return flat.reshape(*batch, group.count, *group.shape)

    def log_partition(self) -> Tensor:
        total = self._to_batch((self.temperature or 1.0) * self._log_z[:, None]).squeeze(-1)
        return total + self.problem.constant()

    def entropy(self) -> Tensor:
        if self.calibration.maximise:
            return self._to_batch(torch.zeros_like(self._log_z)[:, None]).squeeze(-1)
        # 0 log 0 = 0: impossible cells have no probability and no say.
        finite = torch.where(torch.isneginf(self.theta), 0.0, self.theta)
        return self._to_batch((self._log_z - (self._flat_factors * finite).sum(1))[:, None]).squeeze(-1)

    def best(self) -> Tensor:
        best = torch.as_tensor(self.calibration.assignment).reshape(*self.batch, self.problem.graph.variables)
        return best.expand(*self.problem.batch, self.problem.graph.variables).to(self.problem.like.device)

    def sample(self, count: int, seed: int) -> Tensor:
        shape = (count, *self.problem.batch, self.problem.graph.variables)
        if self.calibration.maximise:
            return self.best().expand(shape)
        drawn = torch.as_tensor(self.calibration.sample(count, np.random.default_rng(seed)))
        shared = (1,) * (len(self.problem.batch) - len(self.batch))
        return drawn.reshape(count, *shared, *self.batch, shape[-1]).expand(shape).to(self.problem.like.device)

    @cached_property
    def _log_z(self) -> Tensor:
        result: Tensor = _LogPartition.apply(self.theta, self.calibration)  # type: ignore[no-untyped-call]
        return result

    @cached_property
    def _flat_factors(self) -> Tensor:
        result: Tensor = _Marginals.apply(self.theta, self.calibration, "factors")  # type: ignore[no-untyped-call]
        return result

    def _to_batch(self, values: Tensor) -> Tensor:
        like, width = self.problem.like, values.shape[-1]
        values = values.to(like.device, like.dtype).reshape(*self.batch, width)
        return values.expand(*self.problem.batch, width)


class ConditionedExactBeliefs(Beliefs):
    """Exact beliefs given evidence, over the whole graph."""

    def __init__(self, outer: Beliefs, inner: ExactBeliefs, values: Tensor) -> None:
        super().__init__(
            outer.graph, outer.states, outer.factor, lambda: outer.log_partition, outer.status,
            lambda: outer.messages, lambda: outer.assignment, gradient=outer.gradient,
        )  # fmt: skip
        self._inner, self._values = inner, values

    def entropy(self) -> Tensor:
        """Entropy of the free variables given the evidence, in nats, ``[*batch]``."""
        return self._inner.entropy()

    def sample(self, count: int, seed: int) -> Tensor:
        """Independent joint samples given the evidence, ``[count, *batch, variables]``."""
        drawn = self._inner.sample(count, seed)
        observed = (self._values != FREE).reshape(-1, self._values.shape[-1]).all(0)
        full = self._values.to(drawn.device).expand(count, *self.batch_shape, self._values.shape[-1]).clone()
        full[..., ~observed] = drawn.expand(*full.shape[:-1], drawn.shape[-1])
        return full


class _Keeper(Inference):
    """Runs a method once and keeps the beliefs over the small graph."""

    def __init__(self, method: Exact) -> None:
        self._method = method
        self.beliefs: ExactBeliefs

    def run(self, problem: Problem) -> Beliefs:
        self.beliefs = self._method.run(problem)
        return self.beliefs


def _check_possible(log_partition: np.ndarray, batch: torch.Size) -> None:
    impossible = np.flatnonzero(np.isneginf(log_partition))
    if impossible.size:
        where = f" in example {tuple(map(int, np.unravel_index(impossible[0], batch)))}" if batch else ""
        raise ImpossibleError(
            f"the zeros of the potentials leave no possible configuration{where}; relax a zero, or take back evidence"
        )


class _LogPartition(torch.autograd.Function):
    """log Z; its gradient is the factor marginals (of the best configuration after maximising), which may be
    differentiated once more."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, calibration: Calibration | PrunedCalibration) -> Tensor:
        ctx.calibration = calibration
        ctx.save_for_backward(theta)
        return torch.from_numpy(calibration.log_partition.copy())

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor, None]:
        (theta,) = ctx.saved_tensors
        return adjoint[:, None] * _Marginals.apply(theta, ctx.calibration, "factors"), None  # type: ignore[no-untyped-call]


class _Marginals(torch.autograd.Function):
    """Marginals of variables (``what`` "states") or of factors ("factors", laid out like the tables); the best
    configuration's indicators are piecewise constant and get no gradient."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, calibration: Calibration | PrunedCalibration, what: str) -> Tensor:
        ctx.calibration, ctx.what = calibration, what
        ctx.save_for_backward(theta)
        return torch.from_numpy(getattr(calibration, what).copy())

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor | None, None, None]:
        if ctx.calibration.maximise:
            return None, None, None
        seed = adjoint.detach().contiguous().numpy()
        seeds = {"seed_states" if ctx.what == "states" else "seed_theta": seed}
        return _once(torch.from_numpy(ctx.calibration.tangent(**seeds)), *ctx.saved_tensors, adjoint), None, None


def _once(covariance: Tensor, *depends_on: Tensor) -> Tensor:
    message = "Covariance differentiates marginals once (log_partition twice); use BP with Unroll() on a tree"
    return taken_once(message, (covariance,), depends_on)[0]
