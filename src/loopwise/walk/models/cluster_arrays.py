"""Documents of mentions as flat arrays for compiled walks.

In: a cluster model, documents, a proposal and a metric. Out: a :class:`~loopwise.walk.corpus.Corpus`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.offsets import starts_of
from loopwise.loss.clustering import BCubed, PairwiseAccuracy, PairwiseF1
from loopwise.potentials.features import Features
from loopwise.walk.corpus import Corpus, joined, packed
from loopwise.walk.kernels import codes as codes
from loopwise.walk.models.cluster_model import ClusterModel, MentionDocument
from loopwise.walk.mover import MentionMover, Mixture, SplitMerge
from loopwise.walk.proposal import Proposal

_SIGNALS: tuple[tuple[type, int], ...] = (
    (PairwiseAccuracy, codes.PAIR_ACCURACY),
    (PairwiseF1, codes.PAIR_F),
    (BCubed, codes.B_CUBED),
)

_NEAR = 1 << 16  # integers of a document that stay in a near cache, a quarter of a megabyte


def cluster_corpus(
    model: ClusterModel, documents: Sequence[MentionDocument], proposal: Proposal, metric: Any
) -> Corpus | None:
    """The corpus, or None where compiled walks do not know the proposal or the metric."""
    code = 0 if metric is None else next((code for kind, code in _SIGNALS if isinstance(metric, kind)), None)
    share = _block_share(proposal)
    if code is None or share is None:
        return None
    from loopwise.walk.kernels.clusters import ClusterArrays

    starts = starts_of([document.mentions for document in documents])
    attributes = [np.asarray(document.attributes) for document in documents if model.setwise]
    records = [_records(document.pairs, document.predicates if model.setwise else None) for document in documents]
    linked = [_records(document.links, None) for document in documents if model.link_features]
    where = starts_of([len(record.integers) for record in [*records, *linked]])
    if where[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"{len(documents)} documents have {where[-1]} numbers; walk over fewer of them at a time")
    rows = [_rows(document) for document in documents]
    links = [_link_rows(document) for document in documents if model.link_features]
    table, offsets = packed(
        {
            "mention_start": starts,
            "pair_start": starts_of([len(row) for row in rows]),
            "link_start": starts_of([len(row) for row in links]),
            "gold": joined([document.truth for document in documents], np.int64),
            "predicate_scale": model.scales,
            "value_start": model.value_start,
        },
        np.int64,
    )
    small, small_offsets = packed(
        {
            "pair_record": joined(_places(rows, records, where), np.int32),
            "link_record": joined(_places(links, linked, where[len(documents) :]), np.int32),
            "records": joined([record.integers for record in [*records, *linked]], np.int32),
            "attribute": joined([np.ravel(part) for part in attributes], np.int32),
        },
        np.int32,
    )
    arrays: Any = ClusterArrays(
        table=table,
        small=small,
        value=_values([*records, *linked]),
        **offsets,
        **small_offsets,
        features=model.pair_features,
        far=int(max(np.diff(where), default=0)) > _NEAR,
        two_sided=model.two_sided,
        links=model.link_features > 0,
        link_base=model.link_base,
        setwise=model.setwise,
        predicates=len(model.scales),
        attributes=len(model.value_start) - 1,
        size_base=model.size_base,
        predicate_base=model.predicate_base,
        value_base=model.value_base,
        distinct_base=model.distinct_base,
        metric=code,
    )
    if share > 0.0:
        arrays = blocks_of(arrays, share)
    largest, kinds = int(np.diff(starts).max(initial=0)), model.value_start[-1]
    world = _world(int(starts[-1]), largest, len(model.scales), kinds, share > 0.0)
    sizes = np.diff(starts)
    pairs = sizes * (sizes - 1) // 2
    return Corpus(arrays, world, world.states, starts, lambda document: int(pairs[document]))


def _block_share(proposal: Proposal) -> float | None:
    """In which share of the steps entities split or merge; None for proposals that compiled walks do not know."""
    if type(proposal) is MentionMover:
        return 0.0
    if type(proposal) is SplitMerge:
        return 1.0
    if not isinstance(proposal, Mixture) or [type(each) for each in proposal.proposals] != [MentionMover, SplitMerge]:
        return None
    single, blocks = proposal.shares or (1.0, 1.0)
    return blocks / (single + blocks) if min(single, blocks) > 0.0 else None


def blocks_of(arrays: Any, share: float) -> Any:
    """The same arrays for walks with blocks."""
    from loopwise.walk.kernels.blocks import BlockArrays

    made: Any = BlockArrays  # its fields are those of another class
    return made(*arrays, share)


def _world(mentions: int, largest: int, predicates: int, kinds: int, blocks: bool) -> Any:
    from loopwise.walk.kernels.clusters import ClusterWorld

    sizes = dict.fromkeys(("following", "active", "free", "gold_size"), largest)
    sizes |= {"count": 2, "pairs": 4, "near": 4, "leaving": predicates, "joining": predicates}
    sizes |= {"block": 1 + 4 * largest if blocks else 1}
    entity = starts_of([1, 1, 1, 1, predicates, kinds]).tolist()
    lists, offsets = packed(
        {name: np.zeros(size) for name, size in (sizes | {"row": largest * entity[-1]}).items()}, np.int64
    )
    first = offsets.pop("row")
    names = ("first", "size", "place", "purity", "totals", "values")
    offsets |= {name: first + place for name, place in zip(names, entity, strict=False)} | {"row": entity[-1]}
    states = np.zeros(mentions, dtype=np.int64)
    return ClusterWorld(states=states, lists=lists, sums=np.zeros(2), **offsets, predicates=predicates, kinds=kinds)


def _rows(document: MentionDocument) -> Any:
    assert document.pair_row is not None
    return document.pair_row


def _link_rows(document: MentionDocument) -> Any:
    assert document.link_row is not None
    return document.link_row


class _Records(NamedTuple):
    """What stands together of each row: how many features, which, and predicates."""

    integers: NDArray[np.int32]
    values: NDArray[np.float64] | None  # of the features, at their places
    starts: NDArray[np.int64]  # where each row's record begins


def _records(features: Features | None, predicates: NDArray[np.int32] | None) -> _Records:
    assert features is not None
    counts = np.diff(features.start)
    more = 0 if predicates is None else predicates.shape[1]
    starts = starts_of(counts + (1 + more))
    integers = np.zeros(int(starts[-1]), dtype=np.int32)
    integers[starts[:-1]] = counts
    places = np.arange(len(features.index)) + np.repeat(starts[:-1] + 1 - features.start[:-1], counts)
    integers[places] = features.index
    if predicates is not None and more:
        integers[(starts[1:] - more)[:, None] + np.arange(more)] = predicates
    values = None
    if features.value is not None:
        values = np.ones(len(integers))
        values[places] = features.value
    return _Records(integers, values, starts[:-1])


def _places(rows: Sequence[Any], records: Sequence[_Records], where: NDArray[np.int64]) -> list[Any]:
    """Where the record of each row begins."""
    return [record.starts[row] + start for row, record, start in zip(rows, records, where.tolist(), strict=False)]


def _values(records: Sequence[_Records]) -> Any:
    if all(record.values is None for record in records):
        return np.zeros(0)
    pieces = [np.ones(len(record.integers)) if record.values is None else record.values for record in records]
    return joined(pieces, np.float64)
