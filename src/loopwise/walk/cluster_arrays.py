"""Documents of mentions as flat arrays for compiled walks.

In: a cluster model, documents, a proposal and a metric. Out: a :class:`~loopwise.walk.corpus.Corpus`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.kernels import walk_codes as codes
from loopwise.loss.clustering import BCubed, PairwiseAccuracy, PairwiseF1
from loopwise.walk.cluster_model import ClusterModel, MentionDocument
from loopwise.walk.corpus import Corpus, joined, packed, starts_of
from loopwise.walk.mover import MentionMover
from loopwise.walk.proposal import Proposal

_SIGNALS: tuple[tuple[type, int], ...] = (
    (PairwiseAccuracy, codes.PAIR_ACCURACY),
    (PairwiseF1, codes.PAIR_F),
    (BCubed, codes.B_CUBED),
)


def cluster_corpus(
    model: ClusterModel, documents: Sequence[MentionDocument], proposal: Proposal, metric: Any
) -> Corpus | None:
    """The corpus, or None where compiled walks do not know the proposal or the metric."""
    code = 0 if metric is None else next((code for kind, code in _SIGNALS if isinstance(metric, kind)), None)
    if code is None or not isinstance(proposal, MentionMover):
        return None
    from loopwise.kernels.walk_clusters import ClusterArrays

    rows = starts_of([document.pairs.rows for document in documents])
    starts = starts_of([document.mentions for document in documents])
    predicates = [np.asarray(document.predicates) for document in documents if model.setwise]
    attributes = [np.asarray(document.attributes) for document in documents if model.setwise]
    table, offsets = packed(
        {
            "mention_start": starts,
            "pair_start": starts_of([len(_rows(document)) for document in documents]),
            "row_start": starts_of(joined([np.diff(document.pairs.start) for document in documents], np.int64)),
            "gold": joined([document.truth for document in documents], np.int64),
            "predicate_scale": model.scales,
            "value_start": model.value_start,
        },
        np.int64,
    )
    small, small_offsets = packed(
        {
            "pair_row": joined([_rows(document) + rows[place] for place, document in enumerate(documents)], np.int32),
            "index": joined([document.pairs.index for document in documents], np.int32),
            "predicate": joined([np.ravel(part) for part in predicates], np.int32),
            "attribute": joined([np.ravel(part) for part in attributes], np.int32),
        },
        np.int32,
    )
    arrays = ClusterArrays(
        table=table,
        small=small,
        value=_values(documents),
        **offsets,
        **small_offsets,
        features=model.pair_features,
        two_sided=model.two_sided,
        setwise=model.setwise,
        predicates=len(model.scales),
        attributes=len(model.value_start) - 1,
        size_base=model.size_base,
        predicate_base=model.predicate_base,
        value_base=model.value_base,
        distinct_base=model.distinct_base,
        metric=code,
    )
    world = _world(int(starts[-1]), int(np.diff(starts).max(initial=0)), len(model.scales), model.value_start[-1])
    sizes = np.diff(starts)
    pairs = sizes * (sizes - 1) // 2
    return Corpus(arrays, world, world.states, starts, lambda document: int(pairs[document]))


def _world(mentions: int, largest: int, predicates: int, kinds: int) -> Any:
    from loopwise.kernels.walk_clusters import ClusterWorld

    names = ("following", "first", "size", "active", "place", "free", "gold_size", "purity")
    sizes = dict.fromkeys(names, largest)
    sizes |= {"count": 2, "pairs": 4, "near": 4, "leaving": predicates, "joining": predicates}
    sizes |= {"totals": largest * predicates, "values": largest * kinds}
    lists, offsets = packed({name: np.zeros(size) for name, size in sizes.items()}, np.int64)
    states = np.zeros(mentions, dtype=np.int64)
    return ClusterWorld(states=states, lists=lists, sums=np.zeros(2), **offsets, predicates=predicates, kinds=kinds)


def _rows(document: MentionDocument) -> Any:
    assert document.pair_row is not None
    return document.pair_row


def _values(documents: Sequence[MentionDocument]) -> Any:
    if all(document.pairs.value is None for document in documents):
        return np.zeros(0)
    pieces = [
        np.ones(len(document.pairs.index)) if document.pairs.value is None else document.pairs.value
        for document in documents
    ]
    return joined(pieces, np.float64)
