"""Clusterings as models of walks: features of pairs of mentions and of whole entities.

In: documents of mentions. Out: worlds, features. Stage: walking. Weights are numbered: pairs in one entity, pairs apart
(two-sided models), links, then size, predicates, attribute values and distinct values of entities.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.graph.offsets import starts_of
from loopwise.potentials.features import Features
from loopwise.walk.clustering import Clustering
from loopwise.walk.kernels import codes as codes
from loopwise.walk.models.model import Factor, Model
from loopwise.walk.randomness import Stream
from loopwise.walk.world import Move, Start, World

if TYPE_CHECKING:
    from loopwise.walk.corpus import Corpus
    from loopwise.walk.proposal import Proposal

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MentionDocument:
    """Mentions with their true entities, and what is known of their pairs.

    ``truth``: the true entity of each mention, any numbers ``[mentions]``. ``pairs``: features in compressed rows;
    ``pair_row[p]`` is the row of pair p, so that pairs with the same features share one (by default row p). Pair
    (i, j), i < j, is number ``i (2 M - i - 1) / 2 + j - i - 1``, as ``np.triu_indices(M, 1)`` lists them.
    ``predicates`` ``[rows, predicates]``: whole numbers to be summed over the pairs of an entity, 0 or 1 for a truth
    value, 0 to the predicate's scale for a similarity. ``attributes`` ``[mentions, attributes]``: values of each
    mention, -1 where unknown. ``links``: features of a member with the one before it in its entity, and of an entity's
    first member; ``link_row`` ``[pairs + mentions]`` names the row of each pair, then of each mention as the first.
    """

    truth: Integers
    pairs: Features
    pair_row: NDArray[np.int32] | None = None
    predicates: NDArray[np.int32] | None = None
    attributes: NDArray[np.int32] | None = None
    links: Features | None = None
    link_row: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        truth = np.asarray(self.truth)
        if truth.ndim != 1 or (truth.size and not np.issubdtype(truth.dtype, np.integer)):
            raise ValueError(f"the truth must be one integer a mention, not of shape {truth.shape} and {truth.dtype}")
        _, numbered = np.unique(truth, return_inverse=True)
        object.__setattr__(self, "truth", numbered.astype(np.int64))
        count = len(truth) * (len(truth) - 1) // 2
        everyone = np.arange(count, dtype=np.int32)
        self._rows("pair_row", everyone if self.pair_row is None else self.pair_row, count, self.pairs.rows)
        if self.links is None:
            if self.link_row is not None:
                raise ValueError("link_row names rows of links, and there are none; give links too")
        else:
            linked = np.arange(count + len(truth), dtype=np.int32)
            self._rows("link_row", linked if self.link_row is None else self.link_row, len(linked), self.links.rows)
        self._shape("predicates", self.pairs.rows, "row of features")
        self._shape("attributes", len(truth), "mention")

    def _rows(self, name: str, given: ArrayLike, count: int, rows: int) -> None:
        row = np.asarray(given, dtype=np.int32)
        if row.shape != (count,):
            what = "pairs" if name == "pair_row" else "pairs and mentions"
            raise ValueError(f"{self.mentions} mentions have {count} {what}; {name} has shape {row.shape}")
        if count and not (row.min() >= 0 and row.max() < rows):
            raise ValueError(f"{name} names rows {row.min()} to {row.max()}; there are {rows} rows of features")
        object.__setattr__(self, name, row)

    def _shape(self, name: str, rows: int, what: str) -> None:
        given = getattr(self, name)
        table = np.zeros((rows, 0), dtype=np.int32) if given is None else np.ascontiguousarray(given, dtype=np.int32)
        if table.ndim != 2 or len(table) != rows:
            raise ValueError(f"{name} must have one row for each of {rows} {what}s, but have shape {table.shape}")
        object.__setattr__(self, name, table)

    @property
    def mentions(self) -> int:
        return len(self.truth)

    def pair(self, one: int, other: int) -> int:
        """The row of the features of a pair."""
        assert self.pair_row is not None
        return int(self.pair_row[self._number(min(one, other), max(one, other))])

    def link(self, before: int | None, mention: int) -> int:
        """The row of the features of a mention's link with the one before, None: it is the first of its entity."""
        assert self.link_row is not None
        pairs = self.mentions * (self.mentions - 1) // 2
        return int(self.link_row[pairs + mention if before is None else self._number(before, mention)])

    def _number(self, low: int, high: int) -> int:
        return low * (2 * self.mentions - low - 1) // 2 + high - low - 1


