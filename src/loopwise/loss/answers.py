"""What metrics share: assignments beside their targets.

In: an assignment, a decision or beliefs, and targets. Out: :class:`KnownAnswers`, which says what is scored and what is
right. Stage: loss.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from loopwise.graph.evidence import FREE
from loopwise.inference.by_variable import Labels, label_list, labels_mask, reduce_variables, state_places
from loopwise.inference.decision import Distributions
from loopwise.loss.base import Measure
from loopwise.loss.f_measure import only_positive
from loopwise.loss.targets import Targets, TargetsLike
from loopwise.potentials.checks import broadcast_batches


class Metric(Measure):
    """A measure of assignments.

    ``prediction``: integers ``[*batch, variables]``, or a decision or beliefs (their ``assignment``). ``targets``: as
    for losses; beside integers they may be integers too, and no graph is needed then.
    """

    @abstractmethod
    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        """As :meth:`Measure.statistics`, of assignments too."""


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """An assignment beside its targets; all ``[*batch, variables]``."""

    values: Tensor
    scored: Tensor
    right: Tensor
    known: Tensor | Targets  # the targets: as integers, or as sets

    @staticmethod
    def of(prediction: Distributions | Tensor, targets: TargetsLike) -> KnownAnswers:
        """Reads a prediction as an assignment and compares."""
        values, known = _assignment(prediction), targets
        if not isinstance(prediction, Tensor):
            known = Targets.of(prediction.graph, targets)
        if isinstance(known, Targets):
            known = known.to(values.device)
            if known.values is None:
                _check_width(values, known.graph.variables)
                right = _allowed_at(known, values)
                return KnownAnswers._alike(values, known.scored, right, known)
            known = known.values
        gold = torch.as_tensor(known).to(values.device)
        if gold.is_floating_point() or gold.dtype == torch.bool:
            raise ValueError(f"targets must be integers beside an assignment, not {gold.dtype}")
        _check_width(values, gold.shape[-1])
        try:
            return KnownAnswers._alike(values, gold != FREE, values == gold, gold)
        except RuntimeError:
            raise ValueError(
                f"targets of shape {tuple(gold.shape)} do not fit assignments of shape {tuple(values.shape)}; "
                "both must be [*batch, variables]"
            ) from None

    @staticmethod
    def _alike(values: Tensor, scored: Tensor, right: Tensor, known: Tensor | Targets) -> KnownAnswers:
        values, scored, right = torch.broadcast_tensors(values, scored, right)  # type: ignore[no-untyped-call]
        return KnownAnswers(values, scored, right, known)

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
    shape = broadcast_batches(targets.batch_shape, values.shape[:-1])
    allowed = targets.allowed.expand(*shape, targets.allowed.shape[-1])
    return allowed.gather(-1, places.expand(*shape, places.shape[-1]))


def _check_width(values: Tensor, variables: int) -> None:
    if values.ndim == 0 or values.shape[-1] != variables:
        raise ValueError(
            f"an assignment of shape {tuple(values.shape)} does not fit targets: its last axis must have one value for "
            f"each of {variables} variables"
        )
