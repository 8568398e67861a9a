"""Gradients that can be taken only once say so, instead of leaving out a term in silence.

In: the results of a backward, what they depend on. Out: the same results, which refuse to be differentiated again.
Stage: gradient. (torch's ``once_differentiable`` only refuses if an adjoint requires a gradient; the parameters that a
Jacobian was taken at count as well.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from loopwise.notices import GradientError


def taken_once(message: str, results: Sequence[Tensor], depends_on: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """``results`` as they are; a second backward through them raises a :class:`GradientError` with ``message``."""
    sources = [source for source in depends_on if source is not None and source.requires_grad]
    if not torch.is_grad_enabled() or not sources:
        return tuple(results)
    refused: tuple[Tensor, ...] = _Refused.apply(message, len(results), *results, *sources)  # type: ignore[no-untyped-call]
    return refused


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, message: str, count: int, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.message = message
        return tuple(value.clone() for value in values[:count])

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> None:
        raise GradientError(ctx.message)
