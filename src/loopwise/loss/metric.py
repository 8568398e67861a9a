"""Metrics on hard answers: what is reported, and what decoders and walks may ask for.

In: assignments (or decisions, read as assignments) and targets. Out: a number, not differentiable. Stage: loss.
A metric is a measure like a loss, with the same statistics, averages and call. ``MSE`` and ``L1`` are the losses
themselves: they may be asked of soft decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from loopwise.graph.evidence import FREE
from loopwise.inference.by_variable import Labels, label_list, labels_mask, reduce_variables, state_places
from loopwise.inference.decision import Distributions
from loopwise.loss.base import Measure
from loopwise.loss.f_measure import check_f, f_measure, only_positive
from loopwise.loss.targets import Targets, TargetsLike
from loopwise.loss.univariate import L1, MSE

__all__ = ["F1", "L1", "MSE", "Accuracy", "FBeta", "HammingError", "Metric"]


class Metric(Measure):
    """A measure of assignments.

    ``prediction``: integers ``[*batch, variables]``, or a decision or beliefs (their ``assignment``). ``targets``: as
    for losses; beside integers they may be integers too, and no graph is needed then.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class _Wrong(Metric):
    """Counts of scored and of wrong variables."""

    @property
    def columns(self) -> int:
        return 2

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = Answers.of(prediction, targets)
        wrong = answer.scored & ~answer.right
        return torch.stack([answer.scored.sum(-1), wrong.sum(-1)], -1).double()

    def share(self, statistics: Tensor) -> Tensor:
        """The share of scored variables that are wrong."""
        return statistics[..., 1] / statistics[..., 0].clamp_min(1)


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
class FBeta(Metric):
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
        answer = Answers.of(prediction, targets)
        labels = torch.tensor(label_list(self.positive), device=answer.values.device)
        decided = torch.isin(answer.values, labels) & answer.scored
        agreed = decided & answer.right
        columns = [answer.scored, agreed, decided, answer.gold(self.positive, agreed)]
        return torch.stack([column.sum(-1) for column in columns], -1).double()

    def value(self, statistics: Tensor) -> Tensor:
        return f_measure(statistics, self.beta)


@dataclass(frozen=True, eq=False, kw_only=True)
class F1(FBeta):
    """:class:`FBeta` with beta 1."""

    beta: float = field(default=1.0, init=False)


@dataclass(frozen=True, eq=False)
class Answers:
    """An assignment beside its targets; all ``[*batch, variables]``."""

    values: Tensor
    scored: Tensor
    right: Tensor
    known: Tensor | Targets  # the targets: as integers, or as sets

    @staticmethod
    def of(prediction: Distributions | Tensor, targets: TargetsLike) -> Answers:
        """Reads a prediction as an assignment and compares."""
        values, known = _assignment(prediction), targets
        if not isinstance(prediction, Tensor):
            known = Targets.of(prediction.graph, targets)
        if isinstance(known, Targets):
            known = known.to(values.device)
            if known.values is None:
                _check_width(values, known.graph.variables)
                right = _allowed_at(known, values)
                return Answers._alike(values, known.scored, right, known)
            known = known.values
        gold = torch.as_tensor(known).to(values.device)
        if gold.is_floating_point() or gold.dtype == torch.bool:
            raise ValueError(f"targets must be integers beside an assignment, not {gold.dtype}")
        _check_width(values, gold.shape[-1])
        try:
            return Answers._alike(values, gold != FREE, values == gold, gold)
        except RuntimeError:
            raise ValueError(
                f"targets of shape {tuple(gold.shape)} do not fit assignments of shape {tuple(values.shape)}"
            ) from None

    @staticmethod
    def _alike(values: Tensor, scored: Tensor, right: Tensor, known: Tensor | Targets) -> Answers:
        values, scored, right = torch.broadcast_tensors(values, scored, right)  # type: ignore[no-untyped-call]
        return Answers(values, scored, right, known)

    def gold(self, positive: Labels, agreed: Tensor) -> Tensor:
        """Which variables count as positive; undecided sets do where they were rightly decided positive."""
        if isinstance(self.known, Tensor):
            labels = torch.tensor(label_list(positive), device=self.known.device)
            return torch.isin(self.known, labels).expand(agreed.shape)
        mask = labels_mask(self.known.graph, positive, agreed.device)
        certain = reduce_variables(self.known.graph, only_positive, self.known.allowed, mask)
        return certain | agreed


def _assignment(prediction: Distributions | Tensor) -> Tensor:
    values = prediction if isinstance(prediction, Tensor) else getattr(prediction, "assignment", None)
    if not isinstance(values, Tensor) or values.is_floating_point() or values.dtype == torch.bool:
        raise ValueError(
            "a metric takes an integer assignment [*batch, variables], a decision or beliefs, not "
            f"{values.dtype if isinstance(values, Tensor) else type(prediction).__name__}"
        )
    return values


def _allowed_at(targets: Targets, values: Tensor) -> Tensor:
    places = state_places(targets.graph, values)
    shape = torch.broadcast_shapes(targets.batch_shape, values.shape[:-1])  # type: ignore[no-untyped-call]
    allowed = targets.allowed.expand(*shape, targets.allowed.shape[-1])
    return allowed.gather(-1, places.expand(*shape, places.shape[-1]))


def _check_width(values: Tensor, variables: int) -> None:
    if values.ndim == 0 or values.shape[-1] != variables:
        raise ValueError(
            f"an assignment of shape {tuple(values.shape)} does not fit targets: its last axis must have one value for "
            f"each of {variables} variables"
        )
