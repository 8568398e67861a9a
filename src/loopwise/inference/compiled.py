"""The compiled engine: Numba kernels over flat arrays on the CPU.

In: a problem and a method. Out: a solution. Stage: inference. Runs in the probability domain; examples whose tables
span too many nats for it, or whose messages underflow, run in the log domain, and the solution says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.layout import Layout
from loopwise.inference.base import Problem
from loopwise.inference.counting import CountingNumbers
from loopwise.inference.decode import decode
from loopwise.inference.kernel_run import KernelRun
from loopwise.inference.message_passing import MessagePassing
from loopwise.inference.schedules import Flooding, Residual, Sequential
from loopwise.inference.storage import Arrangement, Storage
from loopwise.inference.threads import available_threads
from loopwise.notices import ImpossibleError

# Fewer examples than this do not fill the lanes: each runs by itself.
FEW_EXAMPLES = 8


class Range(NamedTuple):
    """What the probability domain can hold: the nats a table may span, the smallest normaliser to be trusted."""

    nats: float
    floor: float


# e^-600 is 1e-261; products of a few such still stay above 1e-308, and if not, the normaliser tells.
RANGES = {torch.float64: Range(600.0, 1e-280), torch.float32: Range(60.0, 1e-32)}


@dataclass(frozen=True)
class Compiled:
    """Numba kernels on the CPU. ``threads``: None takes as many as the process may use."""

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")

    @property
    def name(self) -> str:
        return "compiled"

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> CompiledSolution:
        if problem.like.device.type != "cpu":
            raise ValueError(f"the compiled engine runs on the CPU; the potentials are on {problem.like.device}")
        if problem.like.dtype not in RANGES:
            raise ValueError(f"the compiled engine takes float32 or float64 potentials, not {problem.like.dtype}")
        with torch.no_grad():
            given = _scaled(problem, method, numbers)
            solution = _solve(given, method, problem, self._threads())
        solution.states = solution.guarded(solution.states)
        return solution

    def _threads(self) -> int:
        return available_threads() if self.threads is None else self.threads


@dataclass(frozen=True)
class Given:
    """Scaled log-potentials of some examples: theta / (t c), and what else a run needs."""

    tables: list[Tensor]  # [factors, cells] if all examples share it, else [examples, factors, cells]
    unary: Tensor  # [states] or [examples, states]
    initial: Tensor | None  # [examples, slots]
    exponents: np.ndarray  # [edges]
    examples: int

    def select(self, index: Tensor) -> Given:
        """The same for some of the examples."""
        return replace(
            self,
            tables=[table if table.ndim == 2 else table[index] for table in self.tables],
            unary=self.unary if self.unary.ndim == 1 else self.unary[index],
            initial=None if self.initial is None else self.initial[index],
            examples=len(index),
        )


@dataclass
class Part:
    """The packed result of one kernel run over some of the examples."""

    index: Tensor  # which examples
    storage: Storage
    theta: np.ndarray
    groups: np.ndarray
    exponents: np.ndarray
    m: np.ndarray
    n: np.ndarray
    states: Tensor  # [examples, states]
    sweeps: np.ndarray
    residual: np.ndarray
    lowest: np.ndarray
    sent: int
    semiring: tuple[int, ...]

    def messages(self) -> Tensor:
        """Log messages ``[examples, slots]``."""
        packed = self.storage.unpack_messages(self.m, len(self.index))
        return packed if len(self.semiring) >= 2 else torch.log(packed)

    def factor(self, number: int) -> Tensor:
        """Beliefs of message group ``number``, ``[examples, factors, cells]``."""
        from loopwise.kernels.arithmetic import LANED, SCALAR
        from loopwise.kernels.factors import factor_beliefs

        storage, group = self.storage, self.storage.layout.message_groups[number].group
        blocks = storage.blocks(len(self.index))
        members = int(storage.groups[number][1])
        out = np.empty(blocks * members * group.cells * storage.lanes, dtype=self.m.dtype)
        lane_tag = LANED if storage.lanes > 1 else SCALAR
        plan = storage.plan(self.groups, self.exponents, 0)
        factor_beliefs(plan, np.uint64(number), np.uint64(blocks), self.theta, self.n, out, lane_tag, self.semiring)
        return storage.unpack_factors(out, len(self.index), group.count, group.cells)


@dataclass
class CompiledSolution:
    """The parts of a compiled run put together in the order of the examples."""

    problem: Problem
    parts: list[Part]
    states: Tensor
    sweeps: Tensor
    residual: Tensor
    sent: int
    domain: str

    def _joined(self, piece: Callable[[Part], Tensor], *shape: int) -> Tensor:
        """The examples' pieces, each of ``shape``, in the order of the batch."""
        return self._stacked(piece, shape).reshape((*self.problem.batch, *shape))

    def guarded(self, values: Tensor) -> Tensor:
        """``values``, which refuse to be differentiated if a gradient of the potentials is wanted."""
        wanting = [table for table in self.problem.tables.values() if table.requires_grad]
        if not wanting:
            return values
        guarded: Tensor = _ForwardOnly.apply(values, *wanting)  # type: ignore[no-untyped-call]
        return guarded

    def _stacked(self, piece: Callable[[Part], Tensor], shape: tuple[int, ...]) -> Tensor:
        if not self.parts:  # an empty batch
            return self.problem.like.new_zeros(0, *shape)
        if len(self.parts) == 1:
            return piece(self.parts[0])
        pieces = [piece(part) for part in self.parts]
        whole = torch.empty(sum(len(part.index) for part in self.parts), *pieces[0].shape[1:], dtype=pieces[0].dtype)
        for part, values in zip(self.parts, pieces, strict=True):
            whole[part.index] = values
        return whole

    def factor(self, name: str) -> Tensor:
        for number, member in enumerate(self.problem.graph.layout.message_groups):
            if member.group.name == name:
                shape = (member.group.count, *member.group.shape)
                return self.guarded(self._joined(partial(Part.factor, number=number), *shape))
        raise ValueError(f"no factor group {name!r} of arity 2 or more")

    def messages(self) -> Tensor:
        return self.guarded(self._joined(Part.messages, self.problem.graph.layout.slots))

    def assignment(self) -> Tensor:
        return decode(self.problem, self.states, self.factor)


