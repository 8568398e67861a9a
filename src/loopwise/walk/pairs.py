"""Pairs of states to be ranked, from wherever they come.

In: two worlds and a metric, or a feature difference and a gain. Out: :class:`Pair`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.walk.models.model import Model, Sparse
from loopwise.walk.signal import follow
from loopwise.walk.world import World


@dataclass(frozen=True)
class Pair:
    """Features of one state less those of another, and what the signal of the one is above that of the other."""

    difference: Sparse
    gain: float

    @staticmethod
    def of(
        model: Model, metric: Any, truth: World, one: World, other: World, gold: Sequence[int] | None = None
    ) -> Pair:
        """The pair of two worlds of one document, from scratch; ``gold`` as :meth:`Model.gold` has it."""
        delta = model.features(one)
        for key, value in model.features(other).items():
            delta[key] = delta.get(key, 0.0) - value
        gain = follow(metric, other, truth, gold).gap() - follow(metric, one, truth, gold).gap()
        return Pair({key: value for key, value in delta.items() if value}, gain)
