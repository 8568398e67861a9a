r"""The gradient by perturbation: two more inference calls at slightly other parameters.

In: marginals as a map of natural parameters. Out: adjoints. Stage: gradient (Domke 2010, section 3). Since marginals
are a gradient, their Jacobian is symmetric and

.. math:: \frac{dL}{d\theta} = J g = \lim_{r\to0}\frac{\mu(\theta + r g) - \mu(\theta - r g)}{2 r},
          \quad g = \frac{\partial L}{\partial\mu}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.marginals import MarginalGradient, MarginalMap, Natural, Outcome
from loopwise.gradient.once import taken_once
from loopwise.gradient.self_check import (
    ASYMMETRY,
    SETTLED,
    SETTLED_ROUNDING,
    Differences,
    Parts,
    inconsistency,
    inner,
    largest,
    leaves_polytope,
    reasons_for_doubt,
    warn_of,
)


@dataclass(frozen=True)
class SquareRoot:
    r"""The published step, :math:`r = \sqrt\epsilon\,(1 + \|\theta\|_\infty) / \|g\|_\infty`."""

    exponent: ClassVar[float] = 1 / 2


@dataclass(frozen=True)
class CubeRoot:
    r""":math:`\sqrt[3]\epsilon` for :math:`\sqrt\epsilon`: balances truncation (:math:`r^2`) against rounding
    (:math:`\epsilon / r`) of two-sided differences, some 400 times less sensitive to rounding."""

    exponent: ClassVar[float] = 1 / 3


@dataclass(frozen=True)
class EqualSweeps:
    """All runs make exactly as many sweeps as the original one did, from the same start: their errors of truncation
    cancel, and the quotient is the derivative of the truncated run whatever the tolerance (Domke spec, section 5.1).

    A run that starts near its fixed point stops before changes have travelled through the graph. Where they have not
    settled (variable and factor marginals change inconsistently), both sides go on until they are twice as long.

    ``warm``: perturbed runs start at the messages with which the original one ended, and first make half as many
    sweeps; where the method has no messages to go on from, they start as it did."""

    warm: bool = False


@dataclass(frozen=True)
class ToTolerance:
    r"""Each run stops by itself when no belief changes by more than ``tolerance``, after ``iterations`` sweeps at
    most. Runs may then differ in length, which leaves an error of about ``tolerance`` / r: make it far smaller than r
    (some 1e-8 by the published rule)."""

    tolerance: float = 1e-13
    iterations: int = 10_000

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {self.tolerance}; EqualSweeps() needs none")
        checked_whole("iterations", self.iterations)


@dataclass(frozen=True)
class Perturbation(MarginalGradient):
    r"""Differences of marginals along the adjoint (Domke 2010): valid wherever inference maximises
    :math:`\theta\cdot\mu + H(\mu)` and converged.

    Examples of a batch have steps of their
    own; cost: 2 inference calls (1 or 2 if one-sided).

    Parameters
    ----------
    two_sided: central differences, error :math:`r^2`; else forward ones, error :math:`r`, one call less.
    multiplier: of the step.
    step: the rule for it, :class:`SquareRoot` or :class:`CubeRoot`.
    stopping: when perturbed runs stop.
    check: look for signs that the result is no gradient (a :class:`~loopwise.notices.GradientWarning` names them: not
        converged, a jump between optima, saturated marginals, inconsistent changes), at no further call.
    probe: also test the Jacobian's symmetry against a random direction, at two more calls.
    precision: of the perturbed runs, whatever that of the potentials; None for the same (float32 leaves 2 to 3 digits).

    >>> import loopwise as lw
    >>> method = lw.TRW(rho=0.5, iterations=500, tolerance=1e-8, gradient=Perturbation())
    """

    two_sided: bool = True
    multiplier: float = 1.0
    step: SquareRoot | CubeRoot = field(default_factory=SquareRoot)
    stopping: EqualSweeps | ToTolerance = field(default_factory=EqualSweeps)
    check: bool = True
    probe: bool = False
    precision: torch.dtype | None = torch.float64

    def __post_init__(self) -> None:
        if not self.multiplier > 0:
            raise ValueError(f"multiplier must be positive, got {self.multiplier}")
        if not isinstance(self.step, (SquareRoot, CubeRoot)):
            raise ValueError(f"step must be SquareRoot() or CubeRoot(), got {self.step!r}")
        if not isinstance(self.stopping, (EqualSweeps, ToTolerance)):
            raise ValueError(f"stopping must be EqualSweeps() or ToTolerance(), got {self.stopping!r}")
        known = self.precision is None or isinstance(self.precision, torch.dtype)
        if not known or (self.precision is not None and not self.precision.is_floating_point):
            raise ValueError(f"precision must be a floating point type or None, got {self.precision}")

    def pull_back(
        self, inference: MarginalMap, theta: Natural, found: Outcome, adjoint: Natural, report: Report
    ) -> Natural:
        if not len(adjoint.unary):
            return adjoint
        calls = _Calls(inference, self.stopping, found)
        at, along = _to(theta.parts, self.precision), _to(adjoint.parts, self.precision)
        base = _to(found.marginals.parts, self.precision)
        comparable = found.marginals.unary.dtype == at[0].dtype and calls.same_length
        pulled, differences = self._differences(calls, at, along, base if comparable else None)
        while calls.lengthened(differences):
            pulled, differences = self._differences(calls, at, along, None)
        reasons = []
        if self.check:
            reasons = [] if found.converged and calls.converged else [_unconverged(found)]
            reasons += reasons_for_doubt(differences, inference.temperature)
            reasons += leaves_polytope(inference.layout, differences)
        if self.probe:
            reasons += self._probed(calls, at, along, pulled)
        report.iterations = calls.made
        report.notes += [f"step r = {float(differences.size.max()):.2g}", *reasons]
        if reasons:
            warn_of(reasons)
        return Natural.of(_like(pulled, adjoint.parts))

    def around(
        self, function: Callable[..., Tensor | Sequence[Tensor]], batch_dimensions: int = 0
    ) -> Callable[..., Any]:
        """``function`` with this gradient: any inference of your own, as a black box.

        ``function`` takes one or several tensors of natural parameters (log-potentials) and returns marginals of the
        same shapes, the gradient of some log-partition function; it must be deterministic and start the same way each
        time. Every parameter that the loss depends on must be among them. The leading ``batch_dimensions`` are
        independent examples. It runs in the precision of its input.

        >>> import torch
        >>> from loopwise import Perturbation
        >>> softmax = Perturbation().around(lambda theta: torch.softmax(theta, 0))
        >>> theta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        >>> marginals = softmax(theta)
        >>> marginals[0].log().backward()
        >>> exact = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64) - marginals.detach()
        >>> torch.allclose(theta.grad, exact, atol=1e-7)
        True
        """
        if batch_dimensions < 0:
            raise ValueError(f"batch_dimensions must not be negative, got {batch_dimensions}")

        def differentiable(*theta: Tensor) -> Tensor | tuple[Tensor, ...]:
            marginals: tuple[Tensor, ...] = _BlackBox.apply(self, function, batch_dimensions, *theta)  # type: ignore[no-untyped-call]
            return marginals[0] if len(marginals) == 1 else marginals

        return differentiable

    def size(self, theta: Parts, adjoint: Parts) -> Tensor:
        """The step r of each example; any for an adjoint of 0."""
        root = math.pow(torch.finfo(theta[0].dtype).eps, self.step.exponent)
        length = largest(adjoint)
        return self.multiplier * root * (1 + largest(theta)) / torch.where(length > 0, length, 1.0)

    def _differences(
        self, evaluate: Callable[[Parts], Parts], theta: Parts, adjoint: Parts, base: Parts | None
    ) -> tuple[Parts, Differences]:
        """J g, and what it was made of; ``base`` are the marginals at ``theta`` if they are comparable."""
        size = self.size(theta, adjoint)
        ahead = evaluate(_stepped(theta, size, adjoint))
        if self.two_sided:
            behind, width = evaluate(_stepped(theta, -size, adjoint)), 2 * size
        else:
            behind, width = evaluate(theta) if base is None else base, size
            base = None
        still = largest(adjoint) == 0
        pulled = tuple(
            torch.where(_beside(still, plus), 0.0, (plus - minus) / _beside(width, plus))
            for plus, minus in zip(ahead, behind, strict=True)
        )
        return pulled, Differences(adjoint, ahead, behind, base, size)

    def _probed(self, evaluate: Callable[[Parts], Parts], theta: Parts, adjoint: Parts, pulled: Parts) -> list[str]:
        """g' J w against w' J g for a random w."""
        other = _random_like(theta, seed=0)
        turned, _ = self._differences(evaluate, theta, other, None)
        length = torch.sqrt(inner(adjoint, adjoint))
        gap = _relative_gap(inner(adjoint, turned), inner(other, pulled), length, turned, pulled)
        worst = float(gap[length > 0].max()) if bool((length > 0).any()) else 0.0
        if worst <= ASYMMETRY:
            return []
        return [f"the Jacobian is not symmetric (relative gap {worst:.2g}): use a smaller tolerance, or Unroll()"]


def symmetry_gap(inference: MarginalMap, theta: Natural, seed: int = 0, sweeps: int | None = None) -> Tensor:
    r"""How far the Jacobian of marginals is from symmetric, ``[examples]``: 0 where perturbation is valid.

    .. math:: \frac{|v^\top J w - w^\top J v|}{\|J v\| + \|J w\|}

    for random normal v and w (Domke spec, section 6): around 1e-7 at convergence, 0.01 to 1 elsewhere. ``sweeps``: of
    the runs that are differentiated; by default as many as ``inference`` makes by itself. Costs 4 to 5 calls.
    """
    found = inference(theta) if sweeps is None else Outcome(theta, torch.tensor([sweeps]), True)
    calls = _Calls(inference, EqualSweeps(), found)
    estimator = Perturbation()
    v, w = _random_like(theta.parts, seed), _random_like(theta.parts, seed + 1)
    along_v, _ = estimator._differences(calls, theta.parts, v, None)
    along_w, _ = estimator._differences(calls, theta.parts, w, None)
    return _relative_gap(inner(v, along_w), inner(w, along_v), torch.ones_like(theta.unary[:, 0]), along_w, along_v)


class _Calls:
    """Perturbed runs of one map, all stopped alike, and how many were made."""

    def __init__(self, inference: MarginalMap, stopping: EqualSweeps | ToTolerance, found: Outcome) -> None:
        self._inference, self._stopping = inference, stopping
        self._sweeps = int(found.sweeps.max())
        # Examples that stopped earlier than the last must not be compared with runs of full length.
        self.same_length = isinstance(stopping, EqualSweeps) and int(found.sweeps.min()) == self._sweeps
        self.made, self.converged = 0, True
        self._gap = math.inf
        self._start: Tensor | None = None
        if isinstance(stopping, EqualSweeps) and stopping.warm and found.messages is not None:
            self._start, self._sweeps, self.same_length = found.messages(), -(-self._sweeps // 2), False
        self._ended: list[Outcome] = []  # in the order of the calls
        self._again: list[Outcome] = []  # those of the round before, which the next calls make longer
        self._further = 0

    def lengthened(self, differences: Differences) -> bool:
        """Whether the changes have not settled yet, and further runs are longer."""
        inference = self._inference
        if not (isinstance(self._stopping, EqualSweeps) and inference.tolerance > 0 and self._sweeps):
            return False
        noise = SETTLED_ROUNDING * torch.finfo(differences.size.dtype).eps
        gap, change = inconsistency(inference.layout, differences), differences.largest()
        unsettled = gap - noise > SETTLED * inference.tolerance * change
        worst = float((gap / change)[unsettled].max()) if bool(unsettled.any()) else 0.0
        # What does not get better with more sweeps is rounding, or no fixed point.
        if not 0 < worst < self._gap / 2 or self._sweeps >= inference.iterations:
            return False
        longer = min(2 * self._sweeps, inference.iterations)
        self._gap, self._further, self._sweeps = worst, longer - self._sweeps, longer
        self._ended, self._again = [], self._ended
        return True

    def __call__(self, theta: Parts) -> Parts:
        self.made += 1
        if isinstance(self._stopping, EqualSweeps):
            self._ended.append(self._run(Natural.of(theta)))
            return self._ended[-1].marginals.parts
        outcome = self._inference(
            Natural.of(theta), tolerance=self._stopping.tolerance, iterations=self._stopping.iterations
        )
        self.converged = self.converged and outcome.converged
        return outcome.marginals.parts

    def _run(self, theta: Natural) -> Outcome:
        """As many sweeps as all others, or as many more as are missing to that."""
        shorter = self._again.pop(0) if self._again else None
        if shorter is None and self._start is not None:
            return self._inference(theta, sweeps=self._sweeps, messages=self._start.to(theta.unary.dtype))
        if shorter is None or shorter.messages is None:
            return self._inference(theta, sweeps=self._sweeps)
        return self._inference(theta, sweeps=self._further, messages=shorter.messages())


class _BlackBox(torch.autograd.Function):
    """A user's marginals with the gradient of :class:`Perturbation`."""

    @staticmethod
    def forward(
        ctx: Any, estimator: Perturbation, function: Callable[..., Any], batch_dimensions: int, *theta: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.estimator, ctx.function, ctx.batch_dimensions = estimator, function, batch_dimensions
        ctx.set_materialize_grads(False)
        marginals = tuple(part.clone() for part in _called(function, theta))
        ctx.save_for_backward(*theta, *marginals)
        return marginals

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(ctx.saved_tensors) // 2
        theta, marginals = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        with torch.no_grad():
            pulled = _pull_black_box(ctx, theta, marginals, adjoints)
        return (None, None, None, *taken_once("Perturbation differentiates once", pulled, (*theta, *adjoints)))


def _pull_black_box(ctx: Any, theta: Parts, marginals: Parts, adjoints: Sequence[Tensor | None]) -> Parts:
    estimator: Perturbation = ctx.estimator
    given = [torch.zeros_like(part) if each is None else each for each, part in zip(adjoints, theta, strict=True)]
    for adjoint in given:
        check_finite(adjoint, "marginals")

    def flat(parts: Sequence[Tensor]) -> Parts:
        return tuple(part.reshape(part.shape[: ctx.batch_dimensions].numel(), -1) for part in parts)

    def evaluate(parts: Parts) -> Parts:
        shaped = [part.reshape(like.shape) for part, like in zip(parts, theta, strict=True)]
        return flat(_called(ctx.function, shaped))

    pulled, differences = estimator._differences(evaluate, flat(theta), flat(given), flat(marginals))
    reasons = reasons_for_doubt(differences) if estimator.check else []
    if estimator.probe:
        reasons += estimator._probed(evaluate, flat(theta), flat(given), pulled)
    if reasons:
        warn_of(reasons)
    return tuple(part.reshape(like.shape) for part, like in zip(pulled, theta, strict=True))


def _called(function: Callable[..., Any], theta: Sequence[Tensor]) -> Parts:
    """The marginals that ``function`` returns, checked against its parameters."""
    result = function(*(part.detach() for part in theta))
    marginals = (result,) if isinstance(result, Tensor) else tuple(result)
    shapes, expected = [tuple(part.shape) for part in marginals], [tuple(part.shape) for part in theta]
    if shapes != expected:
        raise ValueError(
            f"the black box returned marginals of shapes {shapes} for parameters of shapes {expected}; "
            "it must return one of each shape"
        )
    return marginals


def _unconverged(found: Outcome) -> str:
    return (
        f"inference had not converged after {int(found.sweeps.max())} sweeps, and the Jacobian of a truncated run is "
        "not symmetric: use more iterations, or Unroll()"
    )


def _relative_gap(one: Tensor, other: Tensor, length: Tensor, along_one: Parts, along_other: Parts) -> Tensor:
    """|one - other| over the lengths of the two products, the first of which was taken with a vector ``length``."""
    scale = length * torch.sqrt(inner(along_one, along_one)) + torch.sqrt(inner(along_other, along_other))
    return (one - other).abs() / torch.where(scale > 0, scale, 1.0)


def _stepped(theta: Parts, size: Tensor, direction: Parts) -> Parts:
    return tuple(part + _beside(size, part) * way for part, way in zip(theta, direction, strict=True))


def _beside(examples: Tensor, part: Tensor) -> Tensor:
    """``[examples]`` as it broadcasts with ``[examples, ...]``."""
    return examples.reshape(-1, *(1,) * (part.ndim - 1))


def _random_like(parts: Parts, seed: int) -> Parts:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(part.shape, generator=generator, dtype=part.dtype).to(part.device) for part in parts)


def _to(parts: Parts, precision: torch.dtype | None) -> Parts:
    return tuple(part if precision is None else part.to(precision) for part in parts)


def _like(parts: Parts, others: Parts) -> Parts:
    return tuple(part.to(other.dtype) for part, other in zip(parts, others, strict=True))
