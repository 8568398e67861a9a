"""The walk in plain Python: any model, proposal and metric that keep the contract.

In: a model, documents, a rule. Out: weights, best states, counts of what happened. Stage: walking. The compiled loop
(:mod:`loopwise.walk.kernels.loop`) takes the same steps with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.walk.cooling import Cooling
from loopwise.walk.learning.rules import Accept, LearningRule, Towards
from loopwise.walk.learning.updates import PlainLearning
from loopwise.walk.models.model import Model, Sparse, collect, dot
from loopwise.walk.proposal import ALWAYS, Proposal, Proposed, Walker
from loopwise.walk.randomness import Stream
from loopwise.walk.signal import Signal, follow
from loopwise.walk.world import Move, Start, World

Trace = Callable[[Move | None, bool], None]  # told of every step: the move, and whether it was made


@dataclass
class Visit:
    """One walk over one document, learning as it goes."""

    model: Model
    proposal: Proposal
    metric: Any
    rule: LearningRule
    learning: PlainLearning

    def run(
        self,
        document: Any,
        world: World,
        steps: int,
        random: Stream,
        *,
        at_truth: bool = False,
        trace: Trace | None = None,
    ) -> World:
        """Takes ``steps`` steps from ``world``, in place; ``at_truth``: the walk begins at the truth."""
        rule, learning = self.rule, self.learning
        truth_world = self.model.world(document, Start.TRUTH, random)
        signal = follow(self.metric, world, truth_world, self.model.gold(document))
        walker = Walker(self.model, world, learning.weights, rule.temperature, random, 0, signal)
        truth = _Truth(self.model, rule, truth_world, world, at_truth)
        for step in range(steps):
            walker.step = step
            learning.time += 1
            learning.tally[0] += 1
            move, gain, accepted = self._step(walker, signal, truth)
            if trace is not None:
                trace(move, accepted)
            if rule.towards is not Towards.NONE:
                truth.after(step, gain, move if accepted else None, signal, learning)
        return world

    def _step(self, walker: Walker, signal: Signal, truth: _Truth) -> tuple[Move | None, float, bool]:
        """Proposal, atomic update, acceptance."""
        rule, model, world, learning = self.rule, self.model, walker.world, self.learning
        proposed = self.proposal.propose(walker)
        move, ranked = proposed.move, proposed.ranked
        if ranked is not None and rule.atomic:
            pair = model.difference_between(world, ranked.worse, ranked.better, ranked.over)
            learning.rank(pair, ranked.gain)
        if move is None:
            return None, 0.0, False
        learning.tally[1] += 1
        gain = checked_gain(signal.gain(move), self.metric, move)
        delta = model.difference(world, move)
        score = 0.0
        if ranked is None and rule.atomic:
            before, after = learning.rank(delta, gain)
            score = before if rule.accept_with is Accept.STALE else after
        elif proposed.log_ratio != ALWAYS:
            score = dot(delta, learning.weights)
        accepted = accepts(proposed, score, rule.temperature, walker.random)
        if accepted:
            learning.tally[2] += 1
            move.apply(world)
            signal.accept(move)
            truth.subtract(delta)
        return move, gain, accepted


class _Truth:
    """The features of the truth less those of the state, kept up to date for learners that compare with the truth."""

    def __init__(self, model: Model, rule: LearningRule, truth: World, world: World, at_truth: bool) -> None:
        self.model, self.rule, self.world = model, rule, world
        self.delta: Sparse = {}
        self.moves: list[Move] = []
        self.wanted = rule.towards is not Towards.NONE
        self.gold: Sparse = {}
        if self.wanted and not rule.reset:
            self.gold = model.features(truth)
            if not at_truth:
                self.rebuild()

    def rebuild(self) -> None:
        self.delta = collect(dict(self.gold), self.model.factors(self.world), -1.0)

    def subtract(self, delta: Sparse) -> None:
        if self.wanted:
            for key, value in delta.items():
                self.delta[key] = self.delta.get(key, 0.0) + -1.0 * value

    def after(self, step: int, gain: float, made: Move | None, signal: Signal, learning: PlainLearning) -> None:
        """The update that is due after a step, and the way back to the truth."""
        rule = self.rule
        if made is not None and rule.reset:
            self.moves.append(made)
        if (step + 1) % rule.every == 0:
            if not rule.on_ties or abs(gain) <= rule.tolerance:
                learning.towards_truth(self.delta, signal.gap())
            if rule.reset:
                while self.moves:
                    back = self.moves.pop()
                    back.undo(self.world)
                    signal.accept(Move([(item, new, old) for item, old, new in reversed(back.changes)]))
                self.delta = {}
        if not rule.reset and (step + 1) % rule.rebuild == 0:
            self.rebuild()


@dataclass
class PlainSearch:
    """A walk that does not learn: it cools, and keeps the best state; or it hands every n-th state to ``sample``."""

    model: Model
    proposal: Proposal
    weights: Sequence[float]
    cooling: Cooling
    rescore: int

    def run(
        self, world: World, steps: int, random: Stream, sample: Callable[[int, World], None] | None = None
    ) -> tuple[World, float]:
        """The best world, and the share of proposals accepted."""
        walker = Walker(self.model, world, self.weights, self.cooling.first, random)
        score = dot(self.model.features(world), self.weights)
        best, best_score, made = world.copy(), score, 0
        factor = math.exp(math.log(self.cooling.last / self.cooling.first) / max(steps, 1))
        for step in range(steps):
            walker.step = step
            proposed = self.proposal.propose(walker)
            accepted = False
            if proposed.move is not None:
                rise = dot(self.model.difference(world, proposed.move), self.weights)
                accepted = accepts(proposed, rise, walker.temperature, random)
            if accepted and proposed.move is not None:
                proposed.move.apply(world)
                score += rise
                made += 1
            walker.temperature *= factor
            if (step + 1) % self.rescore == 0:
                score = dot(self.model.features(world), self.weights)
            if accepted and score > best_score:
                best, best_score = world.copy(), score
            if sample is not None:
                sample(step, world)
        return best, made / max(steps, 1)


def accepts(proposed: Proposed, score: float, temperature: float, random: Stream) -> bool:
    r"""Metropolis and Hastings: :math:`\log U < \theta \cdot \delta / T + \rho`; T divides the score only."""
    if proposed.log_ratio == ALWAYS:
        return True
    uniform = random.uniform()
    level = score / temperature + proposed.log_ratio
    return level >= 0.0 or (math.log(uniform) if uniform > 0.0 else -math.inf) < level


def checked_gain(gain: float, metric: Any, move: Move) -> float:
    """The gain, if it is a number."""
    if math.isnan(gain):
        raise ValueError(
            f"the metric {type(metric).__name__} gave NaN for {move!r}; it must give a number for every state"
        )
    return gain
