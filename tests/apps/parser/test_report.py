"""Scores counted by hand, alignment of other tokenisations."""

from __future__ import annotations

import pytest

from loopwise.apps.parser.report import by_length, is_punctuation, score, sentence_counts
from loopwise.formats import FormatError
from loopwise.formats.conllu import make_sentence
from oracles.toy_language import GOLD, rows


def test_scores_of_a_file_counted_by_hand() -> None:
    system = GOLD.with_tree([3, 3, 0, 3, 3, 5], ["aux", "advmod", "root", "nummod", "nsubj", "punct"])
    scores = score([GOLD], [system])
    assert scores.words == scores.system_words == scores.aligned == 6
    assert scores.uas == pytest.approx(4 / 6)  # words 1, 2, 3, 5; punctuation counts, and is wrong
    assert scores.las == pytest.approx(3 / 6)  # the subtype of word 2 is forgiven, the relation of word 5 is not
    assert scores.las_subtypes == pytest.approx(2 / 6)
    assert scores.scored_no_punctuation == 5  # $ is a symbol, ... is punctuation
    assert scores.uas_no_punctuation == pytest.approx(4 / 5)
    assert scores.las_no_punctuation == pytest.approx(2 / 5)
    right, scored = sentence_counts([GOLD], [system])
    assert (right.tolist(), scored.tolist()) == ([4], [5])


def test_words_that_are_cut_differently_count_in_precision_and_recall() -> None:
    gold = rows((1, "ab", 2, "a"), (2, "c", 0, "root"), (3, "d", 2, "b"))
    system = rows((1, "a", 2, "a"), (2, "b", 3, "x"), (3, "c", 0, "root"), (4, "d", 3, "b"))
    scores = score([gold], [system])
    assert scores.aligned == 2
    assert scores.uas == pytest.approx(2 * 2 / (3 + 4))  # c under the root, d under c
    assert scores.uas_no_punctuation == pytest.approx(2 / 3)


def test_sentences_may_be_split_differently() -> None:
    gold = [rows((1, "a", 0, "root"), (2, "b", 1, "x"), (3, "c", 1, "x"))]
    system = [rows((1, "a", 0, "root"), (2, "b", 1, "x")), rows((1, "c", 0, "root"))]
    assert score(gold, system).uas == pytest.approx(2 * 2 / 6)


def test_other_texts_and_broken_trees_are_refused() -> None:
    one, other = (make_sentence([form], ["X"], heads=[0]) for form in ("abc", "abd"))
    with pytest.raises(ValueError, match=r"different texts: after 2 characters, gold goes on with 'c'"):
        score([one], [other])
    cycle = make_sentence(["a", "b"], ["X", "X"], heads=[2, 1])
    with pytest.raises(FormatError, match="cycle"):
        score([cycle], [cycle])
    with pytest.raises(ValueError, match="same words"):
        sentence_counts([one], [other])


def test_punctuation_is_decided_by_unicode_categories() -> None:
    assert [is_punctuation(form) for form in ("«", "--", "`", "+", "<", "a.")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_errors_by_length_add_up() -> None:
    words = [f"w{place}" for place in range(30)]
    gold = make_sentence(words, ["X"] * 30, heads=[0, *[1] * 29])
    system = make_sentence(words, ["X"] * 30, heads=list(range(30)))
    table = {row["length"]: row for row in by_length([gold], [system])}
    assert sum(row["gold"] for row in table.values()) == sum(row["system"] for row in table.values()) == 30
    assert table["root"]["recall"] == table["root"]["precision"] == 1
    assert table["1"]["gold"] == 1 and table["1"]["system"] == 29 and table["1"]["precision"] == pytest.approx(1 / 29)
    assert table["20+"]["gold"] == 10 and table["20+"]["recall"] == 0


def test_lengths_need_the_same_words() -> None:
    one, other = (make_sentence(forms, ["X"] * len(forms), heads=range(len(forms))) for forms in (["a", "b"], ["ab"]))
    with pytest.raises(ValueError, match="need the same words"):
        by_length([one], [other])
