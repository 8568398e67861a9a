"""Sentences as tasks: forced arcs, no tree, beliefs that sum to one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loopwise.apps.parser.objectives import CLL, AnnealedRisk, SquaredDistance
from loopwise.apps.parser.options import TreeInference
from oracles.parser_beliefs import (
    GRANDPARENTS,
    PROJECTIVE,
    SIBLINGS,
    SINGLE_ROOT,
)
from oracles.parser_tasks import Case

PAIRS = GRANDPARENTS | SIBLINGS


HALF = AnnealedRisk(0.5, 0.5, math.inf)


KINDS = [PROJECTIVE | SINGLE_ROOT, PROJECTIVE, SINGLE_ROOT, 0]


@pytest.mark.parametrize("structure", KINDS)
def test_beliefs_of_each_word_sum_to_one(structure: int) -> None:
    case = Case(4, structure | PAIRS, seed=3)
    for iterations in range(1, 6):
        sums = np.bincount(case.mods, case.beliefs(TreeInference(iterations)))
        np.testing.assert_allclose(sums[1:], 1.0, atol=1e-12)


def test_forced_arcs_and_extreme_scores_stay_finite() -> None:
    """A word with one head left is certain: its log-odds are capped, and nothing flows through them."""
    case = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=1, pruned=0.9, scale=40.0)
    for objective in (SquaredDistance(), HALF, CLL()):
        loss, of_unary, of_scores = case.step(objective, TreeInference(4))
        assert np.isfinite(loss) and np.isfinite(of_unary).all() and np.isfinite(of_scores).all()
    np.testing.assert_allclose(np.bincount(case.mods, case.beliefs(TreeInference(4)))[1:], 1.0, atol=1e-12)


def test_arcs_without_a_tree_are_said_to_be() -> None:
    """Also by perturbation, which tells them from runs that have not settled."""
    case = Case(3, PROJECTIVE | SINGLE_ROOT, seed=0)
    case.heads, case.mods = np.array([2, 1, 1], np.int32), np.array([1, 2, 3], np.int32)
    case.unary, case.gold = np.zeros(3), np.zeros(3, np.int64)
    assert np.isnan(case.step(SquaredDistance(), TreeInference(1))[0])
    assert np.isnan(case.step(SquaredDistance(), TreeInference(3, perturbed=True))[0])
    assert case.propagate(1).possible.tolist() == [True, False, True]
