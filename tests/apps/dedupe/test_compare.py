"""Similarities of columns against plain Python, kind by kind; kinds guessed; texts as arrays."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from loopwise.apps.dedupe.compare import ALL, Comparer
from loopwise.apps.dedupe.kinds import Kind, kinds_of
from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.texts import normalised
from loopwise.notices import DataWarning


def similarity(kind: Kind, what: str, values: list[str]) -> np.ndarray:
    """``[values, values]`` of one comparison."""
    comparer = Comparer(Records.of({"c": values}), {"c": kind})
    one, other = np.divmod(np.arange(len(values) ** 2), len(values))
    found = comparer.compute(one, other)[:, comparer.names.index(f"c: {what}")]
    return found.reshape(len(values), -1)


def plain_cosines(lists: list[list[str]]) -> np.ndarray:
    """TF-IDF cosines by dictionaries."""
    size = len(lists)
    weight = {
        word: math.log((1 + size) / (1 + sum(word in words for words in lists))) + 1
        for words in lists
        for word in words
    }
    vectors = [{word: words.count(word) * weight[word] for word in words} for words in lists]
    norms = [math.sqrt(sum(value**2 for value in vector.values())) for vector in vectors]
    table = np.full((size, size), np.nan)
    for i, mine in enumerate(vectors):
        for j, theirs in enumerate(vectors):
            if mine and theirs:
                table[i, j] = sum(mine[word] * theirs.get(word, 0.0) for word in mine) / norms[i] / norms[j]
    return table


NAMES = ["Ann Lee", "anne  LEE", "Lee, Ann", "", "Bob O'Ray 7", "Ann Ann Lee"]


def test_words_and_letters_are_cosines() -> None:
    words = [text.split() for text in normalised(NAMES)]
    np.testing.assert_allclose(similarity(Kind.NAME, "words", NAMES), plain_cosines(words), atol=1e-6)
    padded = [f"\0\0{text}\0\0" if text else "" for text in normalised(NAMES)]
    grams = [[text[place : place + 3] for place in range(len(text) - 2)] for text in padded]
    np.testing.assert_allclose(similarity(Kind.TEXT, "letters", NAMES), plain_cosines(grams), atol=1e-6)


def test_words_with_digits_and_what_is_contained() -> None:
    values = ["sony x100 tv", "x100", "lg x200", "plain words"]
    digits = similarity(Kind.TEXT, "words with digits", values)
    assert digits[0, 1] == 1.0 and digits[0, 2] == 0.0 and np.isnan(digits[0, 3])
    contained = similarity(Kind.TEXT, "contained", values)
    assert contained[0, 1] == 1.0 and contained[0, 3] == 0.0


def test_numbers_dates_points_codes_categories_sets() -> None:
    near = similarity(Kind.NUMBER, "near", ["$1,000", "900", "", "0"])
    np.testing.assert_allclose(near[0, :2], [1.0, 0.9], atol=1e-6)
    assert np.isnan(near[0, 2]) and near[0, 3] == 0.0 and near[3, 3] == 1.0
    days = similarity(Kind.DATE, "near", ["2000-01-01", "31/1/2000", "what"])
    np.testing.assert_allclose(days[0, 1], math.exp(-1), atol=1e-6)
    assert np.isnan(days[0, 2])
    where = similarity(Kind.POINT, "near", ["0.0, 0.0", "0.0, 0.1"])
    kilometres = 6371.0 * math.radians(0.1)
    np.testing.assert_allclose(where[0, 1], math.exp(-kilometres / 10), atol=1e-6)
    assert similarity(Kind.PHONE, "equal", ["555-1234", "5551234", "5551235"])[0].tolist() == [1.0, 1.0, 0.0]
    assert similarity(Kind.CATEGORY, "equal", ["A", "a", "b"])[0].tolist() == [1.0, 1.0, 0.0]
    sets = similarity(Kind.SET, "contained", ["a b**c", "c;a b", "c", "d"])
    assert sets[0].tolist() == [1.0, 1.0, 1.0, 0.0]


def test_the_summary_is_the_mean_of_a_columns_similarities() -> None:
    table = Records.of({"name": ["Ann", "Anne"], "age": ["3", ""]})
    comparer = Comparer(table, {"name": Kind.NAME, "age": Kind.NUMBER})
    found = comparer.compute(np.array([0]), np.array([1]))
    summary = comparer.summary(found)
    assert comparer.columns == ("name", "age", ALL)
    assert summary[0, 0] == pytest.approx(found[0, comparer.of("name")].mean())
    assert np.isnan(summary[0, 1])


def test_columns_that_say_nothing() -> None:
    table = Records.of({"n": ["a", "b", "a"], "same": ["x", "x", "x"], "id": ["1", "2", "3"]})
    with pytest.warns(DataWarning, match="'same', 'id' are not compared"):
        assert kinds_of(table)["same"] is Kind.IGNORE
    with pytest.raises(ValueError, match=r"'same'.*the same in every row"):
        kinds_of(table, {"same": "name"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="no column to compare"):
            kinds_of(Records.of({"same": ["x", "x"], "id": ["1", "2"]}))
    with pytest.raises(ValueError, match="'n' cannot be of kind 'words'; kinds are name,"):
        kinds_of(table, {"n": "words"})
    with pytest.raises(ValueError, match="no column 'm'"):
        kinds_of(table, {"m": "name"})
    with pytest.raises(ValueError, match=r"'n'.*has no date in it"):
        kinds_of(table, {"n": "date"})


def test_the_text_of_a_record_leaves_out_lists_and_points() -> None:
    """Else a long list that two records share would make them alike, whatever their names; alone they are compared."""
    columns = {"name": ["ann lee", "bob ray"], "codes": ["x1|x2|x3", "x1|x2|x3"], "at": ["1.0,2.0", "1.0,2.0"]}
    kinds = {"name": Kind.NAME, "codes": Kind.SET, "at": Kind.POINT}
    one, other = np.array([0]), np.array([1])
    comparer = Comparer(Records.of(columns), kinds)
    found = comparer.compute(one, other)[0]
    assert found[comparer.names.index(f"{ALL}: words")] == 0.0
    assert found[comparer.names.index("codes: members")] == pytest.approx(1.0)
    assert found[comparer.names.index("at: near")] == pytest.approx(1.0)
    alone = Comparer(Records.of({"codes": columns["codes"]}), {"codes": Kind.SET})
    assert alone.compute(one, other)[0, alone.names.index(f"{ALL}: words")] == pytest.approx(1.0)
