"""Ways to spoil files: cheap, repeatable, and different."""

from __future__ import annotations

from random import Random

import pytest

from fuzz.mutations import spoil_bytes, spoil_gzip, spoil_npy, spoil_png, spoil_text, spoil_zip
from fuzz.readers import UAI, npy_seeds, npz_seeds, packed, png_seeds

CASES = {
    "text": (spoil_text, UAI.encode()),
    "bytes": (spoil_bytes, UAI.encode()),
    "gzip": (spoil_gzip, packed(UAI)),
    "npy": (spoil_npy, npy_seeds()[0]),
    "npz": (spoil_zip, npz_seeds()[1]),
    "png": (spoil_png, png_seeds()[1]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_generator_spoils_the_same_way_and_others_do_not(name: str) -> None:
    mutate, data = CASES[name]
    made = [mutate(Random(number), data) for number in range(60)]
    assert made == [mutate(Random(number), data) for number in range(60)]
    assert len(set(made)) > 40
    assert max(map(len, made)) < 100_000
