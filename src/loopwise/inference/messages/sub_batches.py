"""One compiled run over a batch: potentials packed, examples sent to the domain that can hold them, results unpacked.

In: scaled potentials (:class:`Scaled`). Out: a :class:`SubBatch` for each kernel run, with some of the
examples; and the adjoints of what was given. Stage: inference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from loopwise.compiled.arithmetic import FEW_LANES, LANES
from loopwise.gradient.base import Gradient, Report
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.unroll import Store, Tape, Unroll
from loopwise.graph.layout import Layout
from loopwise.graph.parts import Parts, PartSelection
from loopwise.inference.messages.backward import Adjoints, Backward, RunOutputs, tape_for
from loopwise.inference.messages.fixed_point_adjoint import fixed_point_adjoint
from loopwise.inference.messages.hvp import Direction, push_and_pull
from loopwise.inference.messages.kernel_run import KernelRun, Options, RunResult, TapeSpec
from loopwise.inference.messages.part_run import PartBackward, PartRun, PartStorage
from loopwise.inference.messages.schedules import Flooding, Residual, Sequential
from loopwise.inference.messages.storage import Arrangement, Storage
from loopwise.inference.normalise import factor_softmax, rescaled
from loopwise.notices import GradientError, ImpossibleError
from loopwise.potentials.checks import Extent

# Fewer examples than this do not fill the lanes: each runs by itself, where one message is sent at a time, ...
FEW_EXAMPLES = 8
# ... or else with its factors in the lanes.
ENOUGH_EXAMPLES = 12
# States that fill vector registers without other factors or examples beside them.
WIDE = 16


class Range(NamedTuple):
    """What the probability domain can hold: the nats a table may span, the smallest normaliser to be trusted."""

    nats: float
    floor: float


# e^-600 is 1e-261; products of a few such still stay above 1e-308, and if not, the normaliser tells.
RANGES = {torch.float64: Range(600.0, 1e-280), torch.float32: Range(60.0, 1e-32)}


@dataclass(frozen=True)
class Scaled(Direction):
    """Scaled log-potentials of some examples: theta / (t c), and what else a run needs."""

    exponents: Tensor  # [edges]
    examples: int
    extents: tuple[Extent, ...] | None = None  # of the tables, if they are known already
    plain: bool = False  # whether all exponents are 1

    @property
    def wants_gradient(self) -> bool:
        """Whether the potentials or the initial messages want one."""
        values = [*self.tables, self.unary, self.initial]
        return any(value is not None and value.requires_grad for value in values)

    def select(self, index: Tensor) -> Scaled:
        """The same for some of the examples."""
        return replace(super().select(index), examples=len(index), extents=None)

    def extent(self, number: int) -> Extent:
        """The smallest and largest number of a table."""
        return Extent.of(self.tables[number]) if self.extents is None else self.extents[number]


class GradientSpec(NamedTuple):
    """What a run has to remember for its backward; ``gradient`` None: nothing."""

    gradient: Gradient | None = None
    parameters: bool = False  # damping or counting numbers want a gradient
    trace: bool = False


@dataclass
class SubBatch:
    """One kernel run over some of the examples."""

    index: Tensor  # which examples
    given: Scaled
    run: KernelRun
    options: Options
    result: RunResult
    asked: GradientSpec
    tape: Tape | None  # for a gradient by Unroll

    @property
    def states(self) -> Tensor:
        """Variable beliefs ``[examples, states]``."""
        states = self.run.storage.unpack_examples(self.result.beliefs, len(self.index))
        # Logarithms of huge potentials round by whole nats: what they leave is brought to sum to one.
        return rescaled(self.run.storage.layout, states) if self.run.in_log_domain else states

    def lost(self, floor: float) -> Tensor | None:
        """Which examples have messages that may have underflowed; None if there is none."""
        lowest, beliefs = self.result.lowest, self.result.beliefs
        if lowest.min(initial=np.inf) > floor and not np.isnan(beliefs).any():  # lanes that no example fills included
            return None
        small = torch.from_numpy(~(lowest > floor)).reshape(len(self.index), -1).any(-1)  # of an example or its parts
        found = small | torch.isnan(self.states).any(-1)
        return found if bool(found.any()) else None

    def by_state(self, values: Tensor) -> Tensor:
        """Numbers of all that stop by themselves, for each of their states: ``[examples, states]``, or 1 for all."""
        if isinstance(self.run, PartRun):
            return values.reshape(len(self.index), -1)[:, torch.from_numpy(self.run.union.state_part)]
        return values[:, None]

    def messages(self) -> Tensor:
        """Log messages to variables ``[examples, slots]``."""
        return self._logarithms(self.result.m)

    def to_factors(self) -> Tensor:
        """Log messages to factors ``[examples, slots]``, each up to a constant."""
        return self._logarithms(self.result.n)

    def _logarithms(self, packed: np.ndarray) -> Tensor:
        values = self.run.storage.unpack_messages(packed, len(self.index))
        return values if self.run.in_log_domain else torch.log(values)

    def factor(self, number: int) -> Tensor:
        """Beliefs of message group ``number``, ``[examples, factors, cells]``."""
        from loopwise.inference.messages.kernels.factors import factor_beliefs

        run, storage = self.run, self.run.storage
        group = storage.layout.message_groups[number].group
        if isinstance(run, PartRun):
            member = storage.layout.message_groups[number]
            return factor_softmax(member, self.given.tables[number], self.to_factors())
        members = int(storage.groups[number][1])
        out = np.empty(run.blocks * members * group.cells * storage.lanes, dtype=self.result.n.dtype)
        theta, static = run.potentials.theta, run.static()
        factor_beliefs(run.plan, theta, np.uint64(number), np.uint64(run.blocks), self.result.n, out, static)
        beliefs = storage.unpack_factors(out, len(self.index), group.count, group.cells)
        if not run.in_log_domain and not bool((beliefs.sum(-1) > 0.5).all()):
            # Table and messages are within range each by itself, their product is not.
            member = storage.layout.message_groups[number]
            return factor_softmax(member, self.given.tables[number], self.to_factors()).reshape(beliefs.shape)
        return beliefs / beliefs.sum(-1, keepdim=True) if run.in_log_domain else beliefs

    def trace(self, sweeps: int) -> Tensor:
        """Log beliefs, each up to a constant, after every sweep up to ``sweeps``, ``[sweeps + 1, examples, states]``;
        zero for an example that stopped earlier."""
        storage, tape, size = self.run.storage, self.result.tape, self.run.block_size
        layout, examples = storage.layout, len(self.index)
        every = int(tape.every)
        rows = tape.m.size // (self.run.blocks * size) if size else 1
        kept = tape.m.reshape(self.run.blocks, rows, size)
        slot_state = torch.tensor(layout.slot_state)
        cardinalities = torch.tensor(layout.graph.cardinalities[layout.edge_variable])
        exponents = torch.repeat_interleave(self.given.exponents.to(self.given.unary.dtype), cardinalities)
        sweeps_made, found = torch.from_numpy(self.result.sweeps), []
        for sweep in range(sweeps + 1):
            row = min(sweep * self.options.steps // every, kept.shape[1] - 1)
            weighted = self._logarithms(np.ascontiguousarray(kept[:, row]).reshape(-1)) * exponents
            weighted = torch.where(torch.isnan(weighted), -torch.inf, weighted)
            total = weighted.new_zeros(examples, layout.states).index_add(-1, slot_state, weighted)
            found.append(torch.where(self.by_state(sweeps_made) >= sweep, total + self.given.unary, 0.0))
        return torch.stack(found)

    def pull_back(self, adjoint: RunOutputs, report: Report) -> Adjoints:
        """Adjoints of what was given, from those of the results."""
        if isinstance(self.asked.gradient, (FixedPoint, OneStep)):
            backward = self._way_back(self.result.m, Store(), parameters=False)
            return fixed_point_adjoint(backward, adjoint, self.asked.gradient, report, self.asked.parameters)
        return self._backward().pull_back(adjoint)

    def push_and_pull(self, adjoint: RunOutputs, direction: Direction) -> tuple[RunOutputs, Adjoints]:
        """Tangents of the results, and of what :meth:`pull_back` gives for ``adjoint``."""
        if isinstance(self.options.schedule, Residual):
            raise GradientError(
                "the compiled engine has no second derivatives of the residual schedule; use Flooding or Sequential, "
                "or engine=Reference()"
            )
        if isinstance(self.run, PartRun):
            return push_and_pull_parts(self, adjoint, direction)
        return push_and_pull(self._backward(), adjoint, direction)

    def _backward(self) -> Backward:
        assert self.tape is not None
        start = initial_messages(self.given, self.run.storage, self.run.in_log_domain)
        return self._way_back(start, self.tape, self.asked.parameters)

    def _way_back(self, start: np.ndarray, tape: Tape, parameters: bool) -> Backward:
        kind = PartBackward if isinstance(self.run, PartRun) else Backward
        return kind(self.run, self.options, self.result, start, tape, parameters)


def solve(
    given: Scaled, options: Options, layout: Layout, threads: int | None, maximise: bool, asked: GradientSpec
) -> list[SubBatch]:
    """Probability domain where it can be, log domain where it must."""
    dtype = given.unary.dtype
    everyone = torch.arange(given.examples)
    parts: list[SubBatch] = []
    wide = _too_wide(given, RANGES[dtype].nats)
    in_log = everyone[:0] if wide is None else wide.nonzero()[:, 0]

    def run(index: Tensor, log: bool) -> SubBatch:
        chosen = given if len(index) == given.examples else given.select(index)
        storage, semiring = _storage(chosen, options, layout), _semiring(log, maximise)
        return _run(chosen, index, options, storage, threads, semiring, asked)

    if len(in_log) < given.examples:
        part = run(everyone if wide is None else (~wide).nonzero()[:, 0], log=False)
        lost = part.lost(RANGES[dtype].floor)
        if lost is None:
            parts.append(part)
        else:
            kept = part.index[~lost]
            in_log = torch.cat([in_log, part.index[lost]])
            if len(kept):  # the others underflowed, in the same arrays
                parts.append(run(kept, log=False))
    if len(in_log):
        part = run(in_log.sort().values, log=True)  # in the order of the examples, as what is given is
        dead = np.flatnonzero(part.result.lowest == -np.inf)
        if dead.size:
            which = int(part.index[dead[0]]) if options.enough_parts is None else dead[0] % len(options.enough_parts)
            raise ImpossibleError(
                f"no configuration is possible in example {which}: "
                "the evidence or the zeros of the potentials contradict each other; "
                "relax a zero, or take back evidence"
            )
        parts.append(part)
    return parts


def _semiring(log: bool, maximise: bool) -> tuple[int, ...]:
    from loopwise.compiled import arithmetic

    if log:
        return arithmetic.LOG_MAX if maximise else arithmetic.LOG_SUM
    return arithmetic.PROBABILITY_MAX if maximise else arithmetic.PROBABILITY_SUM


def _too_wide(given: Scaled, nats: float) -> Tensor | None:
    """Which examples have a table whose finite entries span more than the probability domain can hold; None: none."""
    wide: Tensor | None = None
    extents = [*(given.extent(number) for number in range(len(given.tables))), Extent.of(given.unary)]
    for values, extent in zip((*given.tables, given.unary), extents, strict=True):
        # The common case by one cheap pass: nothing in the whole tensor is that far apart.
        if extent.high - extent.low <= nats:
            continue
        lowest = torch.where(torch.isneginf(values), torch.inf, values).amin(-1)
        spans = values.amax(-1) - lowest > nats
        shared = values.ndim == (1 if values is given.unary else 2)
        found = spans.any().expand(given.examples) if shared else spans.reshape(given.examples, -1).any(-1)
        wide = found if wide is None else wide | found
    if given.initial is not None:
        found = (torch.where(torch.isneginf(given.initial), 0.0, given.initial) < -nats).any(-1)
        wide = found if wide is None else wide | found
    return wide


def _storage(given: Scaled, options: Options, layout: Layout) -> Storage:
    """What stands side by side."""
    if options.enough_parts is not None:
        return PartStorage.of_union(layout)
    if isinstance(options.schedule, Flooding):
        return flooding_storage(layout, given.examples, all(table.ndim == 2 for table in given.tables))
    if isinstance(options.schedule, Sequential):
        few = given.examples < FEW_EXAMPLES
        return Storage.of(layout, Arrangement.PLAIN) if few else Storage.of(layout, Arrangement.EXAMPLES, LANES)
    if isinstance(options.schedule, Residual):
        return Storage.of(layout, Arrangement.PLAIN)
    raise ValueError(
        f"the compiled engine does not know the schedule {options.schedule!r}; "
        "use Flooding, Sequential or Residual, or engine=Reference()"
    )


def flooding_storage(layout: Layout, examples: int, shared: bool) -> Storage:
    """What stands side by side where all factors send at once; ``shared``: examples have no table of their own."""
    if "wide" not in layout.kept:
        layout.kept["wide"] = _is_wide(layout)
    wide = layout.kept["wide"]
    if wide and examples > 1 and shared:
        # Matrix products; each block of examples reads all tables once.
        return Storage.of(layout, Arrangement.EXAMPLES, FEW_LANES if examples <= FEW_LANES else LANES)
    if wide or examples < ENOUGH_EXAMPLES:
        return Storage.of(layout, Arrangement.FACTORS, 1 if wide else LANES)
    return Storage.of(layout, Arrangement.EXAMPLES, LANES)


def _is_wide(layout: Layout) -> bool:
    """Whether most cells are in tables whose last axis fills vector registers by itself."""
    cells = wide = 0
    for member in layout.message_groups:
        group = member.group
        cells += group.count * group.cells
        wide += group.count * group.cells if group.shape[-1] >= WIDE else 0
    return 2 * wide > cells


def _run(
    given: Scaled,
    index: Tensor,
    options: Options,
    storage: Storage,
    threads: int | None,
    semiring: tuple[int, ...],
    asked: GradientSpec,
) -> SubBatch:
    from loopwise.inference.messages.kernels.plan import Potentials

    log = len(semiring) >= 2

    def in_range(values: Tensor, extent: Extent) -> Tensor:
        """Log-potentials with a maximum of 0 where their exponentials might leave the floating-point range."""
        safe = RANGES[values.dtype].nats / 6
        if log or (extent.high <= safe and extent.low >= -5 * safe):
            return values
        high = values.amax(-1, keepdim=True)
        return values - torch.where(torch.isneginf(high), 0.0, high)

    tables = [in_range(table, given.extent(number)) for number, table in enumerate(given.tables)]
    theta, groups = storage.pack_tables(tables, given.examples, 0.0, exponentiate=not log)
    unary, unary_block = _packed_unary(given, storage, log)
    m = initial_messages(given, storage, log)
    exponents = given.exponents.numpy().astype(m.dtype, copy=False)
    kind = PartRun if isinstance(storage, PartStorage) else KernelRun
    run = kind(
        storage,
        storage.plan(groups, exponents, unary_block, given.plain),
        Potentials(theta.astype(m.dtype, copy=False), unary),
        given.examples,
        threads,
        semiring,
        given.plain,
    )
    tape, spec = None, TapeSpec(every=options.steps if asked.trace else 0)
    if isinstance(asked.gradient, Unroll):
        tape, spec = tape_for(asked.gradient.tape, run, options, asked.parameters, asked.trace)
    return SubBatch(index, given, run, options, run.start(options, m, spec), asked, tape)


def _packed_unary(given: Scaled, storage: Storage, log: bool) -> tuple[np.ndarray, int]:
    """Unary potentials, scaled to a maximum of 1 for each variable (its states are consecutive)."""
    layout, unary = storage.layout, given.unary
    states = layout.graph.uniform_cardinality
    if not log and states is not None:
        rows = unary.reshape(*unary.shape[:-1], layout.graph.variables, states)
        unary = (rows - rows.amax(-1, keepdim=True)).exp_().reshape(unary.shape)
    elif not log:
        owner = torch.tensor(layout.state_variable).expand(unary.shape)
        high = unary.new_full((*unary.shape[:-1], layout.graph.variables), -torch.inf)
        high.scatter_reduce_(-1, owner, unary, "amax")
        unary = torch.exp(unary - high.gather(-1, owner))
    block = layout.states * storage.in_block
    return storage.pack_unary(unary, 0.0 if log else 1.0), 0 if unary.ndim == 1 else block


def initial_messages(given: Scaled, storage: Storage, log: bool) -> np.ndarray:
    """Packed initial messages in the domain of the run; uniform unless given."""
    if given.initial is not None:
        return storage.pack_messages(given.initial if log else torch.exp(given.initial), 0.0 if log else 1.0)
    return storage.uniform_messages(given.examples, log, given.unary.numpy().dtype)


def push_and_pull_parts(whole: SubBatch, adjoint: RunOutputs, direction: Direction) -> tuple[RunOutputs, Adjoints]:
    """:meth:`SubBatch.push_and_pull` of a union: parts of equally many sweeps run once more, together, with a fixed
    number of them."""
    given, union = whole.given, Parts.of(whole.run.storage.layout.graph)
    moved = RunOutputs(*(None if each is None else torch.zeros_like(each) for each in adjoint))  # type: ignore[arg-type]
    start = given.unary.new_zeros(given.examples, whole.run.storage.layout.slots)
    tables = [torch.zeros_like(table) for table in given.tables]
    dotted = Adjoints(
        tables, torch.zeros_like(given.unary), start, torch.zeros_like(given.exponents), given.unary.new_zeros(())
    )
    sweeps = whole.result.sweeps.reshape(given.examples, -1)
    for row in range(given.examples):
        for count in np.unique(sweeps[row]):
            chosen = union.select(np.flatnonzero(sweeps[row] == count))
            states, slots = torch.from_numpy(chosen.states), torch.from_numpy(chosen.slots)
            options = whole.options._replace(iterations=int(count), tolerance=0.0, enough=None, enough_parts=None)
            piece = _of_parts(given, row, chosen)
            piece = replace(piece, exponents=given.exponents[torch.from_numpy(chosen.edges)], examples=1, extents=None)
            layout, threads = chosen.graph.layout, whole.run.at_most
            (part,) = solve(piece, options, layout, threads, maximise=False, asked=whole.asked)
            trace = None if adjoint.trace is None else adjoint.trace[: count + 1, row : row + 1, states]
            seeds = adjoint.states[row, None, states], adjoint.n[row, None, slots], adjoint.m[row, None, slots]
            results, adjoints = part.push_and_pull(RunOutputs(*seeds, trace), _of_parts(direction, row, chosen))
            moved.states[row, states] = results.states[0]
            moved.n[row, slots], moved.m[row, slots] = results.n[0], results.m[0]
            if moved.trace is not None and results.trace is not None:
                moved.trace[: count + 1, row, states] = results.trace[:, 0]
            dotted.initial[row, slots] = adjoints.initial[0]
            _row(dotted.unary, row, 1)[states] += adjoints.unary.reshape(-1)
            for member, into, found in zip(layout.message_groups, dotted.tables, adjoints.tables, strict=True):
                factors = torch.from_numpy(chosen.rows[member.group.name])
                _row(into, row, 2)[factors] += found.reshape(-1, member.group.cells)
    return moved, dotted


def _row(values: Tensor, row: int, shared: int) -> Tensor:
    """What example ``row`` has of values that have ``shared`` dimensions if all examples share them."""
    return values if values.ndim == shared else values[row]


GivenT = TypeVar("GivenT", bound=Direction)


def _of_parts(given: GivenT, row: int, chosen: PartSelection) -> GivenT:
    """What some parts of example ``row`` have of ``given``."""
    names = [member.group.name for member in chosen.graph.layout.message_groups]
    return replace(
        given,
        tables=[
            _row(table, row, 2)[torch.from_numpy(chosen.rows[name])]
            for name, table in zip(names, given.tables, strict=True)
        ],
        unary=_row(given.unary, row, 1)[torch.from_numpy(chosen.states)],
        initial=None if given.initial is None else given.initial[row, None, torch.from_numpy(chosen.slots)],
    )
