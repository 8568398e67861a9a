"""Rows of bits in files, as stim writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.formats.errors import FormatError
from loopwise.formats.shots import read_bits, write_bits

ROWS = (np.random.default_rng(0).random((5, 11)) < 0.5).astype(np.uint8)


@pytest.mark.parametrize("suffix", [".b8", ".01", ".npy", ".b8.gz"])
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    write_bits(tmp_path / f"a{suffix}", ROWS)
    np.testing.assert_array_equal(read_bits(tmp_path / f"a{suffix}", 11), ROWS)


def test_the_layouts_are_stims(tmp_path: Path) -> None:
    (tmp_path / "a.01").write_text("01\n11\n")
    (tmp_path / "a.b8").write_bytes(bytes([0b10, 0b11]))
    for name in ("a.01", "a.b8"):
        assert read_bits(tmp_path / name, 2).tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.b8", b"abc", "3 bytes are no whole rows of 11 detectors, which take 2 bytes each"),
        ("a.b8", b"\x00\xff", "bits are set beyond the 11 detectors of a row"),
        ("a.01", b"01\n", "line 1: the row has 2 characters, not one for each of 11 detectors"),
        ("a.01", b"0101010101x\n", "line 1: a row of bits holds another character than 0 and 1"),
        ("a.npy", b"", "this is no .npy file of numbers"),
        ("a.dets", b"", "the name does not say how rows of bits are laid out"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError) as caught:
        read_bits(tmp_path / name, 11, "detectors")
    assert problem in str(caught.value)


def test_arrays_hold_bits_of_the_right_length(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    with pytest.raises(FormatError, match=r"of shape \(5, 11\); rows must have 12 detectors"):
        read_bits(tmp_path / "a.npy", 12, "detectors")
    np.save(tmp_path / "b.npy", 2 * ROWS)
    with pytest.raises(FormatError, match="must be 0 or 1"):
        read_bits(tmp_path / "b.npy", 11)
