"""Do a model, a proposal and a metric keep what walks rely on?

In: a model of walks, a proposal, a metric, documents. Out: nothing, or an AssertionError that says which promise was
broken. Detailed balance is proved by enumerating every outcome of the proposal in every state, not by sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.walk.engines import CompiledWalks, Plain
from loopwise.walk.learning.rules import LearningRule, Towards
from loopwise.walk.learning.updates import WalkWeights
from loopwise.walk.models.model import Model, Sparse, dot
from loopwise.walk.proposal import ALWAYS, Proposal, Proposed, Walker
from loopwise.walk.randomness import Stream, stream_number
from loopwise.walk.sessions import Visiting
from loopwise.walk.signal import Signal, follow
from loopwise.walk.world import Move, Start, World

Floats = NDArray[np.float64]
BALANCE = 1e-12  # probabilities are sums of a few products: rounding alone stays below this


def check_walk(
    model: Model,
    proposal: Proposal,
    metric: Any,
    documents: Sequence[Any],
    *,
    steps: int = 100,
    temperatures: Sequence[float] = (1.0, 0.5),
    states: int = 300,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> None:
    """Puts a walk through what learners rely on, with random weights.

    For random moves: the sparse difference is that of two full feature vectors, the gain of the signal is that of two
    full evaluations, no state is better than the truth, and a move taken back leaves everything as it was. Where a
    document has at most ``states`` states: detailed balance at each of the ``temperatures``, to 1e-12. Where the walk
    has a compiled form: both take the same steps.
    """
    weights = np.random.default_rng(seed).normal(size=model.size)
    for number, document in enumerate(documents):
        for start in sorted(model.starts, key=lambda start: start.name):
            random = Stream(seed, stream_number(0, number))
            _check_moves(model, proposal, metric, document, start, weights.tolist(), steps, tolerance, random)
        for temperature in temperatures:
            found = transitions(model, proposal, document, weights, temperature=temperature, limit=states)
            if found is not None:
                found.check(BALANCE)
    _check_engines(model, proposal, metric, documents, steps, seed)


# ------------------------------------------------------------------------------------------- moves and signals


def _check_moves(
    model: Model,
    proposal: Proposal,
    metric: Any,
    document: Any,
    start: Start,
    weights: list[float],
    steps: int,
    tolerance: float,
    random: Stream,
) -> None:
    world = model.world(document, start, random)
    truth = model.world(document, Start.TRUTH, random)
    gold = model.gold(document)
    signal = follow(metric, world, truth, gold)
    if not abs(follow(metric, truth.copy(), truth, gold).gap()) <= tolerance:
        raise AssertionError("the signal says that the truth is below itself")
    for step in range(steps):
        walker = Walker(model, world, weights, 1.0, random, step, signal)
        move = proposal.propose(walker).move
        if move is not None:
            _check_move(model, lambda: follow(metric, world, truth, gold).gap(), world, signal, move, tolerance)
            move.apply(world)
            signal.accept(move)


def _check_move(
    model: Model, full_gap: Callable[[], float], world: World, signal: Signal, move: Move, tolerance: float
) -> None:
    kept, before, gap = world.copy(), model.features(world), signal.gap()
    delta, gain = model.difference(world, move), signal.gain(move)
    move.apply(world)
    after, new_gap = model.features(world), full_gap()
    move.undo(world)
    if not same_state(world, kept):
        raise AssertionError(f"{move!r} taken back leaves another state than there was")
    if model.features(world) != before:
        raise AssertionError(f"{move!r} taken back leaves other features than there were")
    _check_difference(delta, before, after, move, tolerance)
    if not abs(gain - (gap - new_gap)) <= tolerance:
        raise AssertionError(f"the gain of {move!r} is {gain}, two full evaluations differ by {gap - new_gap}")
    if new_gap < -tolerance:
        raise AssertionError(f"the signal after {move!r} is above that of the truth, by {-new_gap}")


def _check_difference(delta: Sparse, before: Sparse, after: Sparse, move: Move, tolerance: float) -> None:
    for key in {**delta, **before, **after}:
        exact = after.get(key, 0.0) - before.get(key, 0.0)
        if not abs(delta.get(key, 0.0) - exact) <= tolerance:
            raise AssertionError(
                f"feature {key} changes by {exact} in {move!r}, but the difference has {delta.get(key, 0.0)}"
            )


def same_state(one: World, other: World) -> bool:
    """Whether two worlds agree in their labels and in every list and number that they keep."""
    mine, theirs = vars(one), vars(other)
    plain = [name for name, value in mine.items() if isinstance(value, list | dict | tuple | int | float)]
    return one.labels() == other.labels() and all(mine[name] == theirs[name] for name in plain)


# --------------------------------------------------------------------------------------------- detailed balance


class _UnlistedError(Exception):
    """A proposal handed the generator to compiled code, whose draws cannot be listed."""


class _Scripted(Stream):
    """Makes the choices of a script, then first ones; remembers their probabilities."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(0)
        self.script, self.taken, self.probability = list(script), list[tuple[int, int]](), 1.0

    def uniform(self) -> float:
        raise ValueError("a proposal must draw by below and choose, not by uniform: its outcomes cannot be listed else")

    def words(self) -> NDArray[np.uint64]:
        raise _UnlistedError

    def below(self, count: int) -> int:
        return self.choose([1.0] * count)

    def choose(self, weights: Sequence[float]) -> int:
        possible = [place for place, weight in enumerate(weights) if weight > 0]
        place = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        self.taken.append((place, len(possible)))
        self.probability *= weights[possible[place]] / math.fsum(weights)
        return possible[place]


