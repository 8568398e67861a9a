"""Why a run of inference did not converge, what would help, and which factors moved a belief.

In: the :class:`Beliefs` of a call. Out: an :class:`Explanation`, which prints plain words and has fields. Stage:
inference. Nothing is guessed: the run is watched for some sweeps more, and every piece of advice has been tried.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.conditioning import Conditioning
from loopwise.graph.elimination import junction_tree
from loopwise.graph.evidence import FREE, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Integers, variable_range
from loopwise.inference.auto import DAMPING, Auto
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.cycles import Ties, sign, strengths
from loopwise.inference.exact.method import Exact, TooLargeError
from loopwise.inference.messages.message_passing import BP, TRW, MessagePassing
from loopwise.inference.messages.schedules import Flooding, Residual, Sequential
from loopwise.inference.messages.structured import split_potentials
from loopwise.notebook import Shown
from loopwise.notices import LoopwiseWarning
from loopwise.potentials.checks import Own, checked_tables
from loopwise.potentials.conditioning import slice_tables

WATCHED = 24  # sweeps that are looked at after those of the run
DECAYING = 0.5  # changes that shrink by this while they are watched are on their way
REPEATS = 0.1  # beliefs that come back to within this part of their swing repeat themselves
NOTICED = 0.01  # of the largest swing: what moves less is carried along
TOLERANCE = 1e-6  # of trials, where the run had none
MESSAGES = 2e8  # that a trial may send, so that it takes seconds
ROOTS = 16  # variables through which cycles are looked for
SMALL_CELLS = 2.0**22  # of a junction tree that is worth trying
LISTED = 5


@dataclass(frozen=True)
class MovingVariable:
    """A variable whose belief does not rest; ``swing``: between its highest and lowest value in the sweeps watched."""

    variable: int
    name: str
    swing: float


@dataclass(frozen=True)
class Tie:
    """A factor; ``strength``: how strongly it ties its variables, in nats: J of a table ``[[J, -J], [-J, J]]``."""

    group: str
    row: int
    scope: tuple[int, ...]
    strength: float


@dataclass(frozen=True, eq=False)
class MethodTrial:
    """Another method on the same model. ``off``: its largest distance from an exact belief, where those are known."""

    method: Inference
    converged: bool
    exact: bool
    sweeps: int
    residual: float
    messages: int
    off: float | None = None

    @property
    def code(self) -> str:
        """The method as one writes it."""
        return written(self.method)

    def __str__(self) -> str:
        if self.exact:
            said = "exact"
        elif self.converged:
            said = f"converged after {self.sweeps} sweeps"
        else:
            said = f"did not converge in {self.sweeps} sweeps (still moves by {self.residual:.2g})"
        return said + ("" if self.off is None or self.exact else f"; beliefs off by at most {self.off:.2g}")


@dataclass(frozen=True)
class Influence:
    """What a factor did to a belief: without it, the belief would be ``without``, ``change`` away (half the sum of
    differences)."""

    group: str
    row: int
    scope: tuple[int, ...]
    change: float
    belief: tuple[float, ...]
    without: tuple[float, ...]

    def __str__(self) -> str:
        def shown(numbers: tuple[float, ...]) -> str:
            return "(" + ", ".join(f"{number:.3f}" for number in numbers) + ")"

        return (
            f"{self.group} {self.row} on {self.scope}: {shown(self.without)} without it, {shown(self.belief)} with it"
        )


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """What :func:`explain` found; printing it says all in plain words.

    ``kind``: ``"exact"``, ``"converged"``, ``"slow"`` (changes shrink from sweep to sweep), ``"oscillates"`` (beliefs
    come back after ``period`` sweeps) or ``"wanders"`` (neither); ``"unknown"`` of methods that pass no messages.
    ``rate``: by what the changes are multiplied in a sweep. ``moving``: the variables that do not rest, most unrest
    first. ``cycle``: the variables of a shortest cycle through one of the first, a frustrated one if there is, and
    ``frustrated``: whether its pairs cannot all have what they want (None where they are not binary pairs). ``ties``:
    the strongest factors between variables that move. ``trials``: what was tried, the best first.
    """

    status: Status
    kind: str
    example: int | None = None
    unsettled: int = 0  # examples of a batch that did not converge
    period: int | None = None
    rate: float = 0.0
    forecast: int | None = None  # sweeps it would take in all, as the changes shrink
    moving: tuple[MovingVariable, ...] = ()
    cycle: tuple[int, ...] = ()
    frustrated: bool | None = None
    ties: tuple[Tie, ...] = ()
    trials: tuple[MethodTrial, ...] = ()
    case: Case | None = field(default=None, repr=False)

    @property
    def advice(self) -> MethodTrial | None:
        """The first trial that came to rest: exact if there is one, else the cheapest."""
        return next((trial for trial in self.trials if trial.exact or trial.converged), None)

    def moved_by(self, variable: int | str, most: int = LISTED) -> list[Influence]:
        """The factors that moved the belief of a variable most, each by what the belief is without it.

        Candidates come from one backward pass (or are the variable's own factors, of methods without a gradient); each
        is then left out and inference run again, so this takes some runs. Structured factors are not among them.

        >>> import loopwise as lw
        >>> graph = lw.chain(3)
        >>> tables = {"unary": torch.tensor([[0.0, 3.0], [0, 0], [0, 0]]), "pair": torch.eye(2).expand(2, 2, 2)}
        >>> print(lw.explain(lw.BP()(graph, tables)).moved_by(2)[0])
        pair 1 on (1, 2): (0.500, 0.500) without it, (0.403, 0.597) with it
        """
        if self.case is None:
            raise ValueError("these beliefs do not say how they were computed: ask those that a method returned")
        return self.case.influences(self.case.place(variable), most)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, texts, lists and mappings."""
        named = ("kind", "example", "unsettled", "period", "rate", "forecast", "cycle", "frustrated")
        found: dict[str, Any] = {name: getattr(self, name) for name in named}
        found["cycle"] = list(self.cycle)
        found["moving"] = [dataclasses.asdict(entry) for entry in self.moving]
        found["ties"] = [{**dataclasses.asdict(tie), "scope": list(tie.scope)} for tie in self.ties]
        found["trials"] = [
            {
                "method": trial.code,
                "converged": trial.converged,
                "exact": trial.exact,
                "sweeps": trial.sweeps,
                "messages": trial.messages,
                "off": trial.off,
            }
            for trial in self.trials
        ]
        found["advice"] = None if self.advice is None else self.advice.code
        return found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self._head()
        if self.moving:
            names, verb = _listed([entry.name for entry in self.moving]), "moves" if len(self.moving) == 1 else "move"
            yield f"{_count(len(self.moving), 'variable')} still {verb}: {names}."
        if self.cycle:
            around = " - ".join(self._name(variable) for variable in (*self.cycle, self.cycle[0]))
            why = ", whose pairs cannot all have what they want (it is frustrated)" if self.frustrated else ""
            yield f"They are on the cycle {around}{why}."
        if self.ties:
            strongest = "; ".join(
                f"{tie.group} {tie.row} on ({', '.join(map(self._name, tie.scope))}) {tie.strength:.3g} nats"
                for tie in self.ties
            )
            yield f"Strongest factors between {'them' if self.moving else 'variables'}: {strongest}."
        if self.trials:
            yield "Tried on the same model:"
            width = max(len(trial.code) for trial in self.trials)
            for trial in self.trials:
                yield f"  {trial.code:<{width}}  {trial}"
        yield from self._counsel()

    def _head(self) -> str:
        status, method = self.status, self.status.method
        which = "" if self.example is None else f" (example {self.example}, the worst of {self.unsettled} that did not)"
        sweeps = int(status.sweeps.max()) if status.sweeps.numel() else 0
        after = f"{method} did not come to rest in {_count(sweeps, 'sweep')}{which}"
        if self.kind == "exact":
            return f"{method}: these beliefs are exact."
        if self.kind == "converged":
            return (
                f"{method} converged after {_count(sweeps, 'sweep')}; the graph has cycles, so beliefs are approximate."
            )
        if self.kind == "unknown":
            return f"{method}: {status}."
        if self.kind == "slow":
            return f"{after}: it is on its way, changes shrink by {self.rate:.3g} a sweep{self._in_all()}."
        if self.kind == "oscillates":
            return (
                f"{after}: beliefs oscillate, and come back every {_count(self.period or 0, 'sweep')}{self._in_all()}."
            )
        return f"{after}: beliefs wander without coming back."

    def _in_all(self) -> str:
        return "" if self.forecast is None else f"; about {self.forecast} sweeps in all would do"

    def _counsel(self) -> Iterator[str]:
        best = self.advice
        if best is not None and best.exact:
            others = [trial for trial in self.trials if trial.converged and not trial.exact]
            also = f"; of what passes messages, {others[0].code} is cheapest" if others else ""
            yield f"Advice: {best.code}, since the model is small enough for exact answers{also}."
        elif best is not None:
            yield f"Advice: {best.code}, which came to rest with the fewest messages."
        elif self.trials:
            yield (
                f"Advice: none of these came to rest; {self.trials[0].code} was nearest to it. Weaker factors help, or "
                "training under the inference that will be used."
            )

    def _name(self, variable: int) -> str:
        return str(variable) if self.case is None else self.case.name(variable)


@dataclass(frozen=True, eq=False)
class Case:
    """One example of a call, ready to be run again."""

    method: Inference
    graph: FactorGraph
    tables: dict[str, Tensor]  # [factors, *shape] each
    own: dict[str, Own]  # of structured factors
    values: Integers  # [variables], -1 where free

    def run(self, method: Inference, tables: dict[str, Tensor] | None = None, initial: Tensor | None = None) -> Beliefs:
        """Another call on the same example, without a word about convergence."""
        weighted = {group.name for group in self.graph.structured if group.weighted}
        own = {name: list(each) for name, each in self.own.items() if name in weighted}
        potentials = {**(self.tables if tables is None else tables), **own}
        evidence = None if (self.values == FREE).all() else self.values
        started = {} if initial is None else {"initial": initial}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopwiseWarning)
            return method(self.graph, potentials, evidence, **started)

    def name(self, variable: int) -> str:
        """What a variable is called."""
        known = self.graph.vocabulary
        return str(variable) if known is None else known.names[variable]

    def place(self, variable: int | str) -> int:
        """The number of a variable."""
        known = self.graph.vocabulary
        if isinstance(variable, str):
            if known is None:
                raise ValueError(f"the graph has no names, so none is called {variable!r}; give a number")
            return known.variable(variable)
        if not 0 <= variable < self.graph.variables:
            raise ValueError(f"no variable {variable}; {variable_range(self.graph.variables)}")
        return int(variable)

    def sliced(self) -> tuple[FactorGraph, Conditioning | None, dict[str, Tensor]]:
        """The model over the variables that are free."""
        seen = self.values != FREE
        if not seen.any():
            return self.graph, None, self.tables
        plan = Conditioning.of(self.graph, seen, np.zeros_like(seen))
        like = next(iter(self.tables.values())) if self.tables else torch.empty(0, dtype=torch.float64)
        return plan.graph, plan, slice_tables(plan, self.tables, torch.tensor(self.values), like)

    # --- Which factors moved a belief --------------------------------------------------------------------------------

    def influences(self, variable: int, most: int) -> list[Influence]:
        belief = self.run(self.method).marginal(variable).detach()
        found = []
        for name, row in self._candidates(variable, belief, 2 * most):
            group = self.graph.group(name)
            table = self.tables[name].clone()
            table[row] = 0.0
            without = self.run(self.method, {**self.tables, name: table}).marginal(variable).detach()
            change = float((belief - without).abs().sum()) / 2
            scope = tuple(group.scopes[row].tolist())
            found.append(Influence(name, row, scope, change, tuple(belief.tolist()), tuple(without.tolist())))
        return sorted(found, key=lambda influence: -influence.change)[:most]

    def _candidates(self, variable: int, belief: Tensor, most: int) -> list[tuple[str, int]]:
        """Factors by what a first-order guess says, the largest first."""
        own = [
            (group.name, int(row))
            for group in self.graph.groups
            for row in np.flatnonzero((group.scopes == variable).any(axis=1))
        ]
        leaves = {name: table.clone().requires_grad_() for name, table in self.tables.items()}
        try:
            with torch.enable_grad():
                said = self.run(self.method, leaves).marginal(variable)[int(belief.argmax())]
            slopes = torch.autograd.grad(said, list(leaves.values()), allow_unused=True)
        except (RuntimeError, ValueError):  # a method without a gradient
            return own
        scored: list[tuple[float, str, int]] = []
        for (name, table), slope in zip(self.tables.items(), slopes, strict=True):
            if slope is None or not len(table):
                continue
            effect = (slope * table.clamp(min=-100.0)).reshape(len(table), -1).sum(1).abs().nan_to_num(0.0)
            value, row = effect.topk(min(most, len(effect)))
            scored += [(size, name, place) for size, place in zip(value.tolist(), row.tolist(), strict=True)]
        near = {*own[:most]}
        far = [(name, row) for _, name, row in sorted(scored, reverse=True)[:most]]
        return [*near, *(entry for entry in far if entry not in near)]


