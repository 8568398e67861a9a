"""Numbers of a large file, read in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.formats import (
    FormatError,
    TableModel,
    read_uai,
    write_uai,
)


def test_numbers_across_the_pieces_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.uai"
    model = TableModel.of(
        [50, 7], [([0, 1], [[1 / (1 + row + 50 * column) for column in range(7)] for row in range(50)])]
    )
    write_uai(path, model)
    whole = path.read_text()
    for size in (1, 2, 7, 64, 1000):
        monkeypatch.setattr("loopwise.formats.numbers.CHUNK_BYTES", size)
        assert read_uai(path) == model
    lines = whole.split("\n")
    lines[-2] = lines[-2] + " oops"
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=f"line {len(lines) - 1}: 'oops'"):
        read_uai(path)
