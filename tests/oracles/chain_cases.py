"""A small text as a problem of chains, and its paths, scores and gradients by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwise.apps.chain import (
    ChainLearner,
    Tagger,
    Viterbi,
)
from loopwise.apps.chain.features.text import Text
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.history import History
from loopwise.learn.trainer import train
from oracles.tagger_text import names

TEMPLATES = "w[0] is_title[0] lower[-1]|lower[0] bias"


def make_problem(count: int = 4, steps: str = "", seed: int = 0, threads: int = 1) -> ChainProblem:
    """Without rules of tags: these are tested by themselves (test_partial.py)."""
    words, tags = names(count, seed)
    return Tagger(TEMPLATES, steps, threads=threads, decoder=Viterbi(valid=False)).problem(Text.of(words), tags)


def random_weights(problem: ChainProblem, seed: int = 1, scale: float = 0.5) -> ChainWeights:
    start = problem.start()
    return start.like(np.random.default_rng(seed).normal(0, scale, start.vector.shape))


def path_score(problem: ChainProblem, weights: ChainWeights, sentence: int, path: tuple[int, ...]) -> float:
    """The score of one labelling, feature by feature."""
    begin, total = problem.chains.start[sentence], 0.0
    unary, steps = problem.unary.flat, problem.step_features()
    for place, tag in enumerate(path):
        token = begin + place
        total += weights.unary[unary.index[unary.start[token] : unary.start[token + 1]], tag].sum()
        if place:
            cell = path[place - 1] * problem.states + tag
            total += weights.pair[steps.index[steps.start[token] : steps.start[token + 1]], cell].sum()
    return float(total)


def all_paths(problem: ChainProblem, sentence: int) -> list[tuple[int, ...]]:
    length = int(np.diff(problem.chains.start)[sentence])
    return list(product(range(problem.states), repeat=length))


def gold_path(problem: ChainProblem, sentence: int) -> tuple[int, ...]:
    return tuple(problem.gold[problem.chains.start[sentence] : problem.chains.start[sentence + 1]].tolist())


def check_gradient(objective, weights: ChainWeights, gradient: np.ndarray, tolerance: float = 1e-5) -> None:
    rng = np.random.default_rng(2)
    places = set(rng.choice(len(gradient), 12, replace=False)) | set(np.argsort(-np.abs(gradient))[:12])
    for place in places:
        values = []
        for sign in (1, -1):
            moved = weights.vector.copy()
            moved[place] += sign * 1e-5
            values.append(objective(weights.like(moved))[0])
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, rel=tolerance, abs=1e-6)


def learnt(learner: ChainLearner, problem: ChainProblem, seed: int = 0) -> tuple[ChainWeights, History]:
    """What a learner finds from zero."""
    start = problem.start()
    objective = learner.objective(problem, start, seed)
    history = train(objective, learner.limits)
    return start.like(objective.answer), history
