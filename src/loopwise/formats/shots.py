"""Rows of bits, a row a shot, as stim writes them: ``.b8`` (bytes, lowest bit first), ``.01`` (text), ``.npy``.

In: a path, how many bits a row has. Out: an array ``[shots, bits]`` of uint8; and back.
"""

from __future__ import annotations

import io
import os

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.check_matrix import read_array
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, atomic_write_bytes, display_name, read_bytes

SUFFIXES = (".b8", ".01", ".npy")


def read_bits(path: PathLike, bits: int, what: str = "bits") -> NDArray[np.uint8]:
    """The rows of a file. ``bits``: how many a row has to have; ``what``: what messages call them."""
    where, name = display_name(path), os.fspath(path).lower().removesuffix(".gz")
    if name.endswith(".b8"):
        data = np.frombuffer(read_bytes(path), dtype=np.uint8)
        width = (bits + 7) // 8
        if width == 0 or len(data) % width:
            raise FormatError(
                where, None, f"{len(data)} bytes are no whole rows of {bits} {what}, which take {width} bytes each"
            )
        rows = np.unpackbits(data.reshape(-1, width), axis=1, bitorder="little")
        if rows[:, bits:].any():
            raise FormatError(
                where, None, f"bits are set beyond the {bits} {what} of a row; is it a file of another code?"
            )
        return np.ascontiguousarray(rows[:, :bits])
    if name.endswith((".01", ".txt")):
        return _read_text(where, read_bytes(path), bits, what)
    if name.endswith(".npy"):
        return check_bits(where, read_array(path), bits, what)
    raise FormatError(where, None, f"the name does not say how rows of bits are laid out; it should end in {_list()}")


def check_bits(where: str, given: np.ndarray, bits: int, what: str) -> NDArray[np.uint8]:
    """``given`` as rows of bits."""
    if given.ndim != 2 or given.shape[1] != bits:
        raise FormatError(where, None, f"the array is of shape {given.shape}; rows must have {bits} {what}")
    if given.dtype.kind not in "biuf" or not ((given == 0) | (given == 1)).all():
        raise FormatError(where, None, f"the {what} must be 0 or 1")
    return np.ascontiguousarray(given, dtype=np.uint8)


def _read_text(where: str, data: bytes, bits: int, what: str) -> NDArray[np.uint8]:
    lines = [line.rstrip(b"\r") for line in data.split(b"\n")]
    lines = lines[:-1] if not lines[-1] else lines
    for number, line in enumerate(lines, start=1):
        if len(line) != bits:
            raise FormatError(where, number, f"the row has {len(line)} characters, not one for each of {bits} {what}")
    found = np.frombuffer(b"".join(lines), dtype=np.uint8).reshape(len(lines), bits) - ord("0")
    bad = np.flatnonzero((found > 1).any(1))
    if len(bad):
        raise FormatError(where, int(bad[0]) + 1, "a row of bits holds another character than 0 and 1")
    return found


def write_bits(path: PathLike, rows: NDArray[np.uint8]) -> None:
    """Writes rows of bits in the layout that the name says."""
    name = os.fspath(path).lower().removesuffix(".gz")
    if name.endswith(".b8"):
        data = np.packbits(rows, axis=1, bitorder="little").tobytes()
    elif name.endswith((".01", ".txt")):
        text = np.concatenate([rows + ord("0"), np.full((len(rows), 1), ord("\n"), np.uint8)], axis=1)
        data = text.astype(np.uint8).tobytes()
    elif name.endswith(".npy"):
        stream = io.BytesIO()
        np.save(stream, rows)
        data = stream.getvalue()
    else:
        raise ValueError(f"{os.fspath(path)!r} does not say how rows of bits are laid out; it should end in {_list()}")
    with atomic_write_bytes(path) as out:
        out.write(data)


def _list() -> str:
    return ", ".join(SUFFIXES)
