"""Deciding variables by what their factors would jointly decide.

In: beliefs of factors. Out: decisions on variables. Stage: decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder, OutputsLike
from loopwise.decode.pointwise import Max, one_hot_at_maximum
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.graph.rows import Rows
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import map_variables, spread
from loopwise.inference.decision import Decision


class FactorVote(BeliefDecoder, nn.Module):
    """Each factor decides over its joint cells by ``decoder``; a variable averages the votes of its factors.

    ``groups``: the names of those that vote (by default all of arity 2 and more). A variable without such a factor is
    decided from its own belief. Where hard votes are tied, the variable's own belief decides.
    """

    def __init__(self, decoder: BeliefDecoder | None = None, groups: Sequence[str] | None = None) -> None:
        super().__init__()
        self.decoder: BeliefDecoder = Max() if decoder is None else decoder
        self.groups = groups

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        return self._counted(beliefs, self.decoder.decide(beliefs, outputs))

    def decide_parts(self, beliefs: Beliefs, outputs: Tensor, rows: Rows) -> Decision:
        return self._counted(beliefs, self.decoder.decide_parts(beliefs, outputs, rows))

    def _counted(self, beliefs: Beliefs, inner: Decision) -> Decision:
        graph = beliefs.graph
        votes = torch.zeros_like(inner.states)
        counts = inner.states.new_zeros(graph.variables)
        for group in self._voters(graph):
            table = inner.factor(group.name)
            for axis in range(group.arity):
                votes = votes.index_add(-1, _places(graph, group, axis, votes), _marginals(table, group, axis))
            counts += torch.bincount(torch.tensor(group.scopes.reshape(-1)), minlength=graph.variables).to(counts)
        voted = spread(graph, counts)
        if inner.hard:  # counts are whole numbers, so half a belief breaks ties and changes nothing else
            votes = map_variables(graph, one_hot_at_maximum, votes + beliefs.states.detach() / 2)
        else:
            votes = votes / voted.clamp_min(1)
        return Decision(beliefs, torch.where(voted > 0, votes, inner.states), inner.factor, hard=inner.hard)

    def soft(self) -> FactorVote:
        return FactorVote(self.decoder.soft(), self.groups)

    def hard(self) -> FactorVote:
        return FactorVote(self.decoder.hard(), self.groups)

    def at(self, step: int) -> FactorVote:
        return FactorVote(self.decoder.at(step), self.groups)

    @property
    def needs_refresh(self) -> bool:  # type: ignore[override]
        return self.decoder.needs_refresh

    def refresh(self, batches: Iterable[tuple[Beliefs, OutputsLike]]) -> None:
        self.decoder.refresh(batches)

    def _voters(self, graph: FactorGraph) -> list[Group]:
        if self.groups is None:
            return [group for group in graph.groups if group.arity >= 2]
        return [graph.group(name) for name in self.groups]


def _places(graph: FactorGraph, group: Group, axis: int, like: Tensor) -> Tensor:
    """States of the variables at ``axis``, factor by factor."""
    start = graph.layout.state_start[group.scopes[:, axis]]
    return torch.tensor((start[:, None] + np.arange(group.shape[axis])).reshape(-1), device=like.device)


def _marginals(table: Tensor, group: Group, axis: int) -> Tensor:
    """Sums of ``[*batch, factors, *shape]`` over all axes of the tables but one: ``[*batch, factors * K]``."""
    others = [place - group.arity for place in range(group.arity) if place != axis]
    return (table.sum(others) if others else table).flatten(-2)
