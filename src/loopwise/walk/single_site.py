r"""Proposals that change one variable of a labelling.

In: a walker in a :class:`~loopwise.walk.labelling.Labelling`. Out: moves. Stage: walking. All pick a variable at random
(``scan=True``: in turn, a sweep; that keeps the distribution but not detailed balance). Compiled walks know them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from loopwise.walk.kernels import codes as codes
from loopwise.walk.labelling import Labelling
from loopwise.walk.proposal import ALWAYS, Proposal, Proposed, Ranked, Walker
from loopwise.walk.world import Move


@dataclass(frozen=True)
class SingleSite(Proposal):
    """Picks a variable; what becomes of it is the subclass's."""

    scan: bool = False

    def propose(self, walker: Walker) -> Proposed:
        world = walker.world
        if not isinstance(world, Labelling):
            raise ValueError(
                f"{type(self).__name__} changes variables of a Labelling; the model's worlds are {type(world).__name__}"
            )
        if not world.free:
            return Proposed(None)
        place = walker.step % len(world.free) if self.scan else walker.random.below(len(world.free))
        return self.change(walker, world, world.free[place])

    @abstractmethod
    def change(self, walker: Walker, world: Labelling, variable: int) -> Proposed:
        """A move of ``variable``."""


@dataclass(frozen=True)
class UniformChange(SingleSite):
    r"""Another value, all alike: symmetric, :math:`\rho = 0`."""

    def change(self, walker: Walker, world: Labelling, variable: int) -> Proposed:
        old, size = world.values[variable], world.cardinalities[variable]
        new = walker.random.below(size - 1) if size > 1 else _drawn(walker, old)
        if new >= old and size > 1:
            new += 1
        return Proposed(_move(variable, old, new))

    def compiled_code(self) -> tuple[int, bool]:
        return codes.UNIFORM, self.scan


@dataclass(frozen=True)
class GibbsChange(SingleSite):
    r"""A draw of :math:`y_v \sim \pi(\cdot \mid y_{-v})^{1/T}`, always accepted (Geman and Geman 1984).

    A learner ranks the old value against the drawn one. O(values x factors of the variable).
    """

    def change(self, walker: Walker, world: Labelling, variable: int) -> Proposed:
        old = world.values[variable]
        new = walker.random.choose(_shares(value_scores(walker, world, variable), walker.temperature))
        return Proposed(_move(variable, old, new), ALWAYS)

    def compiled_code(self) -> tuple[int, bool]:
        return codes.GIBBS, self.scan


@dataclass(frozen=True)
class AllValues(GibbsChange):
    """Gibbs draws, but a learner ranks values among all of the variable's.

    If the value that the model likes best is not one that the signal likes best, the latter (ties: by the model) is
    ranked above it; else it is ranked above the best-scoring value of lower signal.
    """

    def change(self, walker: Walker, world: Labelling, variable: int) -> Proposed:
        old = world.values[variable]
        scores = value_scores(walker, world, variable)
        new = walker.random.choose(_shares(scores, walker.temperature))
        ranked = _ranked(walker, variable, old, scores) if walker.signal is not None else None
        return Proposed(_move(variable, old, new), ALWAYS, ranked)

    def compiled_code(self) -> tuple[int, bool]:
        return codes.ALL_VALUES, self.scan


@dataclass(frozen=True)
class ForcedFlip(SingleSite):
    r"""A draw from the conditional among the *other* values (Liu 1996, "Metropolised Gibbs"): no draw is wasted.

    .. math:: \rho = \log \frac{\pi(y_v)}{\pi(y'_v)} + \log \frac{1 - \pi(y_v)}{1 - \pi(y'_v)}

    with conditional probabilities at temperature T. For binary variables it always proposes the flip.
    """

    def change(self, walker: Walker, world: Labelling, variable: int) -> Proposed:
        old, size, temperature = world.values[variable], world.cardinalities[variable], walker.temperature
        scores = value_scores(walker, world, variable)
        if size < 2:
            return Proposed(None)
        others = list(scores)
        others[old] = -math.inf
        new = walker.random.choose(_shares(others, temperature))
        top = max(scores)
        leave = back = 0.0
        for value, score in enumerate(scores):
            share = math.exp((score - top) / temperature)
            if value != old:
                leave += share
            if value != new:
                back += share
        ratio = (scores[old] - scores[new]) / temperature + _log(leave) - _log(back)
        return Proposed(_move(variable, old, new), ratio)

    def compiled_code(self) -> tuple[int, bool]:
        return codes.FORCED, self.scan


def value_scores(walker: Walker, world: Labelling, variable: int) -> list[float]:
    """The score of each value of a variable given the rest: its factors' weights, added up in their order."""
    weights, model = walker.weights, walker.model
    old, touching = world.values[variable], Move([(variable, 0, 0)])
    scores = []
    for value in range(world.cardinalities[variable]):
        world.values[variable] = value
        total = 0.0
        for _, features in model.touched(world, touching):
            for key, amount in features:
                total += weights[key] * amount
        scores.append(total)
    world.values[variable] = old
    return scores


def _ranked(walker: Walker, variable: int, old: int, scores: list[float]) -> Ranked | None:
    signal = walker.signal
    assert signal is not None
    values = range(len(scores))
    gains = [signal.gain(Move([(variable, old, value)])) if value != old else 0.0 for value in values]
    best = max(values, key=lambda value: scores[value])
    right = max(values, key=lambda value: (gains[value], scores[value]))
    worse, better = best, right
    if not gains[best] < gains[right]:
        lower = [value for value in values if gains[value] < gains[best]]
        if not lower:
            return None
        worse, better = max(lower, key=lambda value: scores[value]), best
    return Ranked(
        _move(variable, old, worse),
        _move(variable, old, better),
        gains[better] - gains[worse],
        Move([(variable, old, old)]),
    )


def _move(variable: int, old: int, new: int) -> Move | None:
    return Move([(variable, old, new)]) if new != old else None


def _drawn(walker: Walker, old: int) -> int:
    walker.random.below(1)  # compiled walks draw here too
    return old


def _shares(scores: list[float], temperature: float) -> list[float]:
    top = max(scores)
    return [math.exp((score - top) / temperature) for score in scores]


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
