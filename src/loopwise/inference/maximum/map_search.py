r"""The most probable configuration by search, with a bound on how much better another could be.

In: a problem without evidence. Out: :class:`Beliefs` of one configuration; ``status`` has its score, a bound, the gap.
Stage: inference. Starts are decodings of max-product messages, roundings of the dual's messages and random ones; moves
are those of ``map_search``; the bound is that of ``map_dual``. Bound and score
together rule out values of variables, and what they leave may be small enough for elimination, which ends the matter.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.elimination import junction_tree
from loopwise.graph.factor_graph import Integers
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.bethe import score
from loopwise.inference.by_variable import point_masses
from loopwise.inference.decision import cell_masses
from loopwise.inference.exact.junction_tree import Calibration
from loopwise.inference.exact.method import GIB
from loopwise.inference.gibbs.method import check_count, check_seed_temperature_threads, factor_arrays
from loopwise.inference.maximum.method import (
    CLOSED,
    RESTARTS,
    SWEEPS_AT_ONCE,
    Dual,
    Floats,
    Maximum,
    as_batch,
    best_values,
    centred,
    closed,
    softened,
)
from loopwise.inference.messages.message_passing import BP, MessagePassing, warn_of_zeros, without_gradient
from loopwise.inference.messages.schedules import Sequential
from loopwise.inference.pruning import PrunedCalibration, StatePruning
from loopwise.inference.unfolding import unfolded
from loopwise.notices import ConvergenceWarning

if TYPE_CHECKING:
    from loopwise.inference.gibbs.kernels.gibbs import FactorArrays

CELLS_A_SECOND = 2e7  # of elimination: 1e6 to 1e8 as cliques have many tables or few
EDGE_LIMIT = 200_000  # edges beyond which looking for an elimination order costs more than searching on
KICKS = 200  # a round, where rounds are counted
START_SHARE = 0.25  # of the seconds, for message passing to suggest a start
SLICES = 40  # rounds into which seconds are cut, at least
LARGE = 1e150  # squares of numbers beyond it overflow
LIFE = 4  # rounds that a challenger gets before another start is tried
LOSSES = (0.0, 0.03, 0.3)  # what kicks may lose, in turn, in standard deviations of the tables' cells


class Progress(NamedTuple):
    """How far a search is: seconds gone, the best score so far (-inf: nothing possible yet), the bound."""

    seconds: float
    score: float
    bound: float


@dataclass(frozen=True)
class MapSearch(Inference):
    """A configuration of high score, a bound on the highest, and the gap between them (``status``).

    Beliefs are the indicators of the configuration found, ``log_partition`` is its score. It ends when bound and score
    meet (``status.exact``: the configuration is optimal), else after ``seconds`` shared out among the examples, or,
    if those are None, after ``rounds`` of search, whose result depends on ``seed`` alone.

    Parameters
    ----------
    seconds: time for all examples together; None counts rounds instead.
    rounds: of 200 kicks each, for every example, where no seconds are given.
    seed: of the random starts and moves.
    start: max-product message passing whose decodings are among the starts; None leaves them out.
    memory_limit: bytes that elimination of what the bound leaves may take.
    watch: called after every round with its :class:`Progress`.

    Examples
    --------
    >>> import loopwise as lw
    >>> graph = lw.grid(30, 30)
    >>> found = lw.inference.MapSearch(rounds=5)(graph, lw.TablePotentials.random(graph, seed=0))
    >>> bool(found.status.maximum.score <= found.status.maximum.bound)
    True
    """

    seconds: float | None = None
    rounds: int = 20
    seed: int = 0
    start: MessagePassing | None = field(default_factory=lambda: BP(schedule=Sequential()))
    memory_limit: float = 2 * GIB
    watch: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (isinstance(self.seconds, Real) and 0 < self.seconds < math.inf):
            raise ValueError(f"seconds must be a positive number, not {self.seconds!r}")
        if self.start is not None and not isinstance(self.start, MessagePassing):
            raise ValueError(f"start must be None or a method such as lw.BP(), not {self.start!r}")
        check_count("rounds", self.rounds, 1)
        check_seed_temperature_threads(self.seed, 1.0, None)
        if not self.memory_limit > 0:
            raise ValueError(f"memory_limit must be a positive number of bytes, not {self.memory_limit}")

    def run(self, problem: Problem) -> Beliefs:
        begin = time.perf_counter()
        with torch.no_grad():
            starts = self._decoded(problem, begin)
            inner, offset = centred(problem)
            arrays, constant = factor_arrays(inner, 1.0), offset.reshape(-1).tolist()
            searches = []
            for example in range(problem.batch.numel()):
                budget = self._budget(begin, example, problem.batch.numel())
                watch = self._watching(begin, constant[example])
                search = _Search(inner, arrays, example, self, budget, watch)
                search.run([row[example] for row in starts])
                searches.append(search)
            beliefs = self._beliefs(problem, searches, offset)
        return without_gradient(beliefs, problem) if problem.differentiable else beliefs

    def _decoded(self, problem: Problem, begin: float) -> list[Integers]:
        """Assignments ``[examples, variables]`` that message passing suggests, in a part of the time at most."""
        if self.start is None or problem.graph.layout.edges == 0:
            return []
        step = replace(self.start, temperature=0.0, iterations=min(SWEEPS_AT_ONCE, self.start.iterations))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # only a start
            beliefs = step.run(problem)
            for _ in range(step.iterations, self.start.iterations, SWEEPS_AT_ONCE):
                late = self.seconds is not None and time.perf_counter() - begin > START_SHARE * self.seconds
                if late or beliefs.status.converged:
                    break
                beliefs = step.run(replace(problem, initial=beliefs.messages))
        shape = (problem.batch.numel(), problem.graph.variables)
        return [best_values(problem, beliefs.states).cpu().numpy().reshape(shape).astype(np.int64)]

    def _budget(self, begin: float, example: int, examples: int) -> _Budget:
        if self.seconds is None:
            return _Budget(self.rounds, None, 0.0)
        now = time.perf_counter()
        share = max(0.0, begin + self.seconds - now) / (examples - example)
        return _Budget(None, now + share, share / SLICES)

    def _watching(self, begin: float, constant: float) -> Callable[[float, float], None]:
        def watch(score: float, bound: float) -> None:
            if self.watch is not None:
                self.watch(Progress(time.perf_counter() - begin, score + constant, bound + constant))

        return watch

    def _beliefs(self, problem: Problem, searches: list[_Search], offset: Tensor) -> Beliefs:
        variables = problem.graph.variables
        best = np.array([search.best for search in searches], dtype=np.int64).reshape(len(searches), variables)
        assignment = as_batch(problem, best).to(problem.like.device)
        scores = (
            torch.tensor([search.score for search in searches], dtype=torch.float64).reshape(problem.batch) + offset
        )
        bounds = (
            torch.tensor([search.bound for search in searches], dtype=torch.float64).reshape(problem.batch) + offset
        )
        proved = torch.tensor([search.over for search in searches], dtype=torch.bool).reshape(problem.batch)
        maximum = Maximum(lambda: (assignment, scores), lambda *_: (torch.maximum(bounds, scores), proved))
        optimal = bool(maximum.optimal.all())
        kicks = sum(search.kicks for search in searches)
        sweeps = torch.tensor([search.dual.sweeps for search in searches], dtype=torch.int64)
        notes = (f"{kicks} kicks", *_proved(searches))
        status = Status(
            method="MapSearch",
            exact=optimal,
            converged=optimal or all(search.dual.settled for search in searches),
            sweeps=sweeps.reshape(problem.batch),
            residual=maximum.gap,
            engine="compiled",
            domain="log",
            notes=notes,
            maximum=maximum,
        )
        warn_of_zeros(scores)
        states = point_masses(problem.graph, assignment, problem.like)
        return Beliefs(
            problem.graph,
            states,
            lambda name: cell_masses(problem.graph, name, assignment, states),
            lambda: score(problem, assignment),  # linear in the potentials of the configuration found
            status,
            assignment=lambda: assignment,
        )


def _proved(searches: list[_Search]) -> tuple[str, ...]:
    eliminated = sum(search.eliminated for search in searches)
    if not eliminated:
        return ()
    of = f" in {eliminated} of {len(searches)} examples" if len(searches) > 1 else ""
    return (f"proved by eliminating what the bound had left{of}",)


@dataclass
class _Budget:
    """Rounds, or a time to end at and how long a round is."""

    rounds: int | None
    end: float | None
    slice: float

    def left(self, done: int) -> bool:
        if self.rounds is not None:
            return done < self.rounds
        return time.perf_counter() < (self.end or 0.0)

    @property
    def seconds_left(self) -> float:
        """For elimination, which has no rounds: a few seconds where rounds are counted."""
        return 5.0 if self.end is None else max(0.0, self.end - time.perf_counter())


class _Search:
    """The search on one example of a centred problem."""

    def __init__(
        self,
        problem: Problem,
        hard: FactorArrays,
        example: int,
        options: MapSearch,
        budget: _Budget,
        watch: Callable[[float, float], None],
    ) -> None:
        from loopwise.inference.gibbs.kernels.gibbs import seed_stream
        from loopwise.inference.maximum.kernels.map_search import workspace

        self.problem, self.example, self.options, self.budget, self.watch = problem, example, options, budget, watch
        self.hard, self.soft = hard, softened(hard)
        self.work = workspace(self.soft)
        self.dual = Dual(problem, hard, example)
        self.generator = np.empty(4, dtype=np.uint64)
        seed_stream(self.generator, options.seed, 2**40 + example)
        self.best = np.zeros(problem.graph.variables, dtype=np.int64)
        self.spread = _spread(hard)
        self.kicks, self.eliminated = 0, False
        self.proved: float | None = None  # the largest score, where elimination has found it
        self._tried = 0  # states left out when elimination was last looked into

    @property
    def score(self) -> float:
        from loopwise.inference.maximum.kernels.map_search import total_score

        return float(total_score(self.hard, self.example, self.best))

    @property
    def bound(self) -> float:
        return self.dual.bound if self.proved is None else self.proved

    @property
    def over(self) -> bool:
        return self.eliminated or closed(self.score, self.bound, self.dual.slack)

    def run(self, starts: list[Integers]) -> None:
        """Searches until the gap closes or the budget ends."""
        for start in starts:
            self._consider(start)
        self._restart_randomly()
        challenger, done = self.best.copy(), 0
        while not self.over and (done == 0 or self.budget.left(done)):
            rounded = self._descend()
            if self.over:
                break
            if done % LIFE == 0 and done:
                challenger = self._new_start(done // LIFE)
            for start in rounded:
                self._consider(start)
            self._kick(self.best.copy(), 0.0)
            if self.budget.left(done):
                challenger = self._kick(challenger, LOSSES[done // LIFE % len(LOSSES)] * self.spread)
            done += 1
            self._finish_by_elimination()
            self.watch(self.score, self.bound)

    def _consider(self, start: Integers) -> None:
        """A start: its local optimum, and what is better there than in the best so far."""
        from loopwise.inference.maximum.kernels.map_search import climb_pairs

        values = start.copy()
        climb_pairs(self.soft, self.example, values, self.work)
        self._meet(values)

    def _meet(self, values: Integers) -> None:
        """The better of ``values`` and the best so far, part by part."""
        from loopwise.inference.maximum.kernels.map_search import combine, total_score

        old, new = (float(total_score(self.soft, self.example, x)) for x in (self.best, values))
        keep, other = (values.copy(), self.best) if new > old else (self.best.copy(), values)
        combine(self.soft, self.example, keep, other, self.work)
        if float(total_score(self.soft, self.example, keep)) > max(old, new):
            self.best = keep
        elif new > old:
            self.best = values.copy()

    def _restart_randomly(self) -> None:
        """ICM from random starts, as many as :data:`RESTARTS` if time allows."""
        from loopwise.inference.maximum.kernels.map_search import random_restarts

        for first in range(0, RESTARTS, 10):
            if first and not self.budget.left(0):
                break
            values, stream = self.best.copy(), self.example * RESTARTS + first
            random_restarts(self.hard, self.soft, self.example, stream, 10, self.options.seed, values, self.work)
            self._consider(values)

    def _new_start(self, number: int) -> Integers:
        """For a challenger: a rounding of the newest messages, or a random one."""
        from loopwise.inference.gibbs.kernels.gibbs import random_start
        from loopwise.inference.maximum.kernels.map_search import climb

        if number % 2:
            values = self.dual.rounded(backwards=number % 4 == 1)
        else:
            values = np.empty_like(self.best)
            random_start(self.hard, self.example, values, self.generator)
        climb(self.soft, self.example, values, self.work)
        return values

    def _kick(self, values: Integers, loss: float) -> Integers:
        """A round of kicks from ``values``, whose end is returned; the best on the way meets the best so far."""
        from loopwise.inference.maximum.kernels.map_search import kick_and_repair

        met, begin = np.empty_like(values), time.perf_counter()
        steps = KICKS if self.budget.rounds is not None else 20
        while True:
            kick_and_repair(self.soft, self.example, steps, loss, values, met, self.generator, self.work)
            self.kicks += steps
            self._consider(met)
            if self.budget.rounds is not None or time.perf_counter() - begin > self.budget.slice / 2:
                return values

    def _descend(self) -> list[Integers]:
        """Lowers the bound for a round, rules values out by it, and rounds its messages."""
        begin = time.perf_counter()
        if self.dual.settled:
            return []
        while not self.dual.settled:
            self.dual.descend(SWEEPS_AT_ONCE)
            if self.budget.rounds is not None or time.perf_counter() - begin > self.budget.slice:
                break
        rounded = [self.dual.rounded(backwards) for backwards in (False, True)]
        self._prune()
        return rounded

    def _prune(self) -> None:
        score = self.score
        if score > -np.inf:
            self.dual.prune(score - CLOSED * max(abs(score), abs(self.dual.bound)))

    def _finish_by_elimination(self) -> None:
        """Where a good deal more values have been ruled out than last time: is the rest small enough?"""
        if self.over:
            return
        self._prune()
        dead = self.dual.dead()
        if int(dead.sum()) <= (self._tried if self.dual.settled else 1.1 * self._tried):
            return
        self._tried = int(dead.sum())
        limit = CELLS_A_SECOND * self.budget.seconds_left
        found = _eliminated(self.problem, self.example, dead, limit, self.options.memory_limit)
        if found is not None:
            self._meet(found)
            self.eliminated, self.proved = True, min(self.dual.bound, self.score + self.dual.slack)


def _spread(arrays: FactorArrays) -> float:
    cells = arrays.tables[arrays.tables > -np.inf]
    if not cells.size:
        return 0.0
    scale = 1.0 if np.abs(cells).max() < LARGE else LARGE
    return scale * float((cells / scale).std())


def _eliminated(
    problem: Problem, example: int, dead: np.ndarray, cell_limit: float, memory_limit: float
) -> Integers | None:
    """The best configuration without ``dead`` states, if a junction tree of the rest is affordable."""
    if problem.graph.layout.edges > EDGE_LIMIT or cell_limit <= 0:
        return None
    whole = unfolded(_without(_one_example(problem, example), dead))
    groups = [group for group in whole.graph.groups if group.arity]
    theta = np.concatenate([np.zeros(0), *(_flat(whole, group.name) for group in groups)])
    pruning = StatePruning.of(whole.graph, theta > -np.inf)
    if pruning is None or pruning.empty is not None:
        return None
    tree = junction_tree(pruning.graph, restarts=0, cell_limit=cell_limit)
    if tree is None or Calibration.bytes_needed(tree, len(pruning.cells), 1, True) > memory_limit:
        return None
    result: Integers = PrunedCalibration(pruning, tree, theta[None], True).assignment[0]
    return result


def _flat(problem: Problem, name: str) -> Floats:
    return problem.table(name).detach().to("cpu", torch.float64).reshape(-1).numpy()


def _one_example(problem: Problem, example: int) -> Problem:
    """One example of a batch, without batch dimensions."""

    def row(values: torch.Tensor, rank: int) -> torch.Tensor:
        tail = values.shape[values.ndim - rank :]
        return values.detach().expand(*problem.batch, *tail).reshape(-1, *tail)[example]

    tables = {name: row(table, 1 + problem.graph.group(name).arity) for name, table in problem.tables.items()}
    return replace(problem, tables=tables, batch=torch.Size(), initial=None, folded=row(problem.unary(), 1))


def _without(problem: Problem, dead: np.ndarray) -> Problem:
    assert problem.folded is not None
    gone = torch.from_numpy(dead).to(problem.folded.device)
    return replace(problem, folded=torch.where(gone, -torch.inf, problem.folded))
