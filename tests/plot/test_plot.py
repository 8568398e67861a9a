"""The convention: a function for each picture, on given axes or new ones, and matplotlib only when drawn."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

import loopwise as lw
from loopwise import budget, plot
from loopwise.learn.history import Epoch, History
from loopwise.plot.style import new_axes
from oracles.made_beliefs import random_beliefs

GRAPH = lw.grid(2, 2)
TRACED = lw.BP(iterations=2, tolerance=0, engine=lw.inference.Reference(), trace=True)
WITHOUT_AXES = {"arcs", "arc_page", "gallery", "grafting", "panels", "Curve", "Panel", "save"}  # SVG, several, files


class Row:
    estimator, valid, error, times_forward = "Unroll", True, 1e-9, 2.0


def landscape(axes: Axes | None) -> Axes:
    system = lw.System(lw.TablePotentials(GRAPH), lw.BP(iterations=1, tolerance=0, engine=lw.inference.Reference()))
    data = lw.Examples.of(GRAPH, np.zeros((2, 4), dtype=np.int64), np.full(4, lw.Role.OUTPUT))
    return plot.landscape(system, data, lw.loss.MSE(), points=2, axes=axes)


def traced() -> lw.Beliefs:
    with torch.no_grad():
        return TRACED(GRAPH, lw.TablePotentials.random(GRAPH, seed=0))


DRAW: dict[str, Callable[[Axes | None], Axes]] = {
    "factor_graph": lambda axes: plot.factor_graph(GRAPH, axes=axes),
    "beliefs": lambda axes: plot.beliefs(random_beliefs(GRAPH), axes=axes),
    "sweeps": lambda axes: plot.sweeps(traced(), axes=axes),
    "marginal_image": lambda axes: plot.marginal_image(random_beliefs(GRAPH), (2, 2), axes=axes),
    "convergence": lambda axes: plot.convergence(traced(), axes=axes),
    "landscape": landscape,
    "history": lambda axes: plot.history(History([Epoch(1, 1.0, 0.1, 0, 0, None)]), axes=axes),
    "gradients": lambda axes: plot.gradients([Row()], axes=axes),
    "reliability": lambda axes: plot.reliability(lw.metric.reliability([0.5], [1]), axes=axes),
    "pareto": lambda axes: plot.pareto(budget.Frontier((budget.Point("a", 0, 1.0, 2.0),)), axes=axes),
    "image": lambda axes: plot.image(np.eye(2), axes=axes),
}


def test_every_function_is_tried_here() -> None:
    assert set(DRAW) | WITHOUT_AXES == set(plot.__all__)
    assert len(set(plot.__all__)) == len(plot.__all__)
    for name in plot.__all__:
        assert callable(getattr(plot, name)) and name in dir(plot)
    with pytest.raises(AttributeError, match="nonsense"):
        plot.nonsense  # noqa: B018


@pytest.mark.parametrize("name", DRAW)
def test_it_draws_on_axes_of_the_callers_or_on_new_ones(name: str) -> None:
    mine = new_axes()
    assert DRAW[name](mine) is mine and mine.has_data()
    made = DRAW[name](None)
    assert made is not mine and made.figure is not mine.figure
    made.figure.canvas.draw()  # nothing fails when it becomes pixels
    assert inspect.signature(getattr(plot, name)).parameters["axes"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", plot.__all__)
def test_no_module_has_the_name_of_a_function(name: str) -> None:
    """Importing such a module would put it in the function's place."""
    with pytest.raises(ModuleNotFoundError):
        __import__(f"loopwise.plot.{name}")


def test_matplotlib_is_imported_when_something_is_drawn() -> None:
    code = (
        "import sys; from loopwise import plot; plot.arcs(['a'], [0]); plot.save; print('matplotlib' in sys.modules); "
        "plot.image([[0.5]]); print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "False"]
