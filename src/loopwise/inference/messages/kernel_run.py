"""One call of a message-passing kernel: choosing its literal sizes, threads and working arrays.

In: packed potentials and initial messages. Out: a :class:`RunResult`: final messages, beliefs, what the run noticed and
what it kept of its steps. Stage: inference.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loopwise.compiled import arithmetic
from loopwise.compiled.threads import available_threads, in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.inference.messages.kernels.convergence import LEAST_REACH, StopRule
from loopwise.inference.messages.kernels.plan import (
    SHARED,
    TABLE_BLOCK,
    TABLE_START,
    Ends,
    Flood,
    Messages,
    Order,
    PairFlood,
    PairOrder,
    Plan,
    Potentials,
    Run,
    Share,
    Span,
    Static,
    Steps,
)
from loopwise.inference.messages.schedules import Residual, Schedule, Sequential
from loopwise.inference.messages.storage import Arrangement, Storage

if TYPE_CHECKING:
    from loopwise.inference.messages.kernels.residual import EdgeOrder

# Below this many messages in all sweeps, starting a second thread (a tenth of a millisecond, and Python's lock is
# contended) costs more than it gains. Runs that stop by themselves count as so many sweeps at most.
WORTH_A_THREAD = 80_000
LIKELY_SWEEPS = 20


# Products of more messages than this are rescaled on the way.
SHORT_PRODUCT = 16


class Options(NamedTuple):
    """What a run does, as plain numbers."""

    schedule: Schedule
    iterations: int
    tolerance: float
    damping: float
    threshold: float  # what counts as converged: the tolerance, or rounding where there is none
    enough: int | None = None  # sweeps after which no message can change any more
    judge_messages: bool = True
    enough_parts: Integers | None = None  # the same of each part of a union that stops by itself, 0 for no such number

    @property
    def steps(self) -> int:
        """Steps of a sweep: the sequential schedule goes forth and back."""
        return 2 if isinstance(self.schedule, Sequential) else 1

    @property
    def likely_sweeps(self) -> int:
        """By which to judge what a second thread is worth."""
        return max(1, self.iterations if self.tolerance == 0 else min(self.iterations, LIKELY_SWEEPS))


class Workspace:
    """Arrays of one thread that are used again and again: to touch fresh memory can cost more than to fill it."""

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def array(self, name: str, size: int, dtype: np.dtype) -> np.ndarray:
        """``size`` numbers, with anything in them."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < size or kept.dtype != dtype:
            kept = self._kept[name] = np.empty(size, dtype=dtype)
        return kept[:size]


class Spare:
    """The memory of one tape that is no longer needed, of bounded size, for the next run that needs as much."""

    LEAST, MOST = 2**20, 2**28  # bytes: less is had quickly, more is not held on to

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        """``size`` numbers, with anything in them."""
        if size * dtype.itemsize >= self.LEAST:
            try:
                kept = self._free.pop()  # at once: another thread may be asking
            except IndexError:
                kept = np.empty(0, dtype=dtype)
            if size <= len(kept) <= 2 * size and kept.dtype == dtype:
                return kept[:size]
        return np.empty(size, dtype=dtype)

    def return_after(self, run: object, memory: np.ndarray) -> None:
        """Takes ``memory`` back when ``run``, which alone may hold it, is gone."""
        whole = memory if memory.base is None else memory.base
        if memory.nbytes >= self.LEAST and whole.nbytes <= self.MOST:
            weakref.finalize(run, self._keep, whole).atexit = False

    def _keep(self, memory: np.ndarray) -> None:
        if not self._free:
            self._free.append(memory)


SPARE = Spare()  # of the process: one for each graph would add up


class TapeSpec(NamedTuple):
    """What a run is to keep: messages to factors after every step; messages to variables after every so many steps."""

    steps: bool = False
    every: int = 0


