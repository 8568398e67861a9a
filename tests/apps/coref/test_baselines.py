"""What needs no training is beaten."""

from __future__ import annotations

from loopwise.apps.coref import Coref, CorefReport, by_rule, head_match, singletons
from loopwise.formats.coref import CorefDocument, MentionSpan
from oracles.coref_cases import TEST


def test_it_beats_what_needs_no_training(fitted: Coref) -> None:
    report = fitted.evaluate(TEST)
    heads = CorefReport.of(TEST, [head_match(document) for document in TEST])
    alone = CorefReport.of(TEST, [singletons(document) for document in TEST])
    assert report.mean.b_cubed > heads.mean.b_cubed + 0.05 > alone.mean.b_cubed
    assert fitted.score(TEST) == report.mean.b_cubed and fitted.training_.tally.steps == 9 * 3 * 1500


def test_the_rule_finds_antecedents_of_pronouns() -> None:
    words = ("Mrs.", "Hill", "met", "Mr.", "Stone", ".", "She", "knew", "him", ".")
    spans = (MentionSpan(0, 1, "a"), MentionSpan(3, 4, "b"), MentionSpan(6, 6, "a"), MentionSpan(8, 8, "b"))
    document = CorefDocument("met", words, (0, 6, 10), spans)
    assert by_rule(document).tolist() == document.entities() == [0, 1, 0, 1]
    assert len(set(head_match(document).tolist())) == len(set(singletons(document).tolist())) == 4
