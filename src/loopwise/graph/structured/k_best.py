r"""The best few assignments of a factor, from a way to have the best one.

In: a factor, log messages. Out: assignments and their scores, best first. Stage: structure. After Lawler (1972): what
is left when the best assignment of a set is taken away is cut into sets, each of which keeps some of its values and
forbids one; the best of each set is found as before, and the best of these is next.
"""

from __future__ import annotations

import heapq
from itertools import count as counting
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.notices import ImpossibleError

if TYPE_CHECKING:
    from loopwise.graph.structured.base import StructuredFactor

NONE = -1  # stands for values where there are fewer assignments than were asked for


def k_best_by_branching(
    factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None, count: int
) -> tuple[Tensor, Tensor]:
    """As :meth:`StructuredFactor.k_best` promises: an argmax for each variable branched on, ``count`` times."""
    check_count(count)
    batch = incoming.shape[:-1]
    flat = incoming.detach().reshape(-1, factor.slots)
    tables: Tensor | None = None
    if potentials is not None and factor.potentials_shape is not None:
        shape = factor.potentials_shape
        tables = potentials.detach().expand(*batch, *shape).reshape(len(flat), *shape)
    values = torch.full((count, len(flat), factor.arity), NONE, dtype=torch.int64, device=incoming.device)
    scores = torch.full((count, len(flat)), -torch.inf, dtype=incoming.dtype, device=incoming.device)
    for place, row in enumerate(flat):
        own = None if tables is None else tables[place]
        for rank, (score, best) in enumerate(_best_of_one(factor, row, own, count)):
            values[rank, place], scores[rank, place] = best, score
    factor.refuse(torch.isneginf(scores[0]).reshape(batch))
    return values.reshape(count, *batch, factor.arity), scores.reshape(count, *batch)


def check_count(count: int) -> None:
    """Refuses to list nothing."""
    checked_whole("the number of assignments", count)


def _best_of_one(
    factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None, count: int
) -> list[tuple[float, Tensor]]:
    number = counting()  # breaks ties, in the order in which sets were made
    waiting: list[tuple[float, int, Tensor, Tensor, frozenset[int]]] = []

    def add(messages: Tensor, kept: frozenset[int]) -> None:
        try:
            best = factor.argmax(messages, potentials)
        except ImpossibleError:
            return
        score = _score(factor, incoming, potentials, best)
        if score > -torch.inf:
            heapq.heappush(waiting, (-score, next(number), best, messages, kept))

    add(incoming, frozenset())
    found: list[tuple[float, Tensor]] = []
    while waiting and len(found) < count:
        score, _, best, messages, kept = heapq.heappop(waiting)
        found.append((-score, best))
        if len(found) == count:
            break
        for variable in factor.branching(best):
            if variable in kept:
                continue
            first, end = int(factor.slot_start[variable]), int(factor.slot_start[variable + 1])
            slot = first + int(best[variable])
            other = messages.clone()
            other[slot] = -torch.inf
            if not bool(torch.isneginf(other[first:end]).all()):
                add(other, kept)
            messages = messages.clone()
            messages[first:slot] = messages[slot + 1 : end] = -torch.inf
            kept = kept | {variable}
    return found


def _score(factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None, values: Tensor) -> float:
    places = values + torch.tensor(factor.slot_start[:-1], device=values.device)
    total = incoming[places].sum()
    return float(total if potentials is None else total + factor.score(values, potentials))
