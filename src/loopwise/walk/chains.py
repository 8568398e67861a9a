"""Chains as walks see them: a document for each, a model of the same weights.

In: a :class:`~loopwise.learn.chain.problem.ChainProblem`. Out: documents and a model for the learners of walks. Stage:
walking. Only the answer needs exact decoding.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from loopwise.graph.builders import chain
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.walk.models.graph_model import GraphDocument, GraphModel


def chain_model(weights: ChainWeights) -> GraphModel:
    """A model whose weights lie as ``weights`` have them."""
    states = weights.states
    groups = {
        "unary": SparseGroup((states,), max(len(weights.unary), 1)),
        "pair": SparseGroup((states, states), len(weights.pair)),
    }
    return GraphModel(SparsePotentials(groups))


def chain_documents(problem: ChainProblem) -> list[GraphDocument]:
    """The sentences as documents of a walk; those without words are left out."""
    problem.refuse_unknown("a walk")
    graph = lru_cache(maxsize=None)(lambda length: chain(length, problem.states))  # equal sentences share one
    unary, steps = problem.unary.flat, None if problem.steps is None else problem.steps.flat
    documents = []
    bounds = problem.chains.start.tolist()
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        features = {"unary": _rows(unary, begin, end)}
        if steps is not None:
            features["pair"] = _rows(steps, begin + 1, end)
        documents.append(GraphDocument(graph(end - begin), problem.gold[begin:end], features))
    return documents


def _rows(features: Features, begin: int, end: int) -> Features:
    start = features.start[begin : end + 1]
    return Features(start - start[0], features.index[start[0] : start[-1]])
