"""Similarities of strings and of sets of words."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopwise.apps.coref.pair_templates import DISJOINT, EMPTY, LESS, MORE, SAME
from loopwise.apps.coref.similarity import Frequencies, cosines, overlaps


def test_set_relations() -> None:
    lists = [(), ("a",), ("a", "b"), ("b",), ("a",), ("a", "a")]
    shared, sizes = overlaps(lists)
    for one, two in combinations(range(len(lists)), 2):
        assert shared[one, two] == len(set(lists[one]) & set(lists[two]))
    assert sizes.tolist() == [0, 1, 2, 1, 1, 1]
    from loopwise.apps.coref.pair_templates import _relation

    def relation(one: int, two: int) -> int:
        return int(_relation(shared[one, two], sizes[one], sizes[two]))

    assert relation(0, 0) == EMPTY and relation(1, 4) == relation(1, 5) == SAME
    assert relation(2, 1) == LESS and relation(1, 2) == MORE and relation(1, 3) == DISJOINT


def test_cosines_against_a_loop() -> None:
    lists = [("red", "house"), ("house",), (), ("red", "red", "bird")]
    frequencies = Frequencies.of([["red", "bird"], ["red"], ["House"]])
    assert frequencies.documents == 3
    weight = dict(zip(["red", "bird", "house"], frequencies.weights(["red", "bird", "house"]), strict=True))
    assert weight["red"] == pytest.approx(np.log(4 / 3) + 1) and weight["bird"] == weight["house"]
    vectors = [{word: words.count(word) * weight[word] for word in words} for words in lists]
    found = cosines(lists, frequencies)
    for one, first in enumerate(vectors):
        for two, second in enumerate(vectors):
            dot = sum(value * second.get(word, 0.0) for word, value in first.items())
            norms = np.sqrt(sum(v**2 for v in first.values()) * sum(v**2 for v in second.values()))
            assert found[one, two] == pytest.approx(dot / norms if norms else 0.0)
