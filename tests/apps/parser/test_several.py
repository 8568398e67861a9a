"""The best few trees and samples, against enumeration; training on trees of which some heads are not known."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from loopwise.apps import Parser
from loopwise.apps.parser.objectives import CLL, AnnealedRisk, Gold, SquaredDistance
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.apps.parser.tasks import TreeTask
from loopwise.formats import FormatError
from loopwise.formats.conllu import NO_HEAD, Sentence, check_tree, find_cycle, make_sentence
from loopwise.inference.exact.method import Exact
from loopwise.inference.families.tree_models import TreeModels
from loopwise.inference.messages.message_passing import BP
from oracles.toy_language import toy_sentences

SMALL = Templates(size=50_000, cutoff=1)
TRAIN = toy_sentences(40, seed=1)
SHORT = make_sentence(["the", "cat", "sees", "."], ["DET", "NOUN", "VERB", "PUNCT"], ["DT", "NN", "VBZ", "."])


def small(factors: Any = (), **options: Any) -> Parser:
    return Parser(factors, **{"templates": SMALL, "pruning": None, "inference": BP(iterations=2)} | options)


def is_projective(heads: tuple[int, ...]) -> bool:
    spans = [(min(head, mod), max(head, mod)) for mod, head in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in spans for c, d in spans)


def trees(n: int, projective: bool = True) -> list[tuple[int, ...]]:
    """All trees of one root."""
    return [
        heads
        for heads in product(range(n + 1), repeat=n)
        if heads.count(0) == 1 and not find_cycle(heads) and (not projective or is_projective(heads))
    ]


@pytest.fixture(scope="module", params=[(), ("grandparent", "sibling")], ids=["arcs", "pairs"])
def parser(request: pytest.FixtureRequest) -> Parser:
    made = small(request.param)
    made.fit(TRAIN, epochs=2, rate=0.05, threads=1)
    return made


def expected(parser: Parser, sentence: Sentence) -> dict[tuple[int, ...], float]:
    """Every tree's probability, from what the tree heard of its arcs."""
    _, parses, _ = parser._parse([sentence], False, False, 1)
    assert parses.scores is not None
    score = dict(
        zip(zip(parses.arcs.heads.tolist(), parses.arcs.mods.tolist(), strict=True), parses.scores, strict=True)
    )
    found = {
        heads: np.exp(sum(score[head, mod] for mod, head in enumerate(heads, 1))) for heads in trees(len(sentence))
    }
    total = sum(found.values())
    return {heads: share / total for heads, share in found.items()}


def test_the_best_trees_with_their_probabilities(parser: Parser) -> None:
    known = sorted(expected(parser, SHORT).items(), key=lambda entry: -entry[1])
    [found, nothing] = parser.predict([SHORT, make_sentence([], [])], k=6)
    assert [tuple(tree.heads) for tree, _ in found] == [heads for heads, _ in known[:6]]
    np.testing.assert_allclose([share for _, share in found], [share for _, share in known[:6]], rtol=1e-8)
    for tree, _ in found:
        check_tree(tree, single_root=True)
        assert all(name != "_" for name in tree.relations)
    assert len(nothing) == 1 and len(nothing[0].answer) == 0
    [all_of_them] = parser.k_best([SHORT], 10_000)
    assert len(all_of_them) == len(known) and sum(share for _, share in all_of_them) == pytest.approx(1.0)
    # Arcs of this distribution have the beliefs for marginals.
    [tree] = parser.parse([SHORT])
    marginals = np.zeros_like(tree.marginals)
    for heads, share in known:
        for mod, head in enumerate(heads, 1):
            marginals[head, mod] += share
    np.testing.assert_allclose(marginals, tree.marginals, atol=1e-9)
    with pytest.raises(ValueError, match="leave them out with k"):
        parser.predict([SHORT], k=2, confidence=True)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least 1"):
        parser.k_best([SHORT], 0)


def test_samples_of_trees(parser: Parser) -> None:
    known = expected(parser, SHORT)
    [drawn] = parser.sample([SHORT], 2000, seed=3)
    for tree, share in drawn[:20]:
        assert share == pytest.approx(known[tuple(tree.heads)])
    for heads, share in known.items():
        count = sum(tuple(tree.heads) == heads for tree, _ in drawn)
        assert abs(count / 2000 - share) < 5 * np.sqrt(share * (1 - share) / 2000) + 1e-3
    assert parser.sample([SHORT], 3, seed=3)[0] == parser.sample([SHORT], 3, seed=3)[0]


