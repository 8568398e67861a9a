r"""What a decoder is trained for.

In: log-odds of no flip after some sweeps, ``[sweeps, shots, bits]``, and what is known of the shots. Out: one number.
Stage: use. With q the probability that a bit is flipped and e whether it was, r = e + q - 2 e q is the probability that
the correction leaves it wrong.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.shots import Shots
from loopwise.arguments import checked_number

_DENSE = 1_000_000  # entries of a matrix below which products with it are dense


class DecoderLoss(ABC):
    """A loss of log-odds, a mean over sweeps and shots.

    ``of_bits``: held-out shots are judged by wrong bits, where each bit is to be right; else by failures of whole
    shots.
    """

    of_bits = False

    @abstractmethod
    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        """The loss of ``log_odds`` ``[sweeps, shots, bits]``."""


class ResidualParity(DecoderLoss):
    r"""How odd the sums are that are to be even: :math:`|\sin(\tfrac{\pi}{2}\sum_i r_i)|`, a mean over checks and
    observables (Liu & Poulin 2019). It is 0 exactly where the correction is right up to stabilisers, whichever of the
    equivalent corrections it is.

    Where flips are unknown (shots of a circuit), the sums of q are compared with the bits that were seen.

    Parameters
    ----------
    observables: the weight of observables against checks, 1 by default; 0 looks at checks alone.
    """

    def __init__(self, observables: float = 1.0) -> None:
        self.observables = checked_number("the weight of observables", observables, above=False)

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        rows: list[tuple[Any, Any, float]] = [(code.checks.matrix, code.syndromes(shots.syndromes)[0], 1.0)]
        if self.observables > 0 and code.observables is not None:
            rows.append((code.observables, shots.flips, self.observables))
        total, weight = torch.zeros(()), 0.0
        for matrix, bits, share in rows:
            odd = _oddness(matrix, log_odds, shots, bits)
            total = total + share * odd.sum((-1,)).mean()
            weight += share * matrix.shape[0]
        return total / weight


class ObservableFlips(ResidualParity):
    """The same of observables alone: nothing is asked of checks."""

    def __init__(self) -> None:
        super().__init__(1.0)

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        if code.observables is None:
            raise ValueError("ObservableFlips needs a code with observables; give their matrix as observables=")
        return _oddness(code.observables, log_odds, shots, shots.flips).mean()


class BitwiseCrossEntropy(DecoderLoss):
    """The cross-entropy of each bit, as neural BP is trained: what bit error rates ask for, but where several
    corrections are as good, it asks for the one that happened to happen."""

    of_bits = True

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        return torch.nn.functional.softplus(-_signed(log_odds, shots)).mean()


class BitErrors(DecoderLoss):
    """The soft bit error rate: the probability that a bit is left wrong, a mean over bits. Bits that are lost already
    pull no longer, as they do in the cross-entropy."""

    of_bits = True

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        return torch.sigmoid(-_signed(log_odds, shots)).mean()


class BlockError(DecoderLoss):
    r"""The soft block error: the probability :math:`1-\prod_i(1-r_i)` that not all bits are right."""

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        return -torch.expm1(-torch.nn.functional.softplus(-_signed(log_odds, shots)).sum(-1)).mean()


def _signed(log_odds: Tensor, shots: Shots) -> Tensor:
    """Log-odds of what happened."""
    return log_odds * (1 - 2 * _errors(shots).to(log_odds.dtype))


def _errors(shots: Shots) -> Tensor:
    if shots.errors is None:
        raise ValueError(
            "this loss needs to know which bits were flipped; shots of a circuit do not say: use ResidualParity"
        )
    return torch.from_numpy(np.asarray(shots.errors))


def _oddness(matrix: Any, log_odds: Tensor, shots: Shots, bits: Any) -> Tensor:
    """|sin| of the sums over each row of a matrix, ``[sweeps, shots, rows]``."""
    if shots.errors is not None:
        left = torch.sigmoid(-_signed(log_odds, shots))
        return torch.sin(math.pi / 2 * _sums(matrix, left)).abs()
    if bits is None:
        raise ValueError("shots do not say what happened to the observables")
    sums = _sums(matrix, torch.sigmoid(-log_odds)) + torch.from_numpy(np.asarray(bits)).to(log_odds.dtype)
    return torch.sin(math.pi / 2 * sums).abs()


def _sums(matrix: Any, values: Tensor) -> Tensor:
    """Sums of ``values`` ``[..., bits]`` over the rows of a sparse matrix."""
    if matrix.shape[0] * matrix.shape[1] <= _DENSE:
        return values @ torch.from_numpy(matrix.toarray()).to(values.dtype).T
    found: Tensor = _SparseSums.apply(matrix, values)  # type: ignore[no-untyped-call]
    return found


class _SparseSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Any, values: Tensor) -> Tensor:
        ctx.matrix = matrix
        return _times(matrix, values)

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        return None, _times(ctx.matrix.T, adjoint)


def _times(matrix: Any, values: Tensor) -> Tensor:
    flat = values.detach().reshape(-1, values.shape[-1]).numpy()
    found = np.ascontiguousarray((matrix.astype(flat.dtype) @ flat.T).T)
    return torch.from_numpy(found).reshape(*values.shape[:-1], -1)