@dataclass
class RunResult:
    """Where a run ended, and what it kept on the way."""

    messages: Messages  # the arrays it worked in; messages to factors are those of all steps if it was to keep them
    m: np.ndarray  # final messages and beliefs, in the storage's arrangement
    n: np.ndarray
    beliefs: np.ndarray
    sweeps: np.ndarray
    residual: np.ndarray
    lowest: np.ndarray
    sent: int
    tape: Steps
    updates: np.ndarray  # the residual schedule: edges in the order of their updates, a row an example
    replaced: np.ndarray  # and the message that each update replaced
    made: np.ndarray  # how many there were, [examples]


class KernelRun:
    """Packed potentials of some examples, and how the kernels are specialised for them."""

    def __init__(
        self,
        storage: Storage,
        plan: Plan,
        potentials: Potentials,
        examples: int,
        threads: int | None,
        semiring: tuple[int, ...],
        plain: bool = False,
    ) -> None:
        """``threads``: at most so many, None for all. ``plain``: all exponents of the plan are known to be 1."""
        self.plain = plain
        self.storage, self.plan, self.potentials = storage, plan, potentials
        self.examples, self.at_most, self.semiring = examples, threads, semiring
        self.sweeps = 1  # that are likely
        self.blocks, self.block_size = self.arranged()
        self.neutral = 0.0 if self.in_log_domain else 1.0

    def arranged(self) -> tuple[int, int]:
        """How many blocks there are, and the numbers of the messages of one."""
        return self.storage.blocks(self.examples), self.storage.slots * self.storage.lanes

    def start(self, options: Options, m: np.ndarray, spec: TapeSpec) -> RunResult:
        """Runs from the packed messages ``m``, which are overwritten."""
        self.sweeps = options.likely_sweeps
        result = self._allocate(options, m, spec, self.blocks)
        if isinstance(options.schedule, Residual):
            self._by_residual(options, result)
        elif self.storage.arrangement is Arrangement.FACTORS:
            for block in range(self.blocks):
                self._flood_graph(options, result, 0, block)
        else:
            parts = min(self.parts(self.examples * self.storage.layout.edges), max(self.blocks, 1))
            in_threads(
                parts,
                lambda part: self._run_blocks(
                    options, result, 0, self.blocks * part // parts, self.blocks * (part + 1) // parts
                ),
            )
        if not isinstance(options.schedule, Residual):
            each = self.storage.layout.edges if options.steps == 1 else self.storage.layout.sequential.messages
            result.sent = int(result.sweeps[: self.examples].sum()) * each
        if options.iterations == 0 and not isinstance(options.schedule, Residual):
            result.residual[:] = np.inf  # no sweep was made, so nothing is known of it
        if options.enough is not None:
            result.residual[result.sweeps >= options.enough] = 0.0
        result.sweeps = result.sweeps[: self.examples]
        result.residual = result.residual[: self.examples]
        result.lowest = result.lowest[: self.examples]
        return result

    def again(self, options: Options, m: np.ndarray, spec: TapeSpec, block: int, workspace: Workspace) -> RunResult:
        """The same for one block, from its messages ``m``, with its steps in ``workspace``."""
        result = self._allocate(options, m, spec, 1, workspace)
        if self.storage.arrangement is Arrangement.FACTORS:
            self._flood_graph(options, result, block, block)
        else:
            self._run_blocks(options, result, block, block, block + 1)
        return result

    def resume(
        self, options: Options, result: RunResult, blocks: np.ndarray, workspace: Workspace
    ) -> tuple[np.ndarray, np.ndarray]:
        """Makes all of ``options.iterations`` more in these blocks (sorted numbers) of a run by :meth:`start` that
        recorded nothing and had no tolerance.

        Its arrays are written over. Beliefs before and after each sweep, ``[sweeps + 1, *beliefs]``, and their largest
        changes, ``[sweeps, examples]``, padded; both in ``workspace``, with anything in them for other blocks.
        """
        beliefs, count, padded = result.messages.beliefs, options.iterations, self.blocks * self.storage.in_block
        trace = workspace.array("trace", (count + 1) * len(beliefs), beliefs.dtype).reshape(count + 1, len(beliefs))
        moved = workspace.array("moved", count * padded, beliefs.dtype).reshape(count, padded)
        trace[0] = beliefs
        if self.storage.arrangement is Arrangement.FACTORS:
            for sweep in range(count):
                for block in blocks:
                    moved[sweep, block] = self._flood_graph(options._replace(iterations=1), result, 0, int(block), 1)
                trace[sweep + 1] = beliefs
            return trace, moved
        self.sweeps = count
        parts = min(self.parts(len(blocks) * self.storage.in_block * self.storage.layout.edges), max(len(blocks), 1))

        def work(part: int) -> None:
            mine = blocks[len(blocks) * part // parts : len(blocks) * (part + 1) // parts]
            for run in np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1):
                if len(run):
                    ends = int(run[0]), int(run[-1]) + 1
                    self._run_blocks(options, result, 0, *ends, 1, trace[1:].reshape(-1), moved)

        in_threads(parts, work)
        return trace, moved

    def gathered(self, options: Options, result: RunResult, chosen: np.ndarray) -> tuple[KernelRun, RunResult]:
        """The same run of some of its examples, side by side in as few blocks as will do, ready to :meth:`resume`."""
        storage, groups, pieces, start = self.storage, self.plan.groups.copy(), [], 0

        def picked(values: np.ndarray) -> np.ndarray:
            return storage.pick_examples(values, self.blocks, chosen)

        for row, member in zip(groups, storage.layout.message_groups, strict=True):
            begin, block = int(row[TABLE_START]), int(row[TABLE_BLOCK])
            size = block * self.blocks if block else member.group.count * member.group.cells
            piece = self.potentials.theta[begin : begin + size]
            pieces.append(picked(piece) if block else piece)
            row[TABLE_START] = start
            start += len(pieces[-1])
        theta = pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, self.potentials.theta[:0]])
        unary = picked(self.potentials.unary) if self.plan.unary_block else self.potentials.unary
        plan, potentials = self.plan._replace(groups=groups), Potentials(theta, unary)
        run = KernelRun(storage, plan, potentials, len(chosen), self.at_most, self.semiring, self.plain)
        other = run._allocate(options, picked(result.m), TapeSpec(), run.blocks)
        other.messages.n[:] = picked(result.n)
        other.messages.beliefs[:] = picked(result.beliefs)
        return run, other

    def _allocate(
        self, options: Options, m: np.ndarray, spec: TapeSpec, blocks: int, workspace: Workspace | None = None
    ) -> RunResult:
        """Arrays for a run of so many blocks."""
        size, storage = self.block_size, self.storage
        steps = options.iterations * options.steps
        residual = isinstance(options.schedule, Residual)
        stored = spec.steps and not residual
        kept = steps // spec.every + 1 if spec.every else 0
        tape = Steps(
            np.uint64((steps + 1) * size if stored else size),
            np.uint64(size if stored else 0),
            (workspace or Workspace()).array("m", blocks * kept * size, m.dtype),
            np.uint64(kept * size),
            np.uint64(size),
            np.uint64(spec.every),
        )
        lent = stored and workspace is None
        n = self.blank_messages(blocks * (steps + 1) if stored else blocks, m.dtype, workspace, lent)
        in_lanes = storage.arrangement is Arrangement.EXAMPLES
        messages = Messages(m, n, np.zeros(blocks * self.block_states, dtype=m.dtype))
        apart = in_lanes and options.tolerance > 0  # an example that stopped is copied out of its block
        padded = self.stopping
        updates = steps * storage.layout.edges if spec.steps and residual else 0
        width = int(storage.layout.graph.cardinalities.max(initial=1))
        result = RunResult(
            messages,
            np.empty_like(m) if apart else m,
            np.empty_like(m) if apart or stored else n,
            np.empty_like(messages.beliefs) if apart else messages.beliefs,
            np.zeros(padded, dtype=np.int64),
            np.zeros(padded, dtype=m.dtype),
            np.full(padded, np.inf, dtype=m.dtype),
            0,
            tape,
            np.empty((self.examples, updates), dtype=np.int32),
            np.empty((self.examples, updates * width), dtype=m.dtype),
            np.zeros(self.examples, dtype=np.int64),
        )
        if lent:
            SPARE.return_after(result, n)
        return result

    def arrived(self, messages: Messages, n: np.ndarray, sweeps: int, residual: np.ndarray, lowest: float) -> RunResult:
        """The result of one example that ran already, without what it kept on the way."""
        none, size = np.zeros((1, 0), dtype=n.dtype), np.uint64(self.block_size)
        zero, sent = np.uint64(0), sweeps * self.storage.layout.edges
        return RunResult(
            messages,
            messages.m,
            n,
            messages.beliefs,
            np.array([sweeps]),
            residual.reshape(1),
            np.array([lowest], dtype=n.dtype),
            sent,
            Steps(size, zero, none[0], zero, size, zero),
            none.astype(np.int32),
            none,
            np.zeros(1, dtype=np.int64),
        )

    def blank_messages(
        self, count: int, dtype: np.dtype, workspace: Workspace | None = None, lent: bool = False
    ) -> np.ndarray:
        """``count`` blocks of messages to factors; lanes that no factor fills are set once and for all. ``lent``: they
        may be spare memory, to be returned."""
        size = count * self.block_size
        n = SPARE.take(size, dtype) if lent else (workspace or Workspace()).array("n", size, dtype)
        if self.storage.arrangement is Arrangement.FACTORS:
            rows = n.reshape(count, self.block_size)
            for first, last in self.storage.padded_runs:
                rows[:, first:last] = self.neutral
        return n

    @property
    def stopping(self) -> int:
        """How many examples, those that fill up a block among them, stop each by itself."""
        return self.blocks * self.storage.in_block

    @property
    def block_states(self) -> int:
        """Numbers of the beliefs of a block."""
        return self.storage.layout.states * self.storage.in_block

    def parts(self, work: int) -> int:
        """Threads worth starting for this many messages a sweep."""
        return 1 if work * self.sweeps < WORTH_A_THREAD else self.threads

    @cached_property
    def threads(self) -> int:
        """That may be started; to ask for all costs as much as a small run."""
        return available_threads() if self.at_most is None else self.at_most

    @property
    def in_log_domain(self) -> bool:
        return len(self.semiring) >= 2

    @property
    def literal(self) -> tuple[int, ...]:
        """As long as the size of the pair factors that have a kernel of their own.

        In the log domain, exponentials are what costs: there, sizes are left open, so that few kernels are compiled.
        """
        return () if self.in_log_domain else self.storage.literal

    @property
    def general(self) -> tuple[int, ...] | None:
        """(0,) if some factor is not a pair of literal size."""
        return (0,) if self.in_log_domain else self.storage.general

    @cached_property
    def sharing(self) -> tuple[int, ...] | None:
        """(0,) if all lanes read the same table in some group."""
        return (0,) if bool((self.plan.groups[:, SHARED] == 1).any()) else None

    @property
    def uniform(self) -> tuple[int, ...] | None:
        """As long as the cardinality that all variables share, if it is small."""
        return None if self.in_log_domain else self.storage.uniform

    @cached_property
    def power(self) -> tuple[int, ...]:
        """How messages enter their variables."""
        exponents = self.plan.exponents
        if self.plain or (exponents == 1).all():
            return arithmetic.PLAIN
        return arithmetic.SQUARE_ROOT if (exponents == 0.5).all() else arithmetic.ANY_POWER

    @cached_property
    def lane_tag(self) -> tuple[int, ...]:
        return arithmetic.lane_tag(self.storage.lanes)

    @cached_property
    def variable_tag(self) -> tuple[int, ...]:
        """Variables have lanes only where examples do."""
        return arithmetic.lane_tag(self.storage.in_block)

    def static(self, single: bool = False) -> Static:
        """What kernels are compiled for."""
        return Static(
            self.literal,
            self.general,
            self.sharing,
            self.uniform,
            (0,) if single else None,
            self.lane_tag,
            self.variable_tag,
            self.power,
            self.semiring,
        )

    def schedule(self, options: Options) -> Flood | Order | PairFlood:
        """The order of messages as kernels read it."""
        if options.steps == 1:
            return Flood()
        known: Order | None = self.storage.kept.get("order")
        if known is None:
            layout = self.storage.layout
            pull = np.zeros((3, layout.edges), dtype=np.bool_)
            pull[0] = layout.sequential.pull_forward[layout.variable_edges]
            pull[1] = layout.sequential.pull_backward[layout.variable_edges]
            order = layout.sequential.variables
            known = self.storage.kept["order"] = Order(np.stack([order, order[::-1]]), pull)
        return known

    def _pair_order(self, order: Order) -> PairOrder:
        """The same with what each visit pulls, and room for the tables of an example."""
        from loopwise.inference.messages.kernels.message_vectors import ROOM

        known: PairOrder | None = self.storage.kept.get("pair order")
        if known is None:
            known = self.storage.kept["pair order"] = self._with_pulls(order)
        size = len(known.edges) * len(self.literal) ** 2 + ROOM
        return known._replace(tables=np.empty(size, dtype=self.potentials.theta.dtype))

    def _with_pulls(self, order: Order) -> PairOrder:
        layout, plan, variables = self.storage.layout, self.plan, order.way.shape[1]
        owner = layout.edge_variable[layout.variable_edges]
        edges, starts, first = [], np.zeros((3, variables + 1), dtype=np.uint64), 0
        for turn in range(2):
            rank = np.empty(variables, dtype=np.int64)
            rank[order.way[turn]] = np.arange(variables)
            visits = np.argsort(rank[owner], kind="stable")
            edges.append(visits[order.pull[turn][visits]])
            counts = np.bincount(rank[owner[edges[-1]]], minlength=variables)
            starts[turn] = first + starts_of(counts)
            first += len(edges[-1])
        pulled, size = np.concatenate(edges), np.uint64(len(self.literal))
        place = plan.edge_base[pulled]
        source = np.where(plan.edge_position[pulled] == 0, place + size, place - size)
        return PairOrder(order.way, order.pull, starts, pulled, source, place[:0])

    def run(self, options: Options, result: RunResult) -> Run:
        """The arrays of a kernel's call."""
        return Run(
            self.plan, self.potentials, result.messages, result.tape, self.rule(options), options.damping, self.examples
        )

    def _quick(self, options: Options) -> bool:
        """The plainest run of single messages: single examples, undamped, small pair factors only."""
        plain = self.storage.arrangement is Arrangement.PLAIN and not self.in_log_domain
        return plain and bool(self.literal) and self.general is None and options.damping == 0

    def _as_vectors(self, options: Options) -> bool:
        """Whether one message after another goes as a vector: the plainest runs of plain BP, whose products are short,
        since rescaling of long ones is left to the kernels for all cases."""
        short = self._quick(options) and self.power == arithmetic.PLAIN and self.uniform == self.literal
        return short and bool((self.storage.layout.degrees <= SHORT_PRODUCT).all())

    def rule(self, options: Options) -> StopRule:
        """When kernels stop. A nat of a log message moves a belief by a quarter at most (both values at 1/2), by less
        where messages enter their variables with smaller powers; a damped step is part of a longer way."""
        reach = 0.25 * float(self.plan.exponents.max(initial=0.0)) / (1 - options.damping)
        reach = max(reach, LEAST_REACH) if options.judge_messages else 0.0
        return StopRule(options.iterations, options.tolerance, options.threshold, reach)

    def _flood_graph(self, options: Options, result: RunResult, origin: int, block: int, first_sweep: int = 0) -> float:
        """Returns the last change of a belief."""
        from loopwise.inference.messages.kernels.schedules import flood_graph

        parts = self.parts(self.storage.layout.edges)
        before = np.empty(self.block_size, dtype=result.m.dtype)
        barrier, change = np.zeros(2, dtype=np.int64), np.zeros((2, parts), dtype=result.m.dtype)
        run, static = self.run(options, result), self.static()
        results = in_threads(
            parts,
            lambda part: flood_graph(
                run,
                Share(np.uint64(block), np.uint64(part), np.uint64(parts), barrier),
                np.uint64(origin),
                first_sweep,
                before,
                change,
                static,
            ),
        )
        result.sweeps[block], result.residual[block] = results[0][:2]
        result.lowest[block] = min(lowest for *_, lowest in results)
        if result.n is not result.messages.n:  # that is the tape
            here, size = block - origin, self.block_size
            last = here * int(result.tape.n_block) + int(result.sweeps[block]) * int(result.tape.n_step)
            result.n[here * size : (here + 1) * size] = result.messages.n[last : last + size]
        return float(results[0][2])

    def _run_blocks(
        self,
        options: Options,
        result: RunResult,
        origin: int,
        first: int,
        last: int,
        first_sweep: int = 0,
        trace: np.ndarray | None = None,
        moved: np.ndarray | None = None,
    ) -> None:
        from loopwise.inference.messages.kernels.schedules import run_blocks

        schedule: Flood | Order | PairFlood | PairOrder = self.schedule(options)
        if isinstance(schedule, Order) and self._as_vectors(options):
            schedule = self._pair_order(schedule)
        ends = Ends(
            Messages(result.m, result.n, result.beliefs),
            result.m is not result.messages.m or result.n is not result.messages.n,
            result.sweeps,
            result.residual,
            result.lowest,
            result.m[:0] if trace is None else trace,
            result.m[:0].reshape(0, 0) if moved is None else moved,
        )
        static = self.static(options.steps == 2 and self._quick(options))
        run_blocks(self.run(options, result), schedule, Span(first, last), origin, first_sweep, ends, static)

    def _by_residual(self, options: Options, result: RunResult) -> None:
        from loopwise.inference.messages.kernels.residual import Updates, residual_examples, residual_pairs

        layout, run, edges = self.storage.layout, self.run(options, result), self.edges_by_variable
        made, quick = result.made, self._as_vectors(options)
        most = options.iterations * layout.edges
        parts = min(self.parts(self.examples * layout.edges), max(self.examples, 1))
        updates = Updates(made, result.residual, result.lowest, result.updates, result.replaced)
        fresh = result.m[:0] if quick else np.empty_like(result.m)
        beside, static = self.edges_beside if quick else None, self.static()

        def work(part: int) -> None:
            mine = Span(self.examples * part // parts, self.examples * (part + 1) // parts)
            if quick:
                residual_pairs(run, beside, edges, mine, most, updates, static)
            else:
                residual_examples(run, fresh, edges, mine, most, updates, static)

        in_threads(parts, work)
        result.sweeps[: self.examples] = -(-made // max(layout.edges, 1))
        result.sent = int(made.sum())

    @cached_property
    def edges_by_variable(self) -> EdgeOrder:
        """Edges and variables, each by the other."""
        from loopwise.inference.messages.kernels.residual import EdgeOrder

        layout = self.storage.layout
        place = np.empty_like(layout.variable_edges)
        place[layout.variable_edges] = np.arange(layout.edges)
        arity = np.concatenate(
            [np.zeros(0, dtype=np.int64)]
            + [np.full(member.group.count * member.group.arity, member.group.arity) for member in layout.message_groups]
        )[layout.variable_edges]
        first = layout.variable_edges - self.plan.edge_position.astype(np.int64)
        return EdgeOrder(place, layout.edge_variable, first, arity)

    @property
    def edges_beside(self) -> tuple[np.ndarray, np.ndarray]:
        """The other edges of each edge's variable, one after another, and where each edge's begin."""
        known: tuple[np.ndarray, np.ndarray] | None = self.storage.kept.get("edges beside")
        if known is None:
            layout, count = self.storage.layout, self.storage.layout.degrees[self.storage.layout.edge_variable]
            first = np.repeat(layout.variable_edge_start[layout.edge_variable], count)
            edge, start = np.repeat(np.arange(layout.edges), count), starts_of(count - 1)
            all_edges = layout.variable_edges[first + np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)]
            known = start.astype(np.int64), all_edges[all_edges != edge].astype(np.int32)
            self.storage.kept["edges beside"] = known
        return known
