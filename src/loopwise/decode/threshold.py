"""Where to draw the line between positive and negative: the rules behind :class:`ApproximateF`.

In: the beliefs of the outputs in a positive value. Out: thresholds, and which outputs share one. Stage: decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from loopwise.decode.samples import AssignmentLoss, Joint, Sampler, check_samples, expected_loss
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import state_places


@dataclass(frozen=True, eq=False)
class ThresholdScores:
    """What a rule sees of one batch; all detached."""

    beliefs: Beliefs
    outputs: Tensor | None  # bool [*b, variables]
    positive: Tensor  # [*batch, variables]: belief that the variable has a positive value
    if_positive: Tensor  # int64 [*batch, variables]: the most probable positive value
    if_negative: Tensor  # int64 [*batch, variables]
    positive_states: Tensor  # bool [states]

    @property
    def mask(self) -> Tensor:
        """Which variables are outputs, ``[*batch, variables]``."""
        if self.outputs is None:
            return torch.ones_like(self.positive, dtype=torch.bool)
        return self.outputs.expand(self.positive.shape)


class Threshold(nn.Module, ABC):
    """A rule for the threshold above which a variable is decided positive."""

    needs_refresh: bool = False

    @abstractmethod
    def forward(self, scores: ThresholdScores) -> Tensor:
        """Thresholds, ``[*batch, 1]`` or one number."""

    def refresh(self, batches: Iterable[ThresholdScores]) -> None:
        """Looks at a corpus; most rules have no need to."""
        return

    def total(self, values: Tensor) -> Tensor | None:
        """Sums of ``values`` ``[*batch, variables]`` over the outputs that share a threshold, if it is a quantile of
        their beliefs and so moves with them; None if it does not."""
        return None


class PerExample(Threshold):
    """The median of an example's output beliefs: as many of its outputs are positive as negative."""

    def forward(self, scores: ThresholdScores) -> Tensor:
        return median_of(scores.positive, scores.mask)

    def total(self, values: Tensor) -> Tensor:
        return values.sum(-1, keepdim=True)


class PerCorpus(Threshold):
    """The median of all output beliefs of a corpus, kept until the next :meth:`refresh`.

    Over a corpus, not in each example, as many outputs are positive as negative, so examples may differ.
    """

    kappa: Tensor
    needs_refresh = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kappa", torch.tensor(torch.nan, dtype=torch.float64))

    def forward(self, scores: ThresholdScores) -> Tensor:
        if bool(self.kappa.isnan()):
            raise ValueError(
                "the corpus threshold is not known yet: call the decoder's refresh([(beliefs, outputs), ...]), or use "
                "threshold=lw.decode.PerExample()"
            )
        return self.kappa.to(scores.positive.dtype)

    def refresh(self, batches: Iterable[ThresholdScores]) -> None:
        values = [scores.positive[scores.mask] for scores in batches]
        if not sum(len(value) for value in values):
            raise ValueError(
                "no output variable in any batch: there is nothing to take a median of; "
                "give examples with the role OUTPUT"
            )
        together = torch.cat(values)
        self.kappa.copy_(median_of(together, torch.ones_like(together, dtype=torch.bool))[0])

    def total(self, values: Tensor) -> Tensor:
        return values.sum()  # a batch stands for its corpus

    def extra_repr(self) -> str:
        return f"kappa={float(self.kappa):.4g}"


class Fixed(Threshold):
    """A threshold that you chose, from 0 to 1."""

    def __init__(self, kappa: float) -> None:
        super().__init__()
        if not 0 <= kappa <= 1:
            raise ValueError(f"a threshold must be from 0 to 1, not {kappa}")
        self.value = kappa

    def forward(self, scores: ThresholdScores) -> Tensor:
        return scores.positive.new_tensor(self.value)


