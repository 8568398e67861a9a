r"""The best few configurations, and samples, each with its probability.

In: a graph, potentials, evidence; how many. Out: :class:`Configurations`. Stage: decision. Both are exact, or refused:
by the one structured factor that all variables belong to (a :class:`~loopwise.Chain`, a
:class:`~loopwise.ProjectiveTree`), or by :class:`~loopwise.Exact` inference on tables.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count as counting
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.k_best import check_count
from loopwise.inference.base import Problem
from loopwise.inference.bethe import score
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.structured import split_potentials
from loopwise.notices import ImpossibleError
from loopwise.potentials.checks import checked_tables


@dataclass(frozen=True, eq=False)
class Configurations:
    """Joint assignments of all variables, with what they are worth.

    ``values``: int64 ``[found, variables]``; ``scores``: logarithms of unnormalised probabilities, ``[found]``;
    ``probabilities``: those given the evidence, ``[found]``, exactly.
    """

    graph: FactorGraph
    values: Tensor
    scores: Tensor
    probabilities: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def named(self) -> list[dict[str, str]]:
        """Each as ``{variable: value}``, by the names of the graph's vocabulary."""
        known = self.graph.vocabulary
        if known is None:
            raise ValueError("the graph does not say what its variables are called; give it a vocabulary")
        return [
            {name: labels[value] for name, labels, value in zip(known.names, known.labels, row, strict=True)}
            for row in self.values.tolist()
        ]


def k_best(graph: FactorGraph, potentials: object, count: int, evidence: EvidenceLike = None) -> Configurations:
    """The ``count`` most probable configurations, best first; fewer if there are not so many.

    Of one example. With structured factors there must be one, over every variable that is not observed, beside factors
    of single variables. Tables: one run of exact MAP inference for each value of each variable and configuration
    (Lawler 1972).

    Raises
    ------
    ValueError
        For a batch, or structured factors beside others; :class:`~loopwise.inference.TooLargeError` where exact
        inference is not affordable.

    >>> import loopwise as lw
    >>> found = k_best(lw.chain(2), lw.TablePotentials.random(lw.chain(2), seed=0), 3)
    >>> found.values.tolist(), [round(p, 3) for p in found.probabilities.tolist()]
    ([[1, 1], [0, 1], [0, 0]], [0.565, 0.378, 0.033])
    """
    check_count(count)
    model = _Model.of(graph, potentials, evidence)
    if model.factor is not None:
        values, _ = model.factor.k_best(model.incoming, model.own, count=count)
        values = values[(values != FREE).all(-1)]
        return model.configurations(model.whole(values))
    return model.configurations(_branched(model, count))


def draw(
    graph: FactorGraph, potentials: object, count: int, evidence: EvidenceLike = None, *, seed: int = 0
) -> Configurations:
    """Independent samples of the joint distribution given the evidence, each with its probability; as :func:`k_best`.

    >>> import loopwise as lw
    >>> drawn = draw(lw.chain(2), lw.TablePotentials.random(lw.chain(2), seed=0), 1000, {0: 1})
    >>> bool((drawn.values[:, 0] == 1).all()), abs(drawn.values[:, 1].double().mean().item() - 0.96) < 0.05
    (True, True)
    """
    check_count(count)
    model = _Model.of(graph, potentials, evidence)
    if model.factor is not None:
        generator = np.random.default_rng(seed)
        return model.configurations(
            model.whole(model.factor.sample(model.incoming, model.own, count=count, generator=generator))
        )
    return model.configurations(model.exact(model.values).sample(count, seed))


