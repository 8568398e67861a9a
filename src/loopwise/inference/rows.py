"""Beliefs and decisions of a union, example by example.

In: beliefs or decisions over a union, whose examples stand one after another without padding. Out: the same as rows
``[examples, ...]`` of one padded graph, and back. Stage: inference; decoders and measures that look at a whole example
read rows. Padding holds a point mass on value 0, and is never an output and never scored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from loopwise.graph.rows import RowGraph, Rows
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision, Distributions

Filler = TypeVar("Filler", bool, int)


class RowBeliefs(Beliefs):
    """Beliefs of the examples of a union, a row each; ``whole`` are those of the union."""

    def __init__(self, rows: Rows, whole: Beliefs) -> None:
        super().__init__(
            rows.graph,
            states_in_rows(rows, whole.states),
            _no_factors,
            lambda: whole.log_partition,
            whole.status,
            assignment=lambda: in_rows(rows, whole.assignment, 0),
        )
        self.whole = whole


class SampledRowBeliefs(RowBeliefs):
    """The same of beliefs that can be sampled."""

    def __init__(self, rows: Rows, whole: Beliefs, draw: Callable[[int, int], Tensor]) -> None:
        super().__init__(rows, whole)
        self._rows, self._draw = rows, draw

    def sample(self, count: int, seed: int) -> Tensor:
        """Joint samples, ``[count, examples, variables]``."""
        return in_rows(self._rows, self._draw(count, seed), 0)


class RowDecision(Decision):
    """A decision on the examples of a union, a row each; ``whole`` is that on the union."""

    def __init__(self, rows: Rows, whole: Decision) -> None:
        super().__init__(
            beliefs_in_rows(rows, whole.beliefs), states_in_rows(rows, whole.states), _no_factors, hard=whole.hard
        )
        self.whole = whole


def beliefs_in_rows(rows: Rows, whole: Beliefs) -> RowBeliefs:
    """Beliefs of a union as rows."""
    draw = getattr(whole, "sample", None)
    return RowBeliefs(rows, whole) if draw is None else SampledRowBeliefs(rows, whole, draw)


def decision_of_rows(rows: Rows, decision: Decision, beliefs: Beliefs) -> Decision:
    """The decision on a union whose ``beliefs`` were decided row by row: the way back."""
    if decision.hard:
        return Decision.of_assignment(beliefs, out_of_rows(rows, decision.assignment))
    flat = decision.states.reshape(-1)
    states = flat if rows.as_they_stand else flat.index_select(0, _tensor(rows.state_place, flat))
    return Decision(beliefs, states, _no_factors)


def states_in_rows(rows: Rows, states: Tensor) -> Tensor:
    """Distributions ``[*lead, states of the union]`` as ``[*lead, examples, states of a row]``."""
    width, lead = rows.graph.layout.states, states.shape[:-1]
    if rows.as_they_stand:
        return states.reshape(*lead, len(rows), width)
    table = states.new_zeros(*lead, len(rows) * width)
    table[..., _tensor(rows.padding, states)] = 1.0
    return table.index_copy(-1, _tensor(rows.state_place, states), states).reshape(*lead, len(rows), width)


def in_rows(rows: Rows, values: Tensor, filler: Filler) -> Tensor:
    """Numbers ``[*batch, variables of the union]`` as ``[*batch, examples, columns]``, with ``filler`` as padding."""
    shape = (*values.shape[:-1], len(rows), rows.graph.variables)
    if rows.as_they_stand:
        return values.reshape(shape)
    table = values.new_full((*values.shape[:-1], len(rows) * rows.graph.variables), filler)
    return table.index_copy(-1, _tensor(rows.variable_place, values), values).reshape(shape)


def out_of_rows(rows: Rows, table: Tensor) -> Tensor:
    """Numbers ``[examples, columns]`` of the variables as ``[variables of the union]``."""
    flat = table.reshape(-1)
    return flat if rows.as_they_stand else flat.index_select(0, _tensor(rows.variable_place, flat))


def whole_of(prediction: Distributions) -> tuple[Rows, Distributions] | None:
    """The arrangement and the union's prediction behind one in rows; None for all others."""
    if isinstance(prediction, RowBeliefs | RowDecision) and isinstance(prediction.graph, RowGraph):
        return prediction.graph.union.side_by_side, prediction.whole
    return None


def _tensor(index: object, like: Tensor) -> Tensor:
    return torch.as_tensor(index, device=like.device)


def _no_factors(name: str) -> Tensor:
    raise ValueError(
        f"examples of different graphs are decided one by one, so there is no decision on the factors {name!r}; use "
        "SoftArgmax, Max or Identity for losses on factors"
    )
