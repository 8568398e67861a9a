"""The call that every inference method shares.

In: a graph, log-potentials, evidence. Out: :class:`Beliefs` over the whole graph. Stage: inference.
A method only implements :meth:`Inference.run`, on a graph without evidence; checking the input, slicing
observed variables away and putting their point masses back happens here, once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Gradient
from loopwise.graph.conditioning import Conditioning
from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, StructuredGroup
from loopwise.graph.layout import StructuredMember
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.operator import opaque, transformed, transforms
from loopwise.inference.messages.structured import own_batches, split_potentials, to_table_factors
from loopwise.inference.normalise import normalised_messages
from loopwise.lazy import renamed
from loopwise.notices import ImpossibleError, in_example
from loopwise.potentials.checks import LARGEST, Extent, Own, alike, broadcast_batches, checked_tables
from loopwise.potentials.conditioning import restore_factors, restore_variables, slice_tables
from loopwise.potentials.fold import fold_constants, fold_unary

COLDEST = 1e-7  # of all temperatures but 0, the joint maximum: below, nothing but the maximum is left to see
KEPT_PLANS = 4  # slicings of evidence that a graph remembers


@dataclass(frozen=True)
class Problem:
    """A graph without evidence and its checked log-potentials: what a method's ``run`` is given.

    ``tables[name]`` is ``[*b, factors or 1, *shape]`` with ``b`` broadcastable to ``batch``.
    """

    graph: FactorGraph
    tables: Mapping[str, Tensor]
    batch: torch.Size
    like: Tensor  # an empty tensor with the dtype and device to use
    initial: Tensor | None = None  # log messages [*b, slots] to start from
    folded: Tensor | None = None  # unary log-potentials [*b, states] that replace those of the tables of arity 1
    structured: Mapping[str, Own] = field(default_factory=dict)  # potentials of structured factors, where they have any
    extents: dict[str, Extent] = field(default_factory=dict)  # of the tables, as far as they are known
    conditioning: Conditioning | None = None  # how evidence made the graph of a larger one

    def unary(self) -> Tensor:
        """Folded unary log-potentials ``[*b, states]``."""
        return self._unary if self.folded is None else self.folded

    @cached_property
    def _unary(self) -> Tensor:
        return fold_unary(self.graph.layout, self.tables, self.like)

    def extent(self, name: str) -> Extent:
        """The smallest and largest number of the table of group ``name``."""
        if name not in self.extents:
            self.extents[name] = Extent.of(self.tables[name])
        return self.extents[name]

    def constant(self) -> Tensor:
        """Folded constants ``[*b]``."""
        return fold_constants(self.graph.layout, self.tables, self.like)

    @property
    def differentiable(self) -> bool:
        """Whether a gradient may be asked for later."""
        if not torch.is_grad_enabled():
            return False
        own = [value for values in self.structured.values() for value in values]
        for value in (*self.tables.values(), self.initial, self.folded, *own):
            if value is not None and value.requires_grad:
                return True
        return False

    def table(self, name: str) -> Tensor:
        """The table of group ``name`` with its factor axis expanded, ``[*b, factors, *shape]``."""
        group = self.graph.group(name)
        table = self.tables[name]
        return table.expand(*table.shape[: table.ndim - 1 - group.arity], group.count, *group.shape)

    def factor_potentials(self, member: StructuredMember) -> Tensor | None:
        """The potentials of one structured factor, if it has any."""
        return self.structured[member.name][member.row] if member.name in self.structured else None

    def own(self, member: StructuredMember) -> Tensor | None:
        """:meth:`factor_potentials` by its old name."""
        return cast(
            "Tensor | None", renamed("Problem.own", "Problem.factor_potentials", self.factor_potentials(member))
        )


class Inference(ABC):
    """A way to compute (approximate) marginals. Methods are frozen dataclasses: options in, no state."""

    takes_messages: ClassVar[bool] = False  # whether ``initial`` messages make sense for this method
    takes_structured: ClassVar[bool] = False  # whether structured factors need not be written out as tables
    gradients: ClassVar[tuple[type[Gradient], ...]] = ()  # the estimators that are valid for this method

    @opaque
    def __call__(
        self,
        graph: FactorGraph,
        potentials: object,
        evidence: EvidenceLike = None,
        *,
        initial: Tensor | None = None,
    ) -> Beliefs:
        """Beliefs of ``graph`` under ``potentials`` given ``evidence``.

        ``potentials``: ``{group: [*batch, factors, *shape]}`` log tables, or a module that returns them.
        ``evidence``: ``{variable: value}``, an integer array ``[*batch, variables]`` with -1 for free
        variables, or an :class:`~loopwise.Evidence` (its inputs are clamped). ``initial``: the ``messages``
        of earlier beliefs on this graph, under the same pattern of evidence.
        """
        if transforms() is not None:
            return transformed(self, graph, potentials, evidence, initial)
        if initial is not None and not self.takes_messages:
            raise ValueError(
                f"{type(self).__name__} passes no messages, so it takes no initial ones; leave initial out"
            )
        self.check_graph(graph)
        rest, own = split_potentials(graph, potentials)
        extents: dict[str, Extent] = {}
        tables, batch = checked_tables(graph, rest, extents)
        if own:
            tables, own = alike(tables, own)
        values = None if evidence is None else clamped_values(graph, evidence)
        given = list(tables.items())
        if values is not None or own:
            observed = () if values is None else values.shape[:-1]
            try:
                batch = broadcast_batches(batch, observed, *own_batches(graph, own))
            except RuntimeError:
                raise ValueError(
                    f"evidence for {observed} examples does not fit potentials for {tuple(batch)}; "
                    "give both for the same batch, or one of them without"
                ) from None
            given += [(name, value) for name, each in own.items() for value in each if value is not None]
        like = given[0][1].new_empty(0) if given else torch.empty(0, dtype=torch.float64)
        device = like.device.type
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):  # inference is never narrowed
                weighted = {group.name: own[group.name] for group in graph.structured if group.weighted}
                return self(graph, {**tables, **weighted}, evidence, initial=initial)
        if graph.structured and not self.takes_structured:
            found = _over(graph, self(*to_table_factors(graph, tables, own, like), evidence, initial=initial))
        elif values is None or (values == FREE).all():
            problem = Problem(graph, tables, batch, like, structured=own, extents=extents)
            _check_possible(problem)
            found = self.run(_started(problem, initial))
        else:
            found = self._run_conditioned(graph, tables, batch, values, like, initial, own)
        found.remember("the potentials of group {!r} were", given)
        found.call = (self, graph, potentials, evidence)
        return found

    def check_graph(self, graph: FactorGraph) -> None:  # noqa: B027 (most options fit every graph)
        """Refuses a graph, as the user gave it, that the options do not fit."""

    @abstractmethod
    def run(self, problem: Problem) -> Beliefs:
        """Beliefs of a problem without evidence."""

    def _run_conditioned(
        self,
        graph: FactorGraph,
        tables: Mapping[str, Tensor],
        batch: torch.Size,
        values: np.ndarray,
        like: Tensor,
        initial: Tensor | None,
        own: Mapping[str, Own],
    ) -> Beliefs:
        plan = _conditioning(graph, values)
        clamped = torch.tensor(values, device=like.device)
        sliced = slice_tables(plan, tables, clamped, like)
        problem = Problem(plan.graph, sliced, batch, like, structured=own, conditioning=plan)
        _check_possible(problem, plan)
        inner = self.run(_started(problem, initial))
        return Beliefs(
            graph,
            restore_variables(plan, inner.states, clamped),
            lambda name: (
                restore_factors(plan, name, inner.factor, clamped, batch, like)
                if graph.structured_group(name) is None
                else inner.factor(name)  # structured factors keep their variables
            ),
            lambda: inner.log_partition,
            inner.status,
            lambda: inner.messages,
            lambda: _restore_assignment(plan, inner.assignment, clamped),
            trace=None if inner.trace is None else restore_variables(plan, inner.trace, clamped),
            gradient=inner.gradient,
            bounds=lambda: inner.log_partition_bounds,
        )


def _over(graph: FactorGraph, found: Beliefs) -> Beliefs:
    """Beliefs of the model with structured factors from those of the same model in tables."""

    def factor(name: str) -> Tensor:
        group = graph.structured_group(name)
        return found.factor(name) if group is None else scope_marginals(graph, group, found.states)

    notes = (*found.status.notes, "structured factors were written out as tables")
    return Beliefs(
        graph,
        found.states,
        factor,
        lambda: found.log_partition,
        replace(found.status, notes=notes),
        assignment=lambda: found.assignment,
        trace=found.trace,
        gradient=found.gradient,
        bounds=lambda: found.log_partition_bounds,
    )


def scope_marginals(graph: FactorGraph, group: StructuredGroup, states: Tensor) -> Tensor:
    """Beliefs of the variables of structured factors, one scope after another, ``[*batch, slots]``."""
    start, sizes = graph.layout.state_start, graph.cardinalities
    places = [np.arange(start[v], start[v] + sizes[v]) for scope in group.scopes for v in scope]
    return states[..., torch.tensor(np.concatenate(places), device=states.device)]


def check_temperature(problem: Problem, temperature: float) -> None:
    """Raises if some potential over the temperature would leave what is allowed for potentials."""
    if temperature == 0 or temperature >= 1:
        return
    limit = LARGEST.get(problem.like.dtype, math.inf)
    for name, table in problem.tables.items():
        finite = torch.where(torch.isneginf(table), 0.0, table.detach())
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        if largest / temperature >= limit:
            raise ValueError(
                f"potentials of group {name!r} of up to {largest:.3g} over a temperature of {temperature:g} overflow; "
                "temperature=0 asks for the joint maximum"
            )


def _started(problem: Problem, initial: Tensor | None) -> Problem:
    if initial is None:
        return problem
    slots = problem.graph.layout.slots
    initial = torch.as_tensor(initial)
    if initial.ndim == 0 or initial.shape[-1] != slots:
        raise ValueError(
            f"initial messages of shape {tuple(initial.shape)} do not fit: with this evidence the graph has "
            f"{slots} slots"
        )
    if not bool((initial < torch.inf).all()):
        raise ValueError("initial messages hold NaN or +inf; they must be log messages")
    try:
        initial = initial.to(problem.like).expand(*problem.batch, slots)
    except RuntimeError:
        raise ValueError(
            f"initial messages for {tuple(initial.shape[:-1])} examples do not fit a batch of {tuple(problem.batch)}; "
            "give one row for each example"
        ) from None
    # Messages count up to a factor: from here on they are normalised, also those that no sweep will touch.
    return replace(problem, initial=normalised_messages(problem.graph.layout, initial))


def _conditioning(graph: FactorGraph, values: np.ndarray) -> Conditioning:
    observed = values.reshape(-1, graph.variables) != FREE
    always, ever = observed.all(axis=0), observed.any(axis=0)
    key = (always.tobytes(), ever.tobytes())
    plan: Conditioning | None = graph.conditioned.get(key)
    if plan is None:
        plan = Conditioning.of(graph, always, ever & ~always)
        recent = dict(list(graph.conditioned.items())[1 - KEPT_PLANS :])
        graph.conditioned = {**recent, key: plan}  # replaced, not changed: another thread may be reading it
    return plan


def _restore_assignment(plan: Conditioning, assignment: Tensor, values: Tensor) -> Tensor:
    batch = broadcast_batches(assignment.shape[:-1], values.shape[:-1])
    full = values.expand(*batch, values.shape[-1]).clone()
    free = torch.tensor(plan.free, device=full.device)
    return full.index_copy(-1, free, assignment.to(full.dtype).expand(*batch, assignment.shape[-1]))


def _check_possible(problem: Problem, plan: Conditioning | None = None) -> None:
    """Finds contradictions that need no inference: a constant of -inf, a variable without a possible value.

    Those that only messages can find are the method's to report.
    """
    graph = problem.graph
    layout = graph.layout
    if not any(
        problem.extent(group.name).low == -math.inf for group in (*layout.constant_groups, *layout.unary_groups)
    ):
        return
    unary = problem.unary()
    with torch.no_grad():
        for group in layout.constant_groups:
            dead = torch.isneginf(problem.table(group.name)).nonzero()
            if len(dead):
                *example, row = dead[0].tolist()
                raise ImpossibleError(_name_constant(group.name, row, plan) + in_example(example))
        alive = torch.zeros(*unary.shape[:-1], graph.variables, dtype=torch.int64, device=unary.device)
        owner = torch.tensor(graph.layout.state_variable, device=unary.device)
        alive.index_add_(-1, owner, (~torch.isneginf(unary)).to(torch.int64))
        dead = (alive == 0).nonzero()
        if len(dead):
            *example, variable = dead[0].tolist()
            raise ImpossibleError(_name_variable(variable, plan) + in_example(example))


def _name_constant(name: str, row: int, plan: Conditioning | None) -> str:
    piece = next((piece for piece in plan.pieces if piece.target == name), None) if plan else None
    if plan is None or piece is None or piece.untouched:
        return f"factor {row} of group {name!r} is -inf: no configuration is possible"
    factor = int(piece.rows[row])
    scope = plan.source.group(piece.source).scopes[factor].tolist()
    return (
        f"impossible evidence: factor {factor} of group {piece.source!r} forbids the values observed for the "
        f"variables {scope}"
    )


def _name_variable(variable: int, plan: Conditioning | None) -> str:
    if plan is None:
        return f"variable {variable} has no possible value: its unary potentials are all -inf"
    return (
        f"variable {plan.free[variable]} has no possible value: its unary potentials and the evidence on its "
        "neighbours rule out each"
    )
