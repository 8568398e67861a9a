"""Factor graphs as pictures: every variable and factor is there, where it belongs."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import loopwise as lw
from loopwise import plot
from loopwise.plot.graphs import OBSERVED


def scattered(axes: Axes) -> dict[str, np.ndarray]:
    """Places of the nodes by what the legend calls them."""
    return {
        str(marks.get_label()): np.asarray(marks.get_offsets()) for marks in axes.collections[1:]
    }  # the first are edges


def edges_of(axes: Axes) -> list[np.ndarray]:
    return [np.asarray(path.vertices) for marks in axes.collections[:1] for path in marks.get_paths()]


def test_a_grid_is_drawn_as_one() -> None:
    graph = lw.grid(3, 4)
    axes = plot.factor_graph(graph, {5: 1})
    marks = scattered(axes)
    assert len(marks["variable"]) == 11 and len(marks["observed"]) == 1
    np.testing.assert_allclose(marks["observed"], [[1, -1]])  # variable 5: row 1, column 1
    middles = {tuple(place) for place in marks["pair"].tolist()}
    assert len(middles) == graph.group("pair").count and (0.5, 0.0) in middles and (0.0, -0.5) in middles
    assert len(marks["unary"]) == 12
    assert len(edges_of(axes)) == 12 + 2 * graph.group("pair").count
    assert {text.get_text() for text in axes.texts} == {*map(str, range(12))} - {"5"} | {"5\n=1"}


def test_observed_variables_are_shaded() -> None:
    marks = {marks.get_label(): marks for marks in plot.factor_graph(lw.chain(4), {1: 0, 2: 1}).collections}
    assert len(marks["observed"].get_offsets()) == 2
    assert to_hex(marks["observed"].get_facecolor()[0]) == OBSERVED
    assert to_hex(marks["variable"].get_facecolor()[0]) == "#ffffff"


def test_structured_factors_are_told_apart() -> None:
    graph = lw.FactorGraph([2] * 4, {"unary": np.arange(4)[:, None]}, {"one": (lw.ExactlyOne(4), [0, 1, 2, 3])})
    axes = plot.factor_graph(graph, names=list("abcd"))
    marks = {str(marks.get_label()): marks for marks in axes.collections}
    (structured,) = (name for name in marks if name.startswith("one"))
    assert "ExactlyOne" in structured
    shapes = [np.asarray(marks[name].get_paths()[0].vertices) for name in (structured, "unary")]
    assert not np.allclose(shapes[0], shapes[1])  # a diamond, a square
    assert len(edges_of(axes)) == 8
    assert {text.get_text() for text in axes.texts} == set("abcd")


def test_a_graph_too_large_says_so_and_a_part_can_be_drawn() -> None:
    graph = lw.grid(40, 40)
    with pytest.raises(ValueError, match=r"4720 .* 400 .*around"):
        plot.factor_graph(graph)
    axes = plot.factor_graph(graph, around=0, hops=2)
    assert {text.get_text() for text in axes.texts} == {"0", "1", "2", "40", "41", "80"}
    whole = plot.factor_graph(lw.grid(3, 3), around=[4], hops=5)
    assert len(scattered(whole)["variable"]) == 9


def test_what_does_not_fit() -> None:
    graph = lw.chain(3)
    with pytest.raises(ValueError, match="2 names do not fit 3 variables"):
        plot.factor_graph(graph, names=["a", "b"])
    with pytest.raises(ValueError, match=r"around names variable 3; .* 0 to 2"):
        plot.factor_graph(graph, around=3)
    with pytest.raises(ValueError, match=r"several examples; .*evidence\[0\]"):
        plot.factor_graph(graph, np.full((2, 3), -1))
    with pytest.raises(ValueError, match="hops must be 0 or more factors, not -1"):
        plot.factor_graph(graph, around=0, hops=-1)


def test_graphs_of_little_can_be_drawn() -> None:
    assert not scattered(plot.factor_graph(lw.FactorGraph([], {})))
    lonely = lw.FactorGraph([2, 3], {"twins": [[0, 1], [0, 1]], "constant": np.zeros((1, 0), dtype=np.int64)})
    marks = scattered(plot.factor_graph(lonely))
    assert not np.allclose(marks["twins"][0], marks["twins"][1])
    assert len(marks["constant"]) == 1