class MentionClustering(Clustering):
    """A clustering of a document's mentions."""

    def __init__(self, entities: Sequence[int], document: MentionDocument, lists: _Lists) -> None:
        super().__init__(entities)
        self.document, self.lists = document, lists

    def copy(self) -> MentionClustering:
        other = super().copy()
        mine = MentionClustering((), self.document, self.lists)
        mine.__dict__.update({**other.__dict__, "document": self.document, "lists": self.lists})
        return mine


class ClusterModel(Model):
    """Pairs of mentions and whole entities.

    ``pair_features`` weights for pairs in one entity; with ``two_sided`` as many again for pairs apart.
    ``link_features`` for the link of each member with the one before it in its entity (or with none). ``setwise``:
    features of entities: their size in bins, of each of the predicates (with ``predicate_scales``, 1 for truth values)
    whether it holds of all, some, most, no pairs and whether its mean exceeds .1, .25, .5, .75, .9; of each value of
    each attribute (``attribute_values`` says how many) how many members have it, in bins, and whether all have; of each
    attribute whether two members differ.

    >>> ClusterModel(20).size, ClusterModel(20, predicate_scales=(1, 1), attribute_values=(3,), setwise=True).size
    (20, 64)
    """

    def __init__(
        self,
        pair_features: int,
        *,
        two_sided: bool = False,
        link_features: int = 0,
        setwise: bool = False,
        predicate_scales: Sequence[int] = (),
        attribute_values: Sequence[int] = (),
    ) -> None:
        for name, count in (("pair_features", pair_features), ("link_features", link_features)):
            if count < 0:
                raise ValueError(f"{name} must not be negative, but is {count}")
        if (len(predicate_scales) or len(attribute_values)) and not setwise:
            raise ValueError("predicates and attributes are features of entities: give setwise=True")
        self.pair_features, self.two_sided, self.setwise = pair_features, two_sided, setwise
        self.link_features = link_features
        self.scales = [int(scale) for scale in predicate_scales]
        if any(scale < 1 for scale in self.scales):
            raise ValueError(f"predicate scales must be at least 1, not {self.scales}")
        self.value_start: list[int] = starts_of([int(count) for count in attribute_values]).tolist()
        self.link_base = pair_features * (2 if two_sided else 1)
        self.size_base = self.link_base + link_features
        self.predicate_base = self.size_base + (codes.SIZE_BINS if setwise else 0)
        self.value_base = self.predicate_base + codes.PER_PREDICATE * len(self.scales)
        self.distinct_base = self.value_base + codes.PER_VALUE * self.value_start[-1]
        self.size = self.distinct_base + len(attribute_values)
        self._lists: tuple[MentionDocument, _Lists] | None = None

    # ------------------------------------------------------------------------------------------ the contract

    starts = frozenset({Start.TRUTH, Start.RANDOM, Start.SINGLETONS})

    def decoding_start(self) -> Start:
        return Start.SINGLETONS

    def world(self, document: Any, start: Start, random: Stream) -> World:
        checked = self.checked(document)
        mentions = checked.mentions
        if start is Start.TRUTH:
            return self.world_of(checked, checked.truth.tolist())
        if start is Start.SINGLETONS:
            return self.world_of(checked, range(mentions))
        if start is Start.RANDOM:
            return self.world_of(checked, [random.below(mentions) for _ in range(mentions)])
        raise ValueError(f"a clustering has no start {start.name}; use TRUTH, SINGLETONS, RANDOM, PREVIOUS or MIXED")

    def world_of(self, document: Any, labels: Sequence[int]) -> MentionClustering:
        return MentionClustering(labels, document, self._listed(document))

    def answer(self, document: Any, labels: Sequence[int]) -> Integers:
        return np.array(Clustering(labels).labels(), dtype=np.int64)

    def items(self, document: Any) -> int:
        return int(document.mentions)

    def cells(self, document: Any) -> int:
        return int(document.mentions * (document.mentions - 1) // 2)

    def events(self, document: Any, labels: Sequence[int]) -> list[int]:
        first, second = all_pairs(document.mentions)
        entity = np.array(labels)
        together: list[int] = np.flatnonzero(entity[first] == entity[second]).tolist()
        return together

    def marginals(self, document: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that two mentions share an entity, ``[mentions, mentions]``."""
        table = np.eye(document.mentions)
        first, second = all_pairs(document.mentions)
        table[first, second] = table[second, first] = probabilities
        return table

    def touched(self, world: World, move: Move) -> Iterator[Factor]:
        assert isinstance(world, MentionClustering)
        for mention, old, new in move.changes:
            for entity in (old, new):
                yield from self._pairs(world, mention, entity)
            if self.link_features:
                for entity in (old, new):
                    yield from self._links(world, mention, entity)
            if self.setwise:
                for entity in (old, new):
                    yield from self._entity(world, entity)

    def factors(self, world: World) -> Iterator[Factor]:
        assert isinstance(world, MentionClustering)
        for one in range(world.mentions):
            for other in range(one + 1, world.mentions):
                yield from self._pair(world, one, other)
        if self.link_features:
            for entity in world.active:
                members = world.members[entity]
                for before, mention in zip([None, *members], members, strict=False):
                    yield self._link(world, before, mention)
        if self.setwise:
            for entity in world.active:
                yield from self._entity(world, entity)

    def compiled(self, documents: Sequence[Any], proposal: Proposal, metric: Any) -> Corpus | None:
        from loopwise.walk.models.cluster_arrays import cluster_corpus

        return cluster_corpus(self, [self.checked(document) for document in documents], proposal, metric)

    # --------------------------------------------------------------------------------------------- factors

    def _pairs(self, world: MentionClustering, mention: int, entity: int) -> Iterator[Factor]:
        """Pairs of a mention with the members of an entity, in so far as they have factors."""
        if world.entity[mention] == entity or self.two_sided:
            for other in world.members[entity]:
                if other != mention:
                    yield from self._pair(world, mention, other)

    def _pair(self, world: MentionClustering, one: int, other: int) -> Iterator[Factor]:
        together = world.entity[one] == world.entity[other]
        if together or self.two_sided:
            offset = 0 if together else self.pair_features
            row = world.lists.rows[world.document.pair(one, other)]
            yield ("pair", min(one, other), max(one, other)), [(offset + index, value) for index, value in row]

    def _links(self, world: MentionClustering, mention: int, entity: int) -> Iterator[Factor]:
        """The links about the place of a mention in an entity, whether it is there or not."""
        members = world.members[entity]
        place = bisect_left(members, mention)
        about = [None if place == 0 else members[place - 1], *members[place : place + 1]]
        if world.entity[mention] == entity:
            about.extend(members[place + 1 : place + 2])
        for before, after in pairwise(about):
            assert after is not None
            yield self._link(world, before, after)

    def _link(self, world: MentionClustering, before: int | None, mention: int) -> Factor:
        row = world.lists.links[world.document.link(before, mention)]
        return ("link", mention), [(self.link_base + index, value) for index, value in row]

    def _entity(self, world: MentionClustering, entity: int) -> Iterator[Factor]:
        members = world.members[entity]
        if members:
            yield ("entity", entity), [(key, 1.0) for key in self._entity_keys(world, members)]

    def _entity_keys(self, world: MentionClustering, members: list[int]) -> Iterator[int]:
        """The features of an entity, by going over its members and pairs."""
        size = len(members)
        yield self.size_base + size_bin(size)
        if size > 1:
            rows = [world.document.pair(one, other) for one, other in combinations(members, 2)]
            for predicate, scale in enumerate(self.scales):
                total = sum(world.lists.predicates[row][predicate] for row in rows)
                key = self.predicate_base + codes.PER_PREDICATE * predicate
                yield from (key + place for place in predicate_places(total, len(rows) * scale))
        for attribute, (first, end) in enumerate(pairwise(self.value_start)):
            held = [world.lists.attributes[mention][attribute] for mention in members]
            for value in range(end - first):
                count = held.count(value)
                key = self.value_base + codes.PER_VALUE * (first + value)
                yield key + count_bin(count)
                if count == size:
                    yield key + codes.COUNT_BINS
            if len({value for value in held if value >= 0}) > 1:
                yield self.distinct_base + attribute

    # ---------------------------------------------------------------------------------------------- checks

    def checked(self, document: Any) -> MentionDocument:
        """The document, if it fits the model."""
        if not isinstance(document, MentionDocument):
            raise ValueError(f"a ClusterModel walks over MentionDocuments, not {type(document).__name__}")
        assert document.predicates is not None and document.attributes is not None
        _check_features("pair", document.pairs, self.pair_features)
        if self.link_features:
            if document.links is None:
                raise ValueError("the model has features of links, and the document has none; give links")
            _check_features("link", document.links, self.link_features)
        if self.setwise:
            self._check_sets(document.predicates, document.attributes)
        return document

    def _check_sets(self, predicates: NDArray[np.int32], attributes: NDArray[np.int32]) -> None:
        if predicates.shape[1] != len(self.scales):
            raise ValueError(
                f"the document has {predicates.shape[1]} predicates, the model {len(self.scales)}; both must agree"
            )
        if predicates.size and ((predicates < 0) | (predicates > self.scales)).any():
            raise ValueError(
                "a predicate of the document is negative or above its scale; "
                "predicates run from 0 to the scales of the model"
            )
        counts = np.diff(self.value_start)
        if attributes.shape[1] != len(counts):
            raise ValueError(
                f"the document has {attributes.shape[1]} attributes, the model {len(counts)}; both must agree"
            )
        bad = (
            np.argwhere((attributes < -1) | (attributes >= counts)) if attributes.size else np.zeros((0, 2), dtype=int)
        )
        if len(bad):
            mention, attribute = bad[0]
            raise ValueError(
                f"mention {mention} has the unknown value {attributes[mention, attribute]} of attribute {attribute}, "
                f"which has values 0 to {counts[attribute] - 1}"
            )

    def _listed(self, document: MentionDocument) -> _Lists:
        if self._lists is None or self._lists[0] is not document:
            self._lists = document, _Lists(document)
        return self._lists[1]


class _Lists:
    """The arrays of a document as lists, which Python reads faster."""

    def __init__(self, document: MentionDocument) -> None:
        assert document.predicates is not None and document.attributes is not None
        self.rows = _row_lists(document.pairs)
        self.links = [] if document.links is None else _row_lists(document.links)
        self.predicates = document.predicates.tolist()
        self.attributes = document.attributes.tolist()


def _row_lists(features: Features) -> list[list[tuple[int, float]]]:
    values = [1.0] * len(features.index) if features.value is None else features.value.astype(float).tolist()
    entries = list(zip(features.index.tolist(), values, strict=True))
    return [entries[first:end] for first, end in pairwise(features.start.tolist())]


def _check_features(what: str, features: Features, count: int) -> None:
    lowest, highest = features.bounds
    if lowest < 0 or highest >= max(count, 1):
        bad = lowest if lowest < 0 else highest
        raise ValueError(f"{what} feature {bad} is out of range: the model has features 0 to {count - 1}")


def size_bin(size: int) -> int:
    """1, 2, 3, 4, 5 to 8, 9 to 16, more."""
    return size - 1 if size <= 4 else 4 if size <= 8 else 5 if size <= 16 else 6


def count_bin(count: int) -> int:
    """0, 1, 2, 3 to 5, more."""
    return count if count <= 2 else 3 if count <= 5 else 4


def predicate_places(total: int, most: int) -> Iterator[int]:
    """Which of a predicate's features are true where the sum over pairs is ``total`` and could be ``most``."""
    if total == most:
        yield codes.ALL
    if total > 0:
        yield codes.SOME
    if 2 * total > most:
        yield codes.MOST
    if total == 0:
        yield codes.NONE
    yield from (codes.MEAN + place for place, mean in enumerate(codes.MEANS) if total > mean * most)


def all_pairs(mentions: int) -> tuple[Integers, Integers]:
    """The two mentions of each pair, in the order in which pairs are numbered."""
    first, second = np.triu_indices(mentions, 1)
    return first.astype(np.int64), second.astype(np.int64)


def shared_rows(features: ArrayLike) -> tuple[Features, NDArray[np.int32]]:
    """Truth values ``[pairs, features]`` as rows that equal pairs share, and the row of each pair."""
    table = np.asarray(features, dtype=np.bool_)
    distinct, row = np.unique(table, axis=0, return_inverse=True)
    return Features.of_rows([np.flatnonzero(entry) for entry in distinct]), row.reshape(-1).astype(np.int32)
