"""The trainer around any objective: limits, stages, restarts, development data, files, callbacks."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from loopwise.formats.errors import FormatError
from loopwise.learn import ledger as ledgers
from loopwise.learn.callbacks import CSVLog, TensorBoardLog, as_callbacks
from loopwise.learn.checkpoint import write_checkpoint
from loopwise.learn.course import Rounds
from loopwise.learn.history import Epoch
from loopwise.learn.ledger import SPARING, Ledger
from loopwise.learn.objective import Objective, RoundError
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, TrainingError, train


class StoppedError(Exception):
    """Stands for the end of the process."""


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


def test_rounds_stages_and_the_bar() -> None:
    walk, told = Walk(), list[float]()
    history = train(walk, Limits.rounds(2, 3), tell=lambda done, text: told.append(done))
    assert walk.begun == [(0, 0), (0, 1)]
    assert [(epoch.number, epoch.stage) for epoch in history] == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    assert told == [half / 2 for half in range(1, 11)]
    assert history.ended == "all 5 epochs done" and history.best is None
    with pytest.raises(ValueError, match="at least 1 round, not 0"):
        Limits.rounds(0)


def test_a_stage_may_be_over_before_it_begins() -> None:
    walk = Walk(idle=0)
    assert [epoch.stage for epoch in train(walk, Limits.rounds(2, 2))] == [1, 1]
    last = train(Walk(idle=1), Limits.rounds(2, 2))
    assert len(last) == 2 and last.ended == "nothing to do"
    assert not len(train(Walk(idle=0), Limits.rounds(4)))


@pytest.mark.parametrize(("higher", "best"), [(False, 2), (True, 3)])
def test_the_best_weights_on_development_data_are_kept(
    higher: bool, best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk, "higher_is_better", property(lambda self: higher))
    walk, seen = Walk([9, 5, 2, 7, 4]), list[float]()
    history = train(walk, Limits.rounds(4), callbacks=[lambda epoch: seen.append(float(walk.place))])
    assert history.best == best and float(walk.place) == seen[best - 1]
    assert history.dev == [5, 2, 7, 4]


def test_patience_and_weights_to_begin_with() -> None:
    impatient = train(Walk([9, 5, 6, 6, 1]), Limits.rounds(4, patience=2))
    assert len(impatient) == 3 and impatient.ended == "no better on the development data for 2 epochs"
    walk = Walk([1, 5, 6, 6, 3])
    start = train(walk, Limits((Rounds(4),), 4, from_start=True))
    assert start.best == 0 and float(walk.place) == 0.0


def test_of_restarts_the_one_with_the_least_loss_is_kept() -> None:
    walk = Walk()
    history = train(walk, Limits((Rounds(),), 3, restarts=3))
    ends = [epoch.loss for epoch in history.epochs if epoch.number == 3]
    assert history.restart == ends.index(min(ends)) and walk.loss() == min(ends)
    assert walk.begun == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("stops", range(1, 6))
@pytest.mark.parametrize("dev", [(), (9, 5, 2, 7, 4, 6)])
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, stops: int, dev: Sequence[float]
) -> None:
    limits, run = Limits.rounds(2, 3), {"seed": "1"}
    whole = Walk(dev)
    history = train(whole, limits)
    stopped = Walk(dev, stops=stops)
    open_file: Callable[[], Ledger] = lambda: Ledger.open(tmp_path / "run", run)  # noqa: E731
    if stops < 5:
        with pytest.raises(StoppedError):
            train(stopped, limits, ledger=open_file())
    resumed = Walk(dev)
    found = train(resumed, limits, ledger=open_file())
    assert torch.equal(resumed.place, whole.place)
    assert found.without_times() == history.without_times()
    again = Walk(dev, stops=0)  # a finished training is not repeated
    assert train(again, limits, ledger=open_file()).without_times() == history.without_times()
    assert torch.equal(again.place, whole.place)


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


def test_a_training_may_be_given_more_epochs(tmp_path: Path) -> None:
    for epochs in (2, 5):
        resumed = Walk()
        limits = Limits((Rounds(),), epochs, reopens=True)
        train(resumed, limits, ledger=Ledger.open(tmp_path / "run", {}))
    whole = Walk()
    train(whole, Limits.rounds(5))
    assert torch.equal(resumed.place, whole.place)


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


def test_a_round_that_fails_leaves_the_best_weights() -> None:
    walk = Walk([9, 5, 2, 7], fails=3)
    with pytest.raises(
        TrainingError, match=r"lost: training stopped, and the weights are those of the best epoch; look"
    ):
        train(walk, Limits.rounds(5))
    with pytest.raises(TrainingError, match="those at the start"):
        train(Walk(fails=0), Limits.rounds(5))
    with pytest.raises(TrainingError, match="those after epoch 2"):
        train(Walk(fails=2), Limits.rounds(5))


def test_callbacks_hear_of_every_epoch_and_may_end_it(tmp_path: Path) -> None:
    numbers = list[int]()
    stop: list[Callable[[Epoch], bool | None]] = [lambda epoch: epoch.number == 2, lambda e: numbers.append(e.number)]
    history = train(Walk([3, 1, math.nan]), Limits.rounds(2), callbacks=stop)
    assert numbers == [1, 2] and history.ended == "ended by the callback after epoch 2"
    assert as_callbacks(None) == () and as_callbacks(stop[0]) == (stop[0],) and as_callbacks(stop) == tuple(stop)


def test_a_training_that_a_callback_ended_goes_on(tmp_path: Path) -> None:
    whole, cut, resumed = Walk(), Walk(), Walk()
    train(whole, Limits.rounds(4))
    train(cut, Limits.rounds(4), ledger=Ledger.open(tmp_path / "run", {}), callbacks=[lambda epoch: epoch.number == 2])
    train(resumed, Limits.rounds(4), ledger=Ledger.open(tmp_path / "run", {}))
    assert torch.equal(resumed.place, whole.place) and not torch.equal(cut.place, whole.place)


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
