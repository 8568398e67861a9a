"""One step of any optimiser, whatever its closure must do; and small things around a step.

In: an optimiser and a function of no arguments that gives the loss. Out: changed parameters, the loss before the step.
Stage: learning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from loopwise.learn.optim.rows import listed_once

Loss = Callable[[], Tensor]


@runtime_checkable
class TakesLoss(Protocol):
    """An optimiser that differentiates the loss itself: its closure returns the loss and calls no backward."""

    def step_on(self, loss: Loss) -> Tensor: ...


@runtime_checkable
class Lazy(Protocol):
    """An optimiser whose parameters are up to date only after ``flush()``."""

    def flush(self) -> None: ...


def take_step(optimizer: torch.optim.Optimizer, loss: Loss, clip: float | None = None) -> Tensor:
    """One step on ``loss``, a function of no arguments that builds the loss and calls no backward.

    :class:`SMD` and :class:`LBFGS` differentiate it themselves; others get gradients, clipped to the norm ``clip`` if
    given (SMD has an option of its own), unless the loss or its gradient is not finite: then nothing is changed.
    Returns the loss before the step, detached.
    """
    if isinstance(optimizer, TakesLoss):
        return optimizer.step_on(loss)
    params = [param for group in optimizer.param_groups for param in group["params"]]
    seen: list[Tensor] = []

    def closure() -> float:
        optimizer.zero_grad()
        with torch.enable_grad():
            value = loss()
        if value.requires_grad:
            value.backward()  # type: ignore[no-untyped-call]
        seen.append(value.detach())
        if clip is not None and bool(torch.isfinite(value.detach())):
            clip_gradients(params, clip)
        return float(value.detach())

    if isinstance(optimizer, torch.optim.LBFGS):  # evaluates more than once in a step
        optimizer.step(closure)  # type: ignore[no-untyped-call]
        return seen[0]
    closure()
    if bool(torch.isfinite(seen[0])) and math.isfinite(gradient_norm(params)):
        optimizer.step()
    return seen[0]


def finish(optimizer: torch.optim.Optimizer) -> None:
    """Brings parameters up to date: before they are evaluated, saved or handed to someone else."""
    if isinstance(optimizer, Lazy):
        optimizer.flush()


def gradient_norm(params: Iterable[Tensor]) -> float:
    """The Euclidean norm of all gradients together, dense and sparse; parameters without one count as 0."""
    return math.sqrt(sum(float(_values(param.grad).double().square().sum()) for param in _with_gradient(params)))


def clip_gradients(params: Iterable[Tensor], norm: float) -> float:
    """Scales all gradients, dense and sparse, down to a common ``norm``; returns the norm they had.

    (``torch.nn.utils.clip_grad_norm_`` refuses sparse gradients.) A norm that is not finite is left alone.
    """
    if not norm > 0:
        raise ValueError(f"gradients can be clipped to a positive norm only, not {norm}")
    params = _with_gradient(params)
    found = gradient_norm(params)
    if math.isfinite(found) and found > norm:
        for param in params:
            _values(param.grad).mul_(norm / found)
    return found


def inverse_square_root(optimizer: torch.optim.Optimizer) -> LambdaLR:
    r"""The schedule :math:`\eta_0/\sqrt{\mathrm{epoch}}`, epochs from 1: call ``step()`` after each epoch.

    >>> sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.6)
    >>> schedule = inverse_square_root(sgd)
    >>> for epoch in range(3):
    ...     sgd.step(); schedule.step()
    >>> round(schedule.get_last_lr()[0], 12)
    0.3
    """
    return LambdaLR(optimizer, _inverse_square_root)


def _inverse_square_root(epoch: int) -> float:
    return 1.0 / math.sqrt(epoch + 1)


def _with_gradient(params: Iterable[Tensor]) -> list[Tensor]:
    with_gradient = [param for param in params if param.grad is not None]
    for param in with_gradient:
        if param.grad is not None and param.grad.is_sparse:
            param.grad = listed_once(param.grad)  # rows listed twice would count wrongly in a norm
    return with_gradient


def _values(gradient: Any) -> Tensor:
    values: Tensor = gradient._values() if gradient.is_sparse else gradient
    return values
