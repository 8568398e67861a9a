"""Proposals: where a walk may go next, and the ratio that keeps it honest.

In: a walker (world, model, weights, temperature, randomness). Out: a move with its log proposal ratio. Stage: walking.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.walk.models.model import Model
from loopwise.walk.randomness import Stream
from loopwise.walk.signal import Signal
from loopwise.walk.world import Move, World

ALWAYS = math.inf  # the log ratio of a draw that is always accepted (Gibbs)


@dataclass
class Walker:
    """What a proposal may look at. ``signal`` is there in training only; ``step`` counts from 0 in each document."""

    model: Model
    world: World
    weights: Sequence[float]
    temperature: float
    random: Stream
    step: int = 0
    signal: Signal | None = None


@dataclass(frozen=True)
class Ranked:
    """Two states to rank other than the current and the proposed one: those after two moves (None: the current)."""

    worse: Move | None
    better: Move | None
    gain: float  # of the better one over the worse, positive
    over: Move  # touches what both moves touch


@dataclass(frozen=True)
class Proposed:
    r"""A move (None: nothing changes) and its log ratio :math:`\rho = \log q(y \mid y') - \log q(y' \mid y)`."""

    move: Move | None
    log_ratio: float = 0.0
    ranked: Ranked | None = None


class Proposal(ABC):
    """Draws moves. Randomness comes from ``walker.random`` alone, by ``below`` and ``choose``."""

    @abstractmethod
    def propose(self, walker: Walker) -> Proposed:
        """The next move to consider."""

    def compiled_code(self) -> Any:
        """How compiled walks know the proposal; None where they do not."""
        return None
