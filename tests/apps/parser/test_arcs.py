"""Arcs that pruning leaves."""

from __future__ import annotations

from loopwise.apps import Parser
from oracles.toy_language import DEV, TRAIN, small


def test_pruning_leaves_nearly_all_gold_arcs(trained: Parser) -> None:
    report = trained.pruning_report(DEV)
    assert report["oracle"] >= trained.evaluate(DEV).uas
    assert report["recall"] > 0.97 and 1 <= report["arcs_per_word"] <= 11
    everything = small((), pruning=None)
    everything.fit(TRAIN[:10], epochs=1, rate=0.1, labels=False)
    assert everything.pruning_report(DEV)["oracle"] == 1.0
    # Relations that came with the sentences are not passed off as found.
    (tree,) = everything.parse(DEV[:1])
    assert set(tree.relations) == {"root", "dep"} and tree.relations.count("root") == 1
