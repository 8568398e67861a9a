"""Stages: who gets how many epochs, when a stage ends, and what the continuations are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise.learn import Stage, hybrid, staged
from loopwise.learn.course import TrainingPosition
from loopwise.learn.stages import as_stages, check_budget, epochs_of, has_converged, target

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def walk(stages: tuple[Stage, ...], epochs: int, losses: list[float], patience: int | None = None) -> list[int]:
    """The stage of each epoch when training has these losses (the last one forever)."""
    course, seen = TrainingPosition.begin(stages, epochs), []
    while not course.ended:
        seen.append(course.stage)
        course.after_epoch(stages, epochs, patience, losses[min(course.epoch, len(losses) - 1)], None)
    return seen


def test_the_published_continuations() -> None:
    first, last = staged(lw.loss.F1())
    assert isinstance(first.goal, lw.loss.SurrogateLikelihood) and first.epochs == 3
    assert isinstance(last.goal, lw.loss.F1) and last.epochs is None
    steps = hybrid(lw.loss.F1())
    weights = [stage.goal.weight for stage in steps if isinstance(stage.goal, lw.loss.Interpolated)]
    assert weights == [0.0, 0.5, 1.0] and all(stage.until_converged for stage in steps)
    assert isinstance(target(steps), lw.loss.F1)
    for both in (staged(hybrid(lw.loss.L1())), hybrid(staged(lw.loss.L1()))):
        kinds = [type(stage.goal).__name__ for stage in both]
        assert kinds == ["SurrogateLikelihood", "Interpolated", "Interpolated", "Interpolated"]


def test_convergence_asks_both_of_the_last_two_scores() -> None:
    assert not has_converged([1.0, 1.0], 1e-3)  # three are needed
    assert has_converged([1.0, 1.0, 1.0], 1e-3)
    assert has_converged([1.0, 1.1, 1.2], 1e-3)  # worse is no improvement either
    assert not has_converged([1.0, 0.9, 0.8995], 1e-3)  # little against the last, much against the one before
    assert not has_converged([0.9, 1.0, 0.9], 1e-3)
    assert has_converged([-1.0, -1.0005, -1.0009], 1e-3)  # objectives may be negative
    assert not has_converged([-1.0, -1.1, -1.2], 1e-3)


def test_stages_advance_on_convergence_and_never_starve_the_goal() -> None:
    flat, falling = [1.0], [2.0**-k for k in range(40)]
    assert walk(hybrid(MSE), 25, flat) == [0] * 3 + [1] * 3 + [2] * 3
    assert walk(hybrid(MSE), 25, falling) == [0] * 9 + [1] * 8 + [2] * 8
    assert walk(staged(hybrid(MSE)), 25, flat) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert walk(staged(MSE), 25, falling) == [0] * 3 + [1] * 22
    assert walk((Stage(NLL), Stage(MSE, 4)), 10, falling) == [0] * 6 + [1] * 4


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=1, max_size=5),
    st.integers(0, 20),
    st.lists(st.floats(0.1, 1.0), min_size=1, max_size=10),
    st.booleans(),
)
def test_every_stage_has_its_turn(wishes: list[int | None], spare: int, losses: list[float], stop: bool) -> None:
    stages = tuple(Stage(MSE, wish, until_converged=stop) for wish in wishes)
    needed = sum(wish or 1 for wish in wishes)
    seen = walk(stages, needed + spare, losses)
    assert len(seen) <= needed + spare
    assert seen == sorted(seen) and set(seen) == set(range(len(stages)))
    for number, wish in enumerate(wishes):
        assert wish is None or seen.count(number) <= wish
    if not stop and None in wishes:
        assert len(seen) == needed + spare  # all epochs are used


def test_bad_stages() -> None:
    with pytest.raises(ValueError, match="at least 1 epoch, not 0"):
        Stage(MSE, 0)
    with pytest.raises(ValueError, match="Accuracy is a metric, which has no gradient"):
        Stage(lw.metric.Accuracy())
    with pytest.raises(ValueError, match="a goal must be a loss"):
        Stage("mse")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the goal must be a loss such as"):
        as_stages([])
    with pytest.raises(ValueError, match="SurrogateLikelihood cannot be mixed"):
        hybrid(NLL)
    with pytest.raises(ValueError, match="3 epochs do not suffice: the stages before the last take 3"):
        check_budget(staged(MSE), 3)
    check_budget(staged(MSE), 4)
    assert epochs_of(staged(MSE), 1, 1) == 1
