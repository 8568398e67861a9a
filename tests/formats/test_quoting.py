"""Long cells are quoted in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.formats.errors import FormatError
from loopwise.formats.table import Vocabulary, read_table


@pytest.mark.parametrize("text", ["{0},{0}\n1,1\n", "a,{0}\n1\n", "a,b\n{0},1\n"])
def test_long_cells_are_quoted_in_part(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text.format("x" * 5000))
    with pytest.raises(FormatError) as problem:
        read_table(tmp_path / "t.csv", vocabulary=Vocabulary(("a", "b"), (("0", "1"), ("0", "1"))))
    assert len(problem.value.problem) < 300
