"""L-BFGS for torch: smooth losses on full batches, minimised to convergence.

In: parameters, a closure that gives the loss. Out: changed parameters, a report. Stage: learning. The iterations are
those of :class:`~loopwise.learn.optim.lbfgs_run.LBFGSRun`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.gradient.hvp import check_scalar
from loopwise.learn.optim.lbfgs_run import LBFGSRun, check_start
from loopwise.learn.optim.untraced import Untraced

Vector = NDArray[np.float64]

# Curvatures below this share of the largest are noise, or of directions that change nothing.
_FLOOR = 1e-4


@dataclass(frozen=True)
class LBFGSReport:
    """How a minimisation ended."""

    loss: float
    iterations: int
    evaluations: int
    converged: bool
    message: str


class LBFGS(Untraced):
    """Limited-memory BFGS with a line search for Wolfe's strong conditions (Liu & Nocedal 1989).

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
            checked_whole(name, number)
        super().__init__(params, {})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS minimises over all parameters alike: give one list, not groups with options")
        self.iterations, self.memory, self.callback = iterations, memory, callback
        self.gradient_tolerance, self.loss_tolerance = gradient_tolerance, loss_tolerance
        self.curvature = curvature
        self.report: LBFGSReport | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """Minimises; returns the loss at the start, as a scalar tensor."""
        if closure is None:
            raise ValueError("LBFGS needs a closure that returns the loss: step(closure)")
        return self.step_on(closure)

    @torch.no_grad()
    def step_on(self, loss: Callable[[], Tensor]) -> Tensor:
        """The same as ``step(loss)``."""
        params = [param for param in self.param_groups[0]["params"] if param.requires_grad]
        function = FlatLoss(params, loss, self.curvature)
        run: LBFGSRun | None = None
        message = ""

        def is_flat(gradient: Vector) -> bool:
            return bool(np.abs(function.gradient_of(gradient)).max(initial=0.0) <= self.gradient_tolerance)

        try:
            run = LBFGSRun(
                function, function.start(), memory=self.memory, tolerance=self.loss_tolerance, is_flat=is_flat
            )
            first = run.value
            while not (run.ended or message):
                value = run.step()
                if value is not None and self.callback is not None and self.callback(run.iteration, value):
                    message = "ended by the callback"  # no failure to converge, but no convergence either
                elif run.iteration >= self.iterations:
                    message = "the iterations are used up"
        finally:  # an interrupted run keeps what it has found
            function.write(None if run is None else run.point)
        function.write_gradient(run.gradient)
        message = run.ended or message
        self.report = LBFGSReport(run.value, run.iteration, function.evaluations, run.converged, message)
        return torch.tensor(first, dtype=torch.float64)


@torch.no_grad()
def measured_curvature(params: Iterable[Tensor], loss: Callable[[], Tensor], step: float = 0.01) -> Vector:
    """Second derivatives of ``loss`` where the parameters are, by differences of its gradient: one evaluation a weight.

    ``step``: how far each weight is moved, times its size where that is above 1. The parameters are left as they were.
    """
    moved = [param for param in params if param.requires_grad]
    function = FlatLoss(moved, loss)
    origin = function.start()
    rows = []
    try:
        value, here = function(origin)
        check_start(value, here)
        for place, size in enumerate(step * np.maximum(1.0, np.abs(origin))):
            for moved_by in (size, -size):  # forward, or back where the loss is not finite there
                point = origin.copy()
                point[place] += moved_by
                value, gradient = function(point)
                if math.isfinite(value) and np.isfinite(gradient).all():
                    rows.append((gradient - here) / moved_by)
                    break
            else:
                raise ValueError("the curvature cannot be measured where the loss is not finite on either side")
    finally:
        function.write(None)
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


class FlatLoss:
    """The loss as a function of one flat vector, with its gradient.

    With a ``curvature`` the vector says how far to go from where the parameters are along directions in which the loss
    bends alike.
    """

    def __init__(self, params: list[Tensor], loss: Callable[[], Tensor], curvature: Vector | None = None) -> None:
        self.params, self.loss, self.evaluations = params, loss, 0
        self._origin = _flat(params)
        self._stretch = None if curvature is None else _stretch(curvature, len(self._origin))
        self._known: tuple[float, Vector] | None = None

    def start(self) -> Vector:
        """Where to begin. Of the first step, which has length 1, directions of equal curvature make Newton's."""
        if self._stretch is None:
            return self._origin.copy()
        value, gradient = self._evaluate(self._origin)
        check_start(value, gradient)
        size = np.linalg.norm(self._stretch.T @ gradient)
        if size > 0:
            self._stretch = self._stretch * size
        self._known = value, gradient
        return np.zeros_like(self._origin)

    def state(self) -> dict[str, Tensor | None]:
        """What a vector means: for :meth:`at`."""
        stretch = None if self._stretch is None else torch.from_numpy(self._stretch)
        return {"origin": torch.from_numpy(self._origin), "stretch": stretch}

    def at(self, state: Mapping[str, Any]) -> FlatLoss:
        """Takes vectors to mean what they did where :meth:`state` was asked."""
        self._origin = state["origin"].numpy().copy()
        self._stretch = None if state["stretch"] is None else state["stretch"].numpy().copy()
        return self

    def __call__(self, point: Vector) -> tuple[float, Vector]:
        known, self._known = self._known, None  # the start, which is asked for first
        value, gradient = self._evaluate(self._place(point)) if known is None else known
        return value, gradient if self._stretch is None else self._stretch.T @ gradient

    def gradient_of(self, gradient: Vector) -> Vector:
        """In the parameters, from that in the vector."""
        if self._stretch is None:
            return gradient
        return np.asarray(np.linalg.solve(self._stretch.T, gradient), dtype=np.float64)

    def write(self, point: Vector | None) -> None:
        """Sets the parameters to what a point means; None: to where they were."""
        _write(self.params, self._origin if point is None else self._place(point))

    def write_gradient(self, gradient: Vector) -> None:
        for param, piece in zip(self.params, _pieces(self.params, self.gradient_of(gradient)), strict=True):
            param.grad = piece

    def _place(self, point: Vector) -> Vector:
        return point if self._stretch is None else self._origin + self._stretch @ point

    def _evaluate(self, vector: Vector) -> tuple[float, Vector]:
        self.evaluations += 1
        _write(self.params, vector)
        for param in self.params:
            param.grad = None
        with torch.enable_grad():
            loss = check_scalar(self.loss())
            value = float(loss.detach())
            if not math.isfinite(value):
                return value, np.zeros_like(vector)
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
