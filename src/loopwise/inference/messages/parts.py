"""Message passing on a union whose parts, the examples of a batch, stop one by one.

In: a problem on a union, a method with a rule to stop by. Out: a solution whose sweeps, residuals and rules are those
of each part run alone. Stage: inference. The reference engine judges parts itself, and so do the kernels where all
factors are tables that send by flooding or one after another (``part_run``).

Else sweeps are taken step by step: one pass finds out how many sweeps each part makes: it runs the union, judges
each part by itself after each sweep, and goes on with the living ones alone as soon as they are at most half of what
runs and that is worth it. Where a gradient by unrolling is wanted, parts that make equally many sweeps then run
together, with exactly these sweeps: so values and gradients are those of each part alone, and a sweep that a part does
not make costs no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.gradient.base import Report
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.unroll import Unroll
from loopwise.graph.factor_graph import Integers
from loopwise.graph.parts import Parts, PartSelection
from loopwise.inference.base import Problem
from loopwise.inference.decode import decode
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.inference.messages.kernels.convergence import LEAST_REACH, NEAR
from loopwise.inference.messages.message_weights import MessageWeights, SweepWeights
from loopwise.inference.messages.schedules import Residual, Sequential
from loopwise.inference.messages.stop import Stop, Watch, Watches
from loopwise.inference.normalise import normalised_messages

if TYPE_CHECKING:
    from loopwise.inference.messages.message_passing import Engine, MessagePassing, Solution

COMPACT = 0.5  # living parts run by themselves when they are at most this share of the slots that run, ...
WORTH_IT = 1_000_000  # ... and the others would cost so many numbers of messages, in as many sweeps as were made
Floats = NDArray[np.float64]


def solve_parts(
    engine: Callable[[Problem, MessagePassing], Engine],
    problem: Problem,
    method: MessagePassing,
    numbers: CountingNumbers,
) -> Solution:
    """Runs ``method`` on the union ``problem``; ``engine``: what runs a problem by a method."""
    from loopwise.inference.messages.compiled import Compiled
    from loopwise.inference.messages.reference import Reference

    mine, by_residual = engine(problem, method), isinstance(method.schedule, Residual)
    if isinstance(mine, Compiled) and not by_residual:
        return mine.solve(problem, method, numbers)
    if problem.batch.numel() != 1:
        return _RowByRow(engine, problem, method, numbers)
    if by_residual:
        return cast("Solution", _each_alone(engine, problem, method, numbers))
    if isinstance(mine, Reference):
        return mine.solve(problem, method, numbers)
    weights = method.sweep_weights(problem)
    with torch.no_grad():
        apart = replace(problem)  # which keeps what it works out, here without a gradient, to itself
        found = _Course(apart, method, numbers, weights).to_the_end()
    wanted = method.differentiable(problem, numbers)
    if method.trace or (wanted and isinstance(method.gradient, Unroll)):
        return cast("Solution", _again(engine, problem, method, numbers, weights, found))
    start = found.solution(problem, method, numbers)
    if not wanted:
        return cast("Solution", start)
    from loopwise.inference.messages.reference import settled, watched

    assert isinstance(method.gradient, (FixedPoint, OneStep))
    one = replace(method, iterations=1, tolerance=0.0, stop=None, gradient=Unroll())

    def sweep(m: Tensor) -> Tensor:
        return engine(problem, one).solve(replace(problem, initial=m), one, numbers).messages()

    return watched(settled(start, method.gradient, sweep), method)


def part_problem(problem: Problem, chosen: PartSelection) -> Problem:
    """Some parts of ``problem`` as one of their own."""
    if chosen.graph is problem.graph:
        return problem
    tables, device = {}, problem.like.device
    for name, rows in chosen.rows.items():
        group, table = problem.graph.group(name), problem.tables[name]
        axis = table.ndim - 1 - group.arity
        shared = table.shape[axis] == 1 and group.count != 1
        tables[name] = table if shared else table.index_select(axis, torch.from_numpy(rows).to(device))
    structured = {
        named.name: tuple(problem.structured[named.name][row] for row in chosen.structured_rows[named.name])
        for named in problem.graph.structured
        if named.name in problem.structured
    }

    def picked(values: Tensor | None, places: Integers) -> Tensor | None:
        return None if values is None else values[..., torch.from_numpy(places).to(device)]

    return Problem(
        chosen.graph,
        tables,
        problem.batch,
        problem.like,
        picked(problem.initial, chosen.slots),
        picked(problem.folded, chosen.states),
        structured,
        problem.extents,  # of all parts: bounds of these
    )


def part_numbers(numbers: CountingNumbers, chosen: PartSelection) -> CountingNumbers:
    """The counting numbers of some parts."""
    trained = None
    if numbers.trained is not None:
        factor, total = numbers.trained
        trained = factor[torch.from_numpy(chosen.factors)], total[torch.from_numpy(chosen.variables)]
    return CountingNumbers(numbers.factor[chosen.factors], numbers.total[chosen.variables], trained)


class PartWeights(MessageWeights):
    """The message weights of some parts, as the union has them."""

    def __init__(self, whole: SweepWeights, chosen: PartSelection) -> None:
        nn.Module.__init__(self)
        places = (chosen.edges, chosen.edges, chosen.variables)
        self.values = SweepWeights(
            *(
                None if each is None else each[:, torch.from_numpy(place).to(each.device)]
                for each, place in zip(whole, places, strict=True)
            )
        )
        self.damping = self.values.damping

    @property
    def sweeps(self) -> int | None:
        return min((len(each) for each in self.values if each is not None and len(each) > 1), default=None)

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return iter([each for each in self.values if each is not None])  # type: ignore[misc]

    def at(self, problem: Problem) -> SweepWeights:
        return self.values


def part_method(method: MessagePassing, weights: SweepWeights | None, chosen: PartSelection) -> MessagePassing:
    """``method`` with the weights of some parts, damping among them."""
    if weights is None:
        return method
    return replace(method, weights=PartWeights(weights, chosen), damping=0.0)


# --- How many sweeps each part makes ----------------------------------------------------------------------------------


class _Runner:
    """Some parts of a union at work, sweep by sweep."""

    def __init__(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers, bias: Floats | None) -> None:
        from loopwise.inference.messages.stepwise.engine import run_of

        self.run = run_of(problem, method, numbers)
        if bias is not None:
            self.run.bias = bias.copy()
        self.run.add_up()
        self.rows, self._change = np.zeros(1, dtype=np.int64), np.zeros(1)
        self._states = np.zeros((1, problem.graph.layout.states))
        self.run.beliefs(self.rows, self._states, self._change)
        self._messages: Floats | None = None

    @property
    def beliefs(self) -> Floats:
        """Of all states, after the last sweep."""
        return cast("Floats", self._states[0])

    @property
    def messages(self) -> Floats:
        """Log messages, as they stand."""
        if self._messages is None:
            self._messages = self.run.messages()[0]
        return self._messages

    @property
    def bias(self) -> Floats | None:
        """What variables have in place of their own potentials, where they remember."""
        return self.run.bias if self.run.remembers else None

    def advance(self, sweep: int) -> None:
        """Makes sweep number ``sweep``."""
        self.run.sweep(self.rows, sweep, None)
        self.run.beliefs(self.rows, self._states, self._change)
        self._messages = None


@dataclass
class _Found:
    """What a union's run came to."""

    parts: Parts
    m: Tensor  # log messages of each part when it stopped, [slots]
    states: Tensor  # and its beliefs, [states]
    bias: Tensor | None
    sweeps: Integers
    residual: Floats
    stopped: Tensor
    sent: int

    def solution(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Any:
        """The same as a solution; messages have no gradient, what they are read with may."""
        from loopwise.inference.messages.reference import MessageUpdate, ReferenceSolution

        like, batch = problem.like, problem.batch
        update = MessageUpdate(problem, method, numbers)
        if self.bias is not None:
            update.unary = self.bias.to(like).expand(*batch, -1)
        return ReferenceSolution(
            update,
            self.m.to(like).expand(*batch, -1),
            self.states.to(like).expand(*batch, -1),
            self.of_parts(torch.from_numpy(self.sweeps), batch),
            self.of_parts(torch.from_numpy(self.residual).to(like), batch),
            self.sent,
            stopped=self.of_parts(self.stopped, batch),
        )

    def of_parts(self, values: Tensor, batch: torch.Size) -> Tensor:
        return values.expand(*batch, self.parts.count)


def part_reaches(parts: Parts, exponents: Floats, method: MessagePassing, weights: SweepWeights | None) -> Floats:
    """How far a belief of each part of a union can move when a log message moves by one nat: as in a run of its own,
    whatever the exponents and the damping of the others."""
    largest, kept = np.zeros(parts.count), np.full(parts.count, method.plain_damping)
    np.maximum.at(largest, parts.edge_part, exponents)
    for values, part in ((weights.damping, parts.edge_part), (weights.memory, parts.variable_part)) if weights else ():
        if values is not None:
            np.maximum.at(kept, part, values.detach().amax(0).cpu().numpy())
    reaches: Floats = np.maximum(0.25 * largest / (1 - kept), LEAST_REACH)
    return reaches


class _Course:
    """One run of a union to the end of each of its parts."""

    def __init__(
        self, problem: Problem, method: MessagePassing, numbers: CountingNumbers, weights: SweepWeights | None
    ) -> None:
        self.problem, self.method, self.numbers, self.weights = problem, method, numbers, weights
        self.parts, layout = Parts.of(problem.graph), problem.graph.layout
        count, like = self.parts.count, problem.like
        self.threshold, self.limit = method.threshold(like.dtype), method.iterations
        self.enough = method.enough_parts(problem.graph, numbers.factor)
        exponents = numbers.exponents(layout, like).detach().cpu().numpy()
        self.reach = part_reaches(self.parts, exponents, method, weights)
        self.m = np.zeros(layout.slots)
        self.states = np.zeros(layout.states)
        self.bias: Floats | None = None
        self.running, self.selection = np.arange(count), self.parts.select(np.arange(count))
        self.sweeps, self.residual = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
        self.previous, self.expected = np.full(count, np.inf), np.full(count, np.inf)
        self.watches = Watches(method.stop, problem, self.limit, count)

    def to_the_end(self) -> _Found:
        everything = np.arange(self.parts.count)
        self._select(everything, None)
        self.states[:] = self.runner.beliefs
        self.watches.begin(torch.from_numpy(self.states[None]).to(self.problem.like.dtype))
        self.living = everything
        if self.limit == 0:
            self._keep(everything)
        sweep = 0
        while sweep < self.limit and len(self.living):
            sweep += 1
            done = self._sweep(sweep)
            self._keep(self.living[done | (sweep == self.limit)])
            self.living = self.living[~done]
            left, all_that_run = self.parts.slots[self.living].sum(), self.parts.slots[self.running].sum()
            saved = (all_that_run - left) * min(sweep, self.limit - sweep)
            if len(self.living) and left <= COMPACT * all_that_run and saved > WORTH_IT:
                self._select(self.living, self.runner)
        each = self.parts.messages if isinstance(self.method.schedule, Sequential) else self.parts.edges
        bias = None if self.bias is None else torch.from_numpy(self.bias)
        return _Found(
            self.parts,
            normalised_messages(self.problem.graph.layout, torch.from_numpy(self.m)),
            torch.from_numpy(self.states),
            bias,
            self.sweeps,
            np.where((self.enough > 0) & (self.sweeps >= self.enough), 0.0, self.residual),
            self.watches.stopped,
            int((self.sweeps * each).sum()),
        )

    def _select(self, chosen: Integers, before: _Runner | None) -> None:
        """Goes on with the parts ``chosen`` alone."""
        selection = self.parts.select(chosen)
        problem = part_problem(self.problem, selection)
        bias = None
        if before is not None:
            places = np.searchsorted(self.selection.slots, selection.slots)
            initial = torch.from_numpy(before.messages[places]).to(problem.like)
            problem = replace(problem, initial=initial.expand(*problem.batch, -1))
            if before.bias is not None:
                bias = np.asarray(before.bias)[:, np.searchsorted(self.selection.states, selection.states)]
        numbers = part_numbers(self.numbers, selection)
        method = part_method(self.method, self.weights, selection)
        self.runner = _Runner(problem, method, numbers, bias)
        self.running, self.selection = chosen, selection
        place = np.zeros(self.parts.count, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        self.place = place  # of each part among those that run
        self.inner = Parts.of(problem.graph)

    def _sweep(self, sweep: int) -> NDArray[np.bool_]:
        """One more sweep of what runs; which of the living parts are then done."""
        from loopwise.inference.messages.stepwise.kernels.sweeps import part_changes

        living, method, threshold, runner = self.living, self.method, self.threshold, self.runner
        near = self.expected[living] <= NEAR * threshold
        judged = method.judge_messages and bool(near.any())
        before = runner.messages.copy() if judged else None
        runner.advance(sweep)
        change = self._belief_changes()[self.place[living]]
        moved = np.zeros(len(self.running))
        if before is not None:
            flags = np.zeros(len(self.running), dtype=np.bool_)
            flags[self.place[living]] = near
            part_changes(self.inner.slot_part, flags, runner.messages, before, moved)
        moved = moved[self.place[living]] * self.reach[living]
        previous, expected = self.previous[living], self.expected[living]
        left = np.where(change > threshold, change, previous)
        rested = np.where(moved <= threshold, change, np.maximum(change, moved))
        left = np.where(expected > NEAR * threshold, left, rested)
        shrinks = (change > 0) & (change < previous) & (previous < np.inf)
        ratio = np.divide(change, previous, out=np.ones(len(living)), where=shrinks)
        self.expected[living], self.previous[living] = np.where(shrinks, change * ratio, change), change
        self.residual[living], self.sweeps[living] = left, sweep
        done = np.zeros(len(living), dtype=np.bool_)
        if method.tolerance > 0:
            done |= left < method.tolerance
            done |= (self.enough[living] > 0) & (sweep >= self.enough[living])
        if self.watches:
            states = torch.from_numpy(self.states[None]).to(self.problem.like.dtype)
            done |= self.watches.fire(sweep, living, states)
        return done

    def _belief_changes(self) -> Floats:
        """By how much a belief of each part that runs has moved; beliefs of living parts are taken over."""
        places, fresh = self.selection.states, np.asarray(self.runner.beliefs, dtype=np.float64)
        moved = np.abs(fresh - self.states[places])
        starts = self.inner.graph.part_start
        assert starts is not None
        first = self.inner.graph.layout.state_start[starts]
        filled = np.flatnonzero(np.diff(first) > 0)
        found = np.zeros(len(self.running))
        if len(filled):
            found[filled] = np.maximum.reduceat(moved, first[filled])
        if len(self.living) == len(self.running):
            self.states[places] = fresh
        else:
            alive = np.zeros(len(self.running), dtype=np.bool_)
            alive[self.place[self.living]] = True
            mine = alive[self.inner.state_part]
            self.states[places[mine]] = fresh[mine]
        return found

    def _keep(self, done: Integers) -> None:
        """Takes over the messages of parts that have stopped."""
        chosen = np.zeros(len(self.running), dtype=np.bool_)
        chosen[self.place[done]] = True
        mine = np.flatnonzero(chosen[self.inner.slot_part])
        self.m[self.selection.slots[mine]] = self.runner.messages[mine]
        if self.runner.bias is not None:
            if self.bias is None:
                self.bias = np.zeros(len(self.states))
            states = np.flatnonzero(chosen[self.inner.state_part])
            self.bias[self.selection.states[states]] = self.runner.bias[0, states]


class EachPart(Watch):
    """A rule that watches each part of a union by itself, as it would an example alone."""

    def __init__(self, rule: Stop, problem: Problem, limit: int) -> None:
        parts = Parts.of(problem.graph)
        self.selections = [parts.select(np.array([part])) for part in range(parts.count)]
        self.watches = [rule.watch(part_problem(problem, chosen), limit) for chosen in self.selections]

    def begin(self, states: Tensor) -> None:
        for watch, chosen in zip(self.watches, self.selections, strict=True):
            if watch is not None:
                watch.begin(states[:, torch.from_numpy(chosen.states)])

    def fires(self, sweep: int, rows: Integers, states: Tensor) -> Tensor:
        found, alone = torch.zeros(len(rows), dtype=torch.bool), np.zeros(1, dtype=np.int64)
        for place, part in enumerate(rows):
            watch = self.watches[part]
            if watch is not None:
                mine = states[:, torch.from_numpy(self.selections[part].states)]
                found[place] = bool(watch.fires(sweep, alone, mine)[0])
        return found


# --- Solutions put together -------------------------------------------------------------------------------------------


def _again(
    engine: Callable[[Problem, MessagePassing], Engine],
    problem: Problem,
    method: MessagePassing,
    numbers: CountingNumbers,
    weights: SweepWeights | None,
    found: _Found,
) -> PartSolution:
    """The run with a gradient: parts of equally many sweeps together."""
    pieces = []
    for count in np.unique(found.sweeps):
        chosen = found.parts.select(np.flatnonzero(found.sweeps == count))
        fixed = replace(part_method(method, weights, chosen), iterations=int(count), tolerance=0.0, stop=None)
        mine = part_problem(problem, chosen)
        pieces.append((chosen, engine(mine, fixed).solve(mine, fixed, part_numbers(numbers, chosen))))
    batch = problem.batch
    residual = torch.from_numpy(found.residual).to(problem.like)
    return PartSolution(
        problem,
        pieces,
        found.of_parts(torch.from_numpy(found.sweeps), batch),
        found.of_parts(residual, batch),
        found.sent,
        found.of_parts(found.stopped, batch),
    )


def _each_alone(
    engine: Callable[[Problem, MessagePassing], Engine],
    problem: Problem,
    method: MessagePassing,
    numbers: CountingNumbers,
) -> PartSolution:
    """One part after another: one message after another is sent in any case."""
    parts = Parts.of(problem.graph)
    pieces = []
    for part in range(parts.count):
        chosen = parts.select(np.array([part]))
        mine = part_problem(problem, chosen)
        pieces.append((chosen, engine(mine, method).solve(mine, method, part_numbers(numbers, chosen))))
    sweeps = torch.stack([solution.sweeps for _, solution in pieces], -1)
    residual = torch.stack([solution.residual for _, solution in pieces], -1)
    return PartSolution(problem, pieces, sweeps, residual, sum(solution.sent for _, solution in pieces))


@dataclass
class PartSolution:
    """Solutions of some parts each, read as one of the union."""

    problem: Problem
    pieces: list[tuple[PartSelection, Solution]]
    sweeps: Tensor  # [*batch, parts]
    residual: Tensor
    sent: int
    stopped: Tensor | None = None
    report: Report | None = field(init=False)
    domain: str = field(init=False)

    def __post_init__(self) -> None:
        found = [solution.report for _, solution in self.pieces if solution.report is not None]
        self.report = found[0] if found else None
        domains = {solution.domain for _, solution in self.pieces}
        self.domain = domains.pop() if len(domains) == 1 else "probability and log"

    def _placed(self, read: Callable[[PartSelection, Solution], tuple[Tensor, Integers]], axis: int = -1) -> Tensor:
        """What each piece has, put in the places it names."""
        found = [read(chosen, solution) for chosen, solution in self.pieces]
        places = np.argsort(np.concatenate([place for _, place in found]), kind="stable")
        whole = torch.cat([values for values, _ in found], axis)
        return whole.index_select(axis, torch.from_numpy(places).to(whole.device))

    @cached_property
    def states(self) -> Tensor:
        return self._placed(lambda chosen, solution: (solution.states, chosen.states))

    @property
    def trace(self) -> Tensor | None:
        traces = [solution.trace for _, solution in self.pieces]
        longest = max(0 if trace is None else len(trace) for trace in traces)

        def padded(chosen: PartSelection, solution: Solution) -> tuple[Tensor, Integers]:
            trace = solution.trace
            assert trace is not None
            return torch.cat([trace, trace[-1:].expand(longest - len(trace), *trace.shape[1:])]), chosen.states

        return None if any(trace is None for trace in traces) else self._placed(padded)

    def factor(self, name: str) -> Tensor:
        graph, batch = self.problem.graph, len(self.problem.batch)
        if graph.structured_group(name) is None:
            kept = [(chosen, solution) for chosen, solution in self.pieces if len(chosen.rows[name])]
            if not kept:
                group = graph.group(name)
                return self.states.new_zeros(*self.problem.batch, 0, *group.shape)
            part = replace(self, pieces=kept)
            return part._placed(lambda chosen, solution: (solution.factor(name), chosen.rows[name]), batch)
        members = [member for member in graph.layout.structured if member.name == name]
        low, high = members[0].slot_start, members[-1].slot_start + members[-1].factor.slots

        def mine(chosen: PartSelection, solution: Solution) -> tuple[Tensor, Integers]:
            places = chosen.slots[(chosen.slots >= low) & (chosen.slots < high)]
            return solution.factor(name), places

        kept = [(chosen, solution) for chosen, solution in self.pieces if len(chosen.structured_rows[name])]
        return replace(self, pieces=kept)._placed(mine)

    def structured(self) -> Tensor:
        layout = self.problem.graph.layout
        first = layout.message_factors - len(layout.structured)
        if not layout.structured:
            return self.states.new_zeros(*self.problem.batch, 0)
        kept = [(chosen, solution) for chosen, solution in self.pieces if chosen.graph.structured]
        part = replace(self, pieces=kept)
        return part._placed(lambda chosen, solution: (solution.structured(), chosen.factors[chosen.factors >= first]))

    def messages(self) -> Tensor:
        return self._placed(lambda chosen, solution: (solution.messages(), chosen.slots))

    def assignment(self) -> Tensor:
        return decode(self.problem, self.states, self.factor)

    def scopes_maximised(self, values: Tensor) -> Tensor:
        """As of the pieces; see :class:`~loopwise.inference.maximum.method.ScopeSolution`."""
        values = values.expand(*self.problem.batch, -1)

        def best(chosen: PartSelection, solution: Any) -> tuple[Tensor, Integers]:
            mine = values[..., torch.from_numpy(chosen.variables).to(values.device)]
            return solution.scopes_maximised(mine) if chosen.graph.structured else mine, chosen.variables

        return self._placed(best)


class _RowByRow:
    """A batch of unions: one after another, since their parts stop at different times."""

    def __init__(
        self,
        engine: Callable[[Problem, MessagePassing], Engine],
        problem: Problem,
        method: MessagePassing,
        numbers: CountingNumbers,
    ) -> None:
        from loopwise.inference.messages.reference import example_of

        self.problem = problem
        count = problem.batch.numel()
        self.rows = [solve_parts(engine, example_of(problem, row), method, numbers) for row in range(count)]
        self.sent = sum(row.sent for row in self.rows)
        domains = {row.domain for row in self.rows}
        self.domain = domains.pop() if len(domains) == 1 else "probability and log" if domains else "log"
        self.report = next((row.report for row in self.rows if row.report is not None), None)
        parts = Parts.of(problem.graph).count
        self.states = self._stacked([row.states for row in self.rows], problem.graph.layout.states)
        self.sweeps = self._stacked([row.sweeps for row in self.rows], parts).to(torch.int64)
        self.residual = self._stacked([row.residual for row in self.rows], parts)
        none = [row.stopped for row in self.rows if row.stopped is not None]
        self.stopped = self._stacked(none, parts) if len(none) == count and count else None

    def _stacked(self, rows: list[Tensor], *shape: int) -> Tensor:
        if not rows:
            return self.problem.like.new_zeros(*self.problem.batch, *shape)
        return torch.stack(rows).reshape(*self.problem.batch, *rows[0].shape)

    @property
    def trace(self) -> Tensor | None:
        found = [row.trace for row in self.rows]
        traces = [trace for trace in found if trace is not None]
        if not traces or len(traces) < len(found):
            return None
        longest = max(len(trace) for trace in traces)
        padded = [torch.cat([trace, trace[-1:].expand(longest - len(trace), -1)]) for trace in traces]
        return torch.stack(padded, 1).reshape(longest, *self.problem.batch, -1)

    def factor(self, name: str) -> Tensor:
        group = self.problem.graph.structured_group(name)
        shape = () if group is not None else (self.problem.graph.group(name).count,)
        return self._stacked([row.factor(name) for row in self.rows], *shape)

    def structured(self) -> Tensor:
        return self._stacked([row.structured() for row in self.rows], len(self.problem.graph.layout.structured))

    def messages(self) -> Tensor:
        return self._stacked([row.messages() for row in self.rows], self.problem.graph.layout.slots)

    def assignment(self) -> Tensor:
        return decode(self.problem, self.states, self.factor)

    def scopes_maximised(self, values: Tensor) -> Tensor:
        flat = values.expand(*self.problem.batch, -1).reshape(len(self.rows), -1)
        found = [row.scopes_maximised(each) for row, each in zip(self.rows, flat, strict=True)]  # type: ignore[attr-defined]
        return self._stacked(found, self.problem.graph.variables)
