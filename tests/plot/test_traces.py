"""Pictures of sweeps."""

from __future__ import annotations

import numpy as np

from loopwise import plot
from loopwise.plot.traces import residuals
from oracles.plot_cases import run


def test_residuals_are_the_changes_of_beliefs() -> None:
    found = run(6, examples=3, tolerance=0)
    assert found.trace is not None
    changes = residuals(found)
    assert changes.shape == (6, 3)
    by_hand_changes = np.abs(np.diff(found.trace.numpy(), axis=0)).max(-1)
    np.testing.assert_allclose(changes, by_hand_changes)
    np.testing.assert_allclose(changes[-1], found.status.residual)  # what the status says of the last sweep


def test_convergence_draws_the_worst_example_and_says_who_settled() -> None:
    runs = {"weak": run(60, strength=0.2), "cut": run(2, examples=4)}
    axes = plot.convergence(runs)
    weak, cut = axes.get_lines()
    np.testing.assert_allclose(weak.get_ydata(), residuals(runs["weak"])[:, 0])
    np.testing.assert_allclose(cut.get_ydata(), residuals(runs["cut"]).max(1))
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["weak (converged)", "cut (NOT CONVERGED)"]
    assert len(axes.collections) == 1  # the shade of the batch
    assert plot.convergence(runs["weak"]).get_yscale() == "log"
