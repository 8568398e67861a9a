"""Pictures of results: reliability, frontiers, histories, curves, images, arcs, and how they become files."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise import plot
from loopwise.plot.style import new_axes

SVG = "{http://www.w3.org/2000/svg}"


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
