"""Templates and features against a plain reading of each token, and the linear map against the matrix it stands for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.apps.chain.features.attributes import attribute, long_shape, shape
from loopwise.apps.chain.features.extraction import design_of, extract
from loopwise.apps.chain.features.index import Hashed, Indexed
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK, Template, parse_templates
from loopwise.apps.chain.features.text import Text, equal_parts, tag_numbers
from loopwise.potentials.linear import Design

SENTENCES = [["The", "EU-27", "met", "."], [], ["rome"], ["a", "b", "The", "McX's"]]
SPEC = (
    "bias first last all_lower w[0] lower[1] w[-1]|w[0] prefix3[0]|is_title[0] is_title[-1]|w[1] suffix2[-2] first|w[0]"
)


def value_by_hand(sentence: list[str], place: int, name: str, offset: int) -> str | None:
    """What one part of a template sees, None for nothing."""
    if name == "bias":
        return ""
    if name in ("first", "last"):
        return "" if place == (0 if name == "first" else len(sentence) - 1) else None
    if name == "all_lower":
        return "" if all(word == word.lower() for word in sentence) else None
    if not 0 <= place + offset < len(sentence):
        return None if name.startswith(("is_", "has_")) else ("<edge" if place + offset < 0 else "edge>")
    look = attribute(name)
    assert look is not None
    return look(sentence[place + offset])


def features_by_hand(sentences: list[list[str]], templates: tuple[Template, ...]) -> list[set[tuple[str, ...]]]:
    rows = []
    for sentence in sentences:
        for place in range(len(sentence)):
            seen = set()
            for template in templates:
                values = [value_by_hand(sentence, place, part.name, part.offset) for part in template.parts]
                if None not in values:
                    seen.add((str(template), *map(str, values)))
            rows.append(seen)
    return rows


def keys_of(sentences: list[list[str]], spec: str) -> list[list[int]]:
    rows = extract(parse_templates(spec), Text.of(sentences))
    return [
        sorted(int(key) for row in token for key in rows.key[rows.start[row] : rows.start[row + 1]])
        for token in rows.token_row
    ]


words = st.text(st.sampled_from("aB3-é"), min_size=1, max_size=4)


@given(st.lists(st.lists(words, max_size=4), min_size=1, max_size=4))
def test_keys_are_one_to_one_with_what_templates_see(sentences: list[list[str]]) -> None:
    expected = features_by_hand(sentences, parse_templates(SPEC))
    found = keys_of(sentences, SPEC)
    assert [len(row) for row in found] == [len(row) for row in expected]
    # The same features have the same keys and different ones different keys, over all tokens together.
    name_of: dict[int, set[frozenset[int]]] = {}
    for token, keys in enumerate(found):
        for key in keys:
            name_of.setdefault(key, set()).add(frozenset([token]))
    tokens_of_key = sorted(sorted(t for s in group for t in s) for group in name_of.values())
    where: dict[tuple[str, ...], list[int]] = {}
    for token, features in enumerate(expected):
        for feature in features:
            where.setdefault(feature, []).append(token)
    assert tokens_of_key == sorted(where.values())


def test_keys_do_not_depend_on_the_rest_of_the_text() -> None:
    alone, together = keys_of([SENTENCES[0]], NAMES), keys_of([["x", "The"], *SENTENCES], NAMES)
    assert together[2:6] == alone


def test_shapes() -> None:
    assert shape("McDonald's-77") == "XxXx'x-0" and long_shape("IBM-3é") == "XXX-0x"


def test_published_templates() -> None:
    assert [str(template) for template in parse_templates(SAMPLERANK)] == [
        "w[0]", "lower[0]", "is_title[0]", "all_lower", "first",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("w[0] lowr[0]", "no attribute or column 'lowr'; did you mean 'lower'"),
        ("w[0] w[x]", "'w\\[x\\]' is no attribute"),
        ("w[0]|zz[1]", "no attribute or column 'zz' of template 'w\\[0\\]\\|zz\\[1\\]'"),
        ("w[0] w[0]", "listed twice"),
        ("first[0]", "looks at no single word"),
        ("w[99]", "99 words away"),
        ("prefix0[0]", "prefix0"),
    ],
)
def test_bad_templates_are_named(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_templates(spec)


def dense(design: Design) -> np.ndarray:
    matrix = np.zeros((design.tokens.rows, design.features))
    for token in range(design.tokens.rows):
        for row in design.tokens.index[design.tokens.start[token] : design.tokens.start[token + 1]]:
            np.add.at(matrix[token], design.rows.index[design.rows.start[row] : design.rows.start[row + 1]], 1.0)
    return matrix


@pytest.mark.parametrize("hashing", [None, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_linear_map(hashing: int | None, threads: int) -> None:
    keys = extract(parse_templates(SPEC), Text.of(SENTENCES))
    index = Indexed.of(keys.key, keys.counts) if hashing is None else Hashed(hashing)
    design = design_of(keys, index)
    matrix = dense(design)
    expected = features_by_hand(SENTENCES, parse_templates(SPEC))
    assert matrix.sum(axis=1).tolist() == [len(row) for row in expected]
    if hashing is None:
        totals = matrix.sum(axis=0)
        assert (np.diff(totals) <= 0).all() and totals.min() >= 1  # frequent ones first, none without use
    rng = np.random.default_rng(0)
    weights, adjoint = rng.normal(size=(design.features, 3)), rng.normal(size=(len(matrix), 3))
    np.testing.assert_allclose(design.scores(weights, threads), matrix @ weights, atol=1e-12)
    np.testing.assert_allclose(design.transposed_scores(adjoint, threads), matrix.T @ adjoint, atol=1e-12)
    flat = design.flat
    for token in range(len(matrix)):
        own = np.bincount(flat.index[flat.start[token] : flat.start[token + 1]], minlength=design.features)
        assert np.array_equal(own, matrix[token])


def test_rare_and_unknown_features_are_left_out() -> None:
    keys = extract(parse_templates("w[0]"), Text.of([["a", "a", "b"], ["a", "c", "b"]]))
    assert Indexed.of(keys.key, keys.counts, 2).size == 2
    index = Indexed.of(keys.key, keys.counts, 3)
    assert index.size == 1
    other = design_of(extract(parse_templates("w[0]"), Text.of([["z", "a"]])), index)
    assert dense(other).tolist() == [[0.0], [1.0]]


def test_texts_that_do_not_fit_are_named() -> None:
    text = Text.of([["a", "b"], ["c"]])
    assert tag_numbers([["O", "X"], ["O"]], text, ("O", "X")).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="sentence 1 has 1 words but 2 tags"):
        tag_numbers([["O", "O"], ["O", "O"]], text, ("O",))
    with pytest.raises(ValueError, match="2 sentences but tags of 1"):
        tag_numbers([["O", "O"]], text, ("O",))
    with pytest.raises(ValueError, match=r"sentence 1 has the tag 'B-PRE'.*did you mean 'B-PER'"):
        tag_numbers([["O", "O"], ["B-PRE"]], text, ("O", "B-PER"))
    with pytest.raises(ValueError, match="sentence 1 is the text 'a b'"):
        Text.of([["a"], "a b"])


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 4))
def test_parts_cover_everything_once(lengths: list[int], count: int) -> None:
    start = np.cumsum([0, *lengths])
    parts = equal_parts(start, count)
    assert len(parts) <= count and parts[0][0] == 0 and parts[-1][1] == len(lengths)
    assert all(one[1] == two[0] for one, two in itertools.pairwise(parts))
