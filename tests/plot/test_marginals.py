"""Beliefs as pictures: the numbers that are drawn are those of the beliefs, sweep by sweep too."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise import plot
from oracles.made_beliefs import by_hand, random_beliefs
from oracles.plot_cases import run


def test_few_binary_variables_are_bars_of_the_second_value() -> None:
    found = random_beliefs(lw.chain(4), (2,), seed=1)
    axes = plot.beliefs(found, example=1)
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], found.variables[1, :, 1])
    assert "1" in axes.get_ylabel()


def test_values_of_mixed_variables_each_have_a_bar() -> None:
    graph = lw.FactorGraph([2, 3, 4], {"all": [[0, 1, 2]]})
    found = random_beliefs(graph, seed=3)
    axes = plot.beliefs(found, names=["x", "y", "z"], values=["a", "b", "c", "d"])
    heights = [bar.get_height() for bar in axes.patches]
    assert len(heights) == 9  # no bar for a value that a variable does not have
    assert sorted(heights) == pytest.approx(sorted(found.states.tolist()))
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["a", "b", "c", "d"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]


def test_many_variables_are_a_map() -> None:
    found = random_beliefs(lw.chain(30, states=3), seed=2)
    (image,) = plot.beliefs(found).images
    np.testing.assert_allclose(image.get_array(), found.variables.T)
    few = plot.beliefs(found, variables=[4, 2])
    assert not few.images and len(few.patches) == 6


def test_sweeps_are_lines_or_a_map() -> None:
    found = run(5, examples=2)
    assert found.trace is not None
    lines = plot.sweeps(found, example=1).get_lines()
    assert len(lines) == 9
    for variable, line in enumerate(lines):
        np.testing.assert_allclose(line.get_ydata(), found.trace[:, 1, 2 * variable + 1])
    large = lw.grid(4, 5)
    method = lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference(), trace=True)
    many = method(large, lw.TablePotentials.random(large, seed=0))
    (image,) = plot.sweeps(many, state=0).images
    assert many.trace is not None
    np.testing.assert_allclose(image.get_array(), many.trace.detach()[:, ::2].T)


def test_marginal_images() -> None:
    found = random_beliefs(lw.grid(3, 5), seed=4)
    (image,) = plot.marginal_image(found, (3, 5), state=0).images
    np.testing.assert_allclose(image.get_array(), found.variables[:, 0].reshape(3, 5))
    with pytest.raises(ValueError, match="4 x 5 pixels does not fit 15 variables"):
        plot.marginal_image(found, (4, 5))
    with pytest.raises(ValueError, match="no variable has the value 2; values are 0 to 1"):
        plot.marginal_image(found, (3, 5), state=2)


def test_without_a_trace_it_says_how_to_have_one() -> None:
    found = by_hand(lw.chain(2), [[0.5, 0.5], [0.1, 0.9]])
    for draw in (plot.sweeps, plot.convergence):
        with pytest.raises(ValueError, match=r"trace=True"):
            draw(found)


def test_what_is_not_there() -> None:
    found = random_beliefs(lw.chain(3), (2,))
    with pytest.raises(ValueError, match="no example 2; there are examples 0 to 1"):
        plot.beliefs(found, example=2)
    with pytest.raises(ValueError, match=r"no variable 3; .* 0 to 2"):
        plot.beliefs(found, variables=[3])
    with pytest.raises(ValueError, match="1 names of values do not suffice for variables of 2"):
        plot.beliefs(found, values=["one"])
    with pytest.raises(ValueError, match="variable 0 has values 0 to 1, so none is 5"):
        plot.sweeps(run(1), state=5)
    with pytest.raises(ValueError, match="name at least one"):
        plot.beliefs(found, variables=[])
