"""Opening and writing files, plain or gzip-compressed.

In: a path; ``.gz`` at its end means compressed, ``-`` means standard input or output. Out: streams.
Shared by all formats.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from loopwise.formats.errors import FormatError
from loopwise.formats.limits import current_limits, too_large

PathLike = str | os.PathLike[str]

STANDARD_STREAM = "-"
BYTE_ORDER_MARK = "\ufeff"
_PIECE = 1 << 20  # bytes unpacked at a time


def display_name(path: PathLike) -> str:
    """The name a message uses for ``path``."""
    return "<stdin>" if os.fspath(path) == STANDARD_STREAM else os.fspath(path)


@contextmanager
def about_file(given: object) -> Iterator[None]:
    """What is wrong with a thing that came from a file is said of the file; ``given``: its path, or the thing itself,
    of which nothing more is said.

    >>> with about_file("code.txt"):
    ...     raise ValueError("row 1 is empty")
    Traceback (most recent call last):
    loopwise.formats.errors.FormatError: code.txt: row 1 is empty
    """
    try:
        yield
    except FormatError:
        raise
    except ValueError as problem:
        if not isinstance(given, (str, os.PathLike)):
            raise
        raise FormatError(display_name(given), None, str(problem)) from None


def is_compressed(path: PathLike) -> bool:
    return os.fspath(path).lower().endswith(".gz")


@contextmanager
def open_bytes(path: PathLike) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if its name ends in ``.gz``; :class:`FormatError` if that fails, or if they
    are more than the limit (:mod:`loopwise.formats.limits`)."""
    if os.fspath(path) == STANDARD_STREAM:
        yield sys.stdin.buffer
        return
    if not is_compressed(path):
        with _naming(path), open(path, "rb") as stream:
            yield stream
        return
    try:
        with _naming(path), gzip.open(path, "rb") as compressed:
            yield io.BufferedReader(_Unpacked(display_name(path), compressed), _PIECE)
    except (gzip.BadGzipFile, zlib.error) as problem:
        raise FormatError(
            display_name(path), None, f"not a valid gzip file although its name ends in .gz ({problem})"
        ) from None
    except EOFError:
        raise FormatError(display_name(path), None, "the compressed data is cut off; copy the file again") from None


class _Unpacked(io.RawIOBase):
    """What a compressed stream holds, up to the limit; one byte more is a :class:`FormatError`."""

    def __init__(self, where: str, stream: gzip.GzipFile) -> None:
        self._where, self._stream = where, stream
        self._limit, self._read = current_limits().unpacked, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """All (without a size), or at most ``size`` bytes."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_PIECE), b""))
        data = self._stream.read(min(size, _PIECE))
        self._read += len(data)
        if self._read > self._limit:
            raise FormatError(self._where, None, too_large(self._limit))
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def read_bytes(path: PathLike) -> bytes:
    """All bytes of a file, without the byte-order mark some editors put first."""
    with open_bytes(path) as stream:
        return stream.read().removeprefix(BYTE_ORDER_MARK.encode())


def read_text(path: PathLike) -> str:
    """All of a UTF-8 file; undecodable bytes are a :class:`FormatError` that names their line."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = len(data[: problem.start + 1].splitlines())
        what = f"byte {data[problem.start]:#04x} is not UTF-8 text; convert the file to UTF-8"
        if b"\0" in data and not data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            what = "this is a binary file, such as a saved model or a picture; give a file of text"
        raise FormatError(display_name(path), line, what) from None


