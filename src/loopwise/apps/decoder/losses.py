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
from loopwise.compiled.denormals import tiny_as_zero


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
            total = total + share * _oddness(matrix, log_odds, shots, bits)
            weight += share * matrix.shape[0]
        return total / weight


class ObservableFlips(ResidualParity):
    """The same of observables alone: nothing is asked of checks."""

    def __init__(self) -> None:
        super().__init__(1.0)

    def __call__(self, code: Code, log_odds: Tensor, shots: Shots) -> Tensor:
        if code.observables is None:
            raise ValueError("ObservableFlips needs a code with observables; give their matrix as observables=")
        total = _oddness(code.observables, log_odds, shots, shots.flips)
        return total / int(code.observables.shape[0])


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
    """The sum over rows of a matrix of |sin| of the sums over each, in quarter turns; a mean over sweeps and shots."""
    if shots.errors is None and bits is None:
        raise ValueError("shots do not say what happened to the observables")
    signs = seen = None
    if shots.errors is not None:
        signs = (2 * _errors(shots).to(log_odds.dtype) - 1).T.contiguous()
    else:
        seen = torch.from_numpy(np.asarray(bits)).to(log_odds.dtype).T * (math.pi / 2)
    dtype = log_odds.detach()[:0].numpy().dtype
    found: Tensor = _Oddness.apply(matrix.astype(dtype) * dtype.type(math.pi / 2), log_odds, signs, seen)  # type: ignore[no-untyped-call]
    return found


class _Oddness(torch.autograd.Function):
    """One step each way, in place: written as one operation after another, memory for each is most of the time.

    Shots are innermost, as decoders give their log-odds. ``signs`` ``[bits, shots]``: 1 where a bit was flipped, else
    -1; ``seen`` ``[rows, shots]``: what is added to the sums where that is unknown.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Any, log_odds: Tensor, signs: Tensor | None, seen: Tensor | None) -> Tensor:
        columns = log_odds.transpose(1, 2)
        with tiny_as_zero():  # probabilities of saturated beliefs
            left = (columns.neg() if signs is None else columns * signs).contiguous().sigmoid_()
        turns = _times(matrix, left)
        if seen is not None:
            turns += seen
        sines = turns.sin()
        ctx.matrix, ctx.signs = matrix, signs
        ctx.save_for_backward(left, turns, sines)
        return sines.abs().sum() / (len(left) * left.shape[2])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        left, turns, sines = ctx.saved_tensors
        of_turns = turns.cos().mul_(sines.sign()).mul_(adjoint / (len(left) * left.shape[2]))
        found = _times(ctx.matrix.T.tocsr(), of_turns).mul_(left.addcmul(left, left, value=-1))
        found = found.neg_() if ctx.signs is None else found.mul_(ctx.signs)
        return None, found.transpose(1, 2), None, None


def _times(matrix: Any, columns: Tensor) -> Tensor:
    """The product of a sparse matrix with columns, sweep by sweep."""
    given = columns.numpy()
    found = np.empty((len(given), matrix.shape[0], given.shape[2]), given.dtype)
    for target, source in zip(found, given, strict=True):
        target[:] = matrix @ source
    return torch.from_numpy(found)
