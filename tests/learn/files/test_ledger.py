"""The ledger of a training: files that go on, and files of other runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from loopwise.formats.errors import FormatError
from loopwise.learn.files import ledger as ledgers
from loopwise.learn.files.checkpoint import write_checkpoint
from loopwise.learn.files.ledger import SPARING, Ledger
from loopwise.learn.trainer import Limits, train
from oracles.interruptions import StoppedError
from oracles.trainer_cases import Walk


def test_one_file_serves_several_trainings(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "run", {})
    first, second = Walk(), Walk(stops=2)
    train(first, Limits.rounds(2), ledger=ledger, name="first")
    with pytest.raises(StoppedError):
        train(second, Limits.rounds(4), ledger=ledger, name="second")
    ledger = Ledger.open(tmp_path / "run", {})
    assert list(ledger.finished) == ["first"] and ledger.under_way("second") is not None
    again, resumed = Walk(stops=0), Walk()
    train(again, Limits.rounds(2), ledger=ledger, name="first")
    train(resumed, Limits.rounds(4), ledger=ledger, name="second")
    assert torch.equal(again.place, first.place) and not resumed.begun


def test_files_of_other_runs_and_odd_states(tmp_path: Path) -> None:
    train(Walk(), Limits.rounds(1), ledger=Ledger.open(tmp_path / "run", {"seed": "1"}))
    with pytest.raises(FormatError, match="another run: its seed was 1, now it is 2"):
        Ledger.open(tmp_path / "run", {"seed": "2"})
    write_checkpoint(tmp_path / "old", {}, {"weights": torch.zeros(1), "course": {}})
    with pytest.raises(FormatError, match="old: this checkpoint was written by an earlier version"):
        Ledger.open(tmp_path / "old", {})
    ledger = Ledger.open(tmp_path / "run", {"seed": "1"})
    ledger.finished["training"].pop("history")
    with pytest.raises(FormatError, match="damaged"):
        train(Walk(), Limits.rounds(1), ledger=ledger)


def test_sparing_files_take_a_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of our own: a file that takes 5 s to write waits 50 s for the next."""
    clock, written = [0.0], list[float]()

    def write(path: object, run: object, state: object) -> None:
        written.append(clock[0])
        clock[0] += 5.0

    monkeypatch.setattr(ledgers, "write_checkpoint", write)
    monkeypatch.setattr(ledgers.time, "perf_counter", lambda: clock[0])
    ledger = Ledger.open(tmp_path / "none", {}, SPARING)
    for _ in range(40):
        clock[0] += 10.0
        ledger.keep("walk", dict)
    gaps = [late - early for early, late in pairwise(written)]
    assert len(written) > 3 and min(gaps) >= 50.0 and max(gaps) <= 70.0
