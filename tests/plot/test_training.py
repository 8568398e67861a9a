"""Histories of training."""

from __future__ import annotations

from loopwise import plot
from loopwise.learn.history import Epoch, History


def history(losses: list[float], dev: list[float] | None = None) -> History:
    measured = dev or [None] * len(losses)
    return History([Epoch(k + 1, loss, 0.1, 0, 0, measured[k]) for k, loss in enumerate(losses)])  # type: ignore[arg-type]


def test_histories_are_drawn_with_their_development_data() -> None:
    axes = plot.history({"one": history([3.0, 2.0]), "two": history([2.5, 1.0], [2.6, 1.5])})
    drawn = [list(line.get_ydata()) for line in axes.get_lines()]
    assert [3.0, 2.0] in drawn and [2.5, 1.0] in drawn and [2.6, 1.5] in drawn
    assert plot.history(history([1.0])).get_legend() is None  # one run needs no name
