"""The reference engine: message passing in plain torch operations, in the log domain, on any device.

In: a problem and a method. Out: a solution. Stage: inference. Differentiable to any order; the oracle of the compiled
engine. Sequential and residual schedules loop in Python and are meant for small graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.fixed_point import FixedPoint, OneStep, at_fixed_point
from loopwise.graph.layout import MessageGroup, StructuredMember
from loopwise.graph.parts import Parts
from loopwise.inference.base import Problem
from loopwise.inference.bethe import expectation
from loopwise.inference.decode import decode
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.inference.messages.kernels.convergence import LEAST_REACH, MOST_NATS, NEAR
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.message_weights import SweepWeights
from loopwise.inference.messages.parts import part_reaches
from loopwise.inference.messages.pending import Growing, PendingMessages
from loopwise.inference.messages.schedules import (
    Flooding,
    Groups,
    RandomSequential,
    Residual,
    Sequential,
    random_order,
    stages,
)
from loopwise.inference.messages.stop import Watches
from loopwise.inference.normalise import divided, log_sum, log_sum_by, normalised, rescaled
from loopwise.notices import ImpossibleError


class MessageUpdate:
    """The equations of one problem as functions of the messages; every method is differentiable torch.

    Messages are M = m / c and N = n / c in the notation of the Domke spec, section 3: log messages ``[*batch, slots]``.
    """

    def __init__(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> None:
        layout = problem.graph.layout
        self.problem, self.layout, self.method = problem, layout, method
        device = problem.like.device
        self.maximise = method.temperature == 0
        temperature = method.temperature if method.temperature > 0 else 1.0

        def on_device(array: np.ndarray) -> Tensor:
            return torch.tensor(array, device=device)

        self.state_variable = on_device(layout.state_variable)
        self.numbers = numbers
        ones = numbers.plain
        self.plain = ones or (not self.exponents.requires_grad and bool((self.exponents == 1).all()))
        # How far a belief can move when a log message moves by one nat: a quarter, if it is at 1/2, and in the end more
        # if that was a damped step.
        largest = 1.0 if ones else float(self.exponents.detach().max()) if layout.edges else 0.0
        self.weights = method.sweep_weights(problem)
        self.reach = max(0.25 * largest / (1 - largest_damping(method, self.weights)), LEAST_REACH)
        factor, total = numbers.tensors(problem.like)
        self.unary = divided(problem.unary(), temperature * total[self.state_variable])
        self.own_unary = self.unary  # as it is without memory
        self.power: Tensor | None = None  # [slots] weights of messages, and what is kept of the old ones, in one sweep
        self.kept: Tensor | float = method.damping
        unscaled = ones and not isinstance(temperature, Tensor) and temperature == 1
        self.tables: list[Tensor] = []
        first = 0
        for member in layout.message_groups:
            group = member.group
            weight = factor[first : first + group.count]
            first += group.count
            shape = (group.count, *(1,) * group.arity)
            table = problem.table(group.name)
            self.tables.append(table if unscaled else divided(table, temperature * weight.reshape(shape)))
        for structured in layout.structured:
            if self.maximise and not structured.factor.maximises:
                raise ValueError(
                    f"max-product (temperature 0) has no messages of structured factors like {structured.name!r} "
                    f"({type(structured.factor).__name__}); use a small positive temperature"
                )
        self.own: list[Tensor | None] = []
        for number, structured in enumerate(layout.structured):
            given = problem.factor_potentials(structured)
            if given is not None and not unscaled:
                given = divided(given, temperature * factor[first + number])
            self.own.append(given)

    @cached_property
    def exponents(self) -> Tensor:
        """The power with which each edge's message enters its variable."""
        return self.numbers.exponents(self.layout, self.problem.like)

    @cached_property
    def exponent(self) -> Tensor:
        """The same, slot by slot; first asked for in a run, perhaps one without gradients."""
        with torch.set_grad_enabled(self.exponents.requires_grad):
            return self.exponents[self.slot_edge]

    @cached_property
    def _part_reaches(self) -> np.ndarray:
        exponents = self.exponents.detach().cpu().numpy()
        return part_reaches(Parts.of(self.problem.graph), exponents, self.method, self.weights)

    @cached_property
    def slot_edge(self) -> Tensor:
        sizes = self.problem.graph.cardinalities[self.layout.edge_variable]
        return torch.tensor(np.repeat(np.arange(self.layout.edges), sizes), device=self.problem.like.device)

    @cached_property
    def slot_state(self) -> Tensor:
        return torch.tensor(self.layout.slot_state, device=self.problem.like.device)

    def initial(self) -> Tensor:
        """Uniform messages."""
        sizes = self.problem.graph.cardinalities[self.layout.edge_variable]
        start = -np.log(np.repeat(sizes, sizes))
        like = self.problem.like
        return torch.tensor(start, dtype=like.dtype, device=like.device).expand(*self.problem.batch, -1)

    def to_factors(self, m: Tensor) -> Tensor:
        """N of every slot: (unary + sum of w M) - M; -inf is counted apart so that it can be taken out again."""
        forbidden = torch.isneginf(m)
        finite = torch.where(forbidden, 0.0, m)
        weighted = finite if self.plain else finite * self.exponent
        shape = (*m.shape[:-1], self.layout.states)
        total = torch.zeros(shape, dtype=m.dtype, device=m.device).index_add(-1, self.slot_state, weighted)
        total = total + self.unary
        count = torch.zeros(shape, dtype=m.dtype, device=m.device).index_add(-1, self.slot_state, forbidden.to(m.dtype))
        n = total[..., self.slot_state] - finite
        others = count[..., self.slot_state] - (forbidden.to(m.dtype) if self.plain else 0.0)
        n = torch.where(others > 0, -torch.inf, n)
        return n - log_sum_by(n, self.slot_edge, self.layout.edges)[..., self.slot_edge]

    def to_variables(self, n: Tensor, m: Tensor | None = None, names: tuple[str, ...] | None = None) -> Tensor:
        """M of every slot: the log-sum-exp (or maximum) of each table with the other members' messages. With ``names``
        only these groups send; other messages stay those of ``m``."""
        pieces = []
        for member, table in zip(self.layout.message_groups, self.tables, strict=True):
            if m is not None and names is not None and member.group.name not in names:
                pieces += self._split(member, m)
                continue
            joint, incoming = self._joint(member, table, n)
            group = member.group
            for position in range(group.arity):
                others = [axis - group.arity for axis in range(group.arity) if axis != position]
                without = joint[position]
                message = torch.amax(without, others) if self.maximise else log_sum(without, others)
                pieces.append(normalised(message).expand(*incoming, group.count, group.shape[position]))
        blocks = [self._flatten(pieces)] if pieces else []
        for structured, own in zip(self.layout.structured, self.own, strict=True):
            stays = m is not None and names is not None and structured.name not in names
            blocks.append(self.incoming(structured, m) if stays and m is not None else self._send(structured, own, n))
        return torch.cat(blocks, dim=-1) if blocks else self.initial()

    def _send(self, member: StructuredMember, own: Tensor | None, n: Tensor) -> Tensor:
        send = member.factor.max_messages if self.maximise else member.factor.messages
        return send(self.incoming(member, n), own)

    def incoming(self, member: StructuredMember, n: Tensor) -> Tensor:
        """The messages to one structured factor, ``[*batch, slots]``."""
        return n[..., member.slot_start : member.slot_start + member.factor.slots]

    def structured_energies(self, n: Tensor) -> Tensor:
        r""":math:`\log Z_\alpha - \sum_i b_i\cdot n_i` of each structured factor, ``[*batch, factors]``."""
        values = []
        for member, own in zip(self.layout.structured, self.own, strict=True):
            incoming = self.incoming(member, n)
            beliefs = member.factor.marginals(incoming, own)
            values.append(member.factor.log_partition(incoming, own) - expectation(incoming, beliefs).sum(-1))
        return torch.stack(values, -1)

    def _joint(self, member: MessageGroup, table: Tensor, n: Tensor) -> tuple[list[Tensor], torch.Size]:
        """For each position the table plus all messages but that position's, ``[*batch, factors, *shape]``."""
        group = member.group
        parts = self._split(member, n)
        broad = []
        for position, part in enumerate(parts):
            shape = [1] * group.arity
            shape[position] = group.shape[position]
            broad.append(part.reshape(*part.shape[:-1], *shape))
        joint = []
        for position in range(group.arity):
            value = table
            for other, message in enumerate(broad):
                if other != position:
                    value = value + message
            joint.append(value)
        return joint, parts[0].shape[:-2]

    def _split(self, member: MessageGroup, messages: Tensor) -> list[Tensor]:
        """The messages of one group, a tensor ``[*batch, factors, states]`` a position."""
        group = member.group
        block = messages[..., member.slot_start : member.slot_start + group.count * member.width]
        block = block.reshape(*block.shape[:-1], group.count, member.width)
        return list(torch.split(block, list(group.shape), dim=-1))

    def _flatten(self, pieces: list[Tensor]) -> Tensor:
        blocks, at = [], 0
        for member in self.layout.message_groups:
            block = torch.cat(pieces[at : at + member.group.arity], dim=-1)
            blocks.append(block.flatten(-2))
            at += member.group.arity
        return torch.cat(blocks, dim=-1)

    def logs(self, m: Tensor) -> Tensor:
        """Logs of variable beliefs, of any scale."""
        forbidden = torch.isneginf(m)
        weighted = torch.where(forbidden, m, torch.where(forbidden, 0.0, m) * self.exponent)
        total = torch.zeros(*m.shape[:-1], self.layout.states, dtype=m.dtype, device=m.device)
        return total.index_add(-1, self.slot_state, weighted) + self.unary

    def states(self, m: Tensor) -> Tensor:
        """Variable beliefs."""
        total = self.logs(m)
        mass = log_sum_by(total, self.state_variable, self.problem.graph.variables)
        dead = torch.isneginf(mass) | torch.isnan(mass)  # NaN: messages that vanished were passed on
        if bool(dead.any()):
            variable = int(dead.reshape(-1, mass.shape[-1]).any(0).nonzero()[0, 0])
            raise ImpossibleError(
                f"no configuration is possible: messages to variable {variable} contradict each other; "
                "relax a zero, or take back evidence"
            )
        return rescaled(self.layout, torch.exp(total - mass[..., self.state_variable]))

    def factor(self, name: str, n: Tensor) -> Tensor:
        """Beliefs of one group; of structured factors those of their variables, ``[*batch, slots]``."""
        for member, table in zip(self.layout.message_groups, self.tables, strict=True):
            if member.group.name == name:
                joint = self._joint(member, table, n)[0][0]
                first = self._split(member, n)[0]
                joint = joint + first.reshape(*first.shape, *(1,) * (member.group.arity - 1))
                axes = list(range(-member.group.arity, 0))
                beliefs = torch.exp(joint - log_sum(joint, axes, keepdim=True))
                return beliefs / beliefs.sum(axes, keepdim=True)
        pieces = [
            member.factor.marginals(self.incoming(member, n), own)
            for member, own in zip(self.layout.structured, self.own, strict=True)
            if member.name == name
        ]
        if pieces:
            return torch.cat(pieces, -1)
        raise ValueError(
            f"no factor group {name!r} of arity 2 or more; factors of fewer variables are read from the variables"
        )

    def scopes_maximised(self, n: Tensor, values: Tensor) -> Tensor:
        """``values`` ``[*batch, variables]`` with the scope of each structured factor, one after another, at the best
        assignment of that factor given the messages ``n`` it gets."""
        values = values.expand(*self.problem.batch, -1).clone()
        for member, own in zip(self.layout.structured, self.own, strict=True):
            scope = torch.tensor(self.problem.graph.structured_scope(member), device=values.device)
            best = member.factor.argmax(self.incoming(member, n), own)
            values = values.index_copy(-1, scope, best.expand(*values.shape[:-1], -1).to(values))
        return values

    def at(self, sweep: int, m: Tensor, running: Tensor | None = None) -> MessageUpdate:
        """The equations of sweep ``sweep``, counted from 1, after messages ``m``, with its weights and what variables
        remember; states that no longer run (``running``: bool ``[*batch, states or 1]``) keep what they remember.
        Called on those of the sweep before."""
        if self.weights is None:
            return self
        now, weights = copy.copy(self), self.weights
        if weights.messages is not None:
            now.power = weights.row(weights.messages, sweep)[self.slot_edge]
        if weights.damping is not None:
            now.kept = weights.row(weights.damping, sweep)[self.slot_edge]
        if weights.memory is not None:
            share = weights.row(weights.memory, sweep)[self.state_variable]
            impossible = torch.isneginf(self.own_unary)
            own = torch.where(impossible, 0.0, self.own_unary)
            now.unary = torch.where(impossible, -torch.inf, (1 - share) * own + share * self._remembered(m))
            if running is not None:
                now.unary = torch.where(running, now.unary, self.unary)
        return now

    def _remembered(self, m: Tensor) -> Tensor:
        """Log beliefs less the mean of those of their variable, and 0 for values ruled out: so what the values of a
        variable have in common makes no difference, ruled out or not."""
        logs, owner = self.logs(m), self.state_variable
        possible = ~torch.isneginf(logs)
        known = torch.where(possible, logs, 0.0)
        none = known.new_zeros(*known.shape[:-1], self.problem.graph.variables)
        count = none.index_add(-1, owner, possible.to(known.dtype)).clamp(min=1.0)
        mean = none.index_add(-1, owner, known) / count
        return torch.where(possible, known - mean[..., owner], 0.0)

    def damped(self, new: Tensor, old: Tensor) -> Tensor:
        """Geometric average of probabilities, renormalised edge by edge, of weighted new messages and old ones;
        forbidden values stay forbidden."""
        damping, allowed = self.kept, ~torch.isneginf(new)
        if self.power is None and not isinstance(damping, Tensor) and damping == 0:
            return new
        if self.power is not None:
            new = torch.where(allowed, torch.where(allowed, new, 0.0) * self.power, new)
        both = allowed & ~torch.isneginf(old)
        safe_new, safe_old = torch.where(both, new, 0.0), torch.where(both, old, 0.0)
        mixed = torch.where(both, (1 - damping) * safe_new + damping * safe_old, new)
        return mixed - log_sum_by(mixed, self.slot_edge, self.layout.edges)[..., self.slot_edge]

    def growth(self, new: Tensor, old: Tensor) -> list[float]:
        """For each edge the largest over the smallest ratio of a value of its new message to the old one, less 1; 0 for
        rounding, and the most there is for a message that has become impossible."""
        new, old, edges = new.detach(), old.detach(), self.layout.edges
        moved = torch.where(new == old, 0.0, new - old).clamp(-MOST_NATS, MOST_NATS)
        size = torch.where(torch.isfinite(new) & (new != old), new.abs(), 1.0).clamp(min=1.0)
        empty = moved.new_zeros(edges)
        high = empty.scatter_reduce(0, self.slot_edge, moved, "amax", include_self=False)
        low = empty.scatter_reduce(0, self.slot_edge, moved, "amin", include_self=False)
        size = empty.scatter_reduce(0, self.slot_edge, size, "amax", include_self=False)
        spread = high - low - 8 * torch.finfo(new.dtype).eps * size
        possible = [empty.scatter_reduce(0, self.slot_edge, torch.isfinite(m).to(m), "amax") for m in (new, old)]
        spread = torch.where(possible[0] < possible[1], MOST_NATS, spread)
        found: list[float] = torch.expm1(spread.clamp(0.0, MOST_NATS)).cpu().tolist()
        return found

    def message_change(self, new: Tensor, old: Tensor, examples: RunExamples) -> Tensor:
        """How far the largest change of a normalised log message can move a belief, of each example."""
        moved = examples.largest_by_slot(log_change(new, old))
        if not self.method.judge_messages:
            return torch.zeros_like(moved)
        if examples.parts is None:
            return self.reach * moved
        return moved * torch.from_numpy(self._part_reaches).to(moved)

    def sweep(self, m: Tensor, first: bool = False, number: int = 1) -> Tensor:
        """A sweep of all groups together, or one after another; ``number``: that of the sweep, for random orders."""
        schedule = self.method.schedule
        if isinstance(schedule, RandomSequential):
            for edge in random_order(schedule, self.layout, number):
                m = torch.where(self.slot_edge == int(edge), self.flooding_sweep(m), m)
            return m
        if not isinstance(schedule, Groups):
            return self.flooding_sweep(m)
        return self.grouped_sweep(m, first and schedule.uniform_start and self.problem.initial is None)

    def flooding_sweep(self, m: Tensor) -> Tensor:
        return self.damped(self.to_variables(self.to_factors(m)), m)

    def grouped_sweep(self, m: Tensor, unheard: bool = False) -> Tensor:
        """One group of factors after another; ``unheard``: the first one gets uniform messages."""
        for number, (names, slots) in enumerate(self.stages):
            n = self.initial() if unheard and number == 0 else self.to_factors(m)
            m = torch.where(slots, self.damped(self.to_variables(n, m, names), m), m)
        return m

    @cached_property
    def stages(self) -> list[tuple[tuple[str, ...], Tensor]]:
        """The groups that send together, and their slots, bool ``[slots]``."""
        names = [name for name, count in self.layout.named_factors for _ in range(count)]
        owner = np.array(names, dtype=object)[self.layout.edge_factor]
        edge = self.slot_edge.cpu().numpy()
        return [
            (stage, torch.tensor(np.isin(owner, stage)[edge], device=self.slot_edge.device))
            for stage in stages(self.method.schedule, self.problem.graph)
        ]

    def sequential_sweep(self, m: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        """Visits variables in order and back: pull what changed, then send."""
        order = self.layout.sequential
        for variables, pull in ((order.variables, order.pull_forward), (order.variables[::-1], order.pull_backward)):
            for variable in variables:
                edges = self.layout.variable_edges[
                    self.layout.variable_edge_start[variable] : self.layout.variable_edge_start[variable + 1]
                ]
                pulled = torch.tensor(np.isin(self.slot_edge.cpu().numpy(), edges[pull[edges]]), device=m.device)
                m = torch.where(pulled, self.damped(self.to_variables(n), m), m)
                sent = torch.tensor(np.isin(self.slot_edge.cpu().numpy(), edges), device=m.device)
                n = torch.where(sent, self.to_factors(m), n)
        return m, n


def largest_damping(method: MessagePassing, weights: SweepWeights | None) -> float:
    """The largest share of what was that a step keeps, of messages or in memory."""
    given = (weights.damping, weights.memory) if weights else ()
    mine = [float(values.detach().max()) for values in given if values is not None and values.numel()]
    return max([method.plain_damping, *mine])


def log_change(new: Tensor, old: Tensor) -> Tensor:
    """By how many nats each log message changed, rounding of the logarithms apart; without gradient."""
    new, old = new.detach(), old.detach()
    moved = torch.where(new == old, 0.0, (new - old).abs())
    rounding = 4 * torch.finfo(new.dtype).eps * torch.maximum(new.abs(), old.abs()).clamp(min=1.0)
    return torch.where(moved < torch.inf, (moved - rounding).clamp(min=0.0), moved)


@dataclass(frozen=True)
class Reference:
    """Plain torch, any device, differentiable to any order."""

    @property
    def name(self) -> str:
        return "reference"

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> ReferenceSolution:
        update = MessageUpdate(problem, method, numbers)
        m = update.initial() if problem.initial is None else problem.initial
        if not isinstance(method.schedule, (Flooding, Sequential, RandomSequential, Residual, Groups)):
            raise ValueError(
                f"the reference engine does not know the schedule {method.schedule!r}; "
                "use Flooding, Sequential, RandomSequential, Residual or Groups"
            )
        solve = _solve_by_residual if isinstance(method.schedule, Residual) else _solve_by_sweeps
        wanted = method.differentiable(problem, numbers)
        if not wanted or not isinstance(method.gradient, (FixedPoint, OneStep)):
            return watched(solve(update, m), method)
        with torch.no_grad():
            found = solve(update, m)
        return watched(settled(found, method.gradient), method)


def watched(found: ReferenceSolution, method: MessagePassing) -> ReferenceSolution:
    """The same solution with a report, whose backward refuses adjoints that are not finite."""
    for value in (found.states, found.m):
        if value.requires_grad:
            value.register_hook(check_finite)  # type: ignore[no-untyped-call]
            found.report = found.report or Report(type(method.gradient).__name__)
    return found


@dataclass
class ReferenceSolution:
    """Final messages of a reference run."""

    update: MessageUpdate
    m: Tensor
    states: Tensor
    sweeps: Tensor
    residual: Tensor
    sent: int
    trace: Tensor | None = None
    domain: str = "log"
    report: Report | None = None
    stopped: Tensor | None = None  # the rule that ended each example, -1 for none of those that watch

    def factor(self, name: str) -> Tensor:
        return self.update.factor(name, self.update.to_factors(self.m))

    def structured(self) -> Tensor:
        return self.update.structured_energies(self.update.to_factors(self.m))

    def messages(self) -> Tensor:
        return self.m

    def assignment(self) -> Tensor:
        return decode(self.update.problem, self.states, self.factor)

    def scopes_maximised(self, values: Tensor) -> Tensor:
        """See :class:`~loopwise.inference.maximum.method.ScopeSolution`."""
        return self.update.scopes_maximised(self.update.to_factors(self.m), values)


class RunExamples:
    """What a run's examples are: the rows of its batch; or, of a union, its parts, each of which stops by itself."""

    def __init__(self, problem: Problem, parts: Parts | None) -> None:
        self.batch, self.parts = problem.batch, parts
        self.shape = problem.batch if parts is None else torch.Size([*problem.batch, parts.count])
        if parts is not None:
            device = problem.like.device
            self.state_part = torch.from_numpy(parts.state_part).to(device)
            self.slot_part = torch.from_numpy(parts.slot_part).to(device)

    def by_state(self, values: Tensor) -> Tensor:
        """Numbers of the examples as they meet states, ``[*batch, states or 1]``."""
        return values[..., None] if self.parts is None else values[..., self.state_part]

    def by_slot(self, values: Tensor) -> Tensor:
        return values[..., None] if self.parts is None else values[..., self.slot_part]

    def largest_by_state(self, values: Tensor) -> Tensor:
        """The largest of each example's ``values`` ``[*batch, states]``, none of which is negative."""
        return self._largest(values, None if self.parts is None else self.state_part)

    def largest_by_slot(self, values: Tensor) -> Tensor:
        return self._largest(values, None if self.parts is None else self.slot_part)

    def _largest(self, values: Tensor, part: Tensor | None) -> Tensor:
        if part is None:
            return values.amax(-1) if values.shape[-1] else values.new_zeros(values.shape[:-1])
        none = values.new_zeros(*values.shape[:-1], self.shape[-1])
        return none.scatter_reduce(-1, part.expand(values.shape), values, "amax")

    def sent(self, sweeps: Tensor, sequential: bool, update: MessageUpdate) -> int:
        """Messages in so many sweeps of each."""
        if self.parts is None:
            each = update.layout.sequential.messages if sequential else update.layout.edges
            return int(sweeps.sum()) * each
        counts = self.parts.messages if sequential else self.parts.edges
        return int((sweeps.cpu() * torch.from_numpy(counts)).sum())


def _solve_by_sweeps(update: MessageUpdate, m: Tensor) -> ReferenceSolution:
    """Sweeps of any schedule; an example that has converged keeps its messages while others go on."""
    method, problem, batch, device = update.method, update.problem, update.problem.batch, update.problem.like.device
    parts = Parts.of(problem.graph) if method.by_parts(problem.graph) else None
    examples = RunExamples(problem, parts)
    sequential = isinstance(method.schedule, Sequential)
    states = update.states(m)
    n = update.to_factors(m)
    sweeps = torch.zeros(examples.shape, dtype=torch.int64, device=device)
    residual = torch.full(examples.shape, torch.inf, dtype=states.dtype, device=device)
    previous, expected, threshold = residual, residual, method.threshold(states.dtype)
    running = torch.ones(examples.shape, dtype=torch.bool, device=device)
    watches = Watches(method.stop, problem, method.iterations, None if parts is None else parts.count)
    watches.begin(states.expand(*batch, -1))
    enough = _enough(update, parts, sweeps)
    trace = [states]
    for sweep in range(1, method.iterations + 1):
        update = update.at(sweep, m, examples.by_state(running))
        if sequential:
            new_m, new_n = update.sequential_sweep(m, n)
        else:
            new_m, new_n = update.sweep(m, first=sweep == 1, number=sweep), n
        moved = update.message_change(new_m, m, examples)
        m = torch.where(examples.by_slot(running), new_m, m)
        n = torch.where(examples.by_slot(running), new_n, n)
        new_states = update.states(m)
        change = examples.largest_by_state((new_states - states).detach().abs())
        # As in the kernels, a sweep is judged by its messages only if beliefs are expected to rest in it.
        left = torch.where(change > threshold, change, previous)
        left = torch.where(
            expected > NEAR * threshold, left, torch.where(moved <= threshold, change, change.maximum(moved))
        )
        residual = torch.where(running, left, residual)
        # Kernels look at no earlier changes, either.
        if method.tolerance > 0 or watches or sweep > method.iterations - 2:
            shrinks = (change > 0) & (change < previous) & (previous < torch.inf)
            expected = torch.where(shrinks, change * change / previous, change)
            previous = change
        states = new_states
        trace.append(states)
        sweeps = sweeps + running
        if watches:
            rows = running.reshape(-1).nonzero()[:, 0].cpu().numpy()
            seen = states.reshape(-1, states.shape[-1])
            watches.fire(sweep, rows, seen[rows] if parts is None else seen)
            running = running & (watches.stopped.reshape(examples.shape) < 0).to(device)
        if method.tolerance > 0:
            running = running & (left >= method.tolerance)
            if parts is not None:
                running = running & ~((enough > 0) & (sweeps >= enough))
        if (method.tolerance > 0 or watches) and not bool(running.any()):
            break
    residual = torch.where((enough > 0) & (sweeps >= enough), 0.0, residual)
    kept = torch.stack(trace) if method.trace else None
    sent, stopped = examples.sent(sweeps, sequential, update), watches.stopped.reshape(examples.shape)
    return ReferenceSolution(update, m, states, sweeps, residual, sent, kept, stopped=stopped)


def _enough(update: MessageUpdate, parts: Parts | None, sweeps: Tensor) -> Tensor:
    """Sweeps after which nothing changes any more, of each part or of the whole; 0 where there is no such number.
    ``sweeps``: of each example or part, whose shape it has."""
    graph, device = update.problem.graph, update.problem.like.device
    if parts is None:
        return torch.full_like(sweeps, update.method.enough(graph) or 0)
    return torch.from_numpy(update.method.enough_parts(graph, update.numbers.factor)).to(device)


def settled(
    found: ReferenceSolution, gradient: FixedPoint | OneStep, sweep: Callable[[Tensor], Tensor] | None = None
) -> ReferenceSolution:
    """The same solution, differentiable at its fixed point; ``sweep``: another way to make a sweep."""
    update, method = found.update, found.update.method
    report = Report(type(gradient).__name__)

    def step(m: Tensor) -> Tensor:
        if not isinstance(method.schedule, Sequential):
            return update.sweep(m)
        return update.sequential_sweep(m, update.to_factors(m))[0]

    converged = update.layout.edges == 0 or method.has_converged(found.residual)
    m = at_fixed_point(sweep or step, found.m, gradient, converged, report)
    return replace(found, m=m, states=update.states(m), report=report)


def _solve_by_residual(update: MessageUpdate, m: Tensor) -> ReferenceSolution:
    """The message that may change most first, example by example, as ``residual`` says."""
    method, problem = update.method, update.problem
    edges = update.layout.edges
    flat = m.expand(*problem.batch, m.shape[-1]).reshape(problem.batch.numel(), m.shape[-1])
    rule = Growing(method.tolerance, float(update.reach), method.plain_damping, torch.finfo(m.dtype).eps)
    exponents = update.exponents.detach().cpu().tolist()
    finals, sent, residuals = [], [], []
    for example in range(flat.shape[0]):
        single = MessageUpdate(example_of(problem, example), method, _numbers(method, problem))
        current, updates, pending = flat[example], 0, PendingMessages(update.layout, rule, exponents)
        fresh = single.damped(single.to_variables(single.to_factors(current)), current)
        for edge, grown in enumerate(single.growth(fresh, current)):
            pending.begin(edge, grown)
        while updates < method.iterations * edges and (edge := pending.next_edge()) >= 0:
            fresh = single.damped(single.to_variables(single.to_factors(current)), current)
            grown = single.growth(fresh, current)[edge]
            current = torch.where(single.slot_edge == edge, fresh, current)
            updates += 1
            pending.after_sending(edge, grown)
        finals.append(current)
        sent.append(updates)
        residuals.append(pending.change())
    final = torch.stack(finals).reshape(*problem.batch, m.shape[-1]) if finals else m
    count = torch.tensor(sent, device=final.device).reshape(problem.batch)
    return ReferenceSolution(
        update,
        final,
        update.states(final),
        -(-count // max(edges, 1)),
        torch.tensor(residuals, dtype=final.dtype, device=final.device).reshape(problem.batch),
        sum(sent),
    )


def _numbers(method: MessagePassing, problem: Problem) -> CountingNumbers:
    return method.counting_numbers(problem.graph)


def example_of(problem: Problem, example: int) -> Problem:
    """One example of a batch, counted through."""
    tables, count = {}, problem.batch.numel()
    for group in problem.graph.groups:
        table = problem.tables[group.name]
        table = table.expand(*problem.batch, *table.shape[table.ndim - 1 - group.arity :])
        tables[group.name] = table.reshape(count, *table.shape[len(problem.batch) :])[example]
    folded = problem.folded
    if folded is not None:
        folded = folded.expand(*problem.batch, folded.shape[-1]).reshape(count, folded.shape[-1])[example]
    structured = {}
    for named in problem.graph.structured:
        values: list[Tensor | None] = []
        given = problem.structured.get(named.name, (None,) * named.count)
        for factor, value in zip(named.factors, given, strict=True):
            if value is not None:
                shape = factor.potentials_shape or ()
                value = value.expand(*problem.batch, *shape).reshape(count, *shape)[example]
            values.append(value)
        structured[named.name] = tuple(values)
    initial = problem.initial
    if initial is not None:
        initial = initial.expand(*problem.batch, initial.shape[-1]).reshape(count, initial.shape[-1])[example]
    return Problem(problem.graph, tables, torch.Size(), problem.like, initial, folded, structured)
