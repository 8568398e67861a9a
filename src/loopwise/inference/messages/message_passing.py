"""Message passing with counting numbers: BP and TRW are two settings of it.

In: a problem without evidence. Out: :class:`Beliefs`. Stage: inference. An :class:`Engine` does the sweeps and
answers with a :class:`Solution`; this file turns that into beliefs and an honest status.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Real
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from loopwise.gradient.base import Gradient, Report, check_gradient_of
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.marginals import MarginalGradient
from loopwise.gradient.once import taken_once
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Unroll
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.parts import Parts
from loopwise.inference.base import COLDEST, Inference, Problem, check_temperature
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.bethe import free_energy, score
from loopwise.inference.bracket import Bracket, bracket
from loopwise.inference.maximum.method import finished
from loopwise.inference.messages.counting import (
    Bethe,
    Counting,
    CountingNumbers,
    MonotonicChains,
    Reweighted,
    SpanningTrees,
)
from loopwise.inference.messages.implicit import implicit_beliefs
from loopwise.inference.messages.message_weights import MessageWeights, SweepWeights
from loopwise.inference.messages.operator import opaque, transforms
from loopwise.inference.messages.schedules import Flooding, Groups, RandomSequential, Residual, Schedule, check_groups
from loopwise.inference.messages.stop import Stop, Tolerance
from loopwise.notices import ConstraintWarning, ConvergenceWarning, GradientError, warn

# A fixed point counts as reached, for claims of exactness and bounds, when the way left is at most this.
ARRIVED = {torch.float64: 1e-6, torch.float32: 2e-5}

MANY_ZEROS = 0.05  # share of hard zeros from which an approximate answer gets a note

UPPER_BOUND = "log-partition is an upper bound"
WEIGHTED = "messages are weighted: nothing is claimed of a fixed point"
ESTIMATE = "log-partition is an estimate, since no fixed point was reached"


class Solution(Protocol):
    """Where one run of an engine ended. Everything but the variable beliefs is computed when asked for."""

    states: Tensor  # variable beliefs [*batch, states]
    sweeps: Tensor  # int64 [*batch]
    residual: Tensor  # [*batch]
    sent: int  # messages in all
    domain: str

    @property
    def stopped(self) -> Tensor | None:
        """The rule of ``stop`` that ended each example, int64 ``[*batch]``, -1 for none but a tolerance."""

    @property
    def trace(self) -> Tensor | None:
        """Variable beliefs after every sweep, ``[sweeps + 1, *batch, states]``, if asked for."""

    @property
    def report(self) -> Report | None:
        """What the last backward did, if there can be one."""

    def factor(self, name: str) -> Tensor:
        """Beliefs of group ``name``, ``[*batch, factors, *shape]``."""

    def structured(self) -> Tensor:
        """For each structured factor its log-partition less its beliefs times its messages, ``[*batch, factors]``."""

    def messages(self) -> Tensor:
        """Log messages to variables ``[*batch, slots]``, normalised."""

    def assignment(self) -> Tensor:
        """A joint assignment read off max-product beliefs, ``[*batch, variables]``."""


class Engine(Protocol):
    """Something that can run the sweeps."""

    @property
    def name(self) -> str:
        """How the status calls it."""

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Solution:
        """Runs ``method`` on ``problem``."""


class Verdict(NamedTuple):
    """What can be claimed of a run."""

    exact: bool
    converged: bool
    arrived: bool  # at a fixed point


@dataclass(frozen=True)
class Reading:
    """What beliefs work out only when asked: those of factors, the log-partition function, its bounds."""

    problem: Problem
    solution: Solution
    numbers: CountingNumbers
    temperature: float | Tensor
    status: Status

    def factor(self, name: str) -> Tensor:
        return _factor(self.problem, self.solution, name)

    def log_partition(self) -> Tensor:
        solution = self.solution
        return free_energy(
            self.problem, solution.states, solution.factor, self.numbers, self.temperature, solution.structured
        )

    def bounds(self) -> Bracket:
        known = self.log_partition().detach() if UPPER_BOUND in self.status.notes else None
        return bracket(self.problem, _number("temperature", self.temperature), upper=known)


@dataclass(frozen=True)
class MessagePassing(Inference):
    """Options that BP and TRW share.

    iterations: sweeps at most. tolerance: stop when a sweep moves no variable belief by more, nor any normalised log
    message by what could move one so far, which is four times as many nats (0: never stop early, and do not warn). On
    a forest, undamped BP stops as soon as it is exact. damping: share of the old message kept, in the log domain.
    schedule: order of messages. temperature: 1 is sum-product, 0 is max-product; in between, marginals of p^(1/t).
    engine: None chooses the compiled one on the CPU and the reference one elsewhere. gradient: how the backward is
    computed. trace: keep the variable beliefs of every sweep (``Beliefs.trace``), so that a loss may look at them.
    judge_messages: False stops when beliefs rest, whatever messages do: cheaper where couplings are strong and only
    marginals are wanted (so published for losses of marginals); nothing is then claimed of the fixed point.
    weights: numbers of message passing itself, to be trained (:class:`~loopwise.MessageWeights`).
    stop: other rules than ``tolerance`` by which an example ends, which this replaces: ``lw.inference.Satisfied()``, or
    ``lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-6))``; the status says which one did.
    """

    takes_messages: ClassVar[bool] = True
    takes_structured: ClassVar[bool] = True
    gradients: ClassVar[tuple[type[Gradient], ...]] = (Unroll, FixedPoint, OneStep, Perturbation, LinearSolve)

    iterations: int = 100
    tolerance: float = 1e-6
    damping: float | Tensor = 0.0
    schedule: Schedule = field(default_factory=Flooding)
    temperature: float | Tensor = 1.0
    engine: Engine | None = None
    gradient: Gradient = field(default_factory=Unroll)
    trace: bool = False
    judge_messages: bool = True
    weights: MessageWeights | None = None
    stop: Stop | None = None

    def __post_init__(self) -> None:
        if self.stop is not None:
            if not isinstance(self.stop, Stop):
                raise ValueError(
                    "stop must be a rule such as lw.inference.Satisfied() or lw.inference.Tolerance(1e-6), got "
                    f"{self.stop!r}"
                )
            object.__setattr__(self, "tolerance", self.stop.tolerance)
        check_gradient_of(self, self.gradient, self.gradients)
        if not _is_whole(self.iterations) or self.iterations < 0:
            raise ValueError(f"iterations must be a whole number and must not be negative, got {self.iterations!r}")
        object.__setattr__(self, "iterations", int(self.iterations))
        if not isinstance(self.schedule, Schedule):
            raise ValueError(
                "schedule must be lw.inference.Flooding(), lw.Sequential(), lw.inference.RandomSequential(), "
                f"lw.inference.Residual() or lw.Groups(...), got {self.schedule!r}"
            )
        if self.engine is not None and (isinstance(self.engine, type) or not hasattr(self.engine, "solve")):
            raise ValueError(
                "engine must be None, or an engine such as loopwise.inference.messages.compiled.Compiled() or "
                f"loopwise.inference.messages.reference.Reference(), got {self.engine!r}"
            )
        if not self.judge_messages and isinstance(self.schedule, Residual):
            raise ValueError("the residual schedule goes by messages; judge_messages=False is for sweeps")
        if self.trace and isinstance(self.schedule, Residual):
            raise ValueError("the residual schedule has no sweeps to trace; use Flooding or Sequential")
        if not isinstance(self.tolerance, Real) or not self.tolerance >= 0:
            raise ValueError(f"tolerance must be a number and must not be negative, got {self.tolerance!r}")
        if self.watches and isinstance(self.schedule, Residual):
            raise ValueError("the residual schedule has no sweeps after which a rule could look; stop by a tolerance")
        if self.watches and isinstance(self.gradient, MarginalGradient):
            raise ValueError(
                f"{type(self.gradient).__name__} needs runs to a fixed point, which a rule such as "
                "lw.inference.Satisfied() does not see to; use lw.Unroll(), or stop by a tolerance"
            )
        self._check_weights()
        self._check_trainable()

    @property
    def rules(self) -> tuple[Stop, ...]:
        """What can end an example before ``iterations`` sweeps."""
        if self.stop is not None:
            return self.stop.each
        return (Tolerance(self.tolerance),) if self.tolerance > 0 else ()

    @property
    def watches(self) -> bool:
        """Whether there is a rule among them that is no tolerance."""
        return self.stop is not None and not all(isinstance(rule, Tolerance) for rule in self.stop.each)

    @property
    def plain_damping(self) -> float:
        """The damping as a number, whether it is trained or not."""
        return float(_number("damping", self.damping))

    def _check_weights(self) -> None:
        weights = self.weights
        if weights is None:
            return
        if not isinstance(weights, MessageWeights):
            raise ValueError(f"weights must be lw.MessageWeights(...), got {weights!r}")
        if not isinstance(self.schedule, (Flooding, Groups)):
            raise ValueError(
                f"MessageWeights have no {type(self.schedule).__name__} schedule; use lw.inference.Flooding() or "
                "lw.Groups(...)"
            )
        if not isinstance(self.gradient, Unroll):
            raise ValueError(
                "MessageWeights are differentiated sweep by sweep, through lw.Unroll(), not "
                f"{type(self.gradient).__name__}"
            )
        if weights.damping is not None and (isinstance(self.damping, Tensor) or self.damping != 0):
            raise ValueError("damping is given twice, as an option and in MessageWeights; leave one of them out")
        if weights.sweeps is not None and weights.sweeps < self.iterations:
            raise ValueError(
                f"MessageWeights have numbers for {weights.sweeps} sweeps, fewer than iterations={self.iterations}; "
                "give a row for each sweep"
            )

    def _check_trainable(self) -> None:
        """Checked again at every call: training may have moved them."""
        damping, temperature = _number("damping", self.damping), _number("temperature", self.temperature)
        if not 0 <= damping < 1:
            raise ValueError(f"damping must be at least 0 and below 1, got {damping}{_trained(self.damping)}")
        if not (temperature == 0 or COLDEST <= temperature < math.inf):
            raise ValueError(
                f"temperature must be 0 or a number from {COLDEST:g} on, got {temperature}{_trained(self.temperature)}"
            )

    @opaque
    def __call__(
        self,
        graph: FactorGraph,
        potentials: object,
        evidence: EvidenceLike = None,
        *,
        initial: Tensor | None = None,
    ) -> Beliefs:
        if evidence is None and initial is None and transforms() is None and not self.by_parts(graph):
            given = potentials() if isinstance(potentials, nn.Module) else potentials
            found = _small_calls()(self, graph, given)
            if found is None:
                return super().__call__(graph, given)
            found.call = (self, graph, given, None)
            return found
        return super().__call__(graph, potentials, evidence, initial=initial)

    @abstractmethod
    def counting_numbers(self, graph: FactorGraph) -> CountingNumbers:
        """The counting numbers this method uses on ``graph``."""

    def check_graph(self, graph: FactorGraph) -> None:
        check_groups(self.schedule, graph)

    def run(self, problem: Problem) -> Beliefs:
        self._check_trainable()
        check_temperature(problem, _number("temperature", self.temperature))
        numbers = self.counting_numbers(problem.graph)
        wanted = self.differentiable(problem, numbers)
        if wanted and self.trace and not isinstance(self.gradient, Unroll):
            raise GradientError(
                f"{type(self.gradient).__name__} knows nothing of the sweeps before the last: to differentiate the "
                "beliefs of every sweep (trace=True), use Unroll"
            )
        if wanted and self.temperature == 0:
            with torch.no_grad():
                beliefs = self.run(problem)
            return without_gradient(beliefs, problem)
        if wanted and isinstance(self.gradient, MarginalGradient):
            _check_structured(problem, self.gradient)
            return implicit_beliefs(self, problem, numbers)
        chosen = self.engine or default_engine(problem.like.device)
        engine = _suited(chosen, problem, self)
        if self.by_parts(problem.graph):
            from loopwise.inference.messages.parts import solve_parts

            solution = solve_parts(lambda mine, how: _suited(chosen, mine, how), problem, self, numbers)
        else:
            solution = engine.solve(problem, self.no_longer_than_needed(problem.graph), numbers)
        status = self._status(problem, solution, engine, numbers)
        self.warn_unless_converged(status)
        if self.temperature == 0:
            maximum, device = finished(problem, solution), problem.like.device
            return Beliefs(
                problem.graph,
                solution.states,
                lambda name: _factor(problem, solution, name),
                lambda: _score(problem, maximum.assignment.to(device)),
                replace(status, maximum=maximum),
                solution.messages,
                lambda: maximum.assignment.to(device),
                trace=solution.trace,
                bounds=lambda: (maximum.score, maximum.bound),
            )
        reading = Reading(problem, solution, numbers, self.temperature, status)
        beliefs = Beliefs(
            problem.graph,
            solution.states,
            reading.factor,
            reading.log_partition,
            status,
            solution.messages,
            trace=solution.trace,
            gradient=solution.report,
            bounds=None if problem.graph.structured else reading.bounds,
        )
        own = [("the temperature", self.temperature), ("the damping", self.damping)]
        own += [("a counting number", value) for value in numbers.trained or ()]
        own += [("a message weight", value) for value in self.weights.parameters()] if self.weights else []
        beliefs.remember("{} was", [(name, value) for name, value in own if isinstance(value, Tensor)])
        return beliefs

    def warn_unless_converged(self, status: Status) -> None:
        """Says so where a run was to converge and did not."""
        if self.tolerance > 0 and not status.converged:
            _warn(status, self._without_rule(status), self.tolerance, self._unclaimed())

    def differentiable(self, problem: Problem, numbers: CountingNumbers) -> bool:
        """Whether a gradient may be asked for later: of the potentials, or of what this method has itself."""
        if not torch.is_grad_enabled():
            return False
        own = [value for value in (self.damping, self.temperature) if isinstance(value, Tensor)]
        own += numbers.trained or ()
        own += self.weights.parameters() if self.weights is not None else ()
        return problem.differentiable or any(value.requires_grad for value in own)

    def sweep_weights(self, problem: Problem) -> SweepWeights | None:
        """The numbers of ``weights`` for the edges and variables of ``problem``, damping as an option among them."""
        if self.weights is None:
            return None
        found = self.weights.at(problem)
        if found.damping is None and (isinstance(self.damping, Tensor) or self.damping != 0):
            kept = self.damping.to(problem.like) if isinstance(self.damping, Tensor) else self.damping
            found = found._replace(damping=kept * problem.like.new_ones(1, problem.graph.layout.edges))
        return found

    def threshold(self, dtype: torch.dtype) -> float:
        """The residual that counts as converged: the tolerance; without one, rounding."""
        return self.tolerance if self.tolerance > 0 else 100 * torch.finfo(dtype).eps

    def has_converged(self, residual: Tensor) -> bool:
        """Whether the residual of every example is at most the :meth:`threshold`."""
        return not residual.numel() or residual.max().item() <= self.threshold(residual.dtype)  # NaN is not

    def by_parts(self, graph: FactorGraph) -> bool:
        """Whether the parts of ``graph``, a union of examples, stop one by one."""
        return graph.part_start is not None and (bool(self.rules) or isinstance(self.schedule, Residual))

    def enough(self, graph: FactorGraph) -> int | None:
        """Sweeps after which no message can change any more, whatever they began as: every one has then been sent after
        those it depends on. None where there is no such number."""
        if not self._comes_to_rest() or not self._exact_on(graph):
            return None
        return int(self.enough_sweeps(np.array(max(graph.layout.depth, 1))))

    def enough_parts(self, graph: FactorGraph, factor: NDArray[np.float64]) -> Integers:
        """The same for each part of the union ``graph``, ``[parts]``; 0 where there is no such number. ``factor``:
        counting numbers of factors."""
        parts = Parts.of(graph)
        known = self.exact_parts(parts, factor)
        if not known.any():
            return np.zeros(parts.count, dtype=np.int64)
        return np.where(known, self.enough_sweeps(np.maximum(parts.depth, 1)), 0)

    def enough_sweeps(self, depth: Integers) -> Integers:
        """The same for forests of so many factors on their longest path."""
        if isinstance(self.schedule, Groups):  # the first sweep of the first group may have been for nothing
            return depth + int(self.schedule.uniform_start)
        # In the worst of random orders a sweep is no better than a flood.
        return depth if isinstance(self.schedule, (Flooding, RandomSequential)) else np.ones_like(depth)

    def _comes_to_rest(self) -> bool:
        """Whether messages on a forest come to rest after a number of sweeps that is known."""
        if isinstance(self.damping, Tensor) or self.damping > 0 or isinstance(self.schedule, Residual):
            return False
        return self.weights is None

    def exact_parts(self, parts: Parts, factor: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which parts of a union come to rest at the exact answer; ``factor``: counting numbers of factors."""
        if not self._comes_to_rest():
            return np.zeros(parts.count, dtype=np.bool_)
        return parts.forest & self._exact_where(parts, factor)

    def _exact_where(self, parts: Parts, factor: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which parts would be solved exactly if they are forests."""
        return np.zeros(parts.count, dtype=np.bool_)

    def no_longer_than_needed(self, graph: FactorGraph) -> MessagePassing:
        """The same without sweeps in which no message can change any more."""
        enough = self.enough(graph) if self.tolerance > 0 else None
        return self if enough is None or enough >= self.iterations else replace(self, iterations=enough)

    def _status(self, problem: Problem, solution: Solution, engine: Engine, numbers: CountingNumbers) -> Status:
        residual, sweeps = solution.residual, solution.sweeps
        verdict = self.verdict(
            problem.graph,
            residual.max().item() if residual.numel() else 0.0,
            int(sweeps.min()) if sweeps.numel() else sys.maxsize,
            solution.states.dtype,
        )
        if self.by_parts(problem.graph) and not isinstance(self.schedule, Residual):
            needed = torch.from_numpy(self.enough_parts(problem.graph, numbers.factor)).to(sweeps.device)
            verdict = verdict._replace(exact=bool(((needed > 0) & (sweeps >= needed)).all()))
        zeros = () if verdict.exact else _hard_zero_notes(problem)
        stopped = self._stopped(solution)
        return self.status(
            problem.graph, verdict, sweeps, residual, solution.sent, engine.name, solution.domain, zeros, stopped
        )

    def verdict(self, graph: FactorGraph, residual: float, sweeps: int, dtype: torch.dtype) -> Verdict:
        """What can be said of a run, from the largest residual (NaN if one is) and the fewest sweeps of an example."""
        # A graph without a message has nothing to iterate: its beliefs are exact at once.
        settled = graph.layout.edges == 0
        converged = settled or residual <= self.threshold(dtype)  # NaN is not
        arrived = converged and self._has_arrived(residual, dtype)
        return Verdict(settled or self._is_exact(graph, sweeps, arrived), converged, arrived)

    def status(
        self,
        graph: FactorGraph,
        verdict: Verdict,
        sweeps: Tensor,
        residual: Tensor,
        sent: int,
        engine: str,
        domain: str,
        zeros: tuple[str, ...],
        stopped: Tensor,
    ) -> Status:
        """The status of a run; ``zeros``: notes on hard zeros, ``stopped``: the rule that ended each example."""
        notes = self._notes(graph, verdict.arrived)
        if not verdict.exact:
            notes += () if self.judge_messages else ("judged by beliefs alone",)
            notes += () if self.weights is None else (WEIGHTED,)
        return Status(
            type(self).__name__,
            verdict.exact,
            verdict.converged,
            sweeps,
            residual,
            sent,
            engine,
            domain,
            (*notes, *_structured_notes(graph), *zeros),
            stopped=stopped,
            stop_rules=tuple([rule.name for rule in self.rules]),
        )

    def _stopped(self, solution: Solution) -> Tensor:
        """The first of the rules that ended each example in its last sweep, -1 where the limit did."""
        found = torch.full_like(solution.sweeps, -1)
        for place in range(len(self.rules) - 1, -1, -1):
            rule = self.rules[place]
            if isinstance(rule, Tolerance):
                found = torch.where(solution.residual < rule.value, place, found)
            elif solution.stopped is not None:
                found = torch.where(solution.stopped.to(found.device) == place, place, found)
        return found

    def _without_rule(self, status: Status) -> Tensor:
        """The residuals of examples that no rule ended, as a run that found what it was to find is no failure."""
        assert status.stopped is not None
        return status.residual[status.stopped < 0] if self.watches else status.residual

    def _has_arrived(self, residual: float, dtype: torch.dtype) -> bool:
        """Whether a run that converged is at a fixed point: a generous tolerance may stop short of one."""
        if self.weights is not None:
            return False  # at rest, perhaps, but at a fixed point of no model
        near = ARRIVED.get(dtype, 2e-5)
        if isinstance(self.schedule, Residual):
            return residual <= near
        return self.judge_messages and self.threshold(dtype) <= near

    def _is_exact(self, graph: FactorGraph, sweeps: int, arrived: bool) -> bool:
        """Whether every message was sent after those it depends on; by residuals, whether none has news to send."""
        enough = self.enough(graph)
        if enough is not None:
            return sweeps >= enough
        return isinstance(self.schedule, Residual) and arrived and self._exact_on(graph)

    def _exact_on(self, graph: FactorGraph) -> bool:
        """Whether the one fixed point of this method on ``graph`` is the exact answer, reached without loops."""
        return False

    def _notes(self, graph: FactorGraph, arrived: bool) -> tuple[str, ...]:
        return ()

    def _unclaimed(self) -> str:
        """What a run that did not converge leaves open, for the warning."""
        return ""


@dataclass(frozen=True)
class BP(MessagePassing):
    r"""Loopy belief propagation (Stoyanov et al. 2011, section 2): exact on trees, the Bethe approximation elsewhere.

    .. math:: m_{\alpha\to i}(x_i) \propto \sum_{x_\alpha\sim x_i}\psi_\alpha(x_\alpha)
              \prod_{j\ne i} n_{j\to\alpha}(x_j), \quad n_{i\to\alpha}\propto\prod_{\beta\ne\alpha} m_{\beta\to i}

    ``counting``: other counting numbers than Bethe's (fractional or convexified BP). Cost of a sweep: the cells of
    all tables times their arity.

    Parameters
    ----------
    iterations: sweeps at most.
    tolerance: a run stops when beliefs change by less in a sweep, and messages rest; 0: never before the last.
    damping: the share of the old message that is kept.
    schedule: the order of messages: :class:`Flooding`, :class:`Sequential`, :class:`Residual`, :class:`Groups`.
    temperature: 1 for sums, 0 for max-product, anything between.
    engine: :class:`Compiled` or :class:`Reference`; None: the one that fits.
    gradient: how a backward is computed.
    trace: whether beliefs of every sweep are kept.
    judge_messages: whether convergence is judged on messages, too, and not on beliefs alone.
    weights: numbers on messages and memory that are trained (:class:`MessageWeights`).
    stop: another rule to stop by.
    counting: counting numbers, Bethe's by default.

    >>> import loopwise as lw
    >>> graph = lw.chain(5)
    >>> beliefs = BP(iterations=10)(graph, lw.TablePotentials.random(graph, seed=0))
    >>> beliefs.status.exact, tuple(beliefs.variables.shape)
    (True, (5, 2))
    """

    counting: Counting = field(default_factory=Bethe)

    def counting_numbers(self, graph: FactorGraph) -> CountingNumbers:
        return self.counting.numbers(graph)

    def _exact_on(self, graph: FactorGraph) -> bool:
        return isinstance(self.counting, Bethe) and graph.layout.is_forest

    def _exact_where(self, parts: Parts, factor: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.full(parts.count, isinstance(self.counting, Bethe))


@dataclass(frozen=True)
class TRW(MessagePassing):
    r"""Tree-reweighted belief propagation (Wainwright, Jaakkola & Willsky 2005; Domke spec, sections 2-3).

    ``rho``: appearance probabilities :math:`\rho_\alpha`: one number (0.5 on a 4-neighbour grid), numbers by group, a
    ``Counting`` rule, or None for those of spanning trees. If they are valid, the
    log-partition at a fixed point is an upper bound, and the status says so where one was reached; short of it, the
    status calls it an estimate. With ``schedule=Sequential()`` it is TRW-S.

    Parameters
    ----------
    rho: appearance probabilities; see above.
    iterations, tolerance, damping, schedule, temperature, engine, gradient, trace, judge_messages, weights, stop: as of
        :class:`BP`.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> potentials = lw.TablePotentials.random(graph, seed=0)
    >>> upper = TRW(rho=0.5, iterations=500)(graph, potentials).log_partition
    >>> bool(upper >= lw.Exact()(graph, potentials).log_partition)
    True
    """

    rho: float | Mapping[str, ArrayLike] | Counting | None = None

    def counting_numbers(self, graph: FactorGraph) -> CountingNumbers:
        return self._rule().numbers(graph)

    def _rule(self) -> Counting:
        if self.rho is None:
            return SpanningTrees()
        return self.rho if isinstance(self.rho, Counting) else Reweighted(self.rho)

    def _exact_on(self, graph: FactorGraph) -> bool:
        return graph.layout.is_forest and bool((self.counting_numbers(graph).factor == 1).all())

    def _exact_where(self, parts: Parts, factor: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(np.bincount(parts.factor_part, weights=factor != 1, minlength=parts.count) == 0)

    def _notes(self, graph: FactorGraph, arrived: bool) -> tuple[str, ...]:
        if self.temperature == 0 or self.weights is not None or not self._bounds_from_above():
            return ()
        return (UPPER_BOUND if arrived else ESTIMATE,)

    def _bounds_from_above(self) -> bool:
        return isinstance(self._rule(), (SpanningTrees, MonotonicChains))

    def _unclaimed(self) -> str:
        return "; its log-partition is an estimate, not an upper bound" if self._bounds_from_above() else ""


def _suited(engine: Engine, problem: Problem, method: MessagePassing) -> Engine:
    """Where the compiled engine was chosen and not all factors are tables, or they send group by group: sweeps taken
    step by step, as with weights of messages or rules to stop by; the reference engine for what has no steps."""
    from loopwise.inference.messages.compiled import Compiled

    plain = not (problem.graph.structured or isinstance(method.schedule, (Groups, RandomSequential)))
    if not isinstance(engine, Compiled) or (plain and method.weights is None and not method.watches):
        return engine
    from loopwise.inference.messages.reference import Reference
    from loopwise.inference.messages.stepwise.engine import Stepwise

    return Stepwise() if Stepwise.takes(problem, method) else Reference()


def _structured_notes(graph: FactorGraph) -> tuple[str, ...]:
    if not graph.structured:
        return ()
    names = ", ".join(f"{group.name} ({group.kinds()})" for group in graph.structured)
    return (f"structured factors: {names}",)


def _hard_zero_notes(problem: Problem) -> tuple[str, ...]:
    """Loops through deterministic factors are where BP is least to be trusted, converged or not."""
    zeros = cells = 0
    for member in problem.graph.layout.message_groups:
        table = problem.tables[member.group.name]
        cells += table.numel()
        if problem.extent(member.group.name).low == -math.inf:
            zeros += int(torch.isneginf(table.detach()).sum())
    return hard_zero_notes(zeros, cells)


def hard_zero_notes(zeros: int, cells: int) -> tuple[str, ...]:
    """The note on so many zeros among all cells of tables, if it is due."""
    if zeros <= MANY_ZEROS * cells:
        return ()
    return (
        f"hard zeros in {zeros / cells:.0%} of table cells: in loops through them, beliefs and log Z can be far off",
    )


def _check_structured(problem: Problem, gradient: MarginalGradient) -> None:
    """Perturbation needs only the map from tables to marginals; other estimators look into every factor."""
    graph = problem.graph
    if graph.structured and (isinstance(gradient, LinearSolve) or any(group.weighted for group in graph.structured)):
        raise GradientError(
            f"{type(gradient).__name__} has no gradient through the structured factors {graph.structured[0].name!r} "
            f"({graph.structured[0].kinds()}); use Unroll() or FixedPoint()"
        )


def without_gradient(beliefs: Beliefs, problem: Problem) -> Beliefs:
    """Max-product beliefs, which refuse to be differentiated; the score of their configuration does not."""
    message = "max-product (temperature 0) has no gradient: its maxima jump; use a small positive temperature"
    sources = [*problem.tables.values(), problem.folded, problem.initial]

    def refusing(values: Tensor) -> Tensor:
        return taken_once(message, [values], sources)[0]

    return Beliefs(
        beliefs.graph,
        refusing(beliefs.states),
        lambda name: refusing(beliefs.factor(name)),
        lambda: _score(problem, beliefs.assignment),  # linear in the potentials of the configuration found
        beliefs.status,
        lambda: refusing(beliefs.messages),
        lambda: beliefs.assignment,
        trace=beliefs.trace,
        bounds=(lambda: beliefs.log_partition_bounds) if beliefs.has_bounds else None,
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()


def _number(name: str, value: float | Tensor) -> float:
    if type(value) is float:
        return value
    if not isinstance(value, Tensor):
        if not isinstance(value, Real):
            raise ValueError(f"{name} must be a number or a tensor of shape (), got {value!r}")
        return value
    if value.ndim:
        raise ValueError(f"{name} must be a number or a tensor of shape (), not of shape {tuple(value.shape)}")
    return float(value.detach())


def _trained(value: float | Tensor) -> str:
    return "; train it through a sigmoid or an exponential, which keep it in range" if isinstance(value, Tensor) else ""


def _score(problem: Problem, assignment: Tensor) -> Tensor:
    value = score(problem, assignment)
    warn_of_zeros(value)
    return value


def warn_of_zeros(score: Tensor) -> None:
    """Where no assignment without a broken zero was found."""
    if bool(torch.isneginf(score).any()):
        warn(
            "the best assignment found breaks a hard zero; MapSearch searches longer, Exact(temperature=0) finds one "
            "that does not",
            ConstraintWarning,
        )


def default_engine(device: torch.device) -> Engine:
    """The compiled engine on the CPU, the reference engine on any other device."""
    return _default_engines()[device.type != "cpu"]


@lru_cache(maxsize=1)
def _default_engines() -> tuple[Engine, Engine]:
    from loopwise.inference.messages.compiled import Compiled
    from loopwise.inference.messages.reference import Reference

    return Compiled(), Reference()


@lru_cache(maxsize=1)
def _small_calls() -> Callable[[MessagePassing, FactorGraph, object], Beliefs | None]:
    from loopwise.inference.messages.prepared import prepared_beliefs

    return prepared_beliefs


def _factor(problem: Problem, solution: Solution, name: str) -> Tensor:
    """Factor beliefs of any arity: those of arity 1 are their variable's, those of arity 0 are 1."""
    if problem.graph.structured_group(name) is not None:
        return solution.factor(name)
    group = problem.graph.group(name)
    if group.arity >= 2:
        return solution.factor(name)
    if group.arity == 0:
        return solution.states.new_ones(*problem.batch, group.count)
    start = problem.graph.layout.state_start[group.scopes[:, 0]]
    index = torch.tensor(start, device=solution.states.device)[:, None] + torch.arange(
        group.shape[0], device=solution.states.device
    )
    return solution.states[..., index]


def _warn(status: Status, residual: Tensor, tolerance: float, unclaimed: str) -> None:
    """``residual``: of the examples to warn of."""
    if residual.numel() == 0:
        return
    worst = float(residual.max())
    warn(
        f"{status.method} did not converge: after {int(status.sweeps.max())} sweeps messages still change beliefs, or "
        f"could, by {worst:.2g} (tolerance {tolerance:.2g}){unclaimed}; more iterations, damping or another schedule "
        "may help, tolerance=0 accepts the budget as it is",
        ConvergenceWarning,
    )
