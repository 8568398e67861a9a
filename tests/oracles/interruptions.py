"""A process that ends in the middle of a training, as it were."""

from __future__ import annotations

from typing import Any

import pytest

from loopwise.learn import trainer
from loopwise.learn.files.ledger import Ledger


class StoppedError(Exception):
    """Stands for the end of the process."""


def always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written after every round, as if that took no time."""
    opened = Ledger.open
    monkeypatch.setattr(Ledger, "open", staticmethod(lambda path, run, share=None: opened(path, run)))


def stop_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the process in the middle of a round."""
    heard = trainer._Training.round

    def round(self: Any, tell: Any) -> Any:
        if len(self.history.epochs) + 1 == number:
            raise StoppedError
        return heard(self, tell)

    monkeypatch.setattr(trainer._Training, "round", round)
