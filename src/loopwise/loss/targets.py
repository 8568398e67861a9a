"""What the right answers are, variable by variable, and which variables are scored at all.

In: integers with ``-1`` for what is not scored, :class:`Evidence`, or sets of allowed values. Out: :class:`Targets`,
checked once against a graph. Stage: loss.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.graph.evidence import FREE, Evidence, Role
from loopwise.graph.factor_graph import FactorGraph, variable_range
from loopwise.graph.rows import Rows
from loopwise.inference.by_variable import reduce_variables, spread, state_values
from loopwise.inference.rows import out_of_rows
from loopwise.notices import in_example

Sets = Mapping[int, "int | Collection[int]"]  # variable: its value, or the values that count as right


@dataclass(frozen=True, eq=False)
class Targets:
    """Right answers for a batch: for each scored variable the values that count as right.

    ``allowed`` is bool ``[*batch, states]``, all False for variables that are not scored (hidden, input, missing).
    ``values`` are the answers as integers ``[*batch, variables]``, None if some variable has several.
    """

    graph: FactorGraph
    allowed: Tensor
    scored: Tensor  # bool [*batch, variables]
    values: Tensor | None

    @staticmethod
    def of(graph: FactorGraph, given: TargetsLike) -> Targets:
        """Targets from whatever says them.

        Integers ``[*batch, variables]`` (:data:`~loopwise.graph.FREE`: not scored), a bool mask ``[*batch, states]``,
        an :class:`~loopwise.Evidence` (its outputs), or what :meth:`from_sets` takes.
        """
        if isinstance(given, Targets):
            _check_same(graph, given)
            return given
        if isinstance(given, Evidence):
            return Targets.from_evidence(graph, given)
        if isinstance(given, Mapping) or _holds_mappings(given):
            return Targets.from_sets(graph, given)
        array = _as_tensor(given)
        return _from_mask(graph, array) if array.dtype == torch.bool else Targets.from_values(graph, array)

    @staticmethod
    def from_values(graph: FactorGraph, values: Tensor | ArrayLike) -> Targets:
        """One right value a variable, integers ``[*batch, variables]``; :data:`~loopwise.graph.FREE`: not scored."""
        array = _as_tensor(values)
        if array.is_floating_point() or array.is_complex() or array.dtype == torch.bool:
            raise ValueError(f"targets must be integers, -1 where a variable is not scored, not {array.dtype}")
        _check_width("targets", array, graph.variables, "variables")
        array = array.to(torch.int64)
        sizes = torch.tensor(graph.cardinalities, device=array.device)
        wrong = ((array < FREE) | (array >= sizes)).nonzero()
        if len(wrong):
            *example, variable = wrong[0].tolist()
            raise ValueError(
                f"target of variable {variable}{in_example(example)} is {array[tuple(wrong[0])].item()}; "
                f"it has values 0 to {graph.cardinalities[variable] - 1}, and -1 leaves it out"
            )
        return _checked(Targets(graph, _mask_of(graph, array), array != FREE, array))

    @staticmethod
    def from_evidence(graph: FactorGraph, evidence: Evidence) -> Targets:
        """The values of the variables whose role is OUTPUT."""
        return Targets.from_values(graph, evidence.clamp((Role.OUTPUT,)))

    @staticmethod
    def from_sets(graph: FactorGraph, sets: Tensor | ArrayLike | Sets | Sequence[Sets]) -> Targets:
        """Several right values a variable: any of them is an answer without error.

        A bool mask ``[*batch, states]``; or ``{variable: value or values}``, one for each example if in a list.
        Variables without an allowed value are not scored.
        """
        if isinstance(sets, Mapping):
            return _from_mask(graph, _mask_of_sets(graph, sets, None))
        if _holds_mappings(sets):
            rows = [_mask_of_sets(graph, member, number) for number, member in enumerate(_mappings(sets))]
            return _from_mask(graph, torch.stack(rows))
        return _from_mask(graph, _as_tensor(sets))

    @property
    def batch_shape(self) -> torch.Size:
        return self.scored.shape[:-1]

    def __getitem__(self, examples: Any) -> Targets:
        """The targets of some examples: an index into the batch dimensions. Nothing is checked again."""
        values = None if self.values is None else self.values[examples]
        return Targets(self.graph, self.allowed[examples], self.scored[examples], values)

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("these targets are of one example, without a batch dimension; it has no length")
        return self.batch_shape[0]

    def to(self, device: torch.device) -> Targets:
        """The same on ``device``."""
        if self.allowed.device == device:
            return self
        values = None if self.values is None else self.values.to(device)
        return replace(self, allowed=self.allowed.to(device), scored=self.scored.to(device), values=values)


def whole_targets(rows: Rows, targets: Targets) -> Targets:
    """Targets of rows, one an example, as those of the union ``[variables of the union]``."""
    place = torch.as_tensor(rows.state_place, device=targets.allowed.device)
    values = None if targets.values is None else out_of_rows(rows, targets.values)
    allowed = targets.allowed.reshape(-1).index_select(0, place)
    return Targets(rows.union.graph, allowed, out_of_rows(rows, targets.scored), values)


TargetsLike = Targets | Evidence | Tensor | ArrayLike | Sets | Sequence[Sets]


def _mask_of(graph: FactorGraph, values: Tensor) -> Tensor:
    return spread(graph, values) == state_values(graph, values.device)


def _from_mask(graph: FactorGraph, mask: Tensor) -> Targets:
    if mask.dtype != torch.bool:
        raise ValueError(f"sets of allowed values must be True or False for each state, not of dtype {mask.dtype}")
    states = graph.layout.states
    _check_width("sets of allowed values", mask, states, "states (the values of all variables, one after another)")
    count = reduce_variables(graph, lambda block: block.sum(-1), mask)
    single = bool((count <= 1).all())
    values = None
    if single:
        first = reduce_variables(graph, lambda block: block.to(torch.uint8).argmax(-1), mask).to(torch.int64)
        values = first.where(count == 1, FREE)
    return _checked(Targets(graph, mask, count > 0, values))


def _mask_of_sets(graph: FactorGraph, sets: Sets, example: int | None) -> Tensor:
    mask = torch.zeros(graph.layout.states, dtype=torch.bool)
    where = in_example([] if example is None else [example])
    for variable, allowed in sets.items():
        if not 0 <= variable < graph.variables:
            raise ValueError(f"targets{where} name variable {variable}; {variable_range(graph.variables)}")
        members = allowed if isinstance(allowed, Collection) else [allowed]
        for value in members:
            number = _integer(variable, value, where)
            if not 0 <= number < graph.cardinalities[variable]:
                raise ValueError(
                    f"target of variable {variable}{where} is {number}; it has values 0 to "
                    f"{graph.cardinalities[variable] - 1}: leave the variable out if it is not scored"
                )
            mask[graph.layout.state_start[variable] + number] = True
    return mask


def _integer(variable: int, value: object, where: str) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"target of variable {variable}{where} must be an integer, not {value!r}") from None


def _holds_mappings(given: object) -> bool:
    return isinstance(given, Sequence) and len(given) > 0 and isinstance(given[0], Mapping)


def _mappings(given: Any) -> Sequence[Sets]:
    for number, member in enumerate(given):
        if not isinstance(member, Mapping):
            raise ValueError(f"targets of example {number} must map variables to values, not {type(member).__name__}")
    members: Sequence[Sets] = given
    return members


def _as_tensor(given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        array = np.array(given)  # a copy: torch shares memory only with arrays that can be written
        return torch.from_numpy(array)
    except (TypeError, ValueError) as reason:
        raise ValueError(f"targets are no array of integers or truth values: {reason}") from None


def _check_width(what: str, array: Tensor, width: int, unit: str) -> None:
    if array.ndim == 0 or array.shape[-1] != width:
        raise ValueError(
            f"{what} of shape {tuple(array.shape)} do not fit the graph: the last axis must have one entry for each of "
            f"{width} {unit}"
        )


def _checked(targets: Targets) -> Targets:
    if not bool(targets.scored.any()):
        raise ValueError(
            "nothing is scored: every target is -1 (or an empty set) in every example; "
            "give the target of at least one variable"
        )
    return targets


def _check_same(graph: FactorGraph, targets: Targets) -> None:
    if targets.graph is not graph and not np.array_equal(targets.graph.cardinalities, graph.cardinalities):
        raise ValueError(
            f"the targets are for {targets.graph!r}, the prediction is for {graph!r}; "
            "make them for the graph of the prediction"
        )
