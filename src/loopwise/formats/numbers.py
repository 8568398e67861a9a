"""Files that are a row of numbers, whatever their line breaks: parsed in bulk, with line numbers for errors.

In: the bytes of a file. Out: a :class:`NumberStream`, one float64 array and a reading position. Line
numbers are worked out only when an error is raised, so a correct file pays nothing for them.

What a number is, all text formats ask here: ASCII digits, with a sign, a point and an exponent. Python's own ``int``
and ``float`` also take ``1_0``, ``infinity``, ``nan`` and the digits of other scripts, and fail at very long ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.formats.errors import FormatError, quoted
from loopwise.formats.files import PathLike, display_name, read_bytes

CHUNK_BYTES = 1 << 20  # split at a time: keeps the pieces of a large file from all being in memory at once
LARGEST_INTEGER = 2**53  # above it float64 skips integers
TOO_LARGE = "more than a number can be; leave the cell empty, or give a smaller one"
LONGEST_INTEGER = 18  # digits: the largest that surely fit in 64 bits

_WHITESPACE = re.compile(rb"\s")  # for bytes exactly what bytes.split() splits at
_COMMENT = re.compile(rb"#[^\r\n]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[0-9]+")
_ENDLESS = re.compile(r"[+-]?(?:inf|nan)", re.IGNORECASE)  # numbers for a NumberStream, whose readers refuse most

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def number_in(text: str) -> float | None:
    """The number that a text is, None if it is none; one beyond all bounds is infinite.

    >>> number_in("-1.5e3"), number_in("1_0"), number_in("nan")
    (-1500.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def too_large(texts: Sequence[str]) -> int | None:
    """The place of the first number beyond all bounds, which readers refuse with :data:`TOO_LARGE`; None if there is
    none.

    >>> too_large(["3", "", "1e400"])
    2
    """
    large = {text for text in set(texts) if math.isinf(number_in(text) or 0.0)}
    return next((place for place, text in enumerate(texts) if text in large), None) if large else None


def whole_in(text: str) -> int | None:
    """The number of ASCII digits that a text is, None if it is none or one of more than 18 digits.

    >>> whole_in("12"), whole_in("-3"), whole_in("\u0661"), whole_in("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if len(text) <= LONGEST_INTEGER and is_whole(text) else None


def is_whole(text: str) -> bool:
    """Whether a text is a row of ASCII digits, however long."""
    return _WHOLE.fullmatch(text) is not None


class NumberStream:
    """All numbers of a file after an optional header word, read front to back.

    Parsing is O(bytes); nothing is ever allocated for what the file claims, only for what it holds.
    """

    def __init__(self, path: PathLike, *, header: bool = False, comments: bool = False) -> None:
        self.path = display_name(path)
        self._data = read_bytes(path)
        if comments:
            self._data = _COMMENT.sub(b"", self._data)  # line ends stay, so lines keep their numbers
        self.word = ""  # the header word as written
        self._words = 0  # tokens before the first number
        body = self._data
        if header:
            first, *rest = body.split(None, 1) or [b""]
            self.word = _text(first)
            self._words = 1
            body = rest[0] if rest else b""
        self.numbers = self._parse(body)
        self.position = 0

    @property
    def left(self) -> int:
        """How many numbers have not been read yet."""
        return len(self.numbers) - self.position

    def integer(self, what: str, least: int = 0) -> int:
        """The next number, which must be an integer of at least ``least``."""
        if self.position >= len(self.numbers):
            raise self.error(f"the file ends where {what} should be")
        value = float(self.numbers[self.position])
        # The order matters: NaN and infinity fail the comparison before int() would.
        if not least <= value <= LARGEST_INTEGER or value != int(value):
            raise self.error(f"{what} is {value:.17g}; it must be an integer of at least {least}", self.position)
        self.position += 1
        return int(value)

    def integers(self, count: int, what: str, least: int = 0) -> Integers:
        """The next ``count`` numbers, all integers of at least ``least``."""
        start = self.position
        return self.as_integers(np.arange(start, start + len(self.take(count, what))), what, least)

    def as_integers(self, places: Integers, what: str, least: int = 0) -> Integers:
        """The numbers at ``places``, all integers of at least ``least``."""
        values = self.numbers[places]
        fine = (values >= least) & (values <= LARGEST_INTEGER) & (values == np.floor(values))
        if not fine.all():
            bad = int(np.argmin(fine))
            raise self.error(
                f"{what}: number {bad} is {values[bad]:.17g}; it must be an integer of at least {least}",
                int(places[bad]),
            )
        return values.astype(np.int64)

    def take(self, count: int, what: str) -> Floats:
        """The next ``count`` numbers as they are (a view)."""
        if count > self.left:
            raise self.error(f"{what}: {count} numbers should follow, but the file has only {self.left} more")
        self.position += count
        return self.numbers[self.position - count : self.position]

    def check_room(self, count: int, each: int, what: str) -> None:
        """Fails if fewer than ``count * each`` numbers are left: before anything is done ``count`` times."""
        if count * each > self.left:
            raise self.error(
                f"the file claims {count} {what}, but only {self.left} numbers follow",
                max(self.position - 1, 0),
            )

    def check_potentials(self, start: int, stop: int) -> None:
        """Numbers ``start`` to ``stop`` must be finite and not negative."""
        values = self.numbers[start:stop]
        fine = (values >= 0) & (values < np.inf)
        if not fine.all():
            bad = int(np.argmin(fine))
            raise self.error(f"the table entry {values[bad]} must be a finite number of at least 0", start + bad)

    def finish(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise self.error(
                f"{self.left} more numbers follow where the file should end, beginning with "
                f"{self.numbers[self.position]:.17g}",
                self.position,
            )

    def error(self, problem: str, place: int | None = None) -> FormatError:
        """The error to raise about number ``place`` (by default: about the end of the file)."""
        return FormatError(self.path, self._line(None if place is None else place + self._words), problem)

    def header_error(self, problem: str) -> FormatError:
        """The error to raise about the header word."""
        return FormatError(self.path, self._line(0), problem)

    def _line(self, token: int | None) -> int:
        last = 1
        seen = 0
        for number, line in enumerate(self._data.splitlines(), start=1):
            count = len(line.split())
            if not count:
                continue
            seen += count
            last = number
            if token is not None and token < seen:
                break
        return last

    def _parse(self, body: bytes) -> Floats:
        parts: list[Floats] = []
        begin = done = 0
        while begin < len(body):
            cut = _WHITESPACE.search(body, begin + CHUNK_BYTES)
            end = cut.start() if cut else len(body)
            chunk = body[begin:end]
            tokens = chunk.split()
            try:
                found = np.fromiter(map(float, tokens), dtype=np.float64, count=len(tokens))
                if b"_" in chunk or not np.isfinite(found).all():  # float() takes 1_000 and infinity
                    _check_numbers(tokens)
                parts.append(found)
            except ValueError:
                bad = next(index for index, token in enumerate(tokens) if not _is_number(token))
                raise self.error(f"{quoted(_text(tokens[bad]))} is not a number", done + bad) from None
            done += len(tokens)
            begin = end
        return np.concatenate(parts) if parts else np.empty(0)


def as_int64(what: str, given: ArrayLike) -> Integers:
    """Integers of any kind as those of 64 bits that engines compute with; a ``ValueError`` for other numbers, and for
    those that do not fit. An empty list has no kind of its own and passes.

    >>> as_int64("sizes", np.array([2, 3], dtype=np.uint64))
    array([2, 3])
    """
    array = np.asarray(given)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{what} must be integers, not {array.dtype}")
    if array.size and array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what} must be integers of 64 bits; {array.max()} is too large")
    return array.astype(np.int64)


def bounded_product(sizes: Iterable[int], limit: int) -> int:
    """The product of positive integers, or some number above ``limit`` as soon as it exceeds that.

    Stopping early keeps the product of absurd sizes from growing to millions of digits.
    """
    product = 1
    for size in sizes:
        product *= size
        if product > limit:
            break
    return product


def _check_numbers(tokens: Iterable[bytes]) -> None:
    if not all(map(_is_number, tokens)):
        raise ValueError("one of them is none")


def _is_number(token: bytes) -> bool:
    text = _text(token)
    return bool(_NUMBER.fullmatch(text) or _ENDLESS.fullmatch(text))


def _text(token: bytes) -> str:
    return token.decode("ascii", "backslashreplace")
