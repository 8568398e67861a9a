"""Estimators compared, drawn."""

from __future__ import annotations

import loopwise as lw
from loopwise.compare.gradients import compare_gradients
from oracles.compare_cases import loss, model


def test_plot_shows_the_valid_ones() -> None:
    graph, potentials = model()
    found = compare_gradients(graph, potentials, loss, lw.Exact(), repeats=1)
    axes = found.plot()
    legend = axes.get_legend()
    assert legend is not None
    valid = [row.estimator for row in found.rows if row.valid]
    assert [text.get_text() for text in legend.get_texts()] == valid
    assert "Unroll" in axes.get_title(loc="left")
    assert found.plot(axes) is axes
