"""Texts, plain and packed."""

from __future__ import annotations

from loopwise.apps.dedupe.texts import Packed, Vectors, normalised


def test_texts_become_plain_and_packed() -> None:
    texts = normalised(["Crème–Brûlée!", "a_b", "İ", "  "])
    assert texts == ["creme brulee", "a b", "i", ""]
    packed = Packed.of(["b", "a", "b", ""])
    assert packed.place.tolist() == [0, 1, 0, 2] and packed.empty.tolist() == [False, False, False, True]
    assert normalised([]) == [] and Packed.of([]).empty.tolist() == []


def test_nearest_texts_leave_frequent_words_out() -> None:
    packed = Packed.of([f"the w{number // 2}" for number in range(6)] + ["the rest"])
    vectors = Vectors.of(*packed.keys("words"), packed.place)
    found, _ = vectors.nearest(2, 2)
    assert (found == -1).all()  # each pair of equal texts is one text, and "the" is too frequent
    assert (vectors.nearest(2, 100)[0] >= 0).all()
