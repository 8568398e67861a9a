"""The contract of structured factors: kept by ours, and told where it is broken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from loopwise.graph.structured import AtMostOne
from loopwise.testing import check_factor
from oracles.crooked import WrongSlope


@dataclass(frozen=True, eq=False)
class Crooked(AtMostOne):
    """At most one of some variables, which breaks one promise."""

    promise: str = ""

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        if self.promise == "evidence":
            incoming = incoming.clamp(min=-20.0)  # nothing is ruled out for good
        found = super().log_partition(incoming, potentials)
        if self.promise == "peaked":
            found = found.clamp(max=700.0)  # as an exponential would
        return found.reshape(-1)[0].expand(found.shape) if self.promise == "batch" and found.ndim > 1 else found

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        if self.promise == "impossible" and bool(torch.isneginf(self.log_partition(incoming)).any()):
            return torch.zeros_like(incoming)
        if self.promise == "own variable":
            found = super().messages(incoming, potentials)
            return self.normalised(torch.where(incoming > 2.5, found + 1e-3, found))
        found = super().messages(incoming, potentials)
        if self.promise == "batch" and found.ndim > 2:
            return found.flip(0)
        return WrongSlope.apply(found, 0, 1.001) if self.promise == "gradient" else found

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        best = super().argmax(incoming, potentials)
        return best.roll(1, -1) if self.promise == "argmax" else best

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        drawn = super().sample(incoming, potentials, count=count, generator=generator)
        return drawn.flip(-1) if self.promise == "samples" else drawn


def test_a_factor_keeps_its_promises() -> None:
    check_factor(Crooked(4))


@pytest.mark.parametrize(
    "promise, words",
    [
        ("evidence", "value at each assignment"),
        ("peaked", "log-partition at 1e4 nats"),
        ("impossible", "raise no ImpossibleError"),
        ("own variable", "messages|after its own changed"),
        ("batch", "messages of a batch"),
        ("gradient", "gradient of messages"),
        ("argmax", "score of the best assignment"),
        ("samples", "frequencies of the table"),
    ],
)
def test_crooked_factors_are_told(promise: str, words: str) -> None:
    on = np.indices((2,) * 4).reshape(4, -1).sum(0)
    with pytest.raises(AssertionError, match=words):
        check_factor(Crooked(4, promise), table=torch.tensor(np.where(on <= 1, 0.0, -np.inf)))


def test_a_factor_is_checked_against_the_table_that_is_meant() -> None:
    with pytest.raises(AssertionError, match="value at each assignment"):
        check_factor(AtMostOne(2), table=torch.zeros(4))
    with pytest.raises(ValueError, match="too large"):
        check_factor(AtMostOne(17))
