"""Which features have a column."""

from __future__ import annotations

from loopwise.apps.chain.features.extraction import design_of, extract
from loopwise.apps.chain.features.index import Indexed
from loopwise.apps.chain.features.templates import parse_templates
from loopwise.apps.chain.features.text import Text
from oracles.chain_features import dense


def test_rare_and_unknown_features_are_left_out() -> None:
    keys = extract(parse_templates("w[0]"), Text.of([["a", "a", "b"], ["a", "c", "b"]]))
    assert Indexed.of(keys.key, keys.counts, 2).size == 2
    index = Indexed.of(keys.key, keys.counts, 3)
    assert index.size == 1
    other = design_of(extract(parse_templates("w[0]"), Text.of([["z", "a"]])), index)
    assert dense(other).tolist() == [[0.0], [1.0]]