def outcomes(proposal: Proposal, walker: Walker) -> Iterator[tuple[float, Proposed]]:
    """Every way that a proposal can come out in a state, with its probability."""
    script: list[int] = []
    while True:
        random = _Scripted(script)
        walker.random = random
        proposed = proposal.propose(walker)
        yield random.probability, proposed
        choices = random.taken
        while choices and choices[-1][0] + 1 == choices[-1][1]:
            choices.pop()
        if not choices:
            return
        script = [place for place, _ in choices[:-1]] + [choices[-1][0] + 1]


@dataclass(frozen=True, eq=False)
class Transitions:
    """The Markov chain of a walk over all states that it can reach."""

    keys: list[Hashable]
    probabilities: Floats  # [states], of the model
    matrix: Floats  # [states, states], row: from

    def check(self, tolerance: float) -> None:
        """Raises an AssertionError unless the chain is in detailed balance with the model."""
        if not np.abs(self.matrix.sum(axis=1) - 1.0).max() <= tolerance:
            raise AssertionError("the probabilities of a step do not add up to 1")
        flow = self.probabilities[:, None] * self.matrix
        place = np.unravel_index(int(np.abs(flow - flow.T).argmax()), flow.shape)
        if not abs(flow[place] - flow.T[place]) <= tolerance:
            one, other = (self.keys[int(number)] for number in place)
            raise AssertionError(
                f"no detailed balance: the flow from {one} to {other} is {flow[place]:.6g}, back {flow.T[place]:.6g}; "
                "check the log ratio of the proposal"
            )


def transitions(
    model: Model, proposal: Proposal, document: Any, weights: Floats, *, temperature: float = 1.0, limit: int = 1000
) -> Transitions | None:
    """The chain of Metropolis-Hastings steps from the truth, exactly; None if it has more than ``limit`` states.

    Also None for proposals whose randomness is compiled, and so cannot be listed.
    """
    try:
        return _transitions(model, proposal, document, weights.tolist(), temperature, limit)
    except _UnlistedError:
        return None


def _transitions(
    model: Model, proposal: Proposal, document: Any, values: list[float], temperature: float, limit: int
) -> Transitions | None:
    worlds: dict[Hashable, tuple[int, World]] = {}
    queue = [model.world(document, Start.TRUTH, Stream(0))]
    worlds[queue[0].key()] = 0, queue[0]
    flows: list[tuple[int, int, float]] = []
    while queue:
        world = queue.pop()
        here = worlds[world.key()][0]
        walker = Walker(model, world, values, temperature, Stream(0))
        for probability, proposed in outcomes(proposal, walker):
            made, move = 0.0, proposed.move
            if move is not None:
                if proposed.log_ratio == ALWAYS:
                    made = 1.0
                else:
                    level = dot(model.difference(world, move), values) / temperature + proposed.log_ratio
                    made = math.exp(min(level, 0.0))
                there = world.copy()
                _fresh(move).apply(there)
                if there.key() not in worlds:
                    if len(worlds) >= limit:
                        return None
                    worlds[there.key()] = len(worlds), there
                    queue.append(there)
                flows.append((here, worlds[there.key()][0], probability * made))
            flows.append((here, here, probability * (1.0 - made)))
    matrix = np.zeros((len(worlds), len(worlds)))
    for source, target, flow in flows:
        matrix[source, target] += flow
    scores = np.array([dot(model.features(world), values) for _, world in worlds.values()]) / temperature
    shares = np.exp(scores - scores.max())
    return Transitions(list(worlds), shares / shares.sum(), matrix)


def _fresh(move: Move) -> Move:
    return Move(move.changes) if type(move) is Move else move


# --------------------------------------------------------------------------------------------------- engines


def _check_engines(
    model: Model, proposal: Proposal, metric: Any, documents: Sequence[Any], steps: int, seed: int
) -> None:
    """Both engines take the same steps and learn the same weights, bit for bit."""
    if model.compiled(documents, proposal, metric) is None:
        return
    rule = LearningRule(towards=Towards.MARGIN)
    visits = [
        Visiting(number, steps, start, stream_number(epoch, number))
        for epoch, start in enumerate(sorted(model.starts, key=lambda start: start.name))
        for number in range(len(documents))
    ]
    found = []
    for engine in (Plain(), CompiledWalks()):
        session = engine.open(model, documents, proposal, metric)
        session.trace = []
        learned, _ = session.learn(rule, WalkWeights.zeros(model.size, rule), visits, seed)
        found.append((session.trace, learned))
    (plain, mine), (compiled, theirs) = found
    for step, (one, other) in enumerate(zip(plain, compiled, strict=True)):
        if one != other:
            raise AssertionError(f"step {step} is {one} (item, old, new, made) in Python and {other} compiled")
    if not (np.array_equal(mine.values, theirs.values) and np.array_equal(mine.sums, theirs.sums)):
        raise AssertionError("the plain and the compiled walk learn different weights")
