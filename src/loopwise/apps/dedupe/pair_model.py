r"""The probability that two records are the same, from their similarities.

In: similarities of pairs, labels of some. Out: :class:`PairModel`. Stage: use.

Without labels it is the model of Fellegi and Sunter (1969): the similarities of each column fall into levels, whose
probabilities among matches and others (independent given which) are found by EM. With labels a logistic regression
starts from there, and goes away from it as far as labels say so:

.. math:: \operatorname{logit} p = a\,s_{\mathrm{EM}} + w\cdot x + b,\quad
   \min \sum_i c_i\,\ell_i + \tfrac{\lambda}{2}\lVert w\rVert^2 + \tfrac{\mu}{2}(a-\tfrac12)^2 ,

where x are the similarities on a piecewise linear scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from loopwise.apps.dedupe.compare import Comparer, Similarities
from loopwise.apps.dedupe.kernels.piecewise import piecewise_scores

Floats = NDArray[np.float64]

LEVELS = np.array([0.3, 0.5, 0.65, 0.8, 0.9, 0.97])  # between the levels of EM
KNOTS = np.array([0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0])  # of the piecewise linear scale
EQUAL = 0.9999
PER_COMPARISON = len(KNOTS) - 1 + 2  # ... and whether equal, and missing
CLIP = 12.0  # logits beyond are as sure as any
TRUST = 0.5  # what the score of EM counts before there are labels
_ITERATIONS = 60
_MOST_MATCHES, _MOST_DRAWN = 0.9, 0.2  # shares of matches that EM may find among candidates, and among random pairs
_PRIOR = 4.0  # mu over lambda: how firmly the score of EM is believed
_BIAS = 0.1  # the same for its bias
_MOST_PRIOR, _MOST_BIAS = 40.0, 0.5  # ... and most: these are two numbers, which few labels can tell


@dataclass(frozen=True, eq=False)
class SimilarityLevels:
    """Logarithms of Bayes factors ``[columns, levels]`` of the model of EM, and the logit of its share of matches."""

    factors: Floats
    prior: float

    def score(self, summary: Similarities) -> Floats:
        """The logit of the probability of a match; missing values say nothing."""
        found: Floats = np.clip(self.prior + self.parts(summary).sum(axis=1), -3 * CLIP, 3 * CLIP)
        return found

    def parts(self, summary: Similarities) -> Floats:
        """What each column adds to the score, ``[pairs, columns]``."""
        level = levels_of(summary)
        rows = self.factors[np.arange(summary.shape[1])[None, :], np.maximum(level, 0)]
        return np.where(level >= 0, rows, 0.0)


def levels_of(summary: Similarities) -> NDArray[np.int64]:
    """The level of each similarity, -1 where missing."""
    level = np.searchsorted(LEVELS, np.nan_to_num(summary), side="right")
    found: NDArray[np.int64] = np.where(np.isnan(summary), -1, level)
    return found


def estimate_levels(summary: Similarities, random: Similarities) -> SimilarityLevels:
    """EM from a first guess by rule: pairs whose mean similarity is high, among the candidates.

    ``random``: similarities of pairs drawn at random, few of which are matches; they say how often others agree by
    chance. How many of them match is found along with the rest, for a few large entities make it as much as one in ten,
    and what these agree in would else be taken for chance.
    """
    level, chance = levels_of(summary), levels_of(random)
    count = len(LEVELS) + 1
    limit = _first_limit(summary)
    match, drawn = expit(20.0 * (_mean(summary) - limit)), expit(20.0 * (_mean(random) - limit))
    found = SimilarityLevels(np.zeros((level.shape[1], count)), 0.0)
    for _ in range(_ITERATIONS):
        matches = _table(np.concatenate([level, chance]), np.concatenate([match, drawn]), count)
        others = _table(np.concatenate([chance, level]), 1.0 - np.concatenate([drawn, match]), count)
        found = SimilarityLevels(_rising(np.log(matches) - np.log(others)), _log_odds(match, _MOST_MATCHES))
        new = expit(found.score(summary))
        drawn = expit(found.score(random) - found.prior + _log_odds(drawn, _MOST_DRAWN))
        if len(new) == 0 or np.abs(new - match).max() < 1e-4:
            break
        match = new
    return SimilarityLevels(found.factors, _log_odds(match, _MOST_MATCHES))


def _mean(summary: Similarities) -> Floats:
    """The mean similarity of each pair's columns that are known."""
    known = ~np.isnan(summary)
    mean: Floats = np.where(known, np.nan_to_num(summary), 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean


def _first_limit(summary: Similarities) -> float:
    """The mean similarity above which a candidate is first guessed to match."""
    mean = _mean(summary)
    return max(float(np.quantile(mean, [0.5, 0.99]).mean()) if len(mean) else 0.5, 0.6)


def _log_odds(match: Floats, most: float) -> float:
    """The logit of the share of matches."""
    share = float(np.clip(match.mean(), 1e-4, most)) if len(match) else 0.5
    return float(np.log(share / (1 - share)))


def _table(level: NDArray[np.int64], weight: Floats, count: int) -> Floats:
    """How often each level occurs in each column, by weight; with one observation spread over the levels."""
    table = np.full((level.shape[1], count), 1.0 / count)
    for column in range(level.shape[1]):
        known = level[:, column] >= 0
        table[column] += np.bincount(level[known, column], weights=weight[known], minlength=count)
    shares: Floats = table / table.sum(axis=1, keepdims=True)
    return shares


def _rising(factors: Floats) -> Floats:
    """More alike is never worse: each column made to rise (pool adjacent violators)."""
    out = factors.copy()
    for row in out:
        values: list[list[float]] = []
        for value in row:
            values.append([float(value), 1.0])
            while len(values) > 1 and values[-2][0] > values[-1][0]:
                last, before = values.pop(), values[-1]
                total = before[1] + last[1]
                values[-1] = [(before[0] * before[1] + last[0] * last[1]) / total, total]
        row[:] = np.repeat([value for value, _ in values], [int(size) for _, size in values])
    return np.clip(out, -8.0, 8.0)


def scales(found: Similarities) -> NDArray[np.float32]:
    """Similarities on a piecewise linear scale: how far each stretch between two knots is gone, equal, missing."""
    missing = np.isnan(found)
    plain = np.where(missing, 0.0, found)[:, :, None]
    parts = np.empty((*found.shape, PER_COMPARISON), dtype=np.float32)
    parts[:, :, :-2] = np.clip((plain - KNOTS[:-1]) / np.diff(KNOTS), 0.0, 1.0)
    parts[:, :, -2] = plain[:, :, 0] >= EQUAL
    parts[:, :, -1] = missing
    return parts.reshape(len(found), -1)


@dataclass(frozen=True, eq=False)
class PairModel:
    """Scores pairs. ``weights``: bias, weight of the score of EM, one a similarity and stretch of its scale."""

    levels: SimilarityLevels
    weights: Floats

    @staticmethod
    def unlabelled(levels: SimilarityLevels, comparisons: int) -> PairModel:
        """What EM says, alone, and less surely: columns are not as independent as it takes them to be."""
        weights = np.zeros(2 + comparisons * PER_COMPARISON)
        weights[0], weights[1] = 0.5 * levels.prior, TRUST
        return PairModel(levels, weights)

    @staticmethod
    def mean(models: Sequence[PairModel], shares: Sequence[float]) -> PairModel:
        """The model whose logits are the mean of theirs, by ``shares``; all have the levels of the first."""
        return PairModel(models[0].levels, np.average([each.weights for each in models], axis=0, weights=shares))

    def logit(self, comparer: Comparer, found: Similarities) -> Floats:
        """Logits of pairs, from -CLIP to CLIP."""
        score = self.levels.score(comparer.summary(found))
        own = self.weights[0] + self.weights[1] * score
        table = np.ascontiguousarray(self.weights[2:].reshape(-1, PER_COMPARISON))
        piecewise_scores(found, KNOTS, EQUAL, table, own)
        return np.asarray(np.clip(own, -CLIP, CLIP), dtype=np.float64)

    def fitted(
        self, comparer: Comparer, found: Similarities, match: Floats, importance: Floats, strength: float
    ) -> PairModel:
        """The logistic regression of labelled pairs, which stays near this model."""
        score = self.levels.score(comparer.summary(found))
        table = np.concatenate([np.ones((len(found), 1)), score[:, None], scales(found)], axis=1, dtype=np.float32)
        pull = np.full(table.shape[1], strength)
        pull[0], pull[1] = min(_BIAS * strength, _MOST_BIAS), min(_PRIOR * strength, _MOST_PRIOR)
        centre = self.weights

        def objective(weights: Floats) -> tuple[float, Floats]:
            margin = (table @ weights.astype(np.float32)).astype(np.float64)
            loss = importance @ (np.logaddexp(0.0, margin) - match * margin)
            away = weights - centre
            slope = table.T @ (importance * (expit(margin) - match)).astype(np.float32) + pull * away
            return float(loss + 0.5 * pull @ (away * away)), slope

        best = minimize(objective, centre, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        return PairModel(self.levels, best.x)
