"""Templates of features: published ones, and bad ones by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.apps.chain.features.extraction import extract
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK, parse_templates
from loopwise.apps.chain.features.text import Text
from oracles.chain_features import SPEC, features_by_hand

SENTENCES = [["The", "EU-27", "met", "."], [], ["rome"], ["a", "b", "The", "McX's"]]


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
