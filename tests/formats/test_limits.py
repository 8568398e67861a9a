"""What is unpacked is limited, and reading stops there."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

from loopwise.cli.main import app
from loopwise.formats import FormatError, ReadingLimits, current_limits, limits, read_bytes, read_text, read_uai
from loopwise.formats.arff import read_label_names
from loopwise.formats.images import read_pictures
from loopwise.formats.limits import parse_size
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)
UAI = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"


def bomb(path: Path, size: int) -> Path:
    path.write_bytes(gzip.compress(b" " * size))
    return path


def test_a_compressed_file_is_read_up_to_the_limit_and_no_further(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.txt.gz", 50 << 20)
    with limits(unpacked=1 << 20):
        tracemalloc.start()
        try:
            with pytest.raises(FormatError, match=r"a\.txt\.gz: .*more than 1 MiB.*--max-unpacked"):
                read_text(path)
            assert tracemalloc.get_traced_memory()[1] < 10 << 20
        finally:
            tracemalloc.stop()
    assert len(read_bytes(path)) == 50 << 20


@pytest.mark.parametrize("size", [1, 1000, (1 << 20) + 1])
def test_a_file_of_just_the_limit_is_read(size: int, tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.gz", size)
    with limits(unpacked=size):
        assert read_bytes(path) == b" " * size
    if size > 1:
        with limits(unpacked=size - 1), pytest.raises(FormatError, match="unpacks to more"):
            read_bytes(path)


def test_models_and_commands_know_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.uai.gz"
    path.write_bytes(gzip.compress(UAI.encode() + b" " * (3 << 20)))
    with limits(unpacked=1 << 20), pytest.raises(FormatError, match="--max-unpacked"):
        read_uai(path)
    assert_one_sentence(invoke("--max-unpacked", "1M", "infer", path), "a.uai.gz", "1 MiB", "--max-unpacked")
    assert_one_sentence(invoke("--max-unpacked", "plenty", "infer", path), "'plenty'", "4G")
    assert "MAR" in succeed("--max-unpacked", "4M", "infer", path).stdout
    assert current_limits() == ReadingLimits()  # what a command was told ends with it


def test_archives_are_measured_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    np.savez_compressed(path, a=np.zeros((512, 512)), b=np.zeros((512, 512)))
    assert len(read_pictures(path).images) == 2
    with limits(unpacked=3 << 20), pytest.raises(FormatError, match=r"images\.npz: .*more than 3 MiB"):
        read_pictures(path)


def picture(width: int, height: int) -> bytes:
    """A PNG that claims so many pixels and holds none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_pictures_are_measured_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(picture(200_000, 100_000))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"a\.png: .*100000 x 200000 pixels.*100000000.*--max-pixels"):
            read_pictures(path)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    path.write_bytes(picture(20, 10))
    with limits(pixels=199), pytest.raises(FormatError, match="10 x 20 pixels"):
        read_pictures(path)
    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (20, 10)).save(stream, format="BMP")  # which Pillow opens whatever the file is called
    path.write_bytes(stream.getvalue())
    with limits(pixels=199), pytest.raises(FormatError, match="10 x 20 pixels"):
        read_pictures(path)
    assert read_pictures(path).images[0].shape == (10, 20)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_do_not_grow(encoding: str, tmp_path: Path) -> None:
    lines = ['<!DOCTYPE labels [<!ENTITY e0 "ha">']
    lines += [f'<!ENTITY e{k + 1} "{f"&e{k};" * 10}">' for k in range(9)]
    text = "\n".join([*lines, ']><labels><label name="&e9;"/></labels>'])
    path = tmp_path / "labels.xml"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(FormatError, match=r"labels\.xml: .*declares entities"):
        read_label_names(path)
    path.write_bytes('<labels><label name="a"/></labels>'.encode(encoding))
    assert read_label_names(path) == ("a",)


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1e9", "4 GG", "nan", "9" * 400])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size(text)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4G"])
def test_limits_are_whole_numbers(value: int) -> None:
    with pytest.raises(ValueError, match="unpacked"):
        ReadingLimits(unpacked=value)
