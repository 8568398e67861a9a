"""How much a file may become when it is unpacked: a few megabytes of ``.gz`` can hold terabytes of zeros.

In: limits, for the readers called within a block. Out: :class:`ReadingLimits` for readers, and what they say where one
is exceeded. Stage: files. Reading stops at the limit, not after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from loopwise.arguments import checked_whole

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class ReadingLimits:
    """What readers accept of compressed files; what is not compressed is as large as it is.

    unpacked: bytes that a ``.gz`` file may unpack to, and all arrays of an ``.npz`` file together. 1 GiB of text makes
    several GiB of numbers or words, about what a small computer has. pixels: those of one picture; 100 million are
    10,000 x 10,000, with four channels 400 MB.
    """

    unpacked: int = 1 << 30
    pixels: int = 100_000_000

    def __post_init__(self) -> None:
        for name, value in (("unpacked", self.unpacked), ("pixels", self.pixels)):
            checked_whole(f"the limit {name}", value)


DEFAULT = ReadingLimits()
_CURRENT: ContextVar[ReadingLimits] = ContextVar("limits of what loopwise unpacks", default=DEFAULT)


def current_limits() -> ReadingLimits:
    """The limits that hold here."""
    return _CURRENT.get()


@contextmanager
def limits(*, unpacked: int | None = None, pixels: int | None = None) -> Iterator[ReadingLimits]:
    """Other limits for what is read within the block, by this thread.

    Parameters
    ----------
    unpacked, pixels
        As in :class:`ReadingLimits`; None leaves a limit as it is.

    Returns
    -------
    A context whose value is the limits that hold in it.

    Raises
    ------
    ValueError
        if a limit is no whole number of at least 1.

    Examples
    --------
    >>> with limits(unpacked=4 << 30) as mine:
    ...     mine.unpacked, current_limits() == mine
    (4294967296, True)
    >>> current_limits().unpacked
    1073741824
    """
    given = {"unpacked": unpacked, "pixels": pixels}
    chosen = replace(_CURRENT.get(), **{name: value for name, value in given.items() if value is not None})
    token = _CURRENT.set(chosen)
    try:
        yield chosen
    finally:
        _CURRENT.reset(token)


def parse_size(text: str) -> int:
    """Bytes from a number with K, M, G or T after it, each 1024 times the one before.

    >>> parse_size("4G"), parse_size("300 MiB"), parse_size("12")
    (4294967296, 314572800, 12)
    """
    found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    size = 0 if found is None else int(float(found[1]) * (1 << _UNITS[found[2]]))
    if size < 1:
        raise ValueError(f"{text[:40]!r} is no size; give a number of bytes, or one such as 500M, 4G")
    return size


def shown_size(size: int) -> str:
    """A size for messages.

    >>> shown_size(1 << 30), shown_size(1536), shown_size(10)
    ('1 GiB', '1.5 KiB', '10 bytes')
    """
    for letter, power in reversed(_UNITS.items()):
        if power and size >= 1 << power:
            return f"{size / (1 << power):.4g} {letter.upper()}iB"
    return f"{size} bytes"


def too_large(limit: int) -> str:
    """What is wrong with a file that unpacks to more than ``limit`` bytes."""
    return (
        f"the file unpacks to more than {shown_size(limit)}, the limit; if that is right, raise it: "
        "loopwise --max-unpacked SIZE before the command, or formats.limits(unpacked=...) in Python"
    )


def too_many_pixels(width: int, height: int, limit: int) -> str:
    """What is wrong with a picture of more than ``limit`` pixels."""
    return (
        f"the picture has {height} x {width} pixels, more than {limit}, the limit; if that is right, raise it: "
        "loopwise --max-pixels N before the command, or formats.limits(pixels=...) in Python"
    )
