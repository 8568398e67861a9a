"""Metrics of labels: numbers of right variables, F1 of each label and its averages.

In: assignments and targets. Out: a number, or one for each label. Stage: loss.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.inference.decision import Distributions
from loopwise.loss.answers import KnownAnswers, Metric
from loopwise.loss.f_measure import check_f, f_measure
from loopwise.loss.incremental import CountTracker, HammingTracker, Tracker
from loopwise.loss.reduction import Mean, Pooled, Reduction
from loopwise.loss.targets import TargetsLike


@dataclass(frozen=True, eq=False, kw_only=True)
class Correct(Metric):
    """How many scored variables are right: minus the Hamming distance, but for a constant."""

    higher_is_better: ClassVar[bool] = True

    reduction: Reduction = field(default_factory=Mean)

    @property
    def columns(self) -> int:
        return 2

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        return torch.stack([answer.scored.sum(-1), (answer.scored & answer.right).sum(-1)], -1).double()

    def value(self, statistics: Tensor) -> Tensor:
        return statistics[..., 1]

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the number that is right."""
        scored = sum(gold >= 0 for gold in truth)
        return HammingTracker(truth, state, top=float(scored), share=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class _ByLabel(Metric):
    """F of several labels: macro (their mean) or micro (their counts added up first)."""

    higher_is_better: ClassVar[bool] = True

    macro: bool = True
    beta: float = 1.0
    reduction: Reduction = field(default_factory=Pooled)

    @property
    @abstractmethod
    def labels(self) -> int:
        """How many labels there are."""

    @abstractmethod
    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        """Scored variables, then agreed, decided and gold of each label."""

    @property
    def columns(self) -> int:
        return 1 + 3 * self.labels

    def value(self, statistics: Tensor) -> Tensor:
        if self.macro:
            return self.by_label(statistics).mean(-1)
        counts = self._counts(statistics).sum(-1)
        return f_measure(torch.cat([statistics[..., :1], counts], -1), self.beta)

    def by_label(self, statistics: Tensor) -> Tensor:
        """F of each label, ``[*batch, labels]``."""
        counts = self._counts(statistics).transpose(-1, -2)
        weight = statistics[..., :1, None].expand(*counts.shape[:-1], 1)
        return f_measure(torch.cat([weight, counts], -1), self.beta)

    def _counts(self, statistics: Tensor) -> Tensor:
        """Agreed, decided, gold of each label, ``[*batch, 3, labels]``."""
        return statistics[..., 1:].reshape(*statistics.shape[:-1], 3, self.labels)

    def per_label(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        """F of each label over all examples, ``[labels]``."""
        return self.by_label(self.statistics(prediction, targets).reshape(-1, self.columns).sum(0))

    def _columns(self, answer: KnownAnswers, agreed: Tensor, decided: Tensor, gold: Tensor) -> Tensor:
        return torch.cat([answer.scored.sum(-1, keepdim=True), agreed, decided, gold], -1).double()


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueF1(_ByLabel):
    r""":math:`F_\beta` of each of the ``values`` that variables may take (tags, classes), macro or micro.

    Values that are not named, such as "outside", are decisions for no label. Counts are pooled over examples unless
    another ``reduction`` is given. Agrees with scikit-learn's ``f1_score`` with ``zero_division=1``.
    """

    values: Sequence[int]

    def __post_init__(self) -> None:
        check_f(self.beta, tuple(self.values))

    @property
    def labels(self) -> int:
        return len(self.values)

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        if not isinstance(answer.known, Tensor):
            raise ValueError(
                "F1 of values needs one right value for each variable, not sets of them; give one number each"
            )
        named = torch.tensor(list(self.values), device=answer.values.device)
        decided = (answer.values[..., None] == named) & answer.scored[..., None]  # [*batch, variables, labels]
        gold = (answer.known[..., None] == named).expand(decided.shape)
        return self._columns(answer, (decided & gold).sum(-2), decided.sum(-2), gold.sum(-2))

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the mean F (or the F of all counts) of one example."""
        label_of = {int(value): place if self.macro else 0 for place, value in enumerate(self.values)}
        return CountTracker(truth, state, label_of, self.labels if self.macro else 1, 0, self.beta)


@dataclass(frozen=True, eq=False, kw_only=True)
class VariableF1(_ByLabel):
    r""":math:`F_\beta` of each of ``variables`` binary variables, each a label of its own, macro or micro.

    ``positive`` is the value that means "has the label". Counts are pooled over examples unless another ``reduction``
    is given. Agrees with scikit-learn's ``f1_score`` of a matrix of labels, with ``zero_division=1``.
    """

    variables: int
    positive: int = 1

    def __post_init__(self) -> None:
        check_f(self.beta, self.positive)
        checked_whole("variables", self.variables)

    @property
    def labels(self) -> int:
        return self.variables

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        if answer.values.shape[-1] != self.variables:
            raise ValueError(
                f"the metric is of {self.variables} variables, the answer has {answer.values.shape[-1]}; "
                "make it for as many"
            )
        decided = (answer.values == self.positive) & answer.scored
        agreed = decided & answer.right
        return self._columns(answer, agreed, decided, answer.gold(self.positive, agreed))

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the mean F (or the F of all counts) of one example."""
        step = 1 if self.macro else 0
        return CountTracker(truth, state, {self.positive: 0}, self.variables if self.macro else 1, step, self.beta)
