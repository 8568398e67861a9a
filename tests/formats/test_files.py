"""Opening and atomic writing."""

from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from loopwise.formats import (
    FormatError,
    TableModel,
    atomic_write,
    atomic_write_bytes,
    read_text,
    read_uai,
    write_pr,
)


def test_text_appears_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with atomic_write(path) as out:
        out.write("grüße\n")
        out.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == "grüße\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    name: str, failure: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(failure), atomic_write(path) as out:
        out.write("half")
        raise failure
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


def test_compressed_bytes(tmp_path: Path) -> None:
    path = tmp_path / "out.gz"
    with atomic_write_bytes(path) as out:
        out.write(bytes(range(256)))
    assert gzip.decompress(path.read_bytes()) == bytes(range(256))


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    with atomic_write(target) as out:
        out.write("1")
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(fresh.stat().st_mode)
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_write(link) as out:
        out.write("2")
    assert link.is_symlink() and target.read_text() == "2"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.skipif(not Path(os.devnull).is_char_device(), reason="no null device here")
def test_a_device_is_written_to_not_replaced() -> None:
    with atomic_write(os.devnull) as out:
        out.write("gone")
    assert Path(os.devnull).is_char_device()


def test_nowhere_to_write(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="folder to write to does not exist"),
        atomic_write(tmp_path / "a/b"),
    ):
        pass
    with pytest.raises(OSError), atomic_write(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_standard_streams(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_pr("-", -2.5)
    print("after")  # the stream is still open
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"PR\n-2.5\nafter\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"MARKOV 1 2 1 1 0 2 .5 .5")))
    assert read_uai("-") == TableModel.of([2], [([0], [0.5, 0.5])])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"MARKOV\nx")))
    with pytest.raises(FormatError, match="<stdin>, line 2: 'x' is not a number"):
        read_uai("-")


def test_text_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("eins\nzwölf\n".encode("latin-1"))
    with pytest.raises(FormatError, match="line 2: byte 0xf6 is not UTF-8"):
        read_text(path)
    path.write_bytes("\ufeffzwölf\n".encode())
    assert read_text(path) == "zwölf\n"
    path.write_bytes("zwölf\n".encode("utf-16"))
    with pytest.raises(FormatError, match=r"line 1: byte 0x(ff|fe) is not UTF-8 text; convert"):
        read_text(path)


def test_a_binary_file_is_not_told_to_be_converted(tmp_path: Path) -> None:
    path = tmp_path / "model.loopwise"
    path.write_bytes(b"a\n\x00\x00\xfe")
    with pytest.raises(FormatError, match=r"model\.loopwise, line 2: this is a binary file, such as a saved model"):
        read_text(path)


@pytest.mark.skipif(os.name != "posix", reason="limits as POSIX has them")
@pytest.mark.parametrize("name", ["out.uai", "out.uai.gz"])
def test_a_file_that_grows_too_large_is_named(name: str, tmp_path: Path) -> None:
    code = (
        "import os, resource, sys\n"
        "from loopwise.formats.files import atomic_write_bytes\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    with atomic_write_bytes(sys.argv[1]) as out:\n"
        "        out.write(os.urandom(10_000_000))\n"
        "except OSError as problem:\n"
        "    print(problem.filename, os.listdir(os.path.dirname(sys.argv[1])))\n"
    )
    path = str(tmp_path / name)
    done = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
    assert done.stdout == f"{path} []\n"


@pytest.mark.parametrize("text", ["\ufeff", "\ufeff\ufeffa\n", "a\ufeff", ""])
def test_a_byte_order_mark_of_the_text_comes_back(tmp_path: Path, text: str) -> None:
    with atomic_write(tmp_path / "out") as out:
        out.write("")
        out.writelines([text, "\ufeffb"])
    assert read_text(tmp_path / "out") == text + "\ufeffb"
