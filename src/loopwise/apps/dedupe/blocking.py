"""Candidate pairs: which records are compared at all, chosen so that few matches are missed and few pairs are made.

In: prepared records; labelled matches, if any. Out: :class:`Blocker`: predicates, and their pairs. Stage: use.

A predicate gives each record some keys; records with a key in common form a block. Within a small block all pairs are
candidates, within a larger one each record with the ``WINDOW`` next in the order of their texts (sorted neighbourhood).
So memory and time are linear in the number of records, whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.compare import ALL, Comparer
from loopwise.apps.dedupe.kernels import blocking as kernels
from loopwise.apps.dedupe.kinds import Kind
from loopwise.apps.dedupe.labels import clearly_more
from loopwise.apps.dedupe.texts import Packed, Vectors
from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]

BLOCK, SMALL_TABLE_BLOCK = 40, 150  # records of a block of which all pairs are taken
SMALL_TABLE = 20_000  # records of a table that can afford larger blocks
WINDOW = 3  # neighbours that are taken in a larger block
NEIGHBOURS = 10  # nearest records by words
RARE = 200  # records that a word may be in, to count for the nearest
BANDS, ROWS = 12, 3  # of MinHash: a pair with Jaccard J is found with probability 1 - (1 - J^ROWS)^BANDS
_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Blocks:
    """What a predicate makes of a table: members of blocks, and where each block begins."""

    starts: Integers
    members: Integers
    most: int = BLOCK  # records of a block of which all pairs are taken

    @property
    def pairs(self) -> int:
        """How many pairs it makes, those found twice counted twice."""
        return int(kernels.count_pairs(self.starts, self.most, WINDOW))

    def listed(self, side: Integers) -> Integers:
        """Pairs as ``low * records + high``, each once, ascending."""
        room = np.zeros(self.pairs, dtype=np.int64)
        count = kernels.list_pairs(self.starts, self.members, self.most, WINDOW, side, room)
        return _merged(room[:count], _EMPTY)


@dataclass(frozen=True)
class Predicate:
    """A way to block: a column and what of it must agree."""

    column: str
    what: str

    @property
    def name(self) -> str:
        return f"{self.what} of {self.column}"


@dataclass(frozen=True)
class Coverage:
    """What a set of predicates does: how many pairs it makes, and which share of the labelled matches it keeps."""

    predicates: tuple[Predicate, ...]
    pairs: int
    recall: float | None  # None without labelled matches
    matches: int
    missed: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "predicates": [predicate.name for predicate in self.predicates],
            "pairs": self.pairs,
            "recall": None if self.recall is None else round(self.recall, 6),
            "matches": self.matches,
        }


class Blocker:
    """Blocks of a table by any predicate. ``side``: the table of each record, for links between two; else all -1."""

    def __init__(self, comparer: Comparer, side: Integers | None = None) -> None:
        self.comparer = comparer
        self.side = np.full(comparer.size, -1, dtype=np.int64) if side is None else side
        self.packed = {name: Packed.of(texts) for name, texts in comparer.texts.items()} | {ALL: comparer.whole}
        self.order = _rank(comparer)

    def predicates(self) -> list[Predicate]:
        """All that fit the kinds of the columns."""
        found = [Predicate(ALL, "nearest"), Predicate(ALL, "MinHash"), Predicate(ALL, "neighbourhood")]
        for name, kind in self.comparer.kinds.items():
            found += [Predicate(name, what) for what in _OF_KIND[kind]]
        return found

    def standard(self) -> list[Predicate]:
        """Those used where nothing is known: nearest by words, MinHash, and equal values and sounds of each column."""
        return [
            predicate
            for predicate in self.predicates()
            if predicate.what in ("nearest", "MinHash", "value", "sound", "letters", "neighbourhood")
        ]

    def blocks(self, predicate: Predicate) -> Blocks:
        """The blocks of a predicate."""
        if predicate.what == "nearest":
            return self._nearest()
        if predicate.what == "neighbourhood":
            return self._neighbourhood()
        records, keys = self._keys(predicate)
        order = np.lexsort((self.order[records], keys))
        records, keys = records[order], keys[order]
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else _EMPTY
        starts = np.concatenate([first, [len(keys)]]).astype(np.int64)
        most = SMALL_TABLE_BLOCK if self.comparer.size <= SMALL_TABLE else BLOCK
        return Blocks(starts, records.astype(np.int64), most)

    def _keys(self, predicate: Predicate) -> tuple[Integers, NDArray[np.uint64]]:
        packed = self.packed[predicate.column]
        counts, keys = _KEYS[predicate.what](packed)
        return _of_records(packed, counts, keys)

    def _nearest(self) -> Blocks:
        """A block of two for each record and each of its nearest ones."""
        words = self.comparer.words
        if (self.side >= 0).any():
            pairs = self._nearest_across()
        else:
            found, _ = words.nearest(NEIGHBOURS, RARE)
            texts = np.repeat(np.arange(len(found)), found.shape[1])
            kept = found.reshape(-1) >= 0
            first = _first_record(words.place, len(found))
            same = _same_text(words.place, self.order)
            near = np.stack([first[texts[kept]], first[found.reshape(-1)[kept]]], axis=1)
            pairs = np.concatenate([near, same])
        return _twos(pairs)

    def _nearest_across(self) -> Integers:
        """Nearest records of the other table; texts that both tables have stay apart."""
        whole, side = self.comparer.whole, self.side
        counts, keys = whole.keys("words")
        records, flat = _of_records(whole, counts, keys)
        own = starts_of(np.bincount(records, minlength=self.comparer.size))
        found, _ = Vectors.of(own, flat, np.arange(self.comparer.size)).nearest(NEIGHBOURS, RARE, side)
        one = np.repeat(np.arange(len(found)), found.shape[1])
        kept = found.reshape(-1) >= 0
        return np.stack([one[kept], found.reshape(-1)[kept]], axis=1)

    def _neighbourhood(self) -> Blocks:
        """All records in one block, in the order of their texts."""
        return Blocks(np.array([0, len(self.order)], dtype=np.int64), np.argsort(self.order, kind="stable"))

    # ----------------------------------------------------------------------------------------------- choosing

    def choose(
        self, matches: Integers, most: int, predicates: Sequence[Predicate] | None = None
    ) -> tuple[tuple[Predicate, ...], Integers]:
        """Predicates and their pairs, at most about ``most``.

        ``matches`` ``[m, 2]``: labelled ones. Without them the nearest records come first, then the standard
        predicates, cheapest first, while pairs are left. With them, greedily, the predicate with most new matches a
        pair comes next; but only if that keeps clearly more of the matches, for what a few labels cannot tell to be
        better must not change which pairs EM learns from.
        """
        if predicates is not None:
            return self._listed_by(predicates, most)
        codes = _codes(matches, self.comparer.size)
        offers = self._offers(codes, most)
        usual, pairs = self._greedy(offers, np.zeros(len(codes), dtype=np.bool_), most)
        if len(codes) == 0:
            return usual, pairs
        taught, others = self._greedy(offers, np.ones(len(codes), dtype=np.bool_), most)
        return (taught, others) if clearly_more(_within(codes, others), _within(codes, pairs)) else (usual, pairs)

    def _greedy(
        self, offers: Mapping[Predicate, _Offer], missing: NDArray[np.bool_], most: int
    ) -> tuple[tuple[Predicate, ...], Integers]:
        """Predicates one after another, by the matches that are still ``missing``, then the standard ones."""
        left, standard = dict(offers), set(self.standard())
        chosen: list[Predicate] = []
        pairs = _EMPTY
        while left:
            best = _first_of(left) or max(left, key=lambda each: _worth(left[each], missing, each in standard))
            offer = left.pop(best)
            if best not in standard and not (offer.kept & missing).any():
                continue
            merged = _merged(pairs, self.blocks(best).listed(self.side))
            if len(merged) <= most or not chosen:
                chosen.append(best)
                pairs, missing = merged, missing & ~offer.kept
        return tuple(chosen), pairs

    def _listed_by(self, predicates: Sequence[Predicate], most: int) -> tuple[tuple[Predicate, ...], Integers]:
        """In the order given; those that would make too many pairs of this table are passed over."""
        used: list[Predicate] = []
        pairs = _EMPTY
        for predicate in predicates:
            blocks = self.blocks(predicate)
            if used and blocks.pairs > 2 * most:
                continue
            merged = _merged(pairs, blocks.listed(self.side))
            if len(merged) <= most or not used:
                used.append(predicate)
                pairs = merged
        return tuple(used), pairs

    def _offers(self, codes: Integers, most: int) -> dict[Predicate, _Offer]:
        """What each predicate would do; its pairs are not kept, for memory."""
        found = {}
        for predicate in self.predicates():
            blocks = self.blocks(predicate)
            if predicate.what == "nearest" or blocks.pairs <= 2 * most + 1000:
                listed = blocks.listed(self.side)
                found[predicate] = _Offer(len(listed), _within(codes, listed))
        return found

    def coverage(self, predicates: Sequence[Predicate], pairs: Integers, matches: Integers) -> Coverage:
        """How many of the labelled matches the pairs keep."""
        codes = _codes(matches, self.comparer.size)
        kept = _within(codes, pairs)
        recall = float(kept.mean()) if len(codes) else None
        lost = [divmod(int(code), self.comparer.size) for code in codes[~kept][:10]]
        return Coverage(tuple(predicates), len(pairs), recall, len(codes), tuple(lost))


@dataclass(frozen=True, eq=False)
class _Offer:
    """What a predicate would do: how many pairs it makes, and which of the labelled matches it keeps."""

    pairs: int
    kept: NDArray[np.bool_]


def _worth(offer: _Offer, missing: NDArray[np.bool_], standard: bool) -> tuple[float, bool, float]:
    return int((offer.kept & missing).sum()) / max(offer.pairs, 1), standard, -offer.pairs


def _first_of(predicates: Collection[Predicate]) -> Predicate | None:
    return next((each for each in predicates if each.what == "nearest"), None)


def _merged(one: Integers, other: Integers) -> Integers:
    """The union of two ascending lists; sorting joins runs in linear time."""
    both = np.concatenate([one, other])
    both.sort(kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both


def _within(codes: Integers, pairs: Integers) -> NDArray[np.bool_]:
    """Which codes are in an ascending list."""
    if not len(pairs):
        return np.zeros(len(codes), dtype=np.bool_)
    place = np.minimum(np.searchsorted(pairs, codes), len(pairs) - 1)
    found: NDArray[np.bool_] = pairs[place] == codes
    return found


def _codes(pairs: Integers, records: int) -> Integers:
    """Pairs as ``low * records + high``."""
    pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return np.unique(pairs.min(axis=1) * records + pairs.max(axis=1)) if len(pairs) else _EMPTY


def _of_records(packed: Packed, counts: Integers, keys: Any) -> tuple[Integers, Any]:
    """Keys of distinct texts as keys of records."""
    sizes = np.diff(counts)[packed.place]
    records = np.repeat(np.arange(len(packed.place)), sizes)
    ends = np.cumsum(sizes)
    offset = np.arange(len(records)) - np.repeat(ends - sizes, sizes)
    return records, keys[np.repeat(counts[:-1][packed.place], sizes) + offset]


def _rank(comparer: Comparer) -> Integers:
    """Where each record stands in the order of the texts of its columns, the most telling one first."""
    columns = sorted(comparer.texts, key=lambda name: -len(set(comparer.texts[name])))
    rows = list(zip(*(comparer.texts[name] for name in columns), strict=True))
    order = sorted(range(comparer.size), key=rows.__getitem__)
    rank = np.empty(comparer.size, dtype=np.int64)
    rank[order] = np.arange(comparer.size)
    return rank


def _twos(pairs: Integers) -> Blocks:
    return Blocks(np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int64), pairs.reshape(-1).astype(np.int64))


def _first_record(place: Integers, texts: int) -> Integers:
    first = np.zeros(texts, dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first


def _same_text(place: Integers, rank: Integers) -> Integers:
    """Neighbours among records of the very same text: each with the next."""
    order = np.lexsort((rank, place))
    same = place[order[1:]] == place[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]], axis=1)


# ---------------------------------------------------------------------------------------------------- keys


def _value(packed: Packed) -> tuple[Integers, Any]:
    filled = np.diff(packed.start) > 0
    return starts_of(filled), np.flatnonzero(filled).astype(np.uint64)


def _letters(count: int) -> Callable[[Packed], tuple[Integers, Any]]:
    """The first letters of each text."""

    def keys(packed: Packed) -> tuple[Integers, Any]:
        counts, found = Packed.keys(_cut(packed, count), "words")
        return counts, found

    return keys


def _cut(packed: Packed, count: int) -> Packed:
    """The first ``count`` letters of each text without its spaces, as one word."""
    length = np.diff(packed.start)
    kept = packed.letters != 32
    before = starts_of(kept)
    own = before[:-1] - np.repeat(before[packed.start[:-1]], length) if len(packed.letters) else _EMPTY
    chosen = kept & (own < count)
    start = starts_of(chosen)[packed.start]
    return Packed(packed.letters[chosen], start.astype(np.int64), packed.place, packed.empty)


def _two_words(packed: Packed) -> tuple[Integers, Any]:
    """Each two words that stand side by side."""
    counts, keys = packed.keys("words")
    sizes = np.maximum(np.diff(counts) - 1, 0)
    texts = np.repeat(np.arange(len(sizes)), sizes)
    starts = starts_of(sizes)
    place = np.arange(len(texts)) - starts[texts] + counts[texts]
    with np.errstate(over="ignore"):
        return starts, keys[place] * np.uint64(3) + keys[place + 1]


def _min_hash(packed: Packed) -> tuple[Integers, Any]:
    """Bands of the smallest hashes of the words."""
    counts, keys = packed.keys("words")
    seeds = np.random.default_rng(0).integers(1, 1 << 62, BANDS * ROWS).astype(np.uint64)
    least = np.zeros((len(counts) - 1, len(seeds)), dtype=np.uint64)
    kernels.min_hashes(counts, keys, seeds, least)
    filled = np.diff(counts) > 0
    bands = least[filled].reshape(-1, BANDS, ROWS)
    with np.errstate(over="ignore"):
        mixed = np.arange(BANDS, dtype=np.uint64)[None, :] * np.uint64(0x9E3779B97F4A7C15)
        for row in range(ROWS):
            mixed = (mixed ^ bands[:, :, row]) * np.uint64(0x100000001B3)
            mixed = mixed ^ (mixed >> np.uint64(33))
    return starts_of(filled * BANDS), mixed.reshape(-1)


def _named(what: str) -> Callable[[Packed], tuple[Integers, Any]]:
    return lambda packed: packed.keys(what)


_KEYS: dict[str, Callable[[Packed], tuple[Integers, Any]]] = {
    "value": _value,
    "word": _named("words"),
    "sound": _named("sounds"),
    "word with digits": _named("numbers"),
    "two words": _two_words,
    "letters": _letters(5),
    "three letters": _letters(3),
    "MinHash": _min_hash,
}
KNOWN = (*_KEYS, "nearest", "neighbourhood")  # what a predicate may go by
_OF_KIND = {
    Kind.NAME: ("value", "word", "sound", "letters", "three letters"),
    Kind.TEXT: ("value", "word", "two words", "word with digits", "letters", "MinHash"),
    Kind.NUMBER: ("value",),
    Kind.DATE: ("value",),
    Kind.PLACE: ("value", "word", "letters", "word with digits"),
    Kind.POINT: ("value",),
    Kind.CATEGORY: (),
    Kind.PHONE: ("value", "letters"),
    Kind.SET: ("value", "word", "two words", "MinHash"),
}


def pairs_of(codes: Integers, records: int) -> tuple[Integers, Integers]:
    """The two records of each pair."""
    one, other = np.divmod(codes, max(records, 1))
    return one, other


def chunks(count: int, size: int) -> Iterator[slice]:
    """Slices that together cover ``count`` items."""
    return (slice(first, min(first + size, count)) for first in range(0, count, size))
