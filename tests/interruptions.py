"""A process that ends in the middle of a training, as it were."""

from __future__ import annotations

import pytest

from loopwise.apps import watch


class StoppedError(Exception):
    """Stands for the end of the process."""


def always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written after every round, as if that took no time."""
    monkeypatch.setattr(watch, "_SHARE", 1e12)


def stop_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the process in the middle of a round."""
    heard = watch.Rounds.round

    def round(self: watch.Rounds, *told: object) -> bool:  # type: ignore[type-arg]
        if len(self.history.epochs) + 1 == number:
            raise StoppedError
        return heard(self, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(watch.Rounds, "round", round)
