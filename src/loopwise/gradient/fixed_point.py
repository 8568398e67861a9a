r"""The gradient at a fixed point, by iterating the adjoint of one sweep (back belief propagation).

In: the transpose of one sweep's Jacobian. Out: adjoints of messages. Stage: gradient (Domke spec, section 5.3).
With messages :math:`m = F(m, \theta)` and beliefs :math:`b = G(m, \theta)`, solve
:math:`y = G_m^\top g + F_m^\top y`; then :math:`dL/d\theta = G_\theta^\top g + F_\theta^\top y`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.gradient.base import Gradient, Report
from loopwise.gradient.once import taken_once
from loopwise.notices import GradientError, GradientWarning, warn

ROUNDING = 32  # units of rounding within which an iterated adjoint cannot settle further
RIDGE = 1e-10  # of Anderson's least squares, relative: keeps nearly equal iterates from blowing up their weights


@dataclass(frozen=True)
class FixedPoint(Gradient):
    """Adjoint sweeps at the converged messages until they add less than ``tolerance``; no tape at all.

    Only valid if inference converged (else an error). The adjoint sweeps follow the method's own schedule; the
    sequential one needs fewer of them.

    Parameters
    ----------
    tolerance: adjoint sweeps end when one adds less than this.
    iterations: adjoint sweeps at most.
    anderson: so many earlier iterates are combined for speed; 0: none.

    >>> import loopwise as lw
    >>> method = lw.BP(iterations=200, gradient=FixedPoint(tolerance=1e-6))
    """

    tolerance: float = 1e-8
    iterations: int = 1000
    anderson: int = 0

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {self.tolerance}")
        checked_whole("iterations", self.iterations)
        if self.anderson < 0:
            raise ValueError(f"anderson must not be negative, got {self.anderson}")

    def reachable(self, dtype: np.dtype) -> float:
        """The tolerance, or what rounding leaves."""
        return max(self.tolerance, ROUNDING * float(np.finfo(dtype).eps))


@dataclass(frozen=True)
class OneStep(Gradient):
    """The cheap cut of :class:`FixedPoint`: only the last sweep is differentiated, the messages it starts from are
    taken as constants. Biased, but a single adjoint sweep; only valid if inference converged (else an error)."""


def once_only(gradient: Gradient) -> str:
    """What a second derivative is told."""
    return f"{type(gradient).__name__} differentiates once; use Unroll for Hessian-vector products"


def check_converged(converged: bool, gradient: Gradient) -> None:
    """Refuses a gradient at a fixed point that was not reached."""
    if not converged:
        raise GradientError(
            f"{type(gradient).__name__} is only valid at a fixed point, and inference did not converge: use Unroll, or "
            "give inference more iterations, damping or another schedule"
        )


def solve_adjoint(
    transpose: Callable[[np.ndarray], np.ndarray], seed: np.ndarray, gradient: FixedPoint
) -> tuple[np.ndarray, int, float]:
    r""":math:`y = s + F_m^\top y` by iteration, Anderson-accelerated if asked for (Walker and Ni 2011).

    Returns y, the iterations made and the largest change of the last one relative to the seed.
    """
    scale = float(np.abs(seed).max(initial=0.0))
    if scale == 0:
        return seed, 0, 0.0
    y, residual = seed, np.inf
    images: list[np.ndarray] = []
    gaps: list[np.ndarray] = []
    tolerance = gradient.reachable(seed.dtype)
    for iteration in range(1, gradient.iterations):  # the last sweep is that from y to the potentials
        image = seed + transpose(y)
        gap = image - y
        residual = float(np.abs(gap).max()) / scale
        if residual <= tolerance:
            return image, iteration + 1, residual
        images, gaps = [*images, image][-gradient.anderson - 1 :], [*gaps, gap][-gradient.anderson - 1 :]
        y = _mixed(images, gaps) if gradient.anderson and len(gaps) > 1 else image
    return y, gradient.iterations, residual


def _mixed(images: list[np.ndarray], gaps: list[np.ndarray]) -> np.ndarray:
    """The combination of images whose combined gap is smallest."""
    differences = np.stack([gap - gaps[-1] for gap in gaps[:-1]], axis=-1)
    normal = differences.T @ differences
    normal[np.diag_indices_from(normal)] += RIDGE * max(float(np.trace(normal)), 1e-300)
    weights = np.linalg.solve(normal, -(differences.T @ gaps[-1]))
    moves = np.stack([image - images[-1] for image in images[:-1]], axis=-1)
    mixed: np.ndarray = images[-1] + moves @ weights
    return mixed


def report_adjoint(report: Report, solves: list[tuple[int, float]], gradient: FixedPoint, dtype: np.dtype) -> None:
    """Notes the worst of all solves (iterations, residual); warns if one stopped at its cap."""
    iterations = max((made for made, _ in solves), default=0)
    residual = max((left for _, left in solves), default=0.0)
    if not residual < 1:  # it grew: the fixed point repels, though inference ended there
        raise GradientError(
            f"the adjoint of the fixed point diverged (it grew {residual:.2g}-fold in {iterations} sweeps): the fixed "
            "point is not stable; use Unroll, or damping"
        )
    report.iterations, report.residual = iterations, residual
    if residual > gradient.reachable(dtype) and gradient.iterations > 1:
        warn(
            f"the adjoint of the fixed point did not converge: residual {residual:.2g} after {iterations} sweeps "
            f"(tolerance {gradient.tolerance:.2g}); give FixedPoint more iterations, or use Unroll",
            GradientWarning,
        )


def at_fixed_point(
    step: Callable[[Tensor], Tensor],
    messages: Tensor,
    gradient: FixedPoint | OneStep,
    converged: bool,
    report: Report,
) -> Tensor:
    """``messages``, a fixed point of the differentiable ``step``, with the gradient that the implicit function theorem
    gives them (one step of it for :class:`OneStep`). Any device; differentiable once."""
    final = step(messages.detach())
    if not final.requires_grad:
        return final
    start = messages.detach().requires_grad_()
    with torch.enable_grad():
        moved = step(start)

    def transpose(y: np.ndarray) -> np.ndarray:
        adjoint = torch.as_tensor(y).to(moved).reshape(moved.shape)
        (back,) = torch.autograd.grad(moved, start, adjoint, retain_graph=True)
        flat: np.ndarray = back.detach().cpu().numpy().reshape(-1)
        return flat

    def complete(adjoint: Tensor) -> Tensor:
        check_converged(converged, gradient)
        y = adjoint.detach()
        if isinstance(gradient, OneStep):
            report.iterations = 1
        else:
            seed = y.cpu().numpy().reshape(-1)
            solution, iterations, residual = solve_adjoint(transpose, seed, gradient)
            report_adjoint(report, [(iterations, residual)], gradient, seed.dtype)
            y = torch.as_tensor(solution).to(adjoint).reshape(adjoint.shape)
        return taken_once(once_only(gradient), [y], [adjoint, final])[0]

    final.register_hook(complete)  # type: ignore[no-untyped-call]
    # The messages as they were found, one sweep earlier, with the derivative of the next.
    return torch.where(torch.isneginf(messages), messages, final + (messages - final).detach())
