"""Small texts with links, and everything about their tags by enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import loopwise as lw
from loopwise.apps.chain import ChainLikelihood, Documents, Skip, Tagger, Viterbi
from loopwise.apps.chain.features.text import Text
from loopwise.learn.chain.problem import ChainWeights
from loopwise.learn.chain.skip import SkipChain

TEMPLATES = "w[0] is_title[0] bias"
WORDS = [["Ann", "saw", "Rome"], ["Rome", "fell"], ["dogs", "ran"], ["Bob", "and", "Bob"]]
TAGS = [["PER", "O", "LOC"], ["LOC", "O"], ["O", "O"], ["PER", "O", "PER"]]
DOCUMENTS = Documents([WORDS[:2], WORDS[2:]])  # one link between sentences, one within a sentence

SKIP = "w[0]|is_title[0]"
EXACT = Skip(SKIP, inference=lw.Exact())


def fitted(skip: Any = EXACT, **options: Any) -> Tagger:
    """A tagger of the small text."""
    tagger = Tagger(TEMPLATES, skip=skip, **{"learner": ChainLikelihood(l2=0.1), **options})
    return tagger.fit(DOCUMENTS, Documents([TAGS[:2], TAGS[2:]]), progress=False)


def skip_problem(skip: Skip, tags: list | None = None, steps: str = "") -> SkipChain:
    """The problem of the small text."""
    tagger = Tagger(TEMPLATES, steps, decoder=Viterbi(valid=False), threads=1, skip=skip)
    problem = tagger.problem(Text.of(DOCUMENTS), TAGS if tags is None else tags)
    assert isinstance(problem, SkipChain)
    return problem


def assignments(problem: SkipChain, weights: ChainWeights) -> tuple[np.ndarray, np.ndarray]:
    """All tags of the whole text ``[assignments, tokens]``, and their scores, factor by factor."""
    (unary, pair), link = problem.scores(weights), problem.link_scores(weights)
    tags = np.array(list(product(range(problem.states), repeat=problem.tokens)))
    scores = unary[np.arange(problem.tokens), tags].sum(axis=1)
    for token in np.flatnonzero(problem.chains.follows):
        table = pair[0 if len(pair) == 1 else token]
        scores = scores + table[tags[:, token - 1], tags[:, token]]
    for (one, two), kind in zip(problem.links.place, problem.links.kind, strict=True):
        scores = scores + link[kind][tags[:, one], tags[:, two]]
    return tags, scores


def enumerated_marginals(problem: SkipChain, weights: ChainWeights, allowed: np.ndarray | None = None) -> np.ndarray:
    """The probability of each tag, ``[tokens, K]``."""
    tags, scores = assignments(problem, weights)
    share = np.exp(scores - scores.max())
    if allowed is not None:
        share = share * allowed[np.arange(problem.tokens), tags].all(axis=1)
    share = share / share.sum()
    found = np.zeros((problem.tokens, problem.states))
    for token in range(problem.tokens):
        np.add.at(found[token], tags[:, token], share)
    return found


def log_sum(scores: np.ndarray) -> float:
    return float(scores.max() + np.log(np.exp(scores - scores.max()).sum()))
