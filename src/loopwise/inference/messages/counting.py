r"""Counting numbers: how often each factor's and variable's entropy counts.

In: a graph. Out: :class:`CountingNumbers`, :math:`H = \sum_\alpha c_\alpha H_\alpha + \sum_i c_i H_i` (Domke spec,
section 2). Stage: inference. Factors of arity 1 are part of their variable: :math:`c_i` includes theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.layout import Layout

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CountingNumbers:
    r"""``factor``: :math:`c_\alpha` of the factors of arity 2 and more, in layout order, ``[message factors]``;
    ``total``: :math:`\hat c_i = c_i + \sum_{\alpha\ni i} c_\alpha`, ``[variables]`` (1 for Bethe and TRW)."""

    factor: Floats
    total: Floats
    trained: tuple[Tensor, Tensor] | None = None  # the same two as tensors, where they want a gradient
    kept: dict[Any, Any] = field(default_factory=dict, compare=False)  # what an engine made of them, if they are kept

    def __getstate__(self) -> dict[str, Any]:
        """A pickled tensor goes to other processes as shared memory, which takes it from the arrays that look at it."""
        return {**self.__dict__, "kept": {}}

    @cached_property
    def plain(self) -> bool:
        """Whether all are 1, and none is trained: those of ordinary belief propagation."""
        return self.trained is None and bool((self.factor == 1).all() and (self.total == 1).all())

    def tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """``factor`` and ``total`` as tensors on the device and in the precision of ``like``."""
        if self.trained is not None:
            return self.trained[0].to(like), self.trained[1].to(like)
        return torch.as_tensor(self.factor).to(like), torch.as_tensor(self.total).to(like)

    def variable(self, layout: Layout) -> Floats:
        r"""The :math:`c_i` themselves, ``[variables]``."""
        inside = np.bincount(
            layout.edge_variable, weights=self.factor[layout.edge_factor], minlength=layout.graph.variables
        )
        return self.total - inside

    def variable_tensor(self, layout: Layout, like: Tensor) -> Tensor:
        r"""The :math:`c_i`, differentiable."""
        factor, total = self.tensors(like)
        return total - _inside(factor, layout)

    def exponents(self, layout: Layout, like: Tensor) -> Tensor:
        r"""The power :math:`c_\alpha / \hat c_i` with which a message enters its variable, ``[edges]``."""
        if self.plain:
            if like.dtype not in self.kept or self.kept[like.dtype].device != like.device:
                self.kept[like.dtype] = torch.ones(layout.edges, dtype=like.dtype, device=like.device)
            ones: Tensor = self.kept[like.dtype]
            return ones
        factor, total = self.tensors(like)
        owner, which = (torch.tensor(index, device=like.device) for index in (layout.edge_variable, layout.edge_factor))
        return factor[which] / total[owner]


def _tensor(value: ArrayLike | Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to("cpu", torch.float64)
    return torch.from_numpy(np.array(value, dtype=np.float64))


def _inside(factor: Tensor, layout: Layout) -> Tensor:
    """The counting numbers of the factors around each variable, added up."""
    owner, which = (torch.tensor(index, device=factor.device) for index in (layout.edge_variable, layout.edge_factor))
    return factor.new_zeros(layout.graph.variables).index_add(0, owner, factor[which])


class Counting(ABC):
    """A rule that gives every graph its counting numbers."""

    @abstractmethod
    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        """Counting numbers of ``graph``."""


@dataclass(frozen=True)
class Bethe(Counting):
    r""":math:`c_\alpha = 1`, :math:`c_i = 1 - d_i`: ordinary belief propagation."""

    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        layout = graph.layout
        if Bethe not in layout.kept:  # asked for at every call
            layout.kept[Bethe] = CountingNumbers(np.ones(layout.message_factors), np.ones(graph.variables))
        kept: CountingNumbers = layout.kept[Bethe]
        return kept


@dataclass(frozen=True)
class Reweighted(Counting):
    r""":math:`c_\alpha = \rho_\alpha`, :math:`c_i = 1 - \sum_{\alpha\ni i}\rho_\alpha`.

    ``rho``: one number, or ``{group: number or [factors]}`` for the groups of arity 2 and more; tensors among them may
    want a gradient. Structured factors count as 1 unless they are named.
    """

    rho: float | Tensor | Mapping[str, ArrayLike | Tensor]

    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        pieces, tensors = [], []
        for name, count in graph.layout.named_factors:
            if isinstance(self.rho, Mapping) and name in self.rho:
                tensors.append(_tensor(self.rho[name]))
            elif graph.structured_group(name) is not None:
                tensors.append(_tensor(1.0))
            elif isinstance(self.rho, Mapping):
                raise ValueError(f"no rho for group {name!r}; given are {list(self.rho)}")
            else:
                tensors.append(_tensor(self.rho))
            given = tensors[-1].detach().numpy()
            if given.shape not in ((), (1,), (count,)):
                raise ValueError(
                    f"rho of group {name!r} has shape {given.shape}, not one number or {count} of them; "
                    "give one of these"
                )
            pieces.append(np.broadcast_to(given, (count,)))
        rho = np.concatenate([*pieces, np.zeros(0)])
        bad = np.flatnonzero(~(rho > 0) | ~np.isfinite(rho))
        if bad.size:
            raise ValueError(f"rho must be positive and finite; factor {bad[0]} (of arity 2 or more) has {rho[bad[0]]}")
        ones = np.ones(graph.variables)
        if not any(given.requires_grad for given in tensors):
            return CountingNumbers(rho, ones)
        counts = [count for _, count in graph.layout.named_factors]
        whole = torch.cat([given.expand(count) for given, count in zip(tensors, counts, strict=True)])
        return CountingNumbers(rho, ones, (whole, torch.from_numpy(ones)))


@dataclass(frozen=True)
class ExplicitCounting(Counting):
    r"""Any counting numbers: :math:`c_\alpha` by group, and :math:`c_i` ``[variables]`` (condition P is checked)."""

    factor: Mapping[str, ArrayLike | Tensor]
    variable: ArrayLike | Tensor

    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        weights = Reweighted(self.factor).numbers(graph)
        variable = _tensor(self.variable).expand(graph.variables)
        own = variable.detach().numpy()
        shift = weights.total - weights.variable(graph.layout)
        total = own + shift
        bad = np.flatnonzero(~(total > 0))
        if bad.size:
            raise ValueError(
                f"counting numbers of variable {bad[0]} and its factors add up to {total[bad[0]]:g}; "
                "they must be positive (condition P); "
                "raise them"
            )
        if weights.trained is None and not variable.requires_grad:
            return CountingNumbers(weights.factor, total)
        factor = weights.tensors(variable)[0]
        return CountingNumbers(weights.factor, total, (factor, variable + _inside(factor, graph.layout)))


@dataclass(frozen=True)
class SpanningTrees(Counting):
    r"""Edge appearance probabilities of spanning trees; a valid TRW bound on any graph.

    Connected parts of pairwise graphs with up to ``exact_limit`` variables: :math:`\rho_e` is the effective resistance
    of the edge (the uniform spanning tree). Larger ones: the average over random-weight minimum spanning trees,
    continued until every edge has appeared. Parallel edges share their pair's probability. With factors of arity above
    2 there are no spanning trees: :math:`c_\alpha = \min_{i\in\alpha} 1/d_i`, which keeps every :math:`c_i \ge 0`
    (Shearer's bound).
    """

    exact_limit: int = 2000
    trees: int = 50
    seed: int = 0

    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        layout = graph.layout
        if graph.structured or any(member.group.arity > 2 for member in layout.message_groups):
            least = np.full(layout.message_factors, np.inf)
            np.minimum.at(least, layout.edge_factor, 1.0 / layout.degrees[layout.edge_variable])
            return CountingNumbers(least, np.ones(graph.variables))
        ends = layout.edge_variable.reshape(-1, 2)
        pairs, place, copies = _distinct_pairs(ends)
        component, _ = layout.components
        rho = np.ones(len(pairs))
        for rows in _same(component[pairs[:, 0]]):  # each by itself: parts of a union keep what they have alone
            rho[rows] = self._appearance(pairs[rows])
        return CountingNumbers(rho[place] / copies[place], np.ones(graph.variables))

    def _appearance(self, pairs: NDArray[np.int64]) -> Floats:
        """Probabilities of the edges of one component."""
        members, local = np.unique(pairs, return_inverse=True)
        if len(pairs) < len(members):
            return np.ones(len(pairs))  # a tree
        local = local.reshape(pairs.shape)
        if len(members) <= self.exact_limit:
            return effective_resistance(len(members), local)
        return _sampled_appearance(len(members), local, self.trees, self.seed)


@dataclass(frozen=True)
class MonotonicChains(Counting):
    r"""Uniform :math:`\rho = 1/N`, for which the sequential schedule is TRW-S and cannot fail to converge.

    The edges of a pairwise graph split into chains that are monotonic in the visiting order, so that at most
    :math:`N = \max_i \max(\text{earlier}, \text{later neighbours of } i)` pass through any variable (Kolmogorov 2006).
    """

    def numbers(self, graph: FactorGraph) -> CountingNumbers:
        layout = graph.layout
        if graph.structured or any(member.group.arity > 2 for member in layout.message_groups):
            raise ValueError(
                "monotonic chains need a pairwise graph; use SpanningTrees() with factors of arity above 2"
            )
        order = layout.sequential
        earlier = np.bincount(layout.edge_variable[order.pull_forward], minlength=graph.variables)
        later = np.bincount(layout.edge_variable[order.pull_backward], minlength=graph.variables)
        chains = max(1, int(np.maximum(earlier, later).max(initial=0)))
        return Reweighted(1.0 / chains).numbers(graph)


def effective_resistance(variables: int, pairs: NDArray[np.int64]) -> Floats:
    r""":math:`\rho_{ij} = (e_i - e_j)^\top L^+ (e_i - e_j)`: the probability of edge ij in a uniform spanning tree.

    Dense, cubic in the number of variables; :math:`\sum_e \rho_e = n - \#\text{components}`.
    """
    laplacian = np.zeros((variables, variables))
    np.add.at(laplacian, (pairs[:, 0], pairs[:, 1]), -1.0)
    np.add.at(laplacian, (pairs[:, 1], pairs[:, 0]), -1.0)
    laplacian[np.arange(variables), np.arange(variables)] = -laplacian.sum(axis=1)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    diagonal = np.diag(inverse)
    rho: Floats = diagonal[pairs[:, 0]] + diagonal[pairs[:, 1]] - 2 * inverse[pairs[:, 0], pairs[:, 1]]
    rho[rho > 1 - 1e-9] = 1.0  # a bridge is in every tree: rounding must not make a tree look loopy
    return np.maximum(rho, 1e-12)


def _same(labels: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The places of each label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []


def _distinct_pairs(ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    pairs, place, copies = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True, return_counts=True)
    return pairs, place.reshape(-1), copies


def _sampled_appearance(variables: int, pairs: NDArray[np.int64], trees: int, seed: int) -> Floats:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree

    rng = np.random.default_rng(seed)
    key = pairs[:, 0] * variables + pairs[:, 1]
    counts = np.zeros(len(pairs))
    drawn = 0
    while drawn < trees or (counts == 0).any():
        # Unseen edges come first, so that a few more trees than `trees` cover the graph.
        weights = rng.random(len(pairs)) + np.where(counts == 0, 1.0, 2.0)
        tree = minimum_spanning_tree(csr_matrix((weights, (pairs[:, 0], pairs[:, 1])), (variables, variables))).tocoo()
        low, high = np.minimum(tree.row, tree.col), np.maximum(tree.row, tree.col)
        counts[np.searchsorted(key, low.astype(np.int64) * variables + high)] += 1
        drawn += 1
    return counts / drawn


@dataclass(frozen=True)
class Concavity:
    """Answer of :func:`check_concavity`: ``slack`` is how far the conditions are met (negative: violated)."""

    concave: bool
    slack: float
    reason: str = field(default="")

    def __bool__(self) -> bool:
        return self.concave


def check_concavity(graph: FactorGraph, counting: Counting) -> Concavity:
    r"""Whether the counting numbers make the entropy concave over the local polytope (Heskes 2006).

    Sufficient: there are :math:`t_{\alpha i}\ge 0` with :math:`\sum_{i\in\alpha} t_{\alpha i}\le c_\alpha` and
    :math:`c_i + \sum_{\alpha\ni i} t_{\alpha i}\ge 0`. A linear programme with one variable an edge that finds the
    largest slack of the second condition.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, hstack, vstack

    layout = graph.layout
    numbers = counting.numbers(graph)
    own = numbers.variable(layout)
    if not layout.edges:
        slack = float(own.min(initial=np.inf))
        return Concavity(slack >= 0, slack)
    ones, edges = np.ones(layout.edges), np.arange(layout.edges)
    spend = coo_matrix((ones, (layout.edge_factor, edges)), (layout.message_factors, layout.edges))
    gain = coo_matrix((-ones, (layout.edge_variable, edges)), (graph.variables, layout.edges))
    slack_column = coo_matrix(np.concatenate([np.zeros(layout.message_factors), np.ones(graph.variables)])[:, None])
    matrix = hstack([vstack([spend, gain]), slack_column]).tocsr()
    solution = linprog(
        np.concatenate([np.zeros(layout.edges), [-1.0]]),
        A_ub=matrix,
        b_ub=np.concatenate([numbers.factor, own]),
        bounds=[(0, None)] * layout.edges + [(None, 1.0)],
        method="highs",
    )
    if not solution.success:
        raise ValueError(f"the concavity test could not be solved: {solution.message}")
    slack = float(solution.x[-1])
    holds = slack >= -1e-9  # the solver's own feasibility tolerance
    return Concavity(holds, slack, "" if holds else f"some c_i stays {-slack:.3g} below what its factors can lend it")


def concave_scaling(graph: FactorGraph, counting: Counting, steps: int = 30) -> ExplicitCounting:
    r"""Scales all :math:`c_\alpha` down, keeping :math:`\hat c_i`, until :func:`check_concavity` passes."""
    layout = graph.layout
    numbers = counting.numbers(graph)

    def scaled(share: float) -> ExplicitCounting:
        factor = numbers.factor * share
        rule = CountingNumbers(factor, numbers.total)
        pieces, first = {}, 0
        for name, count in layout.named_factors:
            pieces[name] = factor[first : first + count]
            first += count
        return ExplicitCounting(pieces, rule.variable(layout))

    if check_concavity(graph, scaled(1.0)):
        return scaled(1.0)
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        if check_concavity(graph, scaled(middle)):
            low = middle
        else:
            high = middle
    return scaled(low)
