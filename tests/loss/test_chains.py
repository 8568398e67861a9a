"""Expected entities and spans of chains, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.formats.iob import TagSet, find_spans
from loopwise.loss.chains import Gold, expected_entities, span_probabilities
from oracles.chain_cases import (
    all_paths,
    make_problem,
    path_score,
    random_weights,
)


def test_expected_entities_and_spans_by_enumeration() -> None:
    problem = make_problem(3, seed=5)
    weights = random_weights(problem, scale=1.0)
    known = problem.chains.marginals(*problem.scores(weights), each=True)
    gold = Gold(problem.gold, problem.chains.start, problem.labels)
    single, double = torch.from_numpy(known.single), torch.from_numpy(known.double)
    tags = TagSet.of(problem.labels)
    expected, right = 0.0, np.zeros(len(gold.spans))
    truths = gold.spans.named()
    for sentence in range(problem.sentences):
        paths = all_paths(problem, sentence)
        scores = np.array([path_score(problem, weights, sentence, path) for path in paths])
        shares = np.exp(scores - np.logaddexp.reduce(scores))
        offset = int(problem.chains.start[sentence])
        for path, share in zip(paths, shares, strict=True):
            spans = find_spans(np.array(path), tags, np.array([0, len(path)])).named()
            expected += share * len(spans)
            for begin, end, name in spans:
                if (begin + offset, end + offset, name) in truths:
                    right[truths.index((begin + offset, end + offset, name))] += share
    assert len(truths) > 1
    assert float(expected_entities(single, double, gold)) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(span_probabilities(single, double, gold).numpy(), right, rtol=1e-9)
