"""Words of two tokenisations are matched."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.apps.parser.alignment import align, flatten
from loopwise.apps.parser.report import score
from loopwise.formats.conllu import make_sentence
from oracles.toy_language import GOLD, rows


def test_words_of_multiword_tokens_are_matched_by_form() -> None:
    system = rows(
        ("1-3", "don't", "_", "_"), (1, "DO", 4, "aux"), (2, "x", 4, "y"), (3, "n't", 4, "advmod"),
        (4, "pay", 0, "root"),
        (5, "$5", 4, "obj"), (6, "...", 4, "punct"),
    )  # fmt: skip
    pairs = align(flatten([GOLD], "gold"), flatten([system], "system"))
    assert pairs.tolist() == [[0, 0], [1, 2], [2, 3], [5, 5]]
    assert score([GOLD], [system]).uas == pytest.approx(2 * 4 / (6 + 6))


def naive_align(gold: list[tuple[int, int]], system: list[tuple[int, int]]) -> list[list[int]]:
    return [[g, s] for (g, a), (s, b) in itertools.product(enumerate(gold), enumerate(system)) if a == b]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.data())
def test_without_multiword_tokens_words_pair_iff_they_cover_the_same(lengths: list[int], data: st.DataObject) -> None:
    text = "abcdefghijklmnopqrstuvwx"[: sum(lengths)]
    other: list[int] = []
    while sum(other) < len(text):
        other.append(data.draw(st.integers(1, min(3, len(text) - sum(other)))))
    spans = []
    sentences = []
    for cut in (lengths, other):
        ends = np.cumsum(cut).tolist()
        spans.append(list(zip([0, *ends[:-1]], ends, strict=True)))
        forms = [text[begin:end] for begin, end in spans[-1]]
        sentences.append(make_sentence(forms, ["X"] * len(forms), heads=range(len(forms))))
    pairs = align(flatten([sentences[0]], "gold"), flatten([sentences[1]], "system"))
    assert pairs.tolist() == naive_align(*spans)
