"""L-BFGS through SciPy: smooth losses on full batches, minimised to convergence.

In: parameters, a closure that gives the loss. Out: changed parameters, a report. Stage: learning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.gradient.hvp import check_scalar

Vector = NDArray[np.float64]

# What a point without a finite loss is given: this many times the size of the last finite loss above it. Large enough
# for any line search to turn back, small enough that its interpolation keeps its digits.
_WALL = 1e3
# Curvatures below this share of the largest are noise, or of directions that change nothing.
_FLOOR = 1e-4


@dataclass(frozen=True)
class Report:
    """How a minimisation ended."""

    loss: float
    iterations: int
    evaluations: int
    converged: bool
    message: str


class LBFGS(torch.optim.Optimizer):
    """Limited-memory BFGS with SciPy's line search (Liu & Nocedal 1989; Byrd, Lu, Nocedal & Zhu 1995).

    One ``step(closure)`` is a whole minimisation of at most ``iterations`` iterations, in double precision whatever the
    parameters are kept in; ``report`` says how it ended. The closure returns the loss and need not call backward: if it
    does (as for ``torch.optim.LBFGS``), its gradients are used. It must mean the same data each time: full batches.
    Curvature is not kept from step to step, so give many ``iterations`` and few epochs.

    A trial point whose loss or gradient is not finite counts as a wall, and the line search turns back; such a start is
    an error.

    Parameters
    ----------
    iterations:
        At most so many in a step.
    memory:
        Pairs of differences kept: that many times two vectors of memory.
    gradient_tolerance, loss_tolerance:
        Stop when the largest gradient entry, or the relative change of the loss, is below.
    curvature:
        About what the matrix of second derivatives at the start is, all parameters in a row, such as
        :func:`measured_curvature` finds on a part of the data: the first step is then
        Newton's, and directions along which the loss hardly bends are as near as others. It need not be positive:
        directions count by the size of their curvature, those below a ten-thousandth of the largest as that.
    callback:
        Called as ``callback(iteration, loss)`` after each iteration; True stops.

    >>> x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    >>> optimizer = LBFGS([x])
    >>> loss = optimizer.step(lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    >>> optimizer.report.converged, [round(value, 4) for value in x.tolist()]
    (True, [1.0, 1.0])
    """

    def __init__(
        self,
        params: Iterable[Any],
        iterations: int = 100,
        memory: int = 10,
        *,
        gradient_tolerance: float = 1e-6,
        loss_tolerance: float = 1e-12,
        curvature: Vector | None = None,
        callback: Callable[[int, float], bool | None] | None = None,
    ) -> None:
        for name, number in {"iterations": iterations, "memory": memory}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        super().__init__(params, {})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS minimises over all parameters alike: give one list, not groups with options")
        self.iterations, self.memory, self.callback = iterations, memory, callback
        self.gradient_tolerance, self.loss_tolerance = gradient_tolerance, loss_tolerance
        self.curvature = curvature
        self.report: Report | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """Minimises; returns the loss at the start, as a scalar tensor."""
        if closure is None:
            raise ValueError("LBFGS needs a closure that returns the loss: step(closure)")
        return self.step_on(closure)

    @torch.no_grad()
    def step_on(self, loss: Callable[[], Tensor]) -> Tensor:
        """The same as ``step(loss)``."""
        from scipy.optimize import minimize

        params = [param for param in self.param_groups[0]["params"] if param.requires_grad]
        origin = _flat(params)
        stretch = None if self.curvature is None else _stretch(self.curvature, len(origin))
        walk = _Walk(params, loss, self.callback, origin, stretch, self.gradient_tolerance)
        options = {
            "maxiter": self.iterations,
            "maxcor": self.memory,
            "maxfun": 20 * self.iterations,
            "gtol": self.gradient_tolerance if stretch is None else 0.0,  # the walk itself looks at the parameters
            "ftol": self.loss_tolerance,
        }
        start, first = walk.start()
        try:
            found = minimize(walk, start, jac=True, method="L-BFGS-B", callback=walk.after_iteration, options=options)
        except BaseException:
            _write(params, walk.place(walk.best))  # an interrupted run keeps what it has found
            raise
        _write(params, walk.place(walk.best))
        _write_gradient(params, walk.best_gradient)
        # A callback that stops is no failure to converge, but no convergence either.
        converged = bool(found.success) or walk.flat
        message = "the gradient is within its tolerance" if walk.flat else str(found.message)
        self.report = Report(walk.best_loss, int(found.nit), walk.evaluations, converged, message)
        return torch.tensor(first, dtype=torch.float64)


@torch.no_grad()
def measured_curvature(params: Iterable[Tensor], loss: Callable[[], Tensor], step: float = 0.01) -> Vector:
    """Second derivatives of ``loss`` where the parameters are, by differences of its gradient: one evaluation a weight.

    ``step``: how far each weight is moved, times its size where that is above 1. The parameters are left as they were.
    """
    moved = [param for param in params if param.requires_grad]
    origin = _flat(moved)
    walk = _Walk(moved, loss)
    rows = []
    try:
        walk.start()
        for place, size in enumerate(step * np.maximum(1.0, np.abs(origin))):
            for moved_by in (size, -size):  # forward, or back where the loss is not finite there
                point = origin.copy()
                point[place] += moved_by
                value, gradient = walk.evaluate(point)
                if math.isfinite(value) and np.isfinite(gradient).all():
                    rows.append((gradient - walk.best_gradient) / moved_by)
                    break
            else:
                raise ValueError("the curvature cannot be measured where the loss is not finite on either side")
    finally:
        _write(moved, origin)
        for param in moved:
            param.grad = None
    return np.array(rows)


def _stretch(curvature: Vector, count: int) -> Vector:
    """Steps for which the loss bends alike in all directions: the inverse root of the curvature, floored."""
    if curvature.shape != (count, count) or not np.isfinite(curvature).all():
        raise ValueError(f"curvature must be a finite matrix of {count} x {count}, one row a weight")
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    sizes = np.abs(values)
    if not sizes.max() > 0:
        raise ValueError("curvature must not be 0 everywhere")
    return np.asarray(vectors / np.sqrt(np.maximum(sizes, _FLOOR * sizes.max())))


class _Walk:
    """The loss as a function of one flat vector; remembers the best point.

    With a ``stretch`` the vector says how far to go from ``origin`` along each of its columns, and iterations end once
    the gradient of the parameters is within ``tolerance``.
    """

    def __init__(
        self,
        params: list[Tensor],
        loss: Callable[[], Tensor],
        callback: Callable[[int, float], bool | None] | None = None,
        origin: Vector | None = None,
        stretch: Vector | None = None,
        tolerance: float = 0.0,
    ) -> None:
        self.params, self.loss, self.callback = params, loss, callback
        self.origin, self.stretch = _flat(params) if origin is None else origin, stretch
        self.tolerance, self.flat = tolerance, False
        self.evaluations = self.iterations = 0
        self.best_loss = math.inf
        self.best: Vector = np.zeros(0)
        self.best_gradient: Vector = np.zeros(0)
        self._known: tuple[float, Vector] | None = None  # the start, evaluated before SciPy asks for it

    def start(self) -> tuple[Vector, float]:
        """Where to begin, and the loss there."""
        start = self.origin if self.stretch is None else np.zeros_like(self.origin)
        loss, gradient = self.evaluate(start)
        if not (math.isfinite(loss) and np.isfinite(gradient).all()):
            raise ValueError(
                f"L-BFGS cannot start where the loss is {loss} or its gradient is not finite; "
                "start at other weights, such as 0"
            )
        self.best_loss, self.best, self.best_gradient = loss, start.copy(), gradient
        if self.stretch is not None and (size := np.linalg.norm(self.stretch.T @ gradient)) > 0:
            self.stretch = self.stretch * size  # SciPy's first step has length 1: this makes it Newton's
        self._known = (loss, gradient)
        return start, loss

    def place(self, point: Vector) -> Vector:
        """The parameters that a point means."""
        return point if self.stretch is None else self.origin + self.stretch @ point

    def _along(self, gradient: Vector) -> Vector:
        return gradient.copy() if self.stretch is None else self.stretch.T @ gradient

    def __call__(self, point: Vector) -> tuple[float, Vector]:
        if self._known is not None and np.array_equal(point, self.best):
            (loss, gradient), self._known = self._known, None
            return loss, self._along(gradient)
        loss, gradient = self.evaluate(point)
        if not (math.isfinite(loss) and np.isfinite(gradient).all()):
            return self.best_loss + _WALL * (1.0 + abs(self.best_loss)), np.zeros_like(point)
        if loss < self.best_loss:
            self.best_loss, self.best, self.best_gradient = loss, point.copy(), gradient
        return loss, self._along(gradient)

    def after_iteration(self, intermediate_result: Any) -> None:
        self.iterations += 1
        if self.callback is not None and self.callback(self.iterations, float(intermediate_result.fun)):
            raise StopIteration
        self.flat = self.stretch is not None and bool(np.abs(self.best_gradient).max() <= self.tolerance)
        if self.flat:
            raise StopIteration

    def evaluate(self, point: Vector) -> tuple[float, Vector]:
        """The loss at a point, its gradient in the parameters."""
        self.evaluations += 1
        _write(self.params, self.place(point))
        for param in self.params:
            param.grad = None
        with torch.enable_grad():
            loss = check_scalar(self.loss())
            value = float(loss.detach())
            if not math.isfinite(value):
                return value, np.zeros_like(point)
            if all(param.grad is None for param in self.params) and loss.requires_grad:
                found = torch.autograd.grad(loss, self.params, allow_unused=True)
            else:  # the closure called backward itself
                found = tuple(param.grad for param in self.params)  # type: ignore[misc]
        pieces = [torch.zeros_like(p) if g is None else g for g, p in zip(found, self.params, strict=True)]
        return value, _flat(pieces)


def _flat(tensors: list[Tensor]) -> Vector:
    pieces = [tensor.detach().to_dense() if tensor.is_sparse else tensor.detach() for tensor in tensors]
    joined = torch.cat([piece.reshape(-1).to("cpu", torch.float64) for piece in pieces])
    return np.array(joined.numpy(), dtype=np.float64)


def _pieces(params: list[Tensor], vector: Vector) -> list[Tensor]:
    cuts = np.cumsum([param.numel() for param in params])[:-1]
    return [
        torch.from_numpy(piece.copy()).reshape(param.shape).to(param)
        for param, piece in zip(params, np.split(vector, cuts), strict=True)
    ]


def _write(params: list[Tensor], vector: Vector) -> None:
    with torch.no_grad():
        for param, piece in zip(params, _pieces(params, vector), strict=True):
            param.copy_(piece)


def _write_gradient(params: list[Tensor], vector: Vector) -> None:
    for param, piece in zip(params, _pieces(params, vector), strict=True):
        param.grad = piece
