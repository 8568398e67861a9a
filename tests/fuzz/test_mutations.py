"""Ways to spoil files: cheap, repeatable, and different."""

from __future__ import annotations

import json
from random import Random

import pytest
import torch

from fuzz.mutations import spoil_bytes, spoil_gzip, spoil_model, spoil_npy, spoil_png, spoil_text, spoil_zip
from fuzz.readers import UAI, npy_seeds, npz_seeds, packed, png_seeds


def model() -> bytes:
    """A small file as systems are saved."""
    import safetensors.torch

    description = {"loopwise": 1, "system": {"class": "BP", "iterations": 3, "names": ["a", "b"]}, "flat": True}
    tensors = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": torch.arange(4), "none": torch.zeros(0)}
    return bytes(safetensors.torch.save(tensors, {"description": json.dumps(description)}))


MANY = 1500
CASES = {
    "text": (spoil_text, UAI.encode()),
    "bytes": (spoil_bytes, UAI.encode()),
    "gzip": (spoil_gzip, packed(UAI)),
    "npy": (spoil_npy, npy_seeds()[0]),
    "npz": (spoil_zip, npz_seeds()[1]),
    "png": (spoil_png, png_seeds()[1]),
    "model": (spoil_model, model()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_generator_spoils_the_same_way_and_others_do_not(name: str) -> None:
    mutate, data = CASES[name]
    made = [mutate(Random(number), data) for number in range(MANY)]
    assert made == [mutate(Random(number), data) for number in range(MANY)]
    assert len(set(made)) > MANY // 8
    assert max(map(len, made)) < 100_000
