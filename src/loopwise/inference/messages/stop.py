"""When sweeps end: rules that look at each example after each sweep.

In: beliefs after a sweep. Out: which examples are done. Stage: inference. A rule is given to ``lw.BP`` or ``lw.TRW`` as
``stop=``; ``tolerance=x`` is the short form of ``stop=lw.inference.Tolerance(x)``. The status says which rule ended
each example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.parts import Parts
from loopwise.graph.structured.base import StructuredFactor
from loopwise.inference.base import Problem
from loopwise.inference.by_variable import reduce_variables


class Watch(ABC):
    """A rule at work on one call. Examples are counted through, whatever the shape of the batch."""

    def begin(self, states: Tensor) -> None:  # noqa: B027 (few rules ask)
        """Told once, before the first sweep: the beliefs of all examples, ``[examples, states]``."""

    @abstractmethod
    def fires(self, sweep: int, rows: Integers, states: Tensor) -> Tensor:
        """Which of the examples ``rows``, whose beliefs after sweep ``sweep`` are ``states`` ``[rows, states]``, are
        done: bool ``[rows]``."""


class Stop:
    """A rule that ends the sweeps of an example before ``iterations`` are made."""

    def watch(self, problem: Problem, limit: int) -> Watch | None:
        """The rule at work on ``problem``, sweeps at most ``limit``; None for a tolerance, which engines see to."""
        return None

    def watch_parts(self, problem: Problem, limit: int) -> Watch | None:
        """The same for the parts of a union, which are the examples then: the watch is given their numbers as ``rows``,
        and the beliefs of the whole union, ``[1, states]``. Where a rule says nothing of its own, each part has a watch
        for itself."""
        from loopwise.inference.messages.parts import EachPart

        return None if isinstance(self, Tolerance) else EachPart(self, problem, limit)

    @property
    def each(self) -> tuple[Stop, ...]:
        """The rules of which any one ends a run."""
        return (self,)

    @property
    def tolerance(self) -> float:
        """The largest tolerance among them, 0 for none."""
        return max((rule.value for rule in self.each if isinstance(rule, Tolerance)), default=0.0)

    @property
    def name(self) -> str:
        """How the status calls the rule."""
        return type(self).__name__


@dataclass(frozen=True)
class Tolerance(Stop):
    """Stop when a sweep moves no belief by more than ``value``, nor any message by what could move one so far.

    >>> import loopwise as lw
    >>> lw.BP(stop=lw.inference.Tolerance(1e-4)).tolerance
    0.0001
    """

    value: float = 1e-6

    def __post_init__(self) -> None:
        if not isinstance(self.value, Real) or not self.value > 0:
            raise ValueError(f"a tolerance to stop at must be a number above 0, got {self.value!r}")


@dataclass(frozen=True)
class Satisfied(Stop):
    """Stop when each variable's most probable value, taken together, break no hard constraint: no structured factor
    (a parity check, exactly one of several) rules them out, and no cell of a table they fall into is -inf.

    For decoders, whose answer is right or wrong as a whole; whether messages have come to rest is left open, and so is
    whether beliefs are any good. It is looked at after each sweep, so at least one is made.

    >>> import loopwise as lw
    >>> code = lw.FactorGraph([2] * 3, {"bit": [[0], [1], [2]]}, {"check": (lw.Parity(3), [0, 1, 2])})
    >>> likely = {"bit": torch.tensor([[2.0, 0.0], [0.3, 0.0], [0.0, 1.0]])}  # 0, 0, 1, whose sum is odd
    >>> found = lw.BP(iterations=10, stop=lw.inference.Satisfied())(code, likely)
    >>> found.assignment.tolist(), found.status.stop_rules[found.status.stopped]
    ([0, 1, 1], 'Satisfied')
    """

    def watch(self, problem: Problem, limit: int) -> Watch | None:
        return _Constraints(problem)

    def watch_parts(self, problem: Problem, limit: int) -> Watch | None:
        return _Constraints(problem, Parts.of(problem.graph))


@dataclass(frozen=True, init=False)
class AnyOf(Stop):
    """Stop as soon as one of several rules says so; where two do at once, the status names the first of them.

    >>> import loopwise as lw
    >>> [rule.name for rule in lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-8)).each]
    ['Satisfied', 'Tolerance']
    """

    rules: tuple[Stop, ...]

    def __init__(self, *given: Stop, rules: Sequence[Stop] = ()) -> None:
        object.__setattr__(self, "rules", (*given, *rules))
        if not self.rules:
            raise ValueError("lw.inference.AnyOf() needs at least one rule, such as lw.inference.Satisfied()")
        wrong = next((rule for rule in self.rules if not isinstance(rule, Stop)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is no rule to stop by; give objects such as lw.inference.Satisfied()")

    @property
    def each(self) -> tuple[Stop, ...]:
        return tuple(one for rule in self.rules for one in rule.each)


class Watches:
    """The rules of one call, but for tolerances, and which of them ended each example."""

    def __init__(self, stop: Stop | None, problem: Problem, limit: int, parts: int | None = None) -> None:
        """``parts``: of a union whose parts are the examples, how many there are."""
        self.watches = []
        for place, rule in enumerate(() if stop is None else stop.each):
            watch = rule.watch(problem, limit) if parts is None else rule.watch_parts(problem, limit)
            if watch is not None:
                self.watches.append((place, watch))
        self.stopped = torch.full((problem.batch.numel() if parts is None else parts,), -1)

    def __bool__(self) -> bool:
        return bool(self.watches)

    def begin(self, states: Tensor) -> None:
        """Before the first sweep; ``states``: ``[*batch, states]``."""
        for _, watch in self.watches:
            watch.begin(states.detach().reshape(-1, states.shape[-1]))

    def fire(self, sweep: int, rows: Integers, states: Tensor) -> np.ndarray:
        """Which of ``rows`` are done after a sweep, bool ``[rows]``; ``states``: ``[rows, states]``, of parts all."""
        where = torch.from_numpy(rows)
        with torch.no_grad():
            for place, watch in self.watches:
                fired = watch.fires(sweep, rows, states.detach()).cpu()
                mine = where[fired & (self.stopped[where] < 0)]
                self.stopped[mine] = place
        done: np.ndarray = (self.stopped[where] >= 0).numpy()
        return done


class _Constraints(Watch):
    """All hard constraints of one problem; ``parts``: of each part of a union for itself."""

    def __init__(self, problem: Problem, parts: Parts | None = None) -> None:
        graph, layout = problem.graph, problem.graph.layout
        self.graph, self.parts = graph, parts
        self.tables: list[tuple[Tensor, Tensor, Tensor]] = []  # scopes, strides of cells, -inf [1 or examples, ...]
        for member in layout.message_groups:
            group, table = member.group, problem.table(member.group.name).detach()
            forbidden = torch.isneginf(table)
            if bool(forbidden.any()):
                strides = np.cumprod([1, *group.shape[:0:-1]])[::-1].copy()
                cells = _examples(forbidden.flatten(-group.arity), 2, problem.batch)
                device = cells.device
                self.tables.append((torch.tensor(group.scopes).to(device), torch.tensor(strides).to(device), cells))
        alike: dict[StructuredFactor, list[Any]] = {}
        for structured in layout.structured:
            alike.setdefault(structured.factor, []).append(structured)
        self.structured: list[tuple[StructuredFactor, Tensor, Tensor | None]] = []
        for factor, members in alike.items():
            scopes = torch.tensor(np.stack([graph.structured_scope(one) for one in members]))
            given = [problem.factor_potentials(one) for one in members]
            own = None
            if factor.potentials_shape is not None and given[0] is not None:
                depth = len(factor.potentials_shape)
                each = [_examples(one.detach(), depth, problem.batch) for one in given if one is not None]
                rows = max(len(one) for one in each)
                own = torch.stack([one.expand(rows, *one.shape[1:]) for one in each], 1)
            self.structured.append((factor, scopes.to(problem.like.device), own))

    def fires(self, sweep: int, rows: Integers, states: Tensor) -> Tensor:
        values = reduce_variables(self.graph, lambda block: block.argmax(-1), states).to(torch.int64)
        if self.parts is not None:
            return self._parts_fine(values[0])[torch.from_numpy(rows).to(states.device)]
        which = torch.from_numpy(rows).to(states.device)
        fine = torch.ones(len(rows), dtype=torch.bool, device=states.device)
        for scopes, strides, forbidden in self.tables:
            cells = (values[:, scopes] * strides).sum(-1)
            mine = forbidden[which] if len(forbidden) > 1 else forbidden.expand(len(rows), -1, -1)
            fine &= ~mine.gather(-1, cells[..., None]).any((-1, -2))
        for factor, scopes, own in self.structured:
            mine_own = own if own is None or len(own) == 1 else own[which]
            fine &= factor.allows(values[:, scopes], mine_own).all(-1)
        return fine

    def _parts_fine(self, values: Tensor) -> Tensor:
        """Which parts of the union break no constraint, bool ``[parts]``; ``values``: ``[variables]``."""
        assert self.parts is not None
        part = torch.from_numpy(self.parts.variable_part).to(values.device)
        fine = torch.ones(self.parts.count, dtype=torch.bool, device=values.device)
        for scopes, strides, forbidden in self.tables:
            cells = (values[scopes] * strides).sum(-1)
            fine[part[scopes[:, 0]][forbidden[0].gather(-1, cells[:, None])[:, 0]]] = False
        for factor, scopes, own in self.structured:
            allowed = factor.allows(values[scopes], None if own is None else own[0])
            fine[part[scopes[:, 0]][~allowed]] = False
        return fine


def _examples(values: Tensor, trailing: int, batch: torch.Size) -> Tensor:
    """Batch dimensions flattened, one row where all examples share the values."""
    inner = values.shape[values.ndim - trailing :]
    if all(size == 1 for size in values.shape[: values.ndim - trailing]):
        return values.reshape(1, *inner)
    return values.expand(*batch, *inner).reshape(batch.numel(), *inner)