def test_given_heads_hold_in_all_of_them(parser: Parser) -> None:
    given = SHORT.with_tree([3, NO_HEAD, 0, NO_HEAD])
    for tree, _ in (*parser.predict([given], k=3, partial=True)[0], *parser.sample([given], 3, partial=True)[0]):
        assert tree.heads[0] == 3 and tree.heads[2] == 0


def test_exact_grandparents_list_no_trees() -> None:
    parser = small(("grandparent",), inference=Exact())
    parser.fit(TRAIN[:5], epochs=1, threads=1)
    with pytest.raises(ValueError, match="not which trees are next"):
        parser.k_best([SHORT], 2)


# --- Heads that are not known ----------------------------------------------------------------------------------------


def thinned(sentences: list[Sentence], seed: int = 0) -> list[Sentence]:
    """Every other head is left out."""
    rng = np.random.default_rng(seed)
    return [
        sentence.with_tree([head if rng.random() < 0.5 else NO_HEAD for head in sentence.heads])
        for sentence in sentences
    ]


@pytest.mark.parametrize("objective", [CLL(), SquaredDistance(), AnnealedRisk(0.5, 0.5)], ids=lambda goal: goal.name)
def test_losses_of_known_heads(objective: Any) -> None:
    """By enumeration of all trees: likelihood is that of those which agree, other losses are of known words; slopes by
    differences."""
    n = 3
    edges = np.array([(head, mod) for mod in range(1, n + 1) for head in range(n + 1) if head != mod])
    models = TreeModels.of(np.array([n]), np.array([0, len(edges)]), *edges.T, single_root=True)
    rng = np.random.default_rng(0)
    unary, gold_heads = rng.normal(size=len(edges)), {1: 2, 3: 2}
    right = np.array([float(gold_heads.get(mod, -1) == head) for head, mod in edges])
    known = np.array([mod in gold_heads for _, mod in edges])
    gold = Gold(right, np.zeros(1), known)
    parser = small()
    task = TreeTask.__new__(TreeTask)
    for name, value in {"objective": objective, "run": parser._run}.items():
        object.__setattr__(task, name, value)
    losses, slope, _ = task.gradient(models, unary, np.zeros(0), gold)
    place = {(int(head), int(mod)): number for number, (head, mod) in enumerate(edges)}

    def loss(scores: Any, temperature: float = 1.0) -> float:
        weights = {
            heads: np.exp(sum(scores[place[head, mod]] for mod, head in enumerate(heads, 1)) / temperature)
            for heads in trees(n)
        }
        total = sum(weights.values())
        marginal = np.zeros(len(edges))
        for heads, weight in weights.items():
            for mod, head in enumerate(heads, 1):
                marginal[place[head, mod]] += weight / total
        if isinstance(objective, CLL):
            fits = sum(
                weight
                for heads, weight in weights.items()
                if all(heads[mod - 1] == head for mod, head in gold_heads.items())
            )
            return float(-np.log(fits / total))
        if isinstance(objective, SquaredDistance):
            return float(2 * (((marginal - right) ** 2)[known]).sum())
        if temperature == 1.0:
            return loss(marginal, 0.5)
        return float(len(gold_heads) - (right * marginal).sum())

    assert losses[0] == pytest.approx(loss(unary), rel=1e-8)
    for number in range(len(edges)):
        step = np.zeros(len(edges))
        step[number] = 1e-5
        assert slope[number] == pytest.approx((loss(unary + step) - loss(unary - step)) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("objective", [CLL(), SquaredDistance()], ids=lambda goal: goal.name)
def test_learning_from_some_heads(objective: Any) -> None:
    some = thinned(toy_sentences(80, seed=4))
    with pytest.raises(FormatError, match="has no head; column 7 must be a number here"):
        small().fit(some, epochs=1)
    parser = small(("grandparent", "sibling"), pruning=Pruning(size=20_000, epochs=2, rate=0.1))
    parser.fit(
        some, dev=thinned(toy_sentences(10, seed=5)), loss=objective, epochs=4, rate=0.1, threads=1, partial=True
    )
    assert parser.evaluate(toy_sentences(30, seed=2)).uas > 0.9


def test_heads_may_be_none() -> None:
    sentence = make_sentence(["a", "b"], ["X", "Y"], heads=[None, 0])
    assert sentence.heads == (NO_HEAD, 0)
