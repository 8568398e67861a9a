"""A gradient that is wrong on purpose."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class WrongSlope(torch.autograd.Function):
    """The identity, whose backward spoils one number in each call."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, place: int, factor: float) -> Tensor:
        ctx.place, ctx.factor = place, factor
        return values.clone()

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor, None, None]:
        spoiled = adjoint.clone()
        spoiled.view(-1)[ctx.place] *= ctx.factor
        return spoiled, None, None
