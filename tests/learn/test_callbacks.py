"""Callbacks: hear of every epoch, end a training, write tables."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwise.learn.callbacks import CSVLog, TensorBoardLog, as_callbacks
from loopwise.learn.history import Epoch
from loopwise.learn.trainer import Limits, train
from oracles.trainer_cases import Walk


def test_callbacks_hear_of_every_epoch_and_may_end_it(tmp_path: Path) -> None:
    numbers = list[int]()
    stop: list[Callable[[Epoch], bool | None]] = [lambda epoch: epoch.number == 2, lambda e: numbers.append(e.number)]
    history = train(Walk([3, 1, math.nan]), Limits.rounds(2), callbacks=stop)
    assert numbers == [1, 2] and history.ended == "ended by the callback after epoch 2"
    assert as_callbacks(None) == () and as_callbacks(stop[0]) == (stop[0],) and as_callbacks(stop) == tuple(stop)


def test_a_table_of_epochs(tmp_path: Path) -> None:
    log = CSVLog(tmp_path / "log.csv")
    history = train(Walk([3, 1, 2]), Limits.rounds(2), callbacks=[log])
    train(Walk(), Limits.rounds(1), callbacks=[CSVLog(log.path)])
    with log.path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["number"] for row in rows] == ["1", "2", "1"]
    assert [float(row["loss"]) for row in rows[:2]] == history.losses
    assert [row["dev"] for row in rows] == ["1", "2", ""]


def test_tensorboard_is_asked_for_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    try:
        import tensorboard  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match="needs the package tensorboard"):
            TensorBoardLog(tmp_path)
        return
    train(Walk([3, 1, 2]), Limits.rounds(2), callbacks=[TensorBoardLog(tmp_path / "events")])
    assert any((tmp_path / "events").iterdir())
