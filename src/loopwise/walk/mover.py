r"""Proposals that change a clustering.

In: a walker in a :class:`~loopwise.walk.clustering.Clustering`. Out: moves. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loopwise.walk.clustering import Clustering
from loopwise.walk.models.model import dot
from loopwise.walk.proposal import Proposal, Proposed, Walker
from loopwise.walk.world import Move


@dataclass(frozen=True)
class MentionMover(Proposal):
    r"""A mention, all alike, goes to one of the K entities, all alike; its own one stands for a new entity.

    .. math:: \rho = \log K - \log K'

    with K' entities after the move: 0 unless a singleton joins another entity or a mention leaves others to be alone. A
    mention that is alone already and draws itself changes nothing. Compiled walks know it.
    """

    def propose(self, walker: Walker) -> Proposed:
        world = clustering_of(walker)
        if not world.mentions:
            return Proposed(None)
        mention = walker.random.below(world.mentions)
        new = world.active[walker.random.below(len(world.active))]
        old = world.entity[mention]
        before = after = len(world.active)
        alone = len(world.members[old]) == 1
        if alone:
            after -= 1
        if new == old:
            if alone:
                return Proposed(None)
            new = world.new_entity
            after += 1
        ratio = math.log(before) - math.log(after) if after != before else 0.0
        return Proposed(Move([(mention, old, new)]), ratio)

    def compiled_code(self) -> int:
        return 0


@dataclass(frozen=True)
class SplitMerge(Proposal):
    r"""Block moves: two mentions, all pairs alike; together, their entity is split, apart, their entities are merged.

    Of a split, each other member follows the one or the other of the two as a fair coin falls, so that with n members
    :math:`q(\text{split}) = 2^{-(n-2)}` and a merge has one way only: :math:`\rho = \pm (n-2) \log 2`. Joins
    :class:`MentionMover` in a :class:`Mixture`, for it moves slowly alone. Compiled walks know it, and that mixture in
    this order.
    """

    def propose(self, walker: Walker) -> Proposed:
        world, random = clustering_of(walker), walker.random
        if world.mentions < 2:
            return Proposed(None)
        one = random.below(world.mentions)
        other = random.below(world.mentions - 1)
        if other >= one:
            other += 1
        old, new = world.entity[other], world.entity[one]
        if old != new:
            members = world.members[old]
            size = len(members) + len(world.members[new])
            return Proposed(Move([(mention, old, new) for mention in members]), -(size - 2) * math.log(2.0))
        rest = [mention for mention in world.members[new] if mention not in (one, other)]
        leaving = sorted([other, *(mention for mention in rest if random.below(2))])
        target = world.new_entity
        return Proposed(Move([(mention, old, target) for mention in leaving]), len(rest) * math.log(2.0))


@dataclass(frozen=True)
class Mixture(Proposal):
    """One of several proposals each step, with fixed ``shares`` (by default all alike)."""

    proposals: tuple[Proposal, ...]
    shares: tuple[float, ...] | None = None

    def propose(self, walker: Walker) -> Proposed:
        shares = self.shares or (1.0,) * len(self.proposals)
        return self.proposals[walker.random.choose(shares)].propose(walker)


def clustering_of(walker: Walker) -> Clustering:
    """The walker's world, which must be a clustering."""
    if not isinstance(walker.world, Clustering):
        raise ValueError(
            f"the proposal moves mentions of a Clustering; the model's worlds are {type(walker.world).__name__}"
        )
    return walker.world


@dataclass(frozen=True)
class BalancedMover(Proposal):
    r"""A mention, all alike, goes where the model would have it: a locally balanced proposal (Zanella 2020).

    Of all places e of the mention (each entity that has other mentions, and one of its own) but the present one, it is
    drawn with :math:`q(e) \propto \sqrt{\pi(y_e) / \pi(y)} = e^{\Delta_e / 2T}`, so that the ratio of the two ways
    depends on their normalisers alone:

    .. math:: \rho = -\frac{\Delta_e}{T} + \log\sum_{f \ne \text{old}} e^{\Delta_f / 2T}
              - \log\sum_{f \ne e} e^{(\Delta_f - \Delta_e) / 2T}

    A step costs as much as K steps of :class:`MentionMover`, and wanders K times less. Plain walks only.
    """

    def propose(self, walker: Walker) -> Proposed:
        world = clustering_of(walker)
        if world.mentions < 2:
            return Proposed(None)
        mention = walker.random.below(world.mentions)
        old = world.entity[mention]
        alone = len(world.members[old]) == 1
        places = [entity for entity in world.active if entity != old] + ([] if alone else [world.new_entity])
        moves = [Move([(mention, old, place)]) for place in places]
        half = 2.0 * walker.temperature
        rises = [dot(walker.model.difference(world, move), walker.weights) / half for move in moves]
        top = max(0.0, *rises)
        shares = [math.exp(rise - top) for rise in rises]
        chosen = walker.random.choose(shares)
        others = math.fsum(share for place, share in enumerate(shares) if place != chosen)
        there, back = others + shares[chosen], others + math.exp(-top)
        return Proposed(moves[chosen], math.log(there) - math.log(back) - rises[chosen])
