"""Options that cannot be."""

from __future__ import annotations

import pytest

from loopwise.apps import Parser
from loopwise.apps.parser.objectives import AnnealedRisk
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.inference.exact.method import Exact
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.message_passing import BP
from oracles.toy_language import TRAIN, small


def test_options_that_cannot_be_are_refused() -> None:
    for make, words in [
        (lambda: Parser(("uncle",)), "no factor 'uncle'"),
        (lambda: Parser(("sibling",), Exact()), "leave out the siblings"),
        (lambda: Parser(("grandparent",), Exact(), projective=False), "needs projective trees"),
        (lambda: Parser((), MeanField()), "not MeanField"),
        (lambda: Parser((), BP(iterations=0)), "at least 1 iteration"),
        (lambda: Parser((), BP(damping=0.5)), "no damping"),
        (lambda: Templates(size=0), "must be 1 to"),
        (lambda: Pruning(threshold=1.0), "below 1, not 1.0"),
        (lambda: AnnealedRisk(start=0.1, end=0.2), "must fall"),
        (lambda: small().fit(TRAIN, epochs=0, rate=0.1), "epochs must be at least 1, not 0"),
        (lambda: small().fit(TRAIN, loss="l2"), r"trained for CLL\(\), L2\(\) or AnnealedRisk\(\)"),
        (lambda: small().fit(TRAIN, loss=()), "nothing to train for"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()
