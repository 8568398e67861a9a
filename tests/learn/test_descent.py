"""Smooth functions minimised one after another: stages, free places, other forms of the weights, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from loopwise.learn.descent import Descent, DescentOptions, EpochOptions, Smooth
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.trainer import Limits, train

TARGET = np.array([3.0, -1.0, 0.5])


def bowl(centre: np.ndarray):
    return lambda point: (float(((point - centre) ** 2).sum()), 2 * (point - centre))


def test_each_stage_begins_where_the_last_ended() -> None:
    starts: list[np.ndarray] = []

    def second(point: np.ndarray) -> tuple[float, np.ndarray]:
        starts.append(point.copy())
        return bowl(-TARGET)(point)

    descent = Descent([Smooth(bowl(TARGET), tolerance=1e-14), Smooth(second, l2=2.0, tolerance=1e-14)], np.zeros(3))
    history = train(descent, descent.limits)
    np.testing.assert_allclose(starts[0], TARGET, atol=1e-6)
    np.testing.assert_allclose(descent.answer, -TARGET / 2, atol=1e-6)  # the penalty weighs as much as the bowl
    assert {epoch.stage for epoch in history} == {0, 1} and history.best is None


def test_only_free_places_change() -> None:
    descent = Descent([Smooth(bowl(TARGET), free=np.array([0, 2]))], np.array([0.0, 9.0, 0.0]))
    train(descent, descent.limits)
    np.testing.assert_allclose(descent.answer, [3.0, 0.0, 0.5], atol=1e-6)


def test_functions_may_take_another_form_of_the_weights() -> None:
    """Two equal weights trained as one, root two as large: the same scores and the same penalty."""
    root = np.sqrt(2.0)

    def summed(point: np.ndarray) -> tuple[float, np.ndarray]:
        error = root * point[0] - 4.0
        return float(error**2), np.array([2 * root * error])

    descent = Descent(
        [Smooth(summed, l2=1.0, tolerance=1e-15)],
        np.zeros(2),
        narrow=lambda vector: np.array([vector.sum() / root]),
        widen=lambda vector: np.repeat(vector / root, 2),
    )
    train(descent, descent.limits)
    np.testing.assert_allclose(descent.answer, np.full(2, 8 / 5), atol=1e-5)  # of (a + b - 4)^2 + (a^2 + b^2) / 2


def test_a_start_that_cannot_be_better_has_no_rounds() -> None:
    descent = Descent([Smooth(bowl(TARGET)), Smooth(bowl(TARGET), gradient_tolerance=1.0)], TARGET.copy())
    history = train(descent, descent.limits)
    assert not len(history) and history.ended == "the gradient vanishes"
    assert np.array_equal(descent.answer, TARGET)


def test_the_best_iteration_is_chosen_where_asked() -> None:
    for selects in (False, True):
        descent = Descent([Smooth(bowl(TARGET), tolerance=1e-14)], np.zeros(3), selects=selects)
        descent.score, descent.larger = lambda vector: -float(np.abs(vector).sum()), True
        history = train(descent, descent.limits)
        assert (history.best == 1) is selects and bool(history.dev) is selects


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_an_interrupted_minimisation_goes_on(tmp_path: Path, stops: int) -> None:
    scale = np.array([1.0, 30.0, 400.0])

    def valley(point: np.ndarray) -> tuple[float, np.ndarray]:
        return float((scale * (point - TARGET) ** 2).sum() + (point**4).sum()), (
            2 * scale * (point - TARGET) + 4 * point**3
        )

    def make() -> Descent:
        return Descent([Smooth(valley, iterations=2), Smooth(bowl(TARGET), iterations=3)], np.zeros(3))

    whole, cut, resumed = make(), make(), make()
    train(whole, whole.limits)
    ledger = Ledger.open(tmp_path / "run", {})
    train(cut, cut.limits, ledger=ledger, callbacks=[lambda epoch: epoch.number == stops])
    train(resumed, resumed.limits, ledger=Ledger.open(tmp_path / "run", {}))
    assert np.array_equal(resumed.answer, whole.answer)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="l2"):
        Smooth(bowl(TARGET), l2=-1.0)
    with pytest.raises(ValueError, match="iterations"):
        Smooth(bowl(TARGET), iterations=0)


@dataclass(frozen=True)
class Descending(DescentOptions):
    l2: float = 1.0
    iterations: int = 7
    begin: Descending | None = None


@dataclass(frozen=True)
class Going(EpochOptions):
    epochs: int = 3
    rate: float = 1.0
    _positive: ClassVar[tuple[str, ...]] = ("rate",)


def test_learners_say_how_long_they_take() -> None:
    assert Descending().limits == Limits.rounds(7)
    assert Descending(begin=Descending(iterations=4)).limits == Limits.rounds(4, 7)
    assert Going(epochs=5).limits == Limits.rounds(5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Descending(l2=-1.0), "l2 must be a number of at least 0, not -1.0"),
        (lambda: Descending(iterations=0), "iterations must be a whole number of at least 1, not 0"),
        (lambda: Going(epochs=0), "epochs must be a whole number of at least 1, not 0"),
        (lambda: Going(rate=0.0), "rate must be a positive number, not 0.0"),
        (lambda: Going(rate=float("inf")), "rate must be a positive number, not inf"),
    ],
)
def test_options_without_meaning_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
