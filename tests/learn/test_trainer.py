"""The trainer around any objective: limits, stages, restarts, development data, files, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from loopwise.learn.course import Rounds
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.trainer import Limits, TrainingError, train
from oracles.interruptions import StoppedError
from oracles.trainer_cases import Walk


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


def test_a_training_may_be_given_more_epochs(tmp_path: Path) -> None:
    for epochs in (2, 5):
        resumed = Walk()
        limits = Limits((Rounds(),), epochs, reopens=True)
        train(resumed, limits, ledger=Ledger.open(tmp_path / "run", {}))
    whole = Walk()
    train(whole, Limits.rounds(5))
    assert torch.equal(resumed.place, whole.place)


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


def test_a_training_that_a_callback_ended_goes_on(tmp_path: Path) -> None:
    whole, cut, resumed = Walk(), Walk(), Walk()
    train(whole, Limits.rounds(4))
    train(cut, Limits.rounds(4), ledger=Ledger.open(tmp_path / "run", {}), callbacks=[lambda epoch: epoch.number == 2])
    train(resumed, Limits.rounds(4), ledger=Ledger.open(tmp_path / "run", {}))
    assert torch.equal(resumed.place, whole.place) and not torch.equal(cut.place, whole.place)
