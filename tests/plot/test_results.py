"""Pictures of results: reliability, frontiers, histories, curves, images, arcs, and how they become files."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise import budget, plot
from loopwise.learn.history import Epoch, History
from loopwise.plot.curves import LEAST
from loopwise.plot.style import COLOURS, new_axes

SVG = "{http://www.w3.org/2000/svg}"


def history(losses: list[float], dev: list[float] | None = None) -> History:
    measured = dev or [None] * len(losses)
    return History([Epoch(k + 1, loss, 0.1, 0, 0, measured[k]) for k, loss in enumerate(losses)])  # type: ignore[arg-type]


def test_reliability_draws_the_bins() -> None:
    found = lw.metric.reliability([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 1], bins=2)
    axes = plot.reliability({"mine": found})
    _, line = axes.get_lines()
    np.testing.assert_allclose(line.get_xdata(), found.confidence)
    np.testing.assert_allclose(line.get_ydata(), found.frequency)
    assert line.get_label() == f"mine (error {found.error:.3f})"
    assert plot.reliability(found, colours=["#123456"], axes=axes) is axes
    assert axes.get_lines()[-1].get_color() == "#123456"


def test_pareto_draws_the_best_points_of_each_method() -> None:
    points = [budget.Point("a", 0, 1.0, 3.0), budget.Point("a", 0, 2.0, 4.0), budget.Point("b", 0, 2.0, 1.0)]
    axes = plot.pareto(budget.Frontier(tuple(points), "messages"))
    best = {str(line.get_label()).split(" (")[0]: line for line in axes.get_lines()}
    assert list(best["a"].get_xdata()) == [1.0] and list(best["b"].get_ydata()) == [1.0]
    assert best["a"].get_color() == COLOURS[0] and best["b"].get_color() == COLOURS[1]
    assert "messages" in axes.get_xlabel()


def test_histories_are_drawn_with_their_development_data() -> None:
    axes = plot.history({"one": history([3.0, 2.0]), "two": history([2.5, 1.0], [2.6, 1.5])})
    drawn = [list(line.get_ydata()) for line in axes.get_lines()]
    assert [3.0, 2.0] in drawn and [2.5, 1.0] in drawn and [2.6, 1.5] in drawn
    assert plot.history(history([1.0])).get_legend() is None  # one run needs no name


def test_a_name_has_one_colour_in_all_panels() -> None:
    first = plot.Panel("first", "x", "y", [plot.Curve("a", [1, 2], [1, 2]), plot.Curve("b", [1, 2], [0.0, None])])
    second = plot.Panel("second", "x", "y", [plot.Curve("b", [1, 2], [2, 1], [0.1, 0.2])], log_y=True, ticks=True)
    zero = plot.Panel("zero", "x", "y", [plot.Curve("b", [1], [0.0])], log_x=0, log_y=True)
    grid = plot.panels([first, second, zero], columns=2, one_legend=True)
    assert grid.shape == (2, 2) and not grid[1, 1].get_visible()
    lines = [container.lines[0] for axes in grid.flat for container in axes.containers]
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[1], COLOURS[1], COLOURS[1]]
    (legend,) = grid[0, 0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert list(lines[1].get_xdata()) == [1]  # where there is no number there is no point
    assert list(lines[3].get_ydata()) == [LEAST]
    assert grid[0, 0].get_xscale() == "log" and grid[1, 0].get_xscale() == "linear"
    with pytest.raises(ValueError, match="no panel"):
        plot.panels([])


def test_images_by_what_their_pixels_are() -> None:
    labels, chances = np.array([[0, 1], [2, 1]]), np.array([[0.0, 0.5], [1.0, 0.25]])
    (drawn,) = plot.image(labels, states=3).images
    assert drawn.get_cmap().N == 3 and drawn.get_clim() == (-0.5, 2.5)
    assert plot.image(chances, grey=True).images[0].get_cmap().name == "gray"
    assert plot.image(chances).images[0].get_cmap().name == "cividis"
    assert plot.image(np.full((2, 2, 3), 2.0)).images[0].get_array().max() == 1.0
    with pytest.raises(ValueError, match=r"not one of shape \(2, 2, 4\)"):
        plot.image(np.zeros((2, 2, 4)))
    grid = plot.gallery([{"noisy": chances, "truth": labels}, {"noisy": chances}])
    assert grid.shape == (2, 2) and not grid[1, 1].get_visible() and grid[0, 1].get_title() == "truth"
    with pytest.raises(ValueError, match="no image"):
        plot.gallery([])


def test_arcs_show_the_tree_and_what_was_likely() -> None:
    marginals = np.zeros((4, 4))
    marginals[2, 1] = marginals[0, 2] = 0.75
    marginals[2, 3], marginals[1, 3] = 0.6, 0.4
    drawn = plot.arcs(["a", "<b>", "c"], [2, 0, 2], relations=["x", "root", "y"], marginals=marginals)
    root = ElementTree.fromstring(str(drawn))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a", "<b>", "c", "x 75%", "root 75%", "y 60%"} <= set(words)
    opacities = sorted(float(group.get("opacity", 1)) for group in root.iter(f"{SVG}g"))
    assert opacities == [0.4, 0.6, 0.75, 0.75]
    assert drawn._repr_svg_() == str(drawn)
    assert "<svg" in plot.arc_page([drawn], "A & B") and "A &amp; B" in plot.arc_page([drawn], "A & B")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((["a"], [1]), r"word 1 \('a'\) has the head 1"),
        ((["a", "b"], [2, 3]), r"word 2 \('b'\) has the head 3; heads are 0 to 2"),
        ((["a", "b"], [0]), "1 heads do not fit 2 words"),
    ],
)
def test_trees_that_are_none(arguments: tuple[list[str], list[int]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        plot.arcs(*arguments)
    with pytest.raises(ValueError, match=r"shape \(2, 2\), not \(3, 3\)"):
        plot.arcs(["a"], [0], marginals=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="2 tags do not fit 1 words"):
        plot.arcs(["a"], [0], tags=["x", "y"])


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_files(tmp_path: Path, name: str, begins: bytes) -> None:
    axes = plot.reliability(lw.metric.reliability([0.5], [1]))
    plot.save(axes, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing temporary is left


def test_files_of_several_panels_and_of_arcs(tmp_path: Path) -> None:
    plot.save(plot.gallery([{"one": np.eye(3)}]), tmp_path / "gallery.png")
    drawn = plot.arcs(["a"], [0], title="one")
    plot.save(drawn, tmp_path / "arcs.svg")
    assert ElementTree.parse(tmp_path / "arcs.svg").getroot().tag == f"{SVG}svg"
    plot.save(drawn, tmp_path / "arcs.html")
    assert (tmp_path / "arcs.html").read_text().startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"\.svg or \.html, not as \.png"):
        plot.save(drawn, tmp_path / "arcs.png")
    with pytest.raises(ValueError, match=r"'picture.docx' does not end in a kind of picture; use one of .*png"):
        plot.save(new_axes(), tmp_path / "picture.docx")
    with pytest.raises(ValueError, match=r"list is no picture; give what a function of lw\.plot returned"):
        plot.save([1], tmp_path / "nothing.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arcs.html", "arcs.svg", "gallery.png"]