class LeastExpectedLoss(Threshold):
    r"""The threshold of each example with least expected loss over posterior samples (the footnote of ERMA).

    With outputs sorted by belief there are :math:`k + 1` different answers, :math:`m` of them positive. ``loss`` takes
    predictions and truths ``[pairs, variables]`` and gives ``[pairs]``; by default it is :math:`1 - F_\beta` of the
    positive labels, in time linear in outputs and samples (a loss of your own is called :math:`k + 1` times).
    """

    def __init__(
        self,
        samples: Sampler | None = None,
        *,
        count: int = 100,
        seed: int = 0,
        beta: float = 1.0,
        loss: AssignmentLoss | None = None,
    ) -> None:
        super().__init__()
        check_samples(count)
        if not beta > 0:
            raise ValueError(f"beta must be positive, not {beta}")
        self.samples: Sampler = Joint() if samples is None else samples
        self.count, self.seed, self.beta, self.loss = count, seed, beta, loss

    def forward(self, scores: ThresholdScores) -> Tensor:
        samples = self.samples(scores.beliefs, self.count, self.seed)
        ranked, order = scores.positive.where(scores.mask, -1.0).sort(-1, descending=True)
        cuts, usable = _cuts(ranked, scores.mask.sum(-1, keepdim=True))
        if self.loss is None:
            risks = self._f_risks(scores, samples, order)
        else:
            risks = self._risks(self.loss, scores, samples, cuts)
        best = risks.where(usable, torch.inf).argmin(-1, keepdim=True)
        return cuts.gather(-1, best)

    def _risks(self, loss: AssignmentLoss, scores: ThresholdScores, samples: Tensor, cuts: Tensor) -> Tensor:
        risks = []
        for cut in cuts.unbind(-1):
            guess = scores.if_positive.where(scores.positive > cut[..., None], scores.if_negative)
            risks.append(expected_loss(loss, guess, samples, scores.outputs))
        return torch.stack(risks, -1)

    def _f_risks(self, scores: ThresholdScores, samples: Tensor, order: Tensor) -> Tensor:
        r"""Mean of :math:`1 - F` with the first m = 0, ..., variables of ``order`` positive."""
        mask = scores.mask.gather(-1, order)
        guess = scores.if_positive.gather(-1, order)
        chosen = torch.arange(order.shape[-1] + 1, device=order.device, dtype=torch.float64)
        total = torch.zeros(*order.shape[:-1], order.shape[-1] + 1, dtype=torch.float64, device=order.device)
        square = self.beta**2
        for sample in samples:  # one at a time: the memory of one batch, not of all samples
            positive = scores.positive_states[state_places(scores.beliefs.graph, sample)].gather(-1, order) & mask
            hits = (positive & (sample.gather(-1, order) == guess)).double().cumsum(-1)
            hits = torch.nn.functional.pad(hits, (1, 0))
            size = square * positive.sum(-1, keepdim=True) + chosen
            total += torch.where(size > 0, 1 - (1 + square) * hits / size.clamp_min(1e-300), 0.0)
        return total / len(samples)


def median_of(values: Tensor, mask: Tensor) -> Tensor:
    """Median of the entries of ``mask`` along the last axis, kept with size 1; between the two middle ones.

    Where there is no entry: 1/2.
    """
    if values.shape[-1] == 0:
        return values.new_full((*values.shape[:-1], 1), 0.5)
    ranked = values.where(mask, torch.inf).sort(-1).values
    count = mask.sum(-1, keepdim=True)
    low = ranked.gather(-1, ((count - 1) // 2).clamp_min(0))
    high = ranked.gather(-1, (count // 2).clamp_max(values.shape[-1] - 1))
    return ((low + high) / 2).where(count > 0, 0.5)


def _cuts(ranked: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Thresholds that put the first m = 0, 1, ... of ``ranked`` above, and which of them ties allow."""
    above = torch.nn.functional.pad(ranked, (1, 0), value=1.0)  # the last that is above, for each m
    below = torch.nn.functional.pad(ranked, (0, 1), value=0.0).clamp_min(0)  # the first that is not
    middle = (above + below) / 2
    cuts = torch.where(middle < above, middle, below)
    number = torch.arange(above.shape[-1], device=ranked.device)
    usable = ((above > below) | (number == 0)) & (number <= count)
    return cuts, usable
