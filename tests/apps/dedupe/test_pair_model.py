"""The model of pairs: EM, factors that rise, labels."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import Resolution
from loopwise.apps.dedupe.pair_model import (
    LEVELS,
    PairModel,
    SimilarityLevels,
    _rising,
    estimate_levels,
)
from oracles.dedupe_cases import TEST_IDS

# ---------------------------------------------------------------------------------------------------- the models


def test_em_finds_the_two_kinds_of_pairs() -> None:
    random = np.random.default_rng(0)
    match = random.random(4000) < 0.1
    summary = np.where(match[:, None], random.beta(9, 1, (4000, 3)), random.beta(1.5, 4, (4000, 3))).astype(np.float32)
    summary[random.random((4000, 3)) < 0.1] = np.nan
    levels = estimate_levels(summary, summary[~match][:1000])
    assert ((levels.score(summary) > 0) == match).mean() > 0.97
    assert (np.diff(levels.factors, axis=1) >= -1e-12).all()
    assert abs(1 / (1 + np.exp(-levels.prior)) - 0.1) < 0.02


def test_matches_among_random_pairs_are_not_taken_for_chance() -> None:
    """A few large entities: one random pair in ten matches, and what these agree in is still evidence."""
    random = np.random.default_rng(1)

    def pairs(count: int, share: float) -> tuple[np.ndarray, np.ndarray]:
        match = random.random(count) < share
        alike = np.where(match[:, None], random.beta(9, 1, (count, 3)), random.beta(1.5, 4, (count, 3)))
        return alike.astype(np.float32), match

    summary, _ = pairs(6000, 0.5)
    clean, _ = pairs(6000, 0.0)
    mixed, drawn = pairs(6000, 0.1)
    best, found = estimate_levels(summary, clean), estimate_levels(summary, mixed)
    np.testing.assert_allclose(found.factors[:, 1:5], best.factors[:, 1:5], atol=0.75)
    assert found.factors[:, -1].min() > 4.0, "one in ten taken for chance would leave log(1 / .1) = 2.3"
    assert ((found.score(mixed) > 0) == drawn).mean() > 0.98


def test_factors_rise_as_isotonic_regression_has_them() -> None:
    assert _rising(np.array([[1.0, 3.0, 2.0, 0.0, 5.0]]))[0].tolist() == pytest.approx([1.0, 5 / 3, 5 / 3, 5 / 3, 5.0])


def test_labels_pull_the_pair_model_away_from_em(found: Resolution) -> None:
    comparer = found.table.comparer
    base = PairModel.unlabelled(
        SimilarityLevels(np.zeros((len(comparer.columns), len(LEVELS) + 1)), 0.0), len(comparer.names)
    )
    pairs = np.stack([found.table.one, found.table.other], axis=1)
    match = (TEST_IDS[pairs[:, 0]] == TEST_IDS[pairs[:, 1]]).astype(float)
    similar = comparer.compute(pairs[:, 0], pairs[:, 1])
    firm = base.fitted(comparer, similar, match, np.ones(len(match)), 1e6)
    loose = base.fitted(comparer, similar, match, np.ones(len(match)), 1.0)
    assert np.abs(firm.weights[1:] - base.weights[1:]).max() < 0.01
    assert ((loose.logit(comparer, similar) > 0) == (match > 0)).mean() > 0.99


def test_the_mean_of_models_has_the_mean_of_their_logits(found: Resolution) -> None:
    comparer, columns = found.table.comparer, len(found.table.comparer.columns)
    levels = SimilarityLevels(np.zeros((columns, len(LEVELS) + 1)), 0.0)
    size = len(PairModel.unlabelled(levels, len(comparer.names)).weights)
    weights = np.random.default_rng(0).normal(0, 0.01, (2, size))
    models = [PairModel(levels, each) for each in weights]
    similar = comparer.compute(found.table.one, found.table.other)
    one, other = (model.logit(comparer, similar) for model in models)
    assert np.ptp(one) > 0.01 and not np.allclose(one, other)
    assert np.allclose(PairModel.mean(models, [3, 1]).logit(comparer, similar), (3 * one + other) / 4, atol=1e-6)
