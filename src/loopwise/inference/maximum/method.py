"""The best joint assignment of a model: what is found, what bounds it, and what both share.

In: a problem, assignments to start from. Out: a :class:`Maximum`, which computes its parts when first asked for.
Stage: inference. Arithmetic is in float64 whatever the potentials are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.inference.base import Problem
from loopwise.inference.gibbs.method import chunk_count, factor_arrays
from loopwise.notices import ImpossibleError

if TYPE_CHECKING:
    from loopwise.inference.gibbs.kernels.gibbs import FactorArrays
    from loopwise.inference.maximum.kernels.map_dual import Sharing
    from loopwise.inference.messages.message_passing import Solution

Floats = NDArray[np.float64]

#: A gap is closed when bound and score differ by this at most, relative to what they are below the largest that all
#: factors could give each by itself; and by what rounding of the bound may amount to.
CLOSED = 1e-9
ROUNDINGS = 4.0
RESTARTS = 100  # random starts, and rounds of kicks, where a decoding breaks a hard zero
SWEEPS = 200  # of the dual at most, when only the bound is asked for
SETTLED = 1e-7  # relative: the dual has settled when so many sweeps as below lower it by less
SWEEPS_AT_ONCE = 5
_LARGEST_PENALTY = 1e290


class ScopeSolution(Protocol):
    """A solution with structured factors."""

    states: Tensor

    def scopes_maximised(self, values: Tensor) -> Tensor:
        """``values`` with the scope of each structured factor at its best assignment given the messages it gets."""


class Maximum:
    """The best joint assignment that was found, and an upper bound on the score of any.

    ``find`` gives the assignment ``[*batch, variables]`` and its score; ``bound``, of these, the bound and where it
    proves the assignment to be the best, bool ``[*batch]``. Each is called when first asked for, at most once. Scores
    and bounds are float64 ``[*batch]``, natural logarithms.
    """

    def __init__(
        self, find: Callable[[], tuple[Tensor, Tensor]], bound: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    ) -> None:
        self._find, self._bound = find, bound
        self.guard: Callable[[], None] | None = None  # raises if what the rest is computed from has changed since

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        if self.guard is not None:
            self.guard()
        with torch.no_grad():
            return self._find()

    @property
    def known(self) -> bool:
        """Whether the assignment has been computed."""
        return "_found" in self.__dict__

    @property
    def bounded(self) -> bool:
        """Whether the bound has been computed."""
        return "_bounded" in self.__dict__

    @property
    def assignment(self) -> Tensor:
        """The best assignment found, int64 ``[*batch, variables]``."""
        return self._found[0]

    @property
    def score(self) -> Tensor:
        """Its score, -inf where it breaks a hard zero."""
        return self._found[1]

    @cached_property
    def _bounded(self) -> tuple[Tensor, Tensor]:
        if self.guard is not None:
            self.guard()
        with torch.no_grad():
            return self._bound(self.assignment, self.score)

    @property
    def bound(self) -> Tensor:
        """No assignment has a higher score than this."""
        return self._bounded[0]

    @cached_property
    def gap(self) -> Tensor:
        """Bound less score relative to the larger of the two: how much better another assignment could be at most."""
        return torch.where(self.optimal, 0.0, relative_gap(self.score, self.bound))

    @property
    def optimal(self) -> Tensor:
        """Where the gap is closed, up to rounding (:data:`CLOSED`): no assignment is better. Bool ``[*batch]``.

        Constants, and what all cells of a table share, have no say in it: with them, any gap could look small.
        """
        return self._bounded[1]

    def __str__(self) -> str:
        """What is known by now, on one line."""
        if not self.known:
            return ""
        parts = [f"score {_range(self.score)}"]
        if self.bounded:
            parts.append(f"upper bound {_range(self.bound)}")
            parts.append("optimal" if bool(self.optimal.all()) else f"relative gap {_range(self.gap)}")
        return ", ".join(parts)


def _range(values: Tensor) -> str:
    if values.numel() == 0:
        return "of nothing"
    low, high = float(values.min()), float(values.max())
    return f"{low:.8g}" if low == high else f"{low:.8g} to {high:.8g}"


def relative_gap(score: Tensor, bound: Tensor) -> Tensor:
    """``(bound - score) / max(|bound|, |score|)``; 0 where both agree, infinity where nothing possible was found."""
    larger = torch.maximum(score.abs(), bound.abs())
    gap = (bound - score).clamp(min=0.0) / larger.clamp(min=torch.finfo(torch.float64).tiny)
    return torch.where(torch.isneginf(score), torch.inf, gap)


def exact_maximum(assignment: Callable[[], Tensor], score: Callable[[], Tensor]) -> Maximum:
    """Of a method that finds the best one: the score is its own bound."""

    def find() -> tuple[Tensor, Tensor]:
        return assignment(), score().detach().to("cpu", torch.float64)

    return Maximum(find, lambda _, found: (found.clone(), torch.ones_like(found, dtype=torch.bool)))


def finished(problem: Problem, solution: Solution) -> Maximum:
    """What max-product found, finished by local search: no change of one variable, or two of a factor, improves it.

    Starts are the decoding given earlier choices and each variable's own best value. Where both end at a broken zero,
    :data:`RESTARTS` random restarts and rounds of kicks look for a possible assignment.
    """

    if problem.graph.structured:
        return _best_seen(problem, cast("ScopeSolution", solution))

    def find() -> tuple[Tensor, Tensor]:
        decoded = solution.assignment()
        apart = best_values(problem, solution.states)
        return finish(problem, [decoded, apart.to(decoded)])

    return Maximum(find, lambda assignment, score: upper_bound(problem, assignment, score))


def _best_seen(problem: Problem, solution: ScopeSolution) -> Maximum:
    """With structured factors: the better of each variable's own best value and, on the scopes of structured factors,
    the best assignment of each given the messages that it got; nothing searches on from there. The bound is what every
    factor could give by itself."""
    from loopwise.inference.bethe import score

    def find() -> tuple[Tensor, Tensor]:
        apart = best_values(problem, solution.states)
        candidates = [apart.expand(*problem.batch, -1), solution.scopes_maximised(apart)]
        scores = torch.stack([score(problem, each).detach().to("cpu", torch.float64) for each in candidates])
        best, which = scores.max(0)
        chosen = torch.where(which.to(apart.device)[..., None] == 0, candidates[0], candidates[1])
        return chosen, best

    def bound(assignment: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        _, total = centred(problem)
        for member in problem.graph.layout.structured:
            flat = problem.like.new_zeros(member.factor.slots).to(torch.float64).expand(*problem.batch, -1)
            own = problem.factor_potentials(member)
            values = member.factor.argmax(flat, None if own is None else own.detach().double())
            total = total + member.factor.score(values, own).detach().to("cpu", torch.float64)
        rounding = ROUNDINGS * torch.finfo(torch.float64).eps * total.abs()
        return torch.maximum(total, found), total - found <= rounding

    return Maximum(find, bound)


def finish(problem: Problem, starts: list[Tensor], seed: int = 0) -> tuple[Tensor, Tensor]:
    """The best of the local optima above ``starts`` (each ``[*batch, variables]``), and its score."""
    from loopwise.inference.maximum.kernels.map_search import finish_decodings, total_score

    problem, offset = centred(problem)
    hard = factor_arrays(problem, 1.0)
    soft = softened(hard)
    examples, variables = problem.batch.numel(), problem.graph.variables
    given = torch.stack([start.expand(*problem.batch, variables).reshape(examples, variables) for start in starts])
    stacked = np.ascontiguousarray(given.cpu().numpy().astype(np.int64))
    best = np.zeros((examples, variables), dtype=np.int64)
    chunks = chunk_count(None, examples)
    in_threads(chunks, lambda chunk: finish_decodings(hard, soft, stacked, RESTARTS, seed, chunk, chunks, best))
    scores = np.array([total_score(hard, example, best[example]) for example in range(examples)])
    return as_batch(problem, best).to(problem.like.device), torch.from_numpy(scores).reshape(problem.batch) + offset


def upper_bound(problem: Problem, assignment: Tensor, score: Tensor, sweeps: int = SWEEPS) -> tuple[Tensor, Tensor]:
    """The dual bound of each example after at most ``sweeps`` sweeps, never below the ``score`` of its assignment, and
    where it proves that to be the best."""
    from loopwise.inference.maximum.kernels.map_search import total_score

    problem, offset = centred(problem)
    arrays, examples = factor_arrays(problem, 1.0), problem.batch.numel()
    bounds, proved = np.zeros(examples), np.zeros(examples, dtype=np.bool_)
    values = assignment.cpu().numpy().reshape(examples, -1).astype(np.int64)
    for example in range(examples):
        dual, target = Dual(problem, arrays, example), float(total_score(arrays, example, values[example]))
        while dual.sweeps < sweeps and not dual.settled and not closed(target, dual.bound, dual.slack):
            dual.descend(SWEEPS_AT_ONCE)
        bounds[example], proved[example] = max(dual.bound, target), closed(target, dual.bound, dual.slack)
    bound = torch.maximum(torch.from_numpy(bounds).reshape(problem.batch) + offset, score)
    return bound, torch.from_numpy(proved).reshape(problem.batch)


def centred(problem: Problem) -> tuple[Problem, Tensor]:
    """The problem with the largest entry of every table, and of every variable's own potentials, set to 0, in float64;
    and what that took away in all with the constants, float64 ``[*batch]``.

    So no offset costs digits, and scores say how far they are below what each factor could give by itself.
    """
    layout, offset = problem.graph.layout, problem.constant().detach().to("cpu", torch.float64).expand(problem.batch)
    unary = problem.unary().detach().to("cpu", torch.float64)
    owner = torch.tensor(layout.state_variable).expand(unary.shape)
    high = unary.new_full((*unary.shape[:-1], problem.graph.variables), -torch.inf)
    high = _finite(high.scatter_reduce(-1, owner, unary, "amax"))
    offset, unary = offset + high.sum(-1), unary - high.gather(-1, owner)
    tables = {group.name: unary.new_zeros(1, *group.shape) for group in (*layout.unary_groups, *layout.constant_groups)}
    for member in layout.message_groups:
        group = member.group
        table = problem.tables[group.name].detach().to("cpu", torch.float64)
        axes = tuple(range(-group.arity, 0))
        high = _finite(table.amax(axes, keepdim=True))
        tables[group.name] = table - high
        rows = high.flatten(-1 - group.arity)
        offset = offset + (rows.sum(-1) if rows.shape[-1] == group.count else rows[..., 0] * group.count)
    like = unary.new_empty(0)
    return Problem(problem.graph, tables, problem.batch, like, folded=unary), offset


def _finite(high: Tensor) -> Tensor:
    return torch.where(torch.isneginf(high), 0.0, high)


class Dual:
    """Messages of one example and the bound they give; see :mod:`loopwise.inference.maximum.kernels.map_dual`."""

    def __init__(self, problem: Problem, arrays: FactorArrays, example: int) -> None:
        from loopwise.inference.maximum.kernels.map_dual import mark_zeros

        self.arrays, self.example = arrays, example
        self.sharing = sharing(problem)
        self.messages = np.zeros(problem.graph.layout.slots)
        self.sweeps, self.settled, self.slack = 0, False, 0.0  # slack: what rounding can amount to
        mark_zeros(arrays, example, self.messages, self.sharing.slot_start)
        self.bound = self._evaluated()

    def descend(self, sweeps: int) -> None:
        """Lowers the bound by some sweeps."""
        from loopwise.inference.maximum.kernels.map_dual import dual_sweeps

        if not dual_sweeps(self.arrays, self.example, self.sharing, self.messages, sweeps):
            raise ImpossibleError(
                "the zeros of the potentials leave some variable without a possible value, so no configuration is "
                "possible; relax a zero, or take back evidence"
            )
        self.sweeps += sweeps
        before, self.bound = self.bound, min(self.bound, self._evaluated())
        self.settled = not before - self.bound > SETTLED * max(abs(before), abs(self.bound))

    def prune(self, target: float) -> int:
        """Leaves states out that no assignment of ``target`` or more has; how many."""
        from loopwise.inference.maximum.kernels.map_dual import prune_states

        now = self._evaluated()
        marked = int(prune_states(self.arrays, self.example, self.messages, self.sharing.slot_start, now, target))
        self.settled = self.settled and marked == 0
        return marked

    def dead(self) -> NDArray[np.bool_]:
        """States that have been left out, of variables with factors, ``[states]``."""
        layout_states = int(self.arrays.state_start[-1])
        gone = np.zeros(layout_states, dtype=np.bool_)
        sizes = np.diff(self.arrays.state_start)[self.arrays.edge_variable]
        first = np.repeat(self.arrays.state_start[self.arrays.edge_variable] - self.sharing.slot_start, sizes)
        slots = np.flatnonzero(np.isposinf(self.messages))
        gone[(first + np.arange(len(self.messages)))[slots]] = True
        return gone

    def rounded(self, backwards: bool) -> Integers:
        """An assignment read off the messages, each variable given those before it."""
        from loopwise.inference.maximum.kernels.map_dual import round_in_order

        order = self.sharing.order[::-1].copy() if backwards else self.sharing.order
        values = np.empty(len(order), dtype=np.int64)
        round_in_order(self.arrays, self.example, order, self.messages, self.sharing.slot_start, values)
        return values

    def _evaluated(self) -> float:
        from loopwise.inference.maximum.kernels.map_dual import dual_bound

        value, slack = dual_bound(self.arrays, self.example, self.messages, self.sharing.slot_start)
        self.slack = max(self.slack, float(slack))
        return float(value + slack)


def sharing(problem: Problem) -> Sharing:
    """Sweeps along the sequential order; a variable's shares are those of TRW-S."""
    from loopwise.inference.maximum.kernels.map_dual import Sharing

    layout = problem.graph.layout
    order = layout.sequential
    ahead = np.bincount(layout.edge_variable, order.pull_backward, problem.graph.variables)
    behind = np.bincount(layout.edge_variable, order.pull_forward, problem.graph.variables)
    share = 1.0 / np.maximum(1.0, np.maximum(ahead, behind))[layout.edge_variable]
    sizes = problem.graph.cardinalities[layout.edge_variable]
    return Sharing(
        np.ascontiguousarray(order.variables),
        np.where(order.pull_backward, share, 0.0),
        np.where(order.pull_forward, share, 0.0),
        starts_of(sizes)[:-1],
    )


