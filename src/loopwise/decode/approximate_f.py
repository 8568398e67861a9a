"""Deciding by a threshold on beliefs, which is nearly the best for F-measures.

In: beliefs and a rule for the threshold. Out: decisions, hard or soft. Stage: decision.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder, OutputsLike, output_mask
from loopwise.decode.pointwise import soft_maximum
from loopwise.decode.temperature import (
    DEFAULT_TEMPERATURE,
    Temperature,
    checked_temperature,
    current_temperature,
    temperature_at,
)
from loopwise.decode.threshold import PerCorpus, Threshold, ThresholdScores
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import Labels, labels_mask, map_variables, reduce_variables, spread
from loopwise.inference.decision import Decision

_FLAT = 1e-12  # below it no output is near the threshold, which then stands still


class ApproximateF(BeliefDecoder, nn.Module):
    r"""Positive where :math:`\sum_{x \in P} b_i(x) > \kappa`, then the most probable value on that side.

    (Stoyanov et al. 2011, section 5, for binary variables: :math:`\hat y_i = [b_i(1) > \kappa]`, :math:`\kappa` the
    median of the output beliefs.) ``threshold`` is the rule for :math:`\kappa`: one for a corpus, to be refreshed once
    an epoch, unless you choose :class:`PerExample`, :class:`LeastExpectedLoss` or :class:`Fixed`. ``positive``: the
    label or labels :math:`P`. ``temperature`` is that of the soft form, :class:`SoftApproximateF`.
    """

    temperature: Temperature
    threshold: Threshold

    def __init__(
        self,
        threshold: Threshold | None = None,
        temperature: Temperature = DEFAULT_TEMPERATURE,
        positive: Labels = 1,
    ) -> None:
        super().__init__()
        self.threshold = PerCorpus() if threshold is None else threshold
        self.temperature = checked_temperature(temperature)
        self.positive = positive

    @property
    def needs_refresh(self) -> bool:  # type: ignore[override]
        return self.threshold.needs_refresh

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        scores = self._scores(beliefs, outputs)
        with torch.no_grad():
            chosen = scores.positive > self.threshold(scores)
            return Decision.of_assignment(beliefs, scores.if_positive.where(chosen, scores.if_negative))

    def soft(self) -> BeliefDecoder:
        return SoftApproximateF(self.threshold, self.temperature, self.positive)

    def hard(self) -> BeliefDecoder:
        return ApproximateF(self.threshold, self.temperature, self.positive)

    def at(self, step: int) -> BeliefDecoder:
        temperature = temperature_at(self.temperature, step)
        same = temperature is self.temperature
        return self if same else type(self)(self.threshold, temperature, self.positive)

    def refresh(self, batches: Iterable[tuple[Beliefs, OutputsLike]]) -> None:
        """Sets the corpus threshold from the beliefs of all batches, with their outputs."""
        with torch.no_grad():
            self.threshold.refresh(self._scores(beliefs, output_mask(beliefs, outputs)) for beliefs, outputs in batches)

    def _scores(self, beliefs: Beliefs, outputs: Tensor | None) -> ThresholdScores:
        graph, states = beliefs.graph, beliefs.states.detach()
        positive = labels_mask(graph, self.positive, states.device)

        def best(side: Tensor) -> Tensor:
            return reduce_variables(graph, _best_on_side, states, side)

        return ThresholdScores(
            beliefs,
            outputs,
            reduce_variables(graph, lambda block, mask: (block * mask).sum(-1), states, positive),
            best(positive),
            best(~positive),
            positive,
        )


class SoftApproximateF(ApproximateF):
    r""":math:`\hat y_i = \sigma\big((\mathrm{logit}\, b_i(P) - \mathrm{logit}\,\kappa)/t\big)`, the form to train with.

    Positive values share :math:`\hat y_i` by their soft maximum, negative ones the rest (one each if binary).

    Where :math:`\kappa` is a median it is part of the circuit: it moves with the beliefs so that
    :math:`\sum_i\hat y_i` over the outputs that share it stays what it is, and is differentiated like that. Held
    constant instead, it would let training raise all beliefs alike, which gains nothing once the median is taken anew,
    and again, without end.
    """

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        graph, states = beliefs.graph, beliefs.states
        scores = self._scores(beliefs, outputs)
        with torch.no_grad():
            kappa = self.threshold(scores).to(states.dtype)
            edge = (_log(kappa) - _log(1 - kappa)).expand(scores.positive.shape)
        positive = labels_mask(graph, self.positive, states.device)
        temperature = current_temperature(self.temperature)
        if states.requires_grad:
            odds = reduce_variables(graph, lambda block, side: _odds(block, side)[..., 0], states, positive)
            edge = _moving(self.threshold, edge, odds, scores.mask, temperature)
        edge = spread(graph, edge)

        def decided(block: Tensor, side: Tensor, edges: Tensor) -> Tensor:
            return _soft_sides(block, side, edges[..., :1], temperature)

        return Decision(beliefs, map_variables(graph, decided, states, positive, edge), _no_factors)


def _soft_sides(block: Tensor, side: Tensor, edge: Tensor, temperature: float | Tensor) -> Tensor:
    """Decisions on a block ``[*batch, count, K]`` with the positive values ``side`` ``[count, K]``."""
    share = torch.sigmoid((_odds(block, side) - edge) / temperature)
    # A variable that has values on one side only cannot be decided otherwise.
    share = torch.where(side.all(-1, keepdim=True), 1.0, torch.where(side.any(-1, keepdim=True), share, 0.0))
    rest = (1 - share) * soft_maximum(block, temperature, ~side)
    return share * soft_maximum(block, temperature, side) + rest


def _odds(block: Tensor, side: Tensor) -> Tensor:
    """Log-odds of a positive value, ``[*batch, count, 1]``."""
    return _log((block * side).sum(-1, keepdim=True)) - _log((block * ~side).sum(-1, keepdim=True))


def _moving(threshold: Threshold, edge: Tensor, odds: Tensor, mask: Tensor, temperature: float | Tensor) -> Tensor:
    """The same threshold, in log-odds, as the function of the beliefs that keeps the soft number of positives.

    Newton's steps from the root itself: they change no value, and two of them make first and second derivatives those
    of the implicit function.
    """
    level = None
    for _ in range(2):
        share = torch.sigmoid((odds - edge) / temperature).where(mask, 0.0)
        count, slope = threshold.total(share), threshold.total(share * (1 - share))
        if count is None or slope is None:
            return edge
        level = count.detach() if level is None else level
        edge = edge + (count - level) * temperature / slope.clamp_min(_FLAT)
    return edge


def _best_on_side(block: Tensor, side: Tensor) -> Tensor:
    """The most probable value on a side; on the other, where a variable has none on this one."""
    among = side | ~side.any(-1, keepdim=True)
    return block.where(among, -1.0).argmax(-1)


def _log(values: Tensor) -> Tensor:
    """A logarithm that stays finite at 0 and passes no gradient there."""
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


def _no_factors(name: str) -> Tensor:
    raise ValueError(
        f"a threshold decides single variables, so there is no soft decision on the factors of group {name!r}; use "
        "SoftArgmax or Identity for losses on factors"
    )
