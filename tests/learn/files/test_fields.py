"""Numbers of a file that JSON does not have, and room for what it only claims."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from loopwise.apps import MultiLabel
from loopwise.formats.errors import FormatError
from loopwise.learn import System
from loopwise.learn.files.container import read_container
from oracles.saved_models import KINDS

Tensors = dict[str, torch.Tensor]


def write(path: Path, tensors: Tensors, description: Any) -> None:
    """As ``write_container`` does, but whatever it is."""
    contiguous = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    path.write_bytes(safetensors.torch.save(contiguous, {"description": json.dumps(description)}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.mark.parametrize("path", ["a", "b.c", "d[1]"])
def test_numbers_that_json_does_not_have(path: str, tmp_path: Path) -> None:
    text = '{"loopwise": 1, "a": 5, "b": {"c": 2}, "d": ["x", 3]}'
    number = {"a": "5,", "b.c": "2}", "d[1]": "3]"}[path]
    for value in ("NaN", "-Infinity", "1e999"):
        broken = text.replace(f" {number}", f" {value}{number[-1]}")
        (tmp_path / "m").write_bytes(safetensors.torch.save({"t": torch.zeros(1)}, {"description": broken}))
        with pytest.raises(FormatError, match="Infinity or NaN") as caught:
            System.load(tmp_path / "m")
        assert f"the field {path!r}" in str(caught.value)


def test_no_room_is_made_for_what_a_file_only_claims(folder: Path) -> None:
    path = folder / "labels"
    if not path.exists():
        KINDS["labels"].save(path)
    tensors, description = read_container(path)
    many = [str(number) for number in range(20_000)]  # 200 million pairs of labels
    write(folder / "claims", tensors, {**description, "labels": many, "classes": [[0, 1]] * 20_000})
    system = folder / "system, BP"
    if not system.exists():
        KINDS["system, BP"].save(system)
    numbers, told = read_container(system)
    told.pop("vocabulary")
    sizes = numbers["graph.cardinalities"].clone()
    sizes[1] = 10_000_000
    write(folder / "cells", {**numbers, "graph.cardinalities": sizes}, told)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"'unary' is of shape .*20000"):
            MultiLabel.load(folder / "claims")
        with pytest.raises(FormatError, match=r"is of shape .*10000000"):
            System.load(folder / "cells")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_logarithms_of_zero_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "m"
    KINDS["system, BP"].save(path)
    tensors, description = read_container(path)
    tensors["potentials.tables.0"].view(-1)[0] = -float("inf")
    write(path, tensors, description)
    assert System.load(path).potentials.tables[0].min() == -float("inf")