@dataclass(frozen=True, eq=False)
class _Model:
    """One example, checked: tables for exact inference, or a structured factor with the messages that it gets."""

    graph: FactorGraph
    problem: Problem
    values: Integers  # [variables], FREE where they are not observed
    factor: StructuredFactor | None
    own: Tensor | None
    incoming: Tensor  # [slots] of the factor
    scope: Integers

    @staticmethod
    def of(graph: FactorGraph, potentials: object, evidence: EvidenceLike) -> _Model:
        rest, own = split_potentials(graph, potentials)
        tables, batch = checked_tables(graph, rest, {})
        values = clamped_values(graph, evidence)
        if tuple(batch) or values.ndim > 1:
            raise ValueError("configurations are listed of one example at a time; give potentials and evidence of one")
        tables = {name: table.detach().double().cpu() for name, table in tables.items()}
        like = torch.zeros(0, dtype=torch.float64)
        problem = Problem(graph, tables, batch, like, structured=own)
        if not graph.structured:
            return _Model(graph, problem, values, None, None, like, np.zeros(0, dtype=np.int64))
        members = [member for group in graph.structured for member in group.members]
        lonely = all(group.arity <= 1 for group in graph.groups)
        (factor, scope), *others = members
        free = np.flatnonzero(values == FREE)
        if others or not lonely or not np.isin(free, scope).all():
            raise ValueError(
                "configurations are listed of tables, or of one structured factor over all variables that are not "
                "observed beside factors of single ones; this graph has others"
            )
        name = graph.structured[0].name
        numbers = own[name][0] if name in own else None
        detached = None if numbers is None else numbers.detach().double().cpu()
        incoming = _incoming(problem, values)[_slots(graph, scope)]
        return _Model(graph, problem, values, factor, detached, incoming, scope)

    def whole(self, values: Tensor) -> Tensor:
        """Values of the factor's variables ``[found, scope]`` among those of all."""
        full = torch.tensor(self.values).expand(len(values), -1).clone()
        full[:, torch.tensor(self.scope)] = values
        return full

    def exact(self, values: Integers, temperature: float = 1.0) -> Any:
        return Exact(temperature=temperature)(self.graph, self.problem.tables, values)

    def configurations(self, values: Tensor) -> Configurations:
        scores = score(self.problem, values)
        if self.factor is None:
            total = self.exact(self.values).log_partition
        else:  # and what all configurations have in common
            chosen = values[:1, torch.tensor(self.scope)]
            starts = torch.from_numpy(self.factor.slot_start[:-1])
            own = self.incoming[chosen + starts].sum(-1) + self.factor.score(chosen, self.own)
            total = self.factor.log_partition(self.incoming, self.own) + (scores[:1] - own)
        return Configurations(self.graph, values, scores, torch.exp(scores - total))


def _slots(graph: FactorGraph, scope: Integers) -> Tensor:
    start = graph.layout.state_start
    return torch.from_numpy(np.concatenate([np.arange(start[place], start[place + 1]) for place in scope]))


def _incoming(problem: Problem, values: Integers) -> Tensor:
    """What factors of single variables say of each state, -inf where the evidence rules it out, ``[states]``."""
    layout = problem.graph.layout
    total = problem.unary().clone()
    for variable in np.flatnonzero(values != FREE).tolist():
        first, end = int(layout.state_start[variable]), int(layout.state_start[variable + 1])
        kept = first + int(values[variable])
        total[first:kept] = total[kept + 1 : end] = -torch.inf
    return total


def _branched(model: _Model, count: int) -> Tensor:
    """Lawler's procedure by evidence: a set is what a prefix of values, and then another value, allows."""
    number = counting()
    waiting: list[tuple[float, int, list[int], int]] = []  # score, order, the best of the set, values that are kept

    def add(sets: list[tuple[Integers, int]]) -> None:
        for (_, kept), best in zip(sets, _maxima(model, [given for given, _ in sets]), strict=True):
            if best is not None:
                worth = float(score(model.problem, best))
                if worth > -np.inf:
                    heapq.heappush(waiting, (-worth, next(number), best.tolist(), kept))

    order = np.flatnonzero(model.values == FREE).tolist()
    add([(model.values, 0)])
    found: list[list[int]] = []
    while waiting and len(found) < count:
        _, _, best, kept = heapq.heappop(waiting)
        found.append(best)
        if len(found) < count:
            add(_others(model, best, order, kept))
    if not found:
        raise ImpossibleError("no configuration is possible: the zeros of the potentials rule out each")
    return torch.tensor(found, dtype=torch.int64).reshape(len(found), model.graph.variables)


def _others(model: _Model, best: list[int], order: list[int], kept: int) -> list[tuple[Integers, int]]:
    sets = []
    given = model.values.copy()
    given[order[:kept]] = [best[place] for place in order[:kept]]
    for rank in range(kept, len(order)):
        variable = order[rank]
        for value in range(int(model.graph.cardinalities[variable])):
            if value != best[variable]:
                other = given.copy()
                other[variable] = value
                sets.append((other, rank + 1))
        given[variable] = best[variable]
    return sets


def _maxima(model: _Model, sets: Sequence[Integers]) -> list[Tensor | None]:
    """The best configuration of each, None where none is possible; all at once if every one is."""
    if not sets:
        return []
    try:
        return list(model.exact(np.stack(sets), 0.0).assignment)
    except ImpossibleError:
        if len(sets) == 1:
            return [None]
        middle = len(sets) // 2
        return _maxima(model, sets[:middle]) + _maxima(model, sets[middle:])
