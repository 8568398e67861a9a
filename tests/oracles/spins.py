"""A model of a user's own, for walks."""

from __future__ import annotations

from typing import Any

from loopwise import walk

# ---------------------------------------------------- a model of one's own: a ring of spins, plain and compiled


class Spins(walk.Model):
    """Spins on a ring; weight 0 counts ones, weight 1 equal neighbours."""

    size = 2

    def world(self, document: Any, start: walk.Start, random: walk.Stream) -> walk.World:
        values = list(document) if start is walk.Start.TRUTH else [random.below(2) for _ in document]
        return self.world_of(document, values)

    def world_of(self, document: Any, labels: Any) -> walk.World:
        return walk.Labelling(labels, [2] * len(labels))

    def factors(self, world: walk.World) -> Any:
        values = world.labels()
        for place, value in enumerate(values):
            yield ("one", place), [(0, float(value))]
            yield ("two", place), [(1, float(value == values[(place + 1) % len(values)]))]
