"""The parser as a system of the library."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from loopwise.learn import evaluate, fit
from loopwise.learn.optim import AdaGradCOMID
from loopwise.loss import MSE
from oracles.toy_language import DEV, TRAIN, small


@pytest.mark.parametrize("projective", [True, False])
def test_the_system_of_a_parser_has_its_beliefs(projective: bool) -> None:
    """Through the template, a union of sentences and `lw.BP`; and its losses have a gradient for the hashed weights."""
    parser = small(inference=BP(iterations=3, tolerance=0), projective=projective, single_root=projective)
    parser.fit(TRAIN[:30], epochs=1, rate=0.1, labels=False)
    system, examples = parser.system(), parser.examples(DEV)
    for example, found, tree in zip(examples, system.predict_marginals(examples), parser.parse(DEV), strict=True):
        expected = tree.marginals[example.arcs.heads, example.arcs.mods]
        np.testing.assert_allclose(found[:, 1].numpy(), expected, atol=1e-10)
    gold = system.examples(examples).targets.values
    assert int((gold == 1).sum()) == sum(map(len, DEV))
    before = evaluate(system, examples, MSE())
    fit(system, examples, MSE(), optimizer=lambda p: AdaGradCOMID(p, rate=0.01), epochs=2, progress=False)
    assert evaluate(system, examples, MSE()) < before
    exact = small(("grandparent",), Exact())
    exact.fit(TRAIN[:5], epochs=1, rate=0.1, labels=False)
    with pytest.raises(ValueError, match="no method of graphs"):
        exact.system()
