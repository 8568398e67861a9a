"""One rule for what separates lines, columns and tokens."""

from __future__ import annotations

import pytest

from loopwise.formats.errors import FormatError
from loopwise.formats.lines import holds_line_end, is_blank, split_cells, split_lines


def test_ends_of_lines() -> None:
    assert split_lines("a\nb\r\nc\r\r\n\nd", "f") == ["a", "b", "c", "", "d"]
    assert split_lines("a\n", "f") == ["a"] and split_lines("", "f") == []
    with pytest.raises(FormatError, match="f, line 2: a carriage return stands inside of the line"):
        split_lines("a\nb\rc\n", "f")


def test_blank_lines_and_line_ends() -> None:
    assert is_blank("") and is_blank("\u2003\t") and not is_blank("\u200b.")
    assert holds_line_end("a\n") and holds_line_end("\ra") and not holds_line_end("a\u2028b")


def test_cells() -> None:
    assert split_cells(" a\t b c \t", tabs=True) == ["a", "b c", ""]
    assert split_cells("  a  b\tc ", tabs=False) == ["a", "b", "c"]
    assert split_cells("New\u00a0York O", tabs=False) == ["New\u00a0York", "O"]
