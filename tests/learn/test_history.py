"""Histories of a training."""

from __future__ import annotations

import json

import numpy as np

import loopwise as lw
from loopwise.learn import History, fit, staged
from oracles.fit_cases import data, fresh

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def test_histories() -> None:
    history = fit(fresh(), data(16), staged(MSE, epochs=1), epochs=2, batch=16, dev=data(16, seed=2))
    again = History.from_json(json.loads(json.dumps(history.to_json(), allow_nan=False)))
    assert again == history and history.seconds > 0 and len(history.dev) == 2
    assert all(epoch.gains is not None and epoch.gains[0] <= epoch.gains[1] <= epoch.gains[2] for epoch in history)
    axes = history.plot()
    drawn = [line.get_ydata() for line in axes.get_lines()]
    assert any(np.allclose(line, history.dev) for line in drawn if len(line) == 2)
    assert history.plot(axes) is axes
    from loopwise import plot

    lines = plot.history({"one": history, "two": again}).get_lines()
    assert any(np.allclose(line.get_ydata(), history.losses) for line in lines)