def check_target(path: PathLike) -> None:
    """An :class:`OSError` if a file cannot be written at ``path``: before hours of work, not after."""
    if os.fspath(path) == STANDARD_STREAM:
        return
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file to write", os.fspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "the folder to write to does not exist", os.fspath(path))
    if not os.access(target if os.path.exists(target) and not os.path.isfile(target) else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", os.fspath(path))


def identity(path: PathLike) -> Hashable | None:
    """What two paths have in common if and only if they lead to one file or folder, by links of either kind or
    different spelling; None for devices and pipes, which nothing is lost of when they are written to.

    ``-`` is whatever standard input is, which may be a file. A file that is not there yet goes by its real path.

    >>> identity("./none.uai") == identity("none.uai"), identity("none.uai") == identity("other.uai")
    (True, False)
    """
    try:
        entry = os.fstat(sys.stdin.fileno()) if os.fspath(path) == STANDARD_STREAM else os.stat(path)
    except (OSError, ValueError):  # not there; or a standard input that is no file of the system
        return None if os.fspath(path) == STANDARD_STREAM else os.path.normcase(os.path.realpath(path))
    lasting = stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode)
    return (entry.st_dev, entry.st_ino) if lasting else None


def check_apart(outputs: Sequence[tuple[str, PathLike]], inputs: Iterable[PathLike]) -> None:
    """A ``ValueError`` if an output (what messages call it, where it is) is one of the inputs or another output.

    Paths are compared by the files they lead to (:func:`identity`).
    """
    taken: dict[Hashable, str] = {identity(path): f"the input {display_name(path)}" for path in inputs}
    taken.pop(None, None)  # devices and pipes
    for name, path in outputs:
        file = None if os.fspath(path) == STANDARD_STREAM else identity(path)
        if file in taken:
            raise ValueError(f"{name} is the same as {taken[file]}, which writing would destroy; give another name")
        if file is not None:
            taken[file] = name


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Errors of reading and writing that do not say of which file (too large, disk full) get its name."""
    try:
        yield
    except OSError as problem:
        if problem.errno is not None and problem.filename is None and not isinstance(problem, BrokenPipeError):
            problem.filename = os.fspath(path)
        raise


@contextmanager
def atomic_write_bytes(path: PathLike) -> Iterator[IO[bytes]]:
    """A binary stream whose content appears at ``path`` only if the block ends without an exception.

    Until then it is a temporary file in the same folder, renamed over the target at the end, so a reader
    never sees half a file and a failure leaves the old one. Compressed where the name ends in ``.gz``
    (same content, same bytes). Standard output (``-``), devices and pipes cannot be replaced and are
    written to directly.
    """
    if os.fspath(path) == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_target(path)
    target = os.path.realpath(path)  # a symbolic link stays one
    if os.path.exists(target) and not os.path.isfile(target):
        with _naming(path), open(target, "wb") as stream, _compressing(path, stream) as out:
            yield out
        return
    temporary = f"{target}.{secrets.token_hex(6)}.tmp"
    try:
        # Not tempfile: its files are private to the user, these get the permissions any new file would get.
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as problem:
            problem.filename = os.fspath(path)  # the name that the user knows
            raise
        with _naming(path), os.fdopen(descriptor, "wb") as stream:
            with _compressing(path, stream) as out:
                yield out
            stream.flush()
            os.fsync(descriptor)
        if os.path.exists(target):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[str]]:
    """:func:`atomic_write_bytes` for UTF-8 text with ``\\n`` line ends, which :func:`read_text` gives back as it is."""
    with atomic_write_bytes(path) as stream:
        text = _Text(stream, encoding="utf-8", newline="\n")
        try:
            yield text
            text.flush()
        finally:
            with suppress(ValueError, OSError):  # an earlier failure of the stream is the one to report
                text.detach()  # the stream below is closed by its owner; standard output stays open


class _Text(io.TextIOWrapper):
    """A text that begins with the character of the byte-order mark, a word's own, gets a mark before it: readers take
    the first one away."""

    _begun = False

    def write(self, text: str) -> int:
        if not self._begun and text:
            self._begun = True
            if text.startswith(BYTE_ORDER_MARK):
                super().write(BYTE_ORDER_MARK)
        return super().write(text)


@contextmanager
def _compressing(path: PathLike, stream: IO[bytes]) -> Iterator[IO[bytes]]:
    if not is_compressed(path):
        yield stream
        return
    # No name and no time in the header: equal content gives equal files.
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
        yield cast("IO[bytes]", compressed)  # which it is, though not declared as one
