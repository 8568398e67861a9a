r"""A grammar of your own as one factor: inside-outside on any acyclic hypergraph.

In: log messages on variables. Out: messages, log-partition, best assignment, samples. Stage: structure. A *derivation*
of the root (a hyperedge into it, then one into each of that hyperedge's tails, and so on) gives its variables the
values that its hyperedges *fire*; variables that none fires take their default value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.hypergraph_messages import HypergraphMessages
from loopwise.graph.structured.kernels.limits import BEYOND, HARD, LEAST, MOSTLY
from loopwise.graph.structured.one_of import log_sum
from loopwise.notices import GradientError

Hyperedge = tuple[int, Sequence[int], Sequence[tuple[int, int]]]  # head, tails, values fired (variable, value)


@dataclass(frozen=True)
class Hypergraph(StructuredFactor):
    r"""Any program of sums of products over items (parsing, alignment, segmentation) as a factor.

    .. math:: \beta_i=\sum_{e\in I(i)}w_e\prod_{j\in T(e)}\beta_j,\qquad Z=\beta_{root}

    Time is linear in the hyperedges, and so is that of messages but for variables with a default value that are mostly
    fired: each takes a pass of its own, so that nothing is lost by subtraction.

    Parameters
    ----------
    sizes: cardinalities of the variables.
    hyperedges: (head, tails, fired) each, nodes being numbers from 0 and fired a list of (variable, value); the order
        is free, cycles are not. No derivation may fire a variable twice.
    root: the node whose derivations are summed up.
    defaults: the value of a variable that a derivation does not fire, None for one that every derivation fires.
    weighted: whether hyperedges have log-potentials of their own, ``[hyperedges]``.

    >>> import torch
    >>> either = Hypergraph((2,), ((0, (), ((0, 0),)), (0, (), ((0, 1),))), root=0)  # one variable, two ways to set it
    >>> round(float(either.log_partition(torch.zeros(2, dtype=torch.float64)).exp()))
    2
    """

    compiled = HypergraphMessages

    sizes: tuple[int, ...]
    hyperedges: tuple[Hyperedge, ...]
    root: int
    defaults: tuple[int | None, ...] | None = None
    weighted: bool = False

    def __post_init__(self) -> None:
        edges = tuple(
            (int(h), tuple(map(int, t)), tuple((int(v), int(x)) for v, x in f)) for h, t, f in self.hyperedges
        )
        defaults = (None,) * len(self.sizes) if self.defaults is None else tuple(self.defaults)
        object.__setattr__(self, "hyperedges", edges)
        object.__setattr__(self, "defaults", defaults)
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        self._check(edges, defaults)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def potentials_shape(self) -> tuple[int, ...] | None:
        return (len(self.hyperedges),) if self.weighted else None

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        relative, common, hard = self._relative(incoming, potentials)
        weights, _ = self._weights(relative, potentials)
        total = _inside_outside(self, weights)[0] + common
        return torch.where(total > -hard / 2, total, -torch.inf)

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        relative, common, hard = self._relative(incoming, potentials)
        weights, rest = self._weights(relative, potentials)
        total, gradient = _inside_outside(self, weights)
        self.refuse(~(total + common > -hard / 2))
        edge, slot = self._pairs
        fired = gradient[..., torch.tensor(edge, device=incoming.device)] + rest  # [*batch, pairs]
        messages = self._sum_by_slot(fired, torch.tensor(slot, device=incoming.device))
        if self._default_slots.size:
            messages = self._with_defaults(messages, incoming, potentials, total)
        found = self.normalised(messages)
        return torch.where(found < -hard[..., None] / 2, -torch.inf, found)  # only by what is never

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._derived(incoming, potentials, 1, None)[0]

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        return self._derived(incoming, potentials, count, generator)

    def _relative(self, incoming: Tensor, potentials: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Messages less those of their variable's default value, the sum of the latter, and the nats that stand for one
        that is ruled out."""
        if not self._default_slots.size:
            none = incoming.new_zeros(incoming.shape[:-1])
            return incoming, none, none + HARD
        places = torch.tensor(self._default_slots, device=incoming.device)
        owners = torch.tensor(self.slot_variable[self._default_slots], device=incoming.device)
        hard = self._never(incoming, potentials)
        given = torch.maximum(incoming[..., places], -hard[..., None])
        base = given.new_zeros(*given.shape[:-1], self.arity).index_copy(-1, owners, given)
        return incoming - base[..., torch.tensor(self.slot_variable, device=incoming.device)], base.sum(-1), hard

    @torch.no_grad()
    def _never(self, incoming: Tensor, potentials: Tensor | None) -> Tensor:
        """Nats below any score that stand for a default value which is ruled out."""
        places = torch.tensor(self._default_slots, device=incoming.device)
        owners = torch.tensor(self.slot_variable[self._default_slots], device=incoming.device)
        given = incoming[..., places]
        ruled_out = torch.isneginf(given)
        hard = incoming.new_full(incoming.shape[:-1], HARD)
        if not bool(ruled_out.any()):
            return hard
        base = incoming.new_zeros(*incoming.shape[:-1], self.arity)
        base = base.index_copy(-1, owners, torch.where(ruled_out, 0.0, given))
        relative = (incoming - base[..., torch.tensor(self.slot_variable, device=incoming.device)]).abs()
        sizes, _ = self._weights(torch.where(torch.isinf(relative), 0.0, relative), None)
        if potentials is not None:
            sizes = sizes + torch.where(torch.isneginf(potentials), potentials, potentials.abs())
        most = base.abs().sum(-1) + _inside_outside(self, sizes)[0].clamp(min=0.0)
        return torch.where(ruled_out.any(-1), (LEAST + BEYOND * most).clamp(max=HARD), hard)

    def _weights(self, relative: Tensor, potentials: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log weights of hyperedges, and for each pair (hyperedge, slot it fires) the weight without that slot."""
        edge, slot = (torch.tensor(index, device=relative.device) for index in self._pairs)
        value = relative[..., slot]
        never = torch.isneginf(value)
        finite = torch.where(never, 0.0, value)
        shape = (*relative.shape[:-1], len(self.hyperedges))
        total = relative.new_zeros(shape).index_add(-1, edge, finite)
        count = relative.new_zeros(shape).index_add(-1, edge, never.to(relative.dtype))
        if potentials is not None:
            total = total + potentials
        weights = torch.where(count > 0, -torch.inf, total)
        rest = torch.where(count[..., edge] - never.to(relative.dtype) > 0, -torch.inf, total[..., edge] - finite)
        return weights, rest

    def _sum_by_slot(self, values: Tensor, slot: Tensor) -> Tensor:
        shape = (*values.shape[:-1], self.slots)
        high = torch.full(shape, -torch.inf, dtype=values.dtype, device=values.device)
        high = high.scatter_reduce(-1, slot.expand(values.shape), values.detach(), "amax")
        high = torch.where(torch.isneginf(high), 0.0, high)
        dead = torch.isneginf(values)
        terms = torch.where(dead, 0.0, torch.exp(torch.where(dead, 0.0, values) - high[..., slot]))
        total = values.new_zeros(shape).index_add(-1, slot, terms)
        empty = total == 0
        return torch.where(empty, -torch.inf, torch.log(torch.where(empty, 1.0, total)) + high)

    def _with_defaults(self, messages: Tensor, incoming: Tensor, potentials: Tensor | None, total: Tensor) -> Tensor:
        """Fills in the default slots: Z less what the other values of the variable weigh, or, where little would be
        left of it, an inside pass of its own."""
        relative, common, hard = self._relative(incoming, potentials)
        pieces, given = (list(torch.split(values, list(self.sizes), -1)) for values in (messages, relative))
        for variable, value in enumerate(self.defaults or ()):
            if value is None:
                continue
            first, own = int(self.slot_start[variable]), pieces[variable]
            others = [place for place in range(self.sizes[variable]) if place != value]
            share = torch.exp(log_sum((own + given[variable])[..., others]) - total)
            likely = share > MOSTLY
            default = total + torch.log1p(-torch.where(likely, 0.0, share))
            if bool(likely.any()):
                held = incoming.new_full((self.sizes[variable],), -torch.inf)
                held[value] = 0.0
                held = held.expand(*incoming.shape[:-1], -1)
                moved = torch.cat([incoming[..., :first], held, incoming[..., first + len(others) + 1 :]], -1)
                scale = common - torch.maximum(incoming[..., first + value], -hard)
                default = torch.where(likely, self.log_partition(moved, potentials) - scale, default)
            pieces[variable] = torch.cat([own[..., :value], default[..., None], own[..., value + 1 :]], -1)
        return torch.cat(pieces, -1)

    def _derived(
        self, incoming: Tensor, potentials: Tensor | None, count: int, generator: np.random.Generator | None
    ) -> Tensor:
        from loopwise.graph.structured.kernels.hypergraph import hypergraph_derive

        given = None if potentials is None else potentials.detach()
        relative, common, hard = self._relative(incoming.detach(), given)
        weights, _ = self._weights(relative, given)
        flat = self._ordered(weights).to("cpu", torch.float64).numpy()
        used = np.zeros((count, len(flat), len(self.hyperedges)), dtype=np.bool_)
        scores = np.empty(len(flat))
        for example, row in enumerate(flat):
            uniforms = np.empty((count, 0)) if generator is None else generator.random((count, self._nodes))
            found, total = np.zeros((count, len(self.hyperedges)), dtype=np.bool_), np.empty(count)
            hypergraph_derive(self.arrays, row, uniforms, found, total)
            used[:, example], scores[example] = found, total[0]
        self.refuse(~(torch.from_numpy(scores).reshape(common.shape) + common.cpu().double() > -hard.cpu() / 2))
        values = np.tile([0 if value is None else value for value in self.defaults or ()], (count, len(flat), 1))
        slot = self._pairs[1]
        sample, where, pair = np.nonzero(used[:, :, self.fired[0]])
        owner = self.slot_variable[slot[pair]]
        values[sample, where, owner] = slot[pair] - self.slot_start[owner]
        return torch.from_numpy(values).reshape(count, *incoming.shape[:-1], self.arity).to(incoming.device)

    def _ordered(self, weights: Tensor) -> Tensor:
        """Weights ``[examples, hyperedges]`` in bottom-up order."""
        return weights.reshape(-1, weights.shape[-1])[:, torch.tensor(self.order, device=weights.device)]

    @cached_property
    def _pairs(self) -> tuple[Integers, Integers]:
        """Hyperedge and slot of everything fired."""
        pairs = [(e, self.slot_start[v] + x) for e, (_, _, fired) in enumerate(self.hyperedges) for v, x in fired]
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return array[:, 0].copy(), array[:, 1].copy()

    @cached_property
    def fired(self) -> tuple[Integers, Integers]:
        """The same, hyperedges numbered bottom-up."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        return place[self._pairs[0]], self._pairs[1]

    @cached_property
    def default_slots(self) -> Integers:
        """The slot of each variable's default value, -1 where it has none."""
        found = [-1 if x is None else self.slot_start[v] + x for v, x in enumerate(self.defaults or ())]
        return np.array(found, dtype=np.int64)

    @cached_property
    def _default_slots(self) -> Integers:
        found = [self.slot_start[v] + x for v, x in enumerate(self.defaults or ()) if x is not None]
        return np.array(found, dtype=np.int64)

    @cached_property
    def _nodes(self) -> int:
        return 1 + max([self.root, *(node for head, tails, _ in self.hyperedges for node in (head, *tails))])

    @cached_property
    def order(self) -> Integers:
        """Hyperedges bottom-up: sorted by the height of their heads."""
        return np.argsort(
            _heights(self.hyperedges, self._nodes)[[head for head, _, _ in self.hyperedges]], kind="stable"
        )

    @cached_property
    def arrays(self) -> Any:
        from loopwise.graph.structured.kernels.hypergraph import HypergraphArrays

        edges = [self.hyperedges[number] for number in self.order]
        head = np.array([edge[0] for edge in edges], dtype=np.int64)
        into = np.bincount(head, minlength=self._nodes)
        return HypergraphArrays(
            head,
            starts_of([len(edge[1]) for edge in edges]),
            np.array([tail for edge in edges for tail in edge[1]], dtype=np.int64),
            into == 0,
            starts_of(into),
            np.argsort(head, kind="stable"),
            self.root,
        )

    def _check(self, edges: tuple[Hyperedge, ...], defaults: tuple[int | None, ...]) -> None:
        if len(defaults) != len(self.sizes):
            raise ValueError(
                f"{len(defaults)} default values for {len(self.sizes)} variables; "
                "give one for each, None where there is none"
            )
        if not any(head == self.root for head, _, _ in edges):
            raise ValueError(f"no hyperedge leads into the root, node {self.root}; add one, or name another root")
        for number, (head, tails, fired) in enumerate(edges):
            if min([head, *tails]) < 0:
                raise ValueError(f"hyperedge {number} names node {min([head, *tails])}; nodes are numbered from 0")
            for variable, value in fired:
                if not (0 <= variable < len(self.sizes) and 0 <= value < self.sizes[variable]):
                    raise ValueError(
                        f"hyperedge {number} fires value {value} of variable {variable}, which is not there; "
                        f"variables have {list(self.sizes)} values"
                    )
                if defaults[variable] == value:
                    raise ValueError(
                        f"hyperedge {number} fires value {value} of variable {variable}, its default; "
                        "edges fire other values only"
                    )
        for variable, (size, default) in enumerate(zip(self.sizes, defaults, strict=True)):
            if default is not None and not 0 <= default < size:
                raise ValueError(
                    f"variable {variable} has no value {default} that could be its default; "
                    f"use 0 to {size - 1}, or None"
                )
        _heights(edges, self._nodes)


class _HypergraphMarginals(torch.autograd.Function):
    """log Z ``[examples]`` and log dZ/dw of log weights ``[examples, hyperedges]`` in bottom-up order."""

    @staticmethod
    def forward(ctx: Any, factor: Hypergraph, weights: Tensor) -> tuple[Tensor, Tensor]:
        from loopwise.graph.structured.kernels.hypergraph import hypergraph_forward

        flat = weights.detach().to("cpu", torch.float64).contiguous().numpy()
        total, gradient = np.empty(len(flat)), np.empty(flat.shape)
        hypergraph_forward(factor.arrays, flat, total, gradient)
        ctx.factor = factor
        ctx.save_for_backward(weights)
        return torch.from_numpy(total).to(weights), torch.from_numpy(gradient).to(weights)

    @staticmethod
    def backward(ctx: Any, total_adjoint: Tensor, gradient_adjoint: Tensor) -> tuple[None, Tensor]:
        (weights,) = ctx.saved_tensors
        pulled: Tensor = _HypergraphBack.apply(ctx.factor, weights, total_adjoint, gradient_adjoint)  # type: ignore[no-untyped-call]
        return None, pulled


class _HypergraphBack(torch.autograd.Function):
    """The backward, which is not differentiated again."""

    @staticmethod
    def forward(ctx: Any, factor: Hypergraph, weights: Tensor, total: Tensor, gradient: Tensor) -> Tensor:
        from loopwise.graph.structured.kernels.hypergraph import hypergraph_backward

        flat, total_adjoint, gradient_adjoint = (
            value.detach().to("cpu", torch.float64).contiguous().numpy() for value in (weights, total, gradient)
        )
        adjoint = np.empty(flat.shape)
        hypergraph_backward(factor.arrays, flat, total_adjoint, gradient_adjoint, adjoint)
        return torch.from_numpy(adjoint).to(weights)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple[None, ...]:
        raise GradientError("a Hypergraph factor is differentiated once; use a dense table for Hessian-vector products")


def _inside_outside(factor: Hypergraph, weights: Tensor) -> tuple[Tensor, Tensor]:
    """log Z ``[*batch]`` and log dZ/dw ``[*batch, hyperedges]``, in the user's order."""
    total, gradient = _HypergraphMarginals.apply(factor, factor._ordered(weights))  # type: ignore[no-untyped-call]
    back = np.argsort(factor.order)
    gradient = gradient[:, torch.tensor(back, device=weights.device)]
    return total.reshape(weights.shape[:-1]), gradient.reshape(weights.shape)


def _heights(edges: Sequence[Hyperedge], nodes: int) -> Integers:
    """Longest way down from each node; ValueError on a cycle."""
    heights, waiting, risen = np.zeros(nodes, dtype=np.int64), list(range(len(edges))), 0
    for _ in range(nodes + 1):
        changed = False
        for number in waiting:
            head, tails, _ = edges[number]
            least = 1 + max((int(heights[tail]) for tail in tails), default=0)
            if least > heights[head]:
                heights[head], changed, risen = least, True, head
        if not changed:
            return heights
    raise ValueError(f"the hyperedges form a cycle: node {risen} would derive itself; remove one of its hyperedges")
