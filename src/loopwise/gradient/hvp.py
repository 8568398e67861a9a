r"""Hessian-vector products of any loss through inference, decoder and all.

In: a function of no arguments that gives the loss, the parameters it depends on, a vector in their shapes. Out:
:math:`H v`, exactly. Stage: gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from loopwise.notices import GradientError


def hvp(function: Callable[[], Tensor], params: Sequence[Tensor], vector: Sequence[Tensor]) -> list[Tensor]:
    r""":math:`\nabla^2 L\,v` for the scalar loss :math:`L` = ``function()`` (Stoyanov et al. 2011, section 4.3).

    The gradient is differentiated once more along ``vector``; on the compiled engine both are kernels (forward over
    reverse), at about three times the cost of a gradient and without any matrix. Inference must be differentiated by
    ``Unroll`` (or be :class:`~loopwise.Exact` under a likelihood); other estimators say that they differentiate once.

    Parameters
    ----------
    function: gives the loss, anew at each call.
    params: the tensors that it is differentiated by.
    vector: the direction, of the same shapes.

    Returns
    -------
    A tensor for each of ``params``.

    >>> import torch, loopwise as lw
    >>> graph = lw.random_mrf(variables=3, edges=2, seed=0)
    >>> theta = torch.zeros(2, 2, 2, dtype=torch.float64, requires_grad=True)
    >>> loss = lambda: lw.BP(iterations=2, tolerance=0)(graph, {"pair": theta}).states.square().sum()
    >>> lw.hvp(loss, [theta], [torch.ones_like(theta)])[0].shape
    torch.Size([2, 2, 2])
    """
    return gradient_and_hvp(function, params, vector)[2]


def gradient_and_hvp(
    function: Callable[[], Tensor], params: Sequence[Tensor], vector: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Loss, gradient and Hessian-vector product from one forward pass."""
    if isinstance(params, Tensor) or isinstance(vector, Tensor):
        raise ValueError("give the parameters and the vector as lists, even of one tensor")
    params, vector = list(params), list(vector)
    if not params:
        raise ValueError("no parameters to differentiate with respect to; give at least one")
    if len(params) != len(vector):
        raise ValueError(f"{len(params)} parameters but {len(vector)} pieces of the vector; give one a parameter")
    for number, (param, piece) in enumerate(zip(params, vector, strict=True)):
        if param.shape != piece.shape:
            raise ValueError(
                f"piece {number} of the vector has shape {tuple(piece.shape)}, its parameter {tuple(param.shape)}; "
                "both must have one shape"
            )
        if not param.requires_grad:
            raise GradientError(f"parameter {number} wants no gradient: call requires_grad_() on it before the loss")
    with torch.enable_grad(), _differentiating_twice():
        loss = check_scalar(function())
        if not loss.requires_grad:
            raise GradientError(
                "the loss does not depend on anything that wants a gradient; "
                "call requires_grad_() on the parameters before the loss is computed"
            )
        found = torch.autograd.grad(loss, params, create_graph=True, allow_unused=True)
        gradient = [torch.zeros_like(p) if g is None else g for g, p in zip(found, params, strict=True)]
        slope = torch.stack([(g * v.detach()).sum() for g, v in zip(gradient, vector, strict=True)]).sum()
        if not slope.requires_grad:
            return loss.detach(), [g.detach() for g in gradient], [torch.zeros_like(p) for p in params]
        second = torch.autograd.grad(slope, params, allow_unused=True)
    product = [torch.zeros_like(p) if h is None else h for h, p in zip(second, params, strict=True)]
    return loss.detach(), [g.detach() for g in gradient], product


_TWICE: ContextVar[bool] = ContextVar("loopwise differentiates twice", default=False)


@contextmanager
def _differentiating_twice() -> Iterator[None]:
    before = _TWICE.set(True)
    try:
        yield
    finally:
        _TWICE.reset(before)


def differentiating_twice() -> bool:
    """Whether a Hessian-vector product of what is computed now will be asked for: a hint, which saves a second run
    where the first would otherwise keep nothing."""
    return _TWICE.get()


def check_scalar(loss: object) -> Tensor:
    """Refuses what is not the scalar of a differentiable loss."""
    if not isinstance(loss, Tensor):
        raise GradientError(f"the loss must be a tensor with one element, not {type(loss).__name__}")
    if loss.numel() != 1:
        raise GradientError(
            f"the loss must be a scalar, but has shape {tuple(loss.shape)}; reduce it, for example with .mean()"
        )
    if not loss.dtype.is_floating_point:
        raise GradientError(f"a loss of dtype {loss.dtype} cannot be differentiated; use float32 or float64")
    return loss.reshape(())