def explain(beliefs: Beliefs, *, example: int | None = None, trials: bool = True) -> Explanation:
    """Why a run did or did not converge, and what would help.

    Parameters
    ----------
    beliefs:
        What a method such as ``lw.BP()`` returned, its potentials unchanged since.
    example:
        Of a batch: which one (counted over all its dimensions); by default the one that is farthest from rest.
    trials:
        Whether other methods are tried: more sweeps, damping, another order, TRW, exact inference. Each takes seconds
        at most on a large graph.

    Returns
    -------
    Explanation

    >>> import loopwise as lw
    >>> graph = lw.graph.complete(4)  # all would rather differ from all others, which two values do not allow
    >>> tables = {"unary": torch.tensor([0.0, 0.1]), "pair": torch.tensor([[-2.0, 2.0], [2.0, -2.0]])}
    >>> found = lw.explain(lw.BP(tolerance=0)(graph, tables))
    >>> found.kind, found.period, found.frustrated
    ('oscillates', 2, True)
    >>> found.advice.code
    'lw.Exact()'
    """
    if beliefs.call is None:
        raise ValueError("these beliefs do not say how they were computed: give what a method such as lw.BP() returned")
    status = beliefs.status
    chosen = example if example is not None else _worst(status)
    with torch.no_grad():
        case = _case(beliefs, chosen)
        shown = chosen if status.residual.ndim else None
        many = (
            int((status.residual > _threshold(case.method, status.residual.dtype)).sum()) if status.residual.ndim else 0
        )
        if status.exact or not isinstance(case.method, MessagePassing):
            return Explanation(status, "exact" if status.exact else "unknown", shown, many, case=case)
        found = _movement(status, case, _watch(case, case.method))
        return replace(
            found, example=shown, unsettled=many, case=case, trials=tuple(_trials(case, found)) if trials else ()
        )


