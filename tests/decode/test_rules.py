"""Rules of tags against all sequences: what is forbidden has no probability, all else keeps its share."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from loopwise.decode.rules import Forbid, Rules
from loopwise.inference.families.chains import Chains

LABELS = ("O", "B-PER", "I-PER")
CHAINS = Chains(np.array([0, 3, 3, 4]), 1)  # three tokens, none, one


def allowed(tags: tuple[int, ...], rules: Rules) -> bool:
    steps = all(rules.follow[one, other] for one, other in pairwise(tags))
    return bool(rules.first[tags[0]] and rules.last[tags[-1]] and steps)


@pytest.mark.parametrize("forbidden", [None, Forbid(steps=[("O", "O")], last=["B-PER"])])
def test_marginals_are_those_of_the_sequences_there_are(forbidden: Forbid | None) -> None:
    rules = Rules.of(LABELS, forbidden, iob=True)
    assert rules is not None
    rng = np.random.default_rng(0)
    unary, pair = rng.normal(size=(4, 3)), rng.normal(size=(1, 3, 3))
    found = CHAINS.marginals(*rules(CHAINS, unary, pair)).single
    expected = np.zeros((3, 3))
    for tags in product(range(3), repeat=3):
        if allowed(tags, rules):
            score = unary[np.arange(3), tags].sum() + pair[0, tags[:-1], tags[1:]].sum()
            expected[np.arange(3), tags] += np.exp(score)
    np.testing.assert_allclose(found[:3], expected / expected.sum(1, keepdims=True), atol=1e-12)
    assert found[3, 2] == 0  # no sentence begins inside


def test_places_where_rules_are_broken() -> None:
    rules = Rules.of(LABELS, Forbid(last=["B-PER"]), iob=True)
    assert rules is not None
    assert rules.broken(CHAINS, np.array([0, 2, 2, 1])).tolist() == [1, 3]  # I after O; ends with B
    assert rules.broken(CHAINS, np.array([0, -1, 2, 0])).tolist() == []  # what is not known breaks nothing


def test_no_rules_and_unknown_tags() -> None:
    assert Rules.of(("DET", "NOUN")) is None and Rules.of(("DET", "NOUN"), iob=True) is None
    with pytest.raises(ValueError, match="forbid the tag 'VERB', which is none; there are"):
        Rules.of(("DET", "NOUN"), Forbid(first=["VERB"]))
