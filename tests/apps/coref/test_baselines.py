"""What needs no training is beaten."""

from __future__ import annotations

from loopwise.apps.coref import Coref, CorefReport, head_match, singletons
from oracles.coref_cases import TEST


def test_it_beats_what_needs_no_training(fitted: Coref) -> None:
    report = fitted.evaluate(TEST)
    heads = CorefReport.of(TEST, [head_match(document) for document in TEST])
    alone = CorefReport.of(TEST, [singletons(document) for document in TEST])
    assert report.mean.b_cubed > heads.mean.b_cubed + 0.05 > alone.mean.b_cubed
    assert fitted.score(TEST) == report.mean.b_cubed and fitted.training_.tally.steps == 9 * 3 * 1500