def written(method: Inference) -> str:
    """A method as one writes it: ``lw.BP(damping=0.5)``."""
    given = []
    for entry in dataclasses.fields(method):  # type: ignore[arg-type]  # all methods are dataclasses
        standard = entry.default_factory() if entry.default_factory is not dataclasses.MISSING else entry.default
        value = getattr(method, entry.name)
        if value is not standard and (isinstance(value, Tensor) or value != standard):
            shown = f"lw.{value!r}" if isinstance(value, Sequential) else repr(value)
            given.append(f"{entry.name}={shown}")
    return f"lw.{type(method).__name__}({', '.join(given)})"


# --- The run, watched ------------------------------------------------------------------------------------------------


def _worst(status: Status) -> int:
    return int(status.residual.reshape(-1).nan_to_num(math.inf).argmax()) if status.residual.numel() else 0


def _case(beliefs: Beliefs, example: int) -> Case:
    """The example alone. A tensor that changed since is a :class:`~loopwise.notices.ChangedError`."""
    assert beliefs.call is not None
    beliefs.check_unchanged()
    method, graph, potentials, evidence = beliefs.call
    batch = beliefs.batch_shape
    if not 0 <= example < max(math.prod(batch), 1):
        raise ValueError(f"no example {example}; there are {math.prod(batch)}")
    rest, own = split_potentials(graph, potentials)
    tables, _ = checked_tables(graph, rest)
    alone = {}
    for group in graph.groups:
        table = _one(tables[group.name].detach(), 1 + group.arity, batch, example)
        alone[group.name] = table.expand(group.count, *group.shape).clone()
    single: dict[str, Own] = {}
    for named in graph.structured:
        shapes = [factor.potentials_shape for factor in named.factors]
        single[named.name] = tuple(
            None if value is None or shape is None else _one(value.detach(), len(shape), batch, example)
            for value, shape in zip(own[named.name], shapes, strict=True)
        )
    values = torch.tensor(clamped_values(graph, evidence))
    return Case(_inner(method, beliefs.status), graph, alone, single, _one(values, 1, batch, example).numpy())


