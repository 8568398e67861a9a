"""A small objective for the trainer: a walk down a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from loopwise.learn.objective import Objective, RoundError
from loopwise.learn.progress import Tell
from oracles.interruptions import StoppedError


class Walk(Objective):
    """A number that moves by a random step each round; ``dev[n]`` is its measure after n rounds."""

    def __init__(self, dev: Sequence[float] = (), *, fails: int = -1, stops: int = -1, idle: int = -1) -> None:
        self.dev, self.fails, self.stops, self.idle = dev, fails, stops, idle
        self.place, self.count, self.stage = torch.zeros(1), 0, 0
        self.source = torch.Generator()
        self.begun: list[tuple[int, int]] = []

    def begin(self, restart: int, stage: int) -> None:
        self.begun.append((restart, stage))
        self.stage = stage
        if stage == 0:
            self.place, self.count = torch.full((1,), float(restart)), 0
            self.source.manual_seed(restart)

    def round(self, tell: Tell) -> float | None:
        if self.stage == self.idle:
            return None
        if self.count == self.fails:
            raise RoundError("the number is lost", "; look again")
        if self.count == self.stops:
            raise StoppedError
        tell(0.5, "half")
        self.place = self.place + torch.randn(1, generator=self.source)
        self.count += 1
        return float(self.place.abs())

    @property
    def ended(self) -> str:
        return "nothing to do" if self.stage == self.idle else ""

    def measure(self) -> float | None:
        return self.dev[self.count] if len(self.dev) else None

    def loss(self) -> float:
        return float(self.place.abs())

    def weights(self) -> Any:
        return self.place.clone()

    def set_weights(self, weights: Any) -> None:
        self.place = weights

    def state(self) -> Any:
        return {"place": self.place, "count": self.count, "stage": self.stage, "source": self.source.get_state()}

    def load_state(self, state: Any) -> None:
        self.place, self.count, self.stage = state["place"], state["count"], state["stage"]
        self.source.set_state(state["source"])
