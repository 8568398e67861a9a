"""Files that are damaged, foreign or of another version."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from loopwise.formats.errors import FormatError
from loopwise.learn import System
from loopwise.learn.files.container import VERSION, read_container, write_container
from oracles.saving_cases import (
    saved,
)


def test_a_file_cut_off_anywhere_says_so(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for length in (0, 5, 8, 9, header // 2, header - 1, header, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match="the file is cut off") as caught:
            System.load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"just some text that is no such file",
        pickle.dumps({"weights": [1.0] * 50}),
        bytes(100),
        (20).to_bytes(8, "little") + b"[1, 2, 3]           " + bytes(10),
        (20).to_bytes(8, "little") + b'{"a": {"no": "tensor"}}',
    ],
)
def test_foreign_files_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="no file that loopwise saved"):
        System.load(path)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for metadata in (None, {"format": "pt"}, {"description": "about me"}, {"description": "{}"}):
        safetensors.torch.save_file({"a": torch.zeros(2)}, path, metadata)
        with pytest.raises(FormatError, match="no file that loopwise saved but some other safetensors file"):
            System.load(path)


def test_versions(tmp_path: Path) -> None:
    path = saved(tmp_path)
    tensors, description = read_container(path)
    assert description["loopwise"] == VERSION
    for version, message in ((VERSION + 1, "newer loopwise .*upgrade"), ("x", "version 'x'"), (0, "version 0")):
        write_container(path, tensors, {**description, "loopwise": version})
        with pytest.raises(FormatError, match=message):
            System.load(path)
