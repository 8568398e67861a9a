"""Parsers in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.apps import Parser
from loopwise.formats import FormatError
from loopwise.learn.files.container import read_container, write_container
from oracles.toy_language import DEV


def test_a_saved_parser_gives_the_same_trees(trained: Parser, tmp_path: Path) -> None:
    trained.save(tmp_path / "p.loopwise")
    loaded = Parser.load(tmp_path / "p.loopwise")
    assert [t.sentence.lines for t in loaded.parse(DEV)] == [t.sentence.lines for t in trained.parse(DEV)]
    assert loaded.structure == trained.structure and loaded.inference.iterations == 2
    assert loaded.history.dev == trained.history.dev
    loaded.save(tmp_path / "q.loopwise")
    assert (tmp_path / "p.loopwise").read_bytes() == (tmp_path / "q.loopwise").read_bytes()


def test_damaged_and_foreign_files_are_refused(trained: Parser, tmp_path: Path) -> None:
    path = tmp_path / "p.loopwise"
    trained.save(path)
    tensors, description = read_container(path)
    description.pop("loopwise")
    for change, words in [
        ({"app": "Tagger"}, "holds a Tagger, not a Parser"),
        ({"template_version": 1}, "features of another version of loopwise; train it again"),
        ({"structure": {"factors": ["cousin"], "projective": True, "single_root": True}}, "no factor 'cousin'"),
        ({"vocabulary": {**description["vocabulary"], "words": 3}}, "'vocabulary.words' must be a list of texts"),
        ({"vocabulary": {**description["vocabulary"], "coarse": []}}, "damaged"),
    ]:
        write_container(path, tensors, {**description, **change})
        with pytest.raises(FormatError, match=words):
            Parser.load(path)
    write_container(path, {**tensors, "trees.rows": tensors["trees.rows"] + 10**6}, description)
    with pytest.raises(FormatError, match=r"'trees.rows' holds .* it must be 0 to 49999"):
        Parser.load(path)
