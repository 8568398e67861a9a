"""Minimum Bayes risk for any loss, by sampling.

In: beliefs that can be sampled and a loss on assignments. Out: the candidate of least expected loss. Stage: decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from loopwise.decode.base import BeliefDecoder
from loopwise.decode.pointwise import SoftArgmax
from loopwise.decode.samples import AssignmentLoss, Joint, Sampler, check_samples, check_takes, expected_loss
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision


@dataclass(frozen=True, eq=False)
class MBR(BeliefDecoder):
    r"""The candidate of least expected loss, :math:`\hat y = \arg\min_{y} \frac1S \sum_s \ell(y, y^s)`.

    ``loss`` takes predictions and truths ``[pairs, variables]`` and gives ``[pairs]`` (wrap a loss of one pair in
    :func:`~loopwise.decode.samples.one_by_one`). The :math:`S` = ``count`` truths are posterior samples; candidates are
    the first ``candidates`` of them (all by default) and the most probable values. For Hamming loss the answer over all
    assignments is known: :class:`~loopwise.decode.pointwise.Max`. Time: candidates x count calls on pairs.

    There is no gradient through samples: ``training`` is the soft form.
    """

    loss: AssignmentLoss
    samples: Sampler = field(default_factory=Joint)
    count: int = 100
    candidates: int | None = None
    seed: int = 0
    training: BeliefDecoder | None = None  # SoftArgmax(0.5)

    def __post_init__(self) -> None:
        check_samples(self.count)
        check_takes("loss", self.loss, "prediction", "truth")
        check_takes("samples", self.samples, "beliefs", "count", "seed")
        if self.candidates is not None and not 0 <= self.candidates <= self.count:
            raise ValueError(f"candidates must be from 0 to count ({self.count}), not {self.candidates}")

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        with torch.no_grad():
            samples = self.samples(beliefs, self.count, self.seed)
            best = beliefs.assignment
            least = expected_loss(self.loss, best, samples, outputs)
            for candidate in samples[: self.candidates]:
                risk = expected_loss(self.loss, candidate, samples, outputs)
                better = risk < least  # ties: the most probable values, then the earlier sample
                best = torch.where(better[..., None], candidate, best)
                least = torch.where(better, risk, least)
            return Decision.of_assignment(beliefs, best)

    def soft(self) -> BeliefDecoder:
        return SoftArgmax() if self.training is None else self.training.soft()

    def hard(self) -> MBR:
        return self