def _one(value: Tensor, dimensions: int, batch: torch.Size, example: int) -> Tensor:
    tail = value.shape[value.ndim - dimensions :]
    return value.expand(*batch, *tail).reshape(-1, *tail)[example]


def _inner(method: Inference, status: Status) -> Inference:
    """What an :class:`Auto` came down to."""
    if not isinstance(method, Auto) or status.exact:
        return method
    damped = any(note.startswith("damped by") for note in status.notes)
    inner = replace(method.otherwise, temperature=method.temperature)
    return replace(inner, damping=DAMPING) if damped else inner


def _threshold(method: Inference, dtype: torch.dtype) -> float:
    return method.threshold(dtype) if isinstance(method, MessagePassing) else TOLERANCE


def _watch(case: Case, method: MessagePassing) -> Tensor:
    """Beliefs of some sweeps after those of the run, ``[sweeps + 1, states]``."""
    if isinstance(method.schedule, Residual):
        method = replace(method, schedule=Flooding())
    if method.weights is not None:  # these may have a row for each sweep, so there is nothing after the last
        run = case.run(replace(method, trace=True, stop=None, tolerance=0.0))
    else:
        until = case.run(replace(method, stop=None, tolerance=0.0))
        later = replace(method, trace=True, stop=None, tolerance=0.0, iterations=WATCHED)
        run = case.run(later, initial=until.messages)
    assert run.trace is not None
    return run.trace[-WATCHED - 1 :].detach()


