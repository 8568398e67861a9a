"""Errors of formats, and what they quote."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from loopwise.formats import FormatError
from loopwise.formats.table import Vocabulary, read_table


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(FormatError("a.uai", 3, "too short")))
    assert (str(error), error.path, error.line) == ("a.uai, line 3: too short", "a.uai", 3)


@pytest.mark.parametrize("text", ["{0},{0}\n1,1\n", "a,{0}\n1\n", "a,b\n{0},1\n"])
def test_long_cells_are_quoted_in_part(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text.format("x" * 5000))
    with pytest.raises(FormatError) as problem:
        read_table(tmp_path / "t.csv", vocabulary=Vocabulary(("a", "b"), (("0", "1"), ("0", "1"))))
    assert len(problem.value.problem) < 300
