"""Callbacks: hear of every epoch, end a training, write tables."""

from __future__ import annotations

import csv
import math
import sys
import types
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


def test_tensorboard_is_asked_for_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not installed
    with pytest.raises(ValueError, match="needs the package tensorboard: install it, or log to a table with CSVLog"):
        TensorBoardLog(tmp_path)


def test_curves_of_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None:
            pass

    writer = types.ModuleType("torch.utils.tensorboard")
    writer.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, writer.__name__, writer)
    history = train(Walk([3, 1, 2]), Limits.rounds(2), callbacks=[TensorBoardLog(tmp_path)])
    curve = [(value, step) for name, value, step in written if name == "run 1/loss"]
    assert curve == [(history.losses[0], 1), (history.losses[1], 2)]
    assert [(value, step) for name, value, step in written if name == "run 1/development data"] == [(1, 1), (2, 2)]
    written.clear()
    TensorBoardLog(tmp_path)(Epoch(4, 0.5, 1.0, restart=1, gains=(0.1, 0.2, 0.3)))
    assert written == [
        ("run 2/loss", 0.5, 4),
        ("run 2/least gain", 0.1, 4),
        ("run 2/median gain", 0.2, 4),
        ("run 2/largest gain", 0.3, 4),
    ]
