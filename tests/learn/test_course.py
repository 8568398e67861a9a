"""The course of a training: patience, restarts."""

from __future__ import annotations

from loopwise.learn.course import Rounds
from loopwise.learn.trainer import Limits, train
from oracles.trainer_cases import Walk


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
