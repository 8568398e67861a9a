"""Descriptions that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from loopwise.formats.errors import FormatError
from loopwise.learn import System
from loopwise.learn.files.container import read_container, write_container
from oracles.saving_cases import (
    saved,
)


def damaged(change: str, tensors: dict[str, Any], description: dict[str, Any]) -> None:
    parts = description["system"]
    if change == "class":
        parts["inference"]["class"] = "os.system"
    elif change == "private":
        parts["inference"]["class"] = "__import__"
    elif change == "field":
        parts["inference"]["options"]["iterations"] = -3
    elif change == "unknown field":
        parts["inference"]["options"]["nonsense"] = 1
    elif change == "part":
        del parts["decoder"]
    elif change == "kind":
        parts["decoder"] = parts["inference"]
    elif change == "tensor":
        del tensors[description["state"][0]]
    elif change == "shape":
        tensors[description["state"][0]] = torch.zeros(1)
    elif change == "scopes":
        tensors["graph.scopes.0"] = torch.tensor([[0, 99]])
    elif change == "value":
        parts["inference"]["options"]["schedule"] = {"odd": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("class", "class 'os.system' that this version"),
        ("private", "class '__import__'"),
        ("field", "iterations must be"),
        ("unknown field", "nonsense"),
        ("part", "'system.decoder' is not there"),
        ("kind", "decoder of a system must be"),
        ("tensor", "names a tensor 'potentials.tables.0' that"),
        ("shape", "'potentials.tables.0' is of shape .* it must be"),
        ("scopes", "names variable 99"),
        ("value", "describes nothing"),
    ],
)
def test_damaged_descriptions(change: str, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path)
    tensors, description = read_container(path)
    damaged(change, tensors, description)
    write_container(path, tensors, description)
    with pytest.raises(FormatError, match=f"damaged: .*{message}") as caught:
        System.load(path)
    assert "\n" not in str(caught.value)
