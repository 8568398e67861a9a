"""Small walks for tests: documents, models, and the matrix of engines."""

from __future__ import annotations

from typing import Any

import numpy as np

import loopwise as lw
from loopwise import walk
from loopwise.potentials import Features


def chain_documents(
    lengths: tuple[int, ...] = (1, 3, 6), states: int = 3, pair_features: int = 2, seed: int = 0
) -> list[walk.GraphDocument]:
    """Sequences with random features on tokens and on pairs of tokens, some of them with values."""
    generator = np.random.default_rng(seed)
    documents = []
    for length in lengths:
        unary = Features.of_table(generator.integers(0, 12, (length, 3)))
        pair = Features.of(
            np.arange(length) * 2,
            generator.integers(0, pair_features, 2 * (length - 1)),
            generator.normal(size=2 * (length - 1)).round(2),
        )
        tags = generator.integers(0, states, length)
        documents.append(walk.GraphDocument.of_chain(states, tags, unary, pair if length > 1 else None))
    return documents


def chain_model(states: int = 3, pair_features: int = 2) -> walk.GraphModel:
    groups = {
        "unary": lw.potentials.SparseGroup((states,), 12),
        "pair": lw.potentials.SparseGroup((states, states), pair_features),
    }
    return walk.GraphModel(lw.SparsePotentials(groups))


def mixed_graph() -> lw.FactorGraph:
    """Mixed cardinalities, a factor of three variables, a constant, two factors over one scope."""
    return lw.FactorGraph.from_scopes([2, 3, 2, 2], [(), (0,), (1,), (0, 1), (1, 2), (2, 3), (3, 0), (0, 1, 3), (2, 3)])


def mention_document(
    mentions: int, seed: int = 0, *, setwise: bool = False, values: bool = False, links: bool = False
) -> walk.MentionDocument:
    """Random features of pairs; links, predicates (one a similarity from 0 to 5) and attributes where wanted."""
    generator = np.random.default_rng([mentions, seed])
    pairs = mentions * (mentions - 1) // 2
    features, row = walk.shared_rows(generator.random((pairs, 6)) < 0.4)
    if values:
        features = Features.of(features.start, features.index, generator.normal(size=len(features.index)).round(2))
    extra = {}
    if setwise:
        predicates = np.stack(
            [generator.integers(0, 2, features.rows), generator.integers(0, 6, features.rows)], axis=1
        )
        extra = {"predicates": predicates, "attributes": generator.integers(-1, 3, (mentions, 2))}
    truth = generator.integers(0, max(1, mentions // 2), mentions)
    if links:
        linked, link_row = walk.shared_rows(generator.random((pairs + mentions, 4)) < 0.4)
        extra |= {"links": linked, "link_row": link_row}
    return walk.MentionDocument(truth, features, row, **extra)


def cluster_model(*, setwise: bool = False, two_sided: bool = False, links: bool = False) -> walk.ClusterModel:
    shared = {"two_sided": two_sided, "link_features": 4 if links else 0}
    if not setwise:
        return walk.ClusterModel(6, **shared)
    return walk.ClusterModel(6, **shared, setwise=True, predicate_scales=(1, 5), attribute_values=(3, 3))


def separable() -> tuple[walk.GraphModel, list[walk.GraphDocument]]:
    """Tags that a linear model of the features gives, with some room."""
    documents = []
    generator = np.random.default_rng(0)
    for _ in range(6):
        words = generator.integers(0, 9, 5)
        unary = lw.potentials.Features.of_table(words[:, None])
        documents.append(walk.GraphDocument.of_chain(3, words // 3, unary))
    return chain_model(pair_features=1), documents


def random_pairs(count: int, size: int, seed: int = 0) -> list[walk.Pair]:
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        keys = generator.choice(size, 4, replace=False)
        pairs.append(
            walk.Pair(
                dict(zip(keys.tolist(), generator.normal(size=4).tolist(), strict=True)), float(generator.normal())
            )
        )
    return pairs


def learner_of(
    model: walk.Model, proposal: walk.Proposal, metric: Any, scale: float = 1.0, **options: Any
) -> walk.SampleRank:
    learner = walk.SampleRank(model, proposal, metric=metric, **options)
    learner.set_weights(scale * np.random.default_rng(2).normal(size=model.size))
    return learner
