"""Metrics on hard answers: what is reported, and what decoders and walks may ask for.

In: assignments (or decisions, read as assignments) and targets. Out: a number, not differentiable. Stage: loss.
A metric is a measure like a loss, with the same statistics, averages and call. ``MSE`` and ``MAE`` (``L1``) are the
losses themselves: they may be asked of soft decisions. ``track`` follows a metric through small changes of an
assignment (:mod:`~loopwise.loss.incremental`), which is how walks use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from loopwise.inference.by_variable import Labels, label_list
from loopwise.inference.decision import Distributions
from loopwise.lazy import old_names
from loopwise.loss.answers import KnownAnswers, Metric
from loopwise.loss.calibration import Reliability, reliability
from loopwise.loss.clustering import BCubed, PairwiseAccuracy, PairwiseF1
from loopwise.loss.coreference import BLANC, MUC, CEAFEntities, CEAFMentions, CoNLL
from loopwise.loss.entity import EntityF1Score
from loopwise.loss.f_measure import check_f, f_measure
from loopwise.loss.incremental import CountTracker, HammingTracker, Tracker
from loopwise.loss.labels import Correct, ValueF1, VariableF1
from loopwise.loss.targets import TargetsLike
from loopwise.loss.univariate import MAE, MSE

L1 = MAE  # as in loopwise.loss

__all__ = [
    "BLANC",
    "L1",
    "MAE",
    "MSE",
    "MUC",
    "Accuracy",
    "BCubed",
    "CEAFEntities",
    "CEAFMentions",
    "CoNLL",
    "Correct",
    "EntityF1Score",
    "F1Score",
    "FBetaScore",
    "HammingError",
    "Metric",
    "PairwiseAccuracy",
    "PairwiseF1",
    "Reliability",
    "ValueF1",
    "VariableF1",
    "reliability",
]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Wrong(Metric):
    """Counts of scored and of wrong variables."""

    @property
    def columns(self) -> int:
        return 2

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        wrong = answer.scored & ~answer.right
        return torch.stack([answer.scored.sum(-1), wrong.sum(-1)], -1).double()

    def share(self, statistics: Tensor) -> Tensor:
        """The share of scored variables that are wrong."""
        return statistics[..., 1] / statistics[..., 0].clamp_min(1)

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the share that is right; an error is taken as minus itself, so that higher is better."""
        return HammingTracker(truth, state, top=1.0 if self.higher_is_better else 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class HammingError(_Wrong):
    """The share of scored variables that are wrong."""

    def value(self, statistics: Tensor) -> Tensor:
        return self.share(statistics)


@dataclass(frozen=True, eq=False, kw_only=True)
class Accuracy(_Wrong):
    """The share of scored variables that are right."""

    higher_is_better: ClassVar[bool] = True

    def value(self, statistics: Tensor) -> Tensor:
        return 1 - self.share(statistics)


@dataclass(frozen=True, eq=False, kw_only=True)
class FBetaScore(Metric):
    r""":math:`F_\beta` of the ``positive`` labels, as in :class:`loopwise.loss.FBeta`, but a score: higher is better.

    Macro over examples; micro with ``reduction=Pooled()``; ``per_example`` for one an example.
    """

    higher_is_better: ClassVar[bool] = True

    beta: float = 1.0
    positive: Labels = 1

    def __post_init__(self) -> None:
        check_f(self.beta, self.positive)

    @property
    def columns(self) -> int:
        return 4

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        labels = torch.tensor(label_list(self.positive), device=answer.values.device)
        decided = torch.isin(answer.values, labels) & answer.scored
        agreed = decided & answer.right
        columns = [answer.scored, agreed, decided, answer.gold(self.positive, agreed)]
        return torch.stack([column.sum(-1) for column in columns], -1).double()

    def value(self, statistics: Tensor) -> Tensor:
        return f_measure(statistics, self.beta)

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the F-measure of one example."""
        return CountTracker(truth, state, dict.fromkeys(label_list(self.positive), 0), 1, 0, self.beta)


@dataclass(frozen=True, eq=False, kw_only=True)
class F1Score(FBetaScore):
    """:class:`FBetaScore` with beta 1."""

    beta: float = field(default=1.0, init=False)


__getattr__ = old_names(__name__, {"EntityF1": "EntityF1Score", "F1": "F1Score", "FBeta": "FBetaScore"})
