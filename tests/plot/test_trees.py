"""Arcs over a sentence."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from loopwise import plot

SVG = "{http://www.w3.org/2000/svg}"


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