def softened(arrays: FactorArrays) -> FactorArrays:
    """The same factors with a finite penalty for -inf, larger than all differences of scores taken together."""
    numbers = [values[values > -np.inf] for values in (arrays.unary, arrays.tables)]
    low = min((float(values.min()) for values in numbers if values.size), default=0.0)
    high = max((float(values.max()) for values in numbers if values.size), default=0.0)
    terms = len(arrays.table_start) + len(arrays.state_start) - 1
    penalty = min(1.0 + (high - low) * terms, _LARGEST_PENALTY)
    return arrays._replace(
        unary=np.where(np.isneginf(arrays.unary), low - penalty, arrays.unary),
        tables=np.where(np.isneginf(arrays.tables), low - penalty, arrays.tables),
    )


def closed(score: float, bound: float, slack: float) -> bool:
    """Whether a bound with this ``slack`` proves a score of a :func:`centred` problem to be the largest."""
    return score > -np.inf and bound - score <= CLOSED * max(abs(score), abs(bound)) + ROUNDINGS * slack


def as_batch(problem: Problem, rows: NDArray[np.int64]) -> Tensor:
    """Rows of examples in the shape of the batch."""
    return torch.from_numpy(rows).reshape(*problem.batch, problem.graph.variables)


def best_values(problem: Problem, states: Tensor) -> Tensor:
    """Each variable's own most probable value, ``[*batch, variables]``."""
    from loopwise.inference.by_variable import reduce_variables

    if problem.graph.variables == 0:
        return torch.zeros(*problem.batch, 0, dtype=torch.int64)
    return reduce_variables(problem.graph, lambda block: block.argmax(-1), states.detach()).to(torch.int64)