class _ForwardOnly(torch.autograd.Function):
    """Refuses a gradient of a run that kept no record of itself, instead of giving none or half of one."""

    @staticmethod
    def forward(ctx: object, values: Tensor, *tables: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: object, *adjoints: Tensor) -> Tensor:
        raise RuntimeError(
            "the compiled engine computes no gradients yet: use engine=Reference(), which is differentiable, "
            "or call inference under torch.no_grad() and keep its result out of the loss"
        )


def _scaled(problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Given:
    layout = problem.graph.layout
    temperature = method.temperature if method.temperature > 0 else 1.0
    examples = int(np.prod(problem.batch))
    like = problem.like

    def flat(values: Tensor, trailing: int) -> Tensor:
        """Batch dimensions flattened, or dropped where all examples share the values."""
        lead = values.shape[: values.ndim - trailing]
        if all(size == 1 for size in lead):
            return values.reshape(values.shape[values.ndim - trailing :])
        return values.expand(*problem.batch, *values.shape[len(lead) :]).flatten(0, len(problem.batch) - 1)

    tables, first = [], 0
    for member in layout.message_groups:
        group = member.group
        weight = torch.tensor(numbers.factor[first : first + group.count], dtype=like.dtype)
        first += group.count
        table = flat(problem.table(group.name).flatten(-group.arity), 2)
        plain = temperature == 1.0 and bool((weight == 1).all())
        tables.append(table if plain else table / (temperature * weight[:, None]))
    total = torch.tensor(numbers.total[layout.state_variable], dtype=like.dtype)
    unary = flat(problem.unary() / (temperature * total), 1)
    initial = None if problem.initial is None else problem.initial.reshape(examples, -1)
    return Given(tables, unary, initial, numbers.exponents(layout), examples)


def _solve(given: Given, method: MessagePassing, problem: Problem, threads: int) -> CompiledSolution:
    """Probability domain where it can be, log domain where it must."""
    layout = problem.graph.layout
    wide = _too_wide(given, RANGES[problem.like.dtype].nats)
    everyone = torch.arange(given.examples)
    parts: list[Part] = []
    in_log = wide.nonzero()[:, 0]
    if len(in_log) < given.examples:
        narrow = everyone if len(in_log) == 0 else (~wide).nonzero()[:, 0]
        chosen = given if len(narrow) == given.examples else given.select(narrow)
        for part in _run(chosen, narrow, method, layout, threads, log=False):
            floor = RANGES[problem.like.dtype].floor
            lost = torch.from_numpy(~(part.lowest > floor)) | torch.isnan(part.states).any(-1)
            if not bool(lost.any()):
                parts.append(part)
                continue
            # These underflowed: what else ran beside them is run again only if it shared their arrays.
            kept = part.index[~lost]
            in_log = torch.cat([in_log, part.index[lost]])
            if len(kept):
                parts.extend(_run(given.select(kept), kept, method, layout, threads, log=False))
    if len(in_log):
        for part in _run(given.select(in_log), in_log, method, layout, threads, log=True):
            dead = np.flatnonzero(part.lowest == -np.inf)
            if dead.size:
                raise ImpossibleError(
                    f"no configuration is possible in example {int(part.index[dead[0]])}: "
                    "the evidence or the zeros of the potentials contradict each other"
                )
            parts.append(part)
    return _join(parts, problem, len(in_log))


def _join(parts: list[Part], problem: Problem, in_log: int) -> CompiledSolution:
    examples = sum(len(part.index) for part in parts)
    domain = "probability" if in_log == 0 else "log" if in_log == examples else "probability and log"
    empty = problem.like.new_zeros(0)
    solution = CompiledSolution(problem, parts, empty, empty, empty, sum(part.sent for part in parts), domain)
    solution.states = solution._joined(lambda part: part.states, problem.graph.layout.states)
    solution.sweeps = solution._joined(lambda part: torch.from_numpy(part.sweeps)).to(torch.int64)
    solution.residual = solution._joined(lambda part: torch.from_numpy(part.residual))
    return solution


def _too_wide(given: Given, nats: float) -> Tensor:
    """Which examples have a table whose finite entries span more than the probability domain can hold."""
    wide = torch.zeros(given.examples, dtype=torch.bool)
    for values, shared in [(table, table.ndim == 2) for table in given.tables] + [(given.unary, given.unary.ndim == 1)]:
        # The common case by one cheap pass: nothing in the whole tensor is that far apart.
        low, high = values.aminmax() if values.numel() else (torch.zeros(()), torch.zeros(()))
        if float(high) - float(low) <= nats:
            continue
        lowest = torch.where(torch.isneginf(values), torch.inf, values).amin(-1)
        spans = values.amax(-1) - lowest > nats
        wide |= spans.any() if shared else spans.reshape(given.examples, -1).any(-1)
    if given.initial is not None:
        wide |= (torch.where(torch.isneginf(given.initial), 0.0, given.initial) < -nats).any(-1)
    return wide


def _run(given: Given, index: Tensor, method: MessagePassing, layout: Layout, threads: int, *, log: bool) -> list[Part]:
    """One kernel run, or one an example where factors stand in the lanes."""
    if isinstance(method.schedule, Flooding):
        few = given.examples < FEW_EXAMPLES
        arrangement = Arrangement.FACTORS if few else Arrangement.EXAMPLES
    elif isinstance(method.schedule, Sequential):
        arrangement = Arrangement.PLAIN if given.examples < FEW_EXAMPLES else Arrangement.EXAMPLES
    elif isinstance(method.schedule, Residual):
        arrangement = Arrangement.PLAIN
    else:
        raise ValueError(f"the compiled engine does not know the schedule {method.schedule!r}")
    storage = Storage.of(layout, arrangement)
    if arrangement is Arrangement.FACTORS:
        return [
            _run_packed(given.select(torch.tensor([k])), index[k : k + 1], method, storage, threads, log)
            for k in range(given.examples)
        ]
    return [_run_packed(given, index, method, storage, threads, log)]


def _run_packed(given: Given, index: Tensor, method: MessagePassing, storage: Storage, threads: int, log: bool) -> Part:
    from loopwise.kernels import arithmetic
    from loopwise.kernels.plan import Flow, Numbers

    neutral = 0.0 if log else 1.0

    def to_domain(values: Tensor) -> Tensor:
        """Potentials, scaled to a maximum of 1 where they might leave the floating-point range as they are."""
        if log:
            return values
        safe = RANGES[values.dtype].nats / 6
        low, high = values.aminmax() if values.numel() else (torch.zeros(()), torch.zeros(()))
        if float(high) <= safe and float(low) >= -5 * safe:
            return torch.exp(values)
        return torch.exp(values - values.amax(-1, keepdim=True))

    theta, groups = storage.pack_tables([to_domain(table) for table in given.tables], given.examples, neutral)
    unary, unary_block = _packed_unary(given, storage, log)
    m = _initial(given, storage, log)
    exponents = given.exponents.astype(m.dtype)
    semiring = {
        (False, False): arithmetic.PROBABILITY_SUM,
        (False, True): arithmetic.PROBABILITY_MAX,
        (True, False): arithmetic.LOG_SUM,
        (True, True): arithmetic.LOG_MAX,
    }[log, method.temperature == 0]
    run = KernelRun(
        storage,
        storage.plan(groups, exponents, unary_block),
        Numbers(theta.astype(m.dtype, copy=False), unary),
        Flow(m, np.full_like(m, neutral), np.zeros(storage.belief_size(given.examples), dtype=m.dtype)),
        given.examples,
        threads,
        semiring,
    )
    run.start(method)
    return Part(
        index,
        storage,
        run.numbers.theta,
        groups,
        exponents,
        run.flow.m,
        run.flow.n,
        storage.unpack_examples(run.flow.beliefs, given.examples),
        run.sweeps,
        run.residual,
        run.lowest,
        run.sent,
        semiring,
    )


def _packed_unary(given: Given, storage: Storage, log: bool) -> tuple[np.ndarray, int]:
    """Unary potentials, scaled to a maximum of 1 for each variable (its states are consecutive)."""
    layout, unary = storage.layout, given.unary
    if not log:
        owner = torch.tensor(layout.state_variable).expand(unary.shape)
        high = unary.new_full((*unary.shape[:-1], layout.graph.variables), -torch.inf)
        high.scatter_reduce_(-1, owner, unary, "amax")
        unary = torch.exp(unary - high.gather(-1, owner))
    if storage.arrangement is not Arrangement.EXAMPLES:
        shared = unary.ndim == 1
        return unary.contiguous().numpy().reshape(-1), 0 if shared else layout.states
    if unary.ndim == 1:
        return unary[:, None].expand(-1, storage.lanes).contiguous().numpy().reshape(-1), 0
    return storage.pack_examples(unary, 0.0 if log else 1.0), layout.states * storage.lanes


def _initial(given: Given, storage: Storage, log: bool) -> np.ndarray:
    """Packed initial messages in the domain of the run; uniform unless given."""
    neutral = 0.0 if log else 1.0
    if given.initial is not None:
        return storage.pack_messages(given.initial if log else torch.exp(given.initial), neutral)
    layout = storage.layout
    sizes = layout.graph.cardinalities[layout.edge_variable]
    share = torch.tensor(1.0 / np.repeat(sizes, sizes), dtype=given.unary.dtype)
    return storage.repeat_messages(torch.log(share) if log else share, given.examples, neutral)