def _movement(status: Status, case: Case, trace: Tensor) -> Explanation:
    """What the sweeps watched look like."""
    assert isinstance(case.method, MessagePassing)
    threshold = max(_threshold(case.method, trace.dtype), torch.finfo(trace.dtype).eps)
    changes = (trace[1:] - trace[:-1]).abs().amax(1)
    if status.converged:
        return Explanation(status, "converged", ties=_ties(case, None))
    third = max(len(changes) // 3, 1)
    early, late = float(changes[:third].max()), float(changes[-third:].max())
    shrunk = late / early if early > 0 else 0.0
    rate = shrunk ** (1 / max(len(changes) - third, 1))
    swing = _by_variable(case.graph, trace.amax(0) - trace.amin(0))
    kind, period, forecast = "slow", None, None
    if late > threshold and shrunk >= DECAYING:
        period = _period(trace, float(swing.max(initial=0.0)))
        kind = "wanders" if period is None else "oscillates"
    if kind == "slow" or (kind == "oscillates" and rate < 1 - 1e-6):
        sweeps = int(status.sweeps.max())
        left = math.log(threshold / late) / math.log(rate) if late > threshold and 0 < rate < 1 else 0.0
        forecast = math.ceil(sweeps + WATCHED + left)
    least = max(NOTICED * float(swing.max(initial=0.0)), 10 * threshold)
    restless = np.flatnonzero(swing > least)
    order = restless[np.argsort(-swing[restless], kind="stable")]
    moving = tuple(MovingVariable(int(place), case.name(int(place)), float(swing[place])) for place in order)
    among = np.zeros(case.graph.variables, dtype=bool)
    among[restless] = True
    cycle, frustrated = _cycle(case, order[:ROOTS], among)
    return Explanation(
        status,
        kind,
        period=period,
        rate=rate,
        forecast=forecast,
        moving=moving,
        cycle=cycle,
        frustrated=frustrated,
        ties=_ties(case, among),
    )


def _by_variable(graph: FactorGraph, states: Tensor) -> np.ndarray:
    found = np.zeros(graph.variables)
    np.maximum.at(found, graph.layout.state_variable, states.double().cpu().numpy())
    return found


def _period(trace: Tensor, swing: float) -> int | None:
    """After how many sweeps beliefs are about what they were, if they are."""
    half = len(trace) // 2
    for period in range(2, half + 1):
        back = float((trace[-half:] - trace[-half - period : -period]).abs().max())
        if back <= REPEATS * swing:
            return period
    return None


def _cycle(case: Case, roots: Integers, among: np.ndarray) -> tuple[tuple[int, ...], bool | None]:
    """Of the shortest cycles through ``roots`` one that is frustrated, else the one with the strongest factors."""
    graph, plan, tables = case.sliced()
    free = np.arange(graph.variables) if plan is None else plan.free
    number = np.full(case.graph.variables, -1)
    number[free] = np.arange(len(free))
    ties = Ties(graph.layout)
    best: tuple[tuple[bool, int, float], tuple[int, ...], bool | None] | None = None
    # A belief may rest where two messages that do not cancel out: then the cycle goes over variables that rest, too.
    for within in (among[free], np.ones(graph.variables, dtype=bool)):
        walk = ties.within(within)
        for variables, factors in (cycle for root in number[roots].tolist() for cycle in walk.cycles(root)):
            frustrated, weakest = _frustration(graph, tables, [ties.named(factor) for factor in factors])
            rank = (frustrated is True, -len(variables), weakest)
            if best is None or rank > best[0]:
                best = rank, tuple(int(free[place]) for place in variables), frustrated
        if best is not None:
            return best[1:]
    return (), None


def _frustration(
    graph: FactorGraph, tables: dict[str, Tensor], factors: list[tuple[str, int]]
) -> tuple[bool | None, float]:
    """Whether the pairs of a cycle cannot all have what they want, if they are binary pairs; the weakest strength."""
    signs, sizes = [], []
    for name, row in factors:
        if name not in tables:
            continue  # a structured factor
        table = tables[name].expand(graph.group(name).count, *graph.group(name).shape)[row]
        sizes.append(float(strengths(table[None])))
        signs.append(sign(table) if table.shape == (2, 2) else 0)
    known = len(signs) == len(factors) and all(signs)
    return math.prod(signs) < 0 if known else None, min(sizes, default=0.0)


def _ties(case: Case, among: np.ndarray | None) -> tuple[Tie, ...]:
    """The strongest tables, of those between variables that move."""
    graph, plan, tables = case.sliced()
    free = np.arange(graph.variables) if plan is None else plan.free
    sources = {} if plan is None else {piece.target: (piece.source, piece.rows) for piece in plan.pieces}
    found: list[Tie] = []
    for group in graph.groups:
        if group.arity < 2 or not group.count:
            continue
        size = strengths(tables[group.name].expand(group.count, *group.shape)).cpu().numpy()
        if among is not None:
            size = np.where(among[free[group.scopes]].sum(axis=1) >= 2, size, -1.0)
        for row in np.argsort(-size, kind="stable")[:LISTED]:
            if size[row] > 0:
                name, rows = sources.get(group.name, (group.name, np.arange(group.count)))
                scope = tuple(free[group.scopes[row]].tolist())
                found.append(Tie(name, int(rows[row]), scope, float(size[row])))
    return tuple(sorted(found, key=lambda tie: -tie.strength)[:LISTED])


# --- What would help -------------------------------------------------------------------------------------------------


def _trials(case: Case, found: Explanation) -> Iterator[MethodTrial]:
    """Everything tried: exact first, then what came to rest by messages sent, then the others by how near they are."""
    truth = _exact_beliefs(case)
    tried = []
    if truth is not None:
        tried.append(MethodTrial(Exact(temperature=float(_plain(case.method).temperature)), True, True, 0, 0.0, 0, 0.0))
    if found.kind != "converged":
        for method in _alternatives(case):
            try:
                run = case.run(method)
            except (ValueError, TypeError):  # TRW on structured factors, say: nothing to report
                continue
            off = None if truth is None else float((run.states - truth.states).abs().max())
            status = run.status
            tried.append(
                MethodTrial(
                    method,
                    status.converged,
                    status.exact,
                    int(status.sweeps.max()),
                    float(status.residual.max()),
                    status.messages,
                    off,
                )
            )
    yield from sorted(tried, key=_rank)


def _rank(trial: MethodTrial) -> tuple[bool, bool, float]:
    return not trial.exact, not trial.converged, trial.messages if trial.converged else trial.residual


def _plain(method: Inference) -> MessagePassing:
    assert isinstance(method, MessagePassing)
    return method


def _alternatives(case: Case) -> Iterator[MessagePassing]:
    method = _plain(case.method)
    if method.weights is not None:
        return
    edges = max(case.graph.layout.edges, 1)
    limit = int(min(max(10 * method.iterations, 1000), max(MESSAGES / edges, method.iterations, 1)))
    base = replace(method, iterations=limit, tolerance=method.tolerance or TOLERANCE, stop=None, trace=False)
    damping = float(method.damping)
    yield base
    stronger = [damped for damped in (0.5, 0.9) if damped > damping]
    for damped in stronger:
        yield replace(base, damping=damped)
    if not case.graph.structured and not isinstance(method.schedule, Sequential):
        for damped in (damping, *stronger[:1]):
            yield replace(base, schedule=Sequential(), damping=damped)
    if isinstance(method, BP) and not case.graph.structured:
        yield TRW(
            iterations=limit,
            tolerance=base.tolerance,
            damping=max(damping, 0.5),
            temperature=method.temperature,
        )


def _exact_beliefs(case: Case) -> Beliefs | None:
    graph, _, _ = case.sliced()
    if graph.structured or junction_tree(graph, restarts=0, cell_limit=SMALL_CELLS) is None:
        return None
    temperature = float(_plain(case.method).temperature)
    if temperature == 0:
        return None  # a joint maximum is no belief to compare with
    try:
        return case.run(Exact(temperature=temperature))
    except (TooLargeError, ValueError):
        return None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED} more"
