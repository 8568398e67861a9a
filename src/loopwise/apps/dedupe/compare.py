"""How alike two records are: for each column several similarities, and for all columns together.

In: records and the kinds of their columns. Out: :class:`Comparer`, which gives similarities of any pairs as arrays.
Stage: use. A similarity is from 0 to 1, NaN where a value is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.kernels import strings
from loopwise.apps.dedupe.kinds import Kind, days_of, elements_of, number_of, point_of
from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.texts import Packed, Vectors, normalised

Integers = NDArray[np.int64]
Similarities = NDArray[np.float32]
Compare = Callable[[Integers, Integers], Similarities]

ALL = "all columns"  # stands for the text of a whole record
LISTED = (Kind.SET, Kind.POINT)  # not in that text: members of long lists would drown the words that name a record
EARTH = 6371.0  # kilometres
NEAR = 10.0  # kilometres at which a similarity of places is 1/e
MONTH = 30.0  # days at which a similarity of dates is 1/e


@dataclass(frozen=True)
class Comparison:
    """One similarity: of which column, what it is called, how it is computed."""

    column: str
    name: str
    compute: Compare


RIVALS = ("rivals: of the one", "rivals: of the other")  # sorted: the stronger rival first


@dataclass(frozen=True, eq=False)
class Rivals:
    """How a pair does against the best other candidates of its two records: where a record has one match at most,
    a pair is the less likely the better its rivals are.

    ``first``, ``second``: the best scores of each record; ``partner``: with which record it has the best.
    """

    score: Callable[[Similarities], NDArray[np.float64]]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    partner: Integers

    @staticmethod
    def of(
        size: int,
        one: Integers,
        other: Integers,
        scores: NDArray[np.float64],
        score: Callable[[Similarities], NDArray[np.float64]],
    ) -> Rivals:
        """From candidate pairs and their scores."""
        record, mate = np.concatenate([one, other]), np.concatenate([other, one])
        value = np.concatenate([scores, scores])
        order = np.lexsort((-value, record))
        record, mate, value = record[order], mate[order], value[order]
        begins = np.searchsorted(record, np.arange(size))
        count = np.bincount(record, minlength=size)
        first, second = np.full(size, -30.0), np.full(size, -30.0)
        partner = np.full(size, -1, dtype=np.int64)
        first[count > 0], partner[count > 0] = value[begins[count > 0]], mate[begins[count > 0]]
        second[count > 1] = value[begins[count > 1] + 1]
        return Rivals(score, first, second, partner)

    def compare(self, one: Integers, other: Integers, summary: Similarities) -> Similarities:
        """``[pairs, 2]``: 1/2 where the best rival is as good, near 1 where it is far worse; the lower one first."""
        scores = self.score(summary)
        sides = []
        for mine, theirs in ((one, other), (other, one)):
            best = np.where(self.partner[mine] == theirs, self.second[mine], self.first[mine])
            sides.append(1.0 / (1.0 + np.exp(np.clip(best - scores, -30, 30) / 3.0)))
        return np.sort(np.stack(sides, axis=1), axis=1).astype(np.float32)


class Comparer:
    """The similarities of a table.

    ``columns``: those compared, :data:`ALL` last. ``comparisons``: in the order of the columns of :meth:`compute`.

    >>> table = Records.of({"name": ["Ann Lee", "Anne Lee", "Bob Ray"], "age": ["31", "31", ""]})
    >>> comparer = Comparer(table, {"name": Kind.NAME, "age": Kind.NUMBER})
    >>> found = comparer.compute(np.array([0, 0]), np.array([1, 2]))
    >>> bool((found[0] > found[1])[comparer.of("name")].all()), bool(np.isnan(found[1, comparer.of("age")]).all())
    (True, True)
    """

    def __init__(self, records: Records, kinds: Mapping[str, Kind]) -> None:
        self.size = len(records)
        compared = {name: kind for name, kind in kinds.items() if kind is not Kind.IGNORE}
        self.texts: dict[str, list[str]] = {name: normalised(records.column(name)) for name in compared}
        self.comparisons: list[Comparison] = []
        for name, kind in compared.items():
            self.comparisons += _comparisons(name, kind, records.column(name), self.texts[name])
        described = [name for name, kind in compared.items() if kind not in LISTED] or list(compared)
        whole = [" ".join(cells) for cells in zip(*(self.texts[name] for name in described), strict=True)]
        self.whole = Packed.of(whole)
        self.words = Vectors.of(*self.whole.keys("words"), self.whole.place)
        self.comparisons += _of_whole(self.whole, self.words)
        self.kinds = compared
        self.columns = (*compared, ALL)
        self.rivals: Rivals | None = None

    def of(self, column: str) -> list[int]:
        """The comparisons of a column, by number."""
        return [place for place, comparison in enumerate(self.comparisons) if comparison.column == column]

    @property
    def names(self) -> tuple[str, ...]:
        own = [f"{comparison.column}: {comparison.name}" for comparison in self.comparisons]
        return (*own, *(() if self.rivals is None else RIVALS))

    def compute(self, one: Integers, other: Integers) -> Similarities:
        """``[pairs, comparisons]``; O(pairs times the lengths of what is compared)."""
        found = np.empty((len(one), len(self.names)), dtype=np.float32)
        for place, comparison in enumerate(self.comparisons):
            found[:, place] = comparison.compute(one, other)
        if self.rivals is not None:
            found[:, len(self.comparisons) :] = self.rivals.compare(one, other, self.summary(found))
        return found

    def summary(self, found: Similarities) -> Similarities:
        """``[pairs, columns]``: the mean of a column's similarities, NaN where all are missing."""
        out = np.empty((len(found), len(self.columns)), dtype=np.float32)
        for place, column in enumerate(self.columns):
            part = found[:, self.of(column)]
            known = ~np.isnan(part)
            count = known.sum(axis=1)
            out[:, place] = np.where(count > 0, np.where(known, part, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
        return out


# ------------------------------------------------------------------------------------------- by kind of column


def _comparisons(name: str, kind: Kind, values: Sequence[str], texts: Sequence[str]) -> list[Comparison]:
    makers: dict[Kind, Callable[[], list[tuple[str, Compare]]]] = {
        Kind.NAME: lambda: _of_names(texts),
        Kind.TEXT: lambda: _of_texts(texts),
        Kind.NUMBER: lambda: _of_numbers(values),
        Kind.DATE: lambda: _of_dates(values),
        Kind.PLACE: lambda: _of_places(texts),
        Kind.POINT: lambda: [("near", _distance([point_of(value) for value in values]))],
        Kind.CATEGORY: lambda: [("equal", _equal(Packed.of(texts)))],
        Kind.PHONE: lambda: _of_codes(texts),
        Kind.SET: lambda: _of_sets(values, texts),
    }
    return [Comparison(name, what, compute) for what, compute in makers[kind]()]


def _of_names(texts: Sequence[str]) -> list[tuple[str, Compare]]:
    packed = Packed.of(texts)
    words = Vectors.of(*packed.keys("words"), packed.place)
    grams = Vectors.of(*packed.keys("grams"), packed.place)
    sounds = Vectors.of(*packed.keys("sounds"), packed.place)
    return [
        ("Jaro-Winkler", _jaro_winkler(packed)),
        ("edits", _levenshtein(packed)),
        ("words", _known(packed, words.cosines)),
        ("letters", _known(packed, grams.cosines)),
        ("sound", _known(packed, lambda one, other: sounds.overlaps(one, other)[1])),
        ("contained", _known(packed, lambda one, other: words.overlaps(one, other)[0])),
    ]


def _of_texts(texts: Sequence[str]) -> list[tuple[str, Compare]]:
    packed = Packed.of(texts)
    words = Vectors.of(*packed.keys("words"), packed.place)
    grams = Vectors.of(*packed.keys("grams"), packed.place)
    return [
        ("words", _known(packed, words.cosines)),
        ("letters", _known(packed, grams.cosines)),
        ("contained", _known(packed, lambda one, other: words.overlaps(one, other)[0])),
        ("words with digits", _digits(packed)),
    ]


def _of_whole(packed: Packed, words: Vectors) -> list[Comparison]:
    found = [
        ("words", _known(packed, words.cosines)),
        ("contained", _known(packed, lambda one, other: words.overlaps(one, other)[0])),
        ("words with digits", _digits(packed)),
    ]
    return [Comparison(ALL, what, compute) for what, compute in found]


def _of_numbers(values: Sequence[str]) -> list[tuple[str, Compare]]:
    read = [number_of(value) for value in values]
    numbers = np.array([np.nan if number is None else number for number in read])

    def near(one: Integers, other: Integers) -> Similarities:
        mine, theirs = numbers[one], numbers[other]
        most = np.maximum(np.abs(mine), np.abs(theirs))
        gap = np.abs(mine - theirs) / np.where(most > 0, most, 1.0)
        return np.asarray(np.maximum(1.0 - gap, 0.0), dtype=np.float32)

    def equal(one: Integers, other: Integers) -> Similarities:
        mine, theirs = numbers[one], numbers[other]
        return np.where(np.isnan(mine) | np.isnan(theirs), np.nan, mine == theirs).astype(np.float32)

    return [("near", near), ("equal", equal)]


def _of_dates(values: Sequence[str]) -> list[tuple[str, Compare]]:
    read = days_of(values)
    days = np.array([np.nan if day is None else float(day) for day in read])
    packed = Packed.of([_digits_of(value) for value in values])

    def near(one: Integers, other: Integers) -> Similarities:
        return np.asarray(np.exp(-np.abs(days[one] - days[other]) / MONTH), dtype=np.float32)

    return [("near", near), ("edits", _levenshtein(packed)), ("equal", _equal(packed))]


def _of_places(texts: Sequence[str]) -> list[tuple[str, Compare]]:
    packed = Packed.of(texts)
    words = Vectors.of(*packed.keys("words"), packed.place)
    grams = Vectors.of(*packed.keys("grams"), packed.place)
    return [
        ("Jaro-Winkler", _jaro_winkler(packed)),
        ("edits", _levenshtein(packed)),
        ("words", _known(packed, words.cosines)),
        ("letters", _known(packed, grams.cosines)),
        ("words with digits", _digits(packed)),
    ]


def _of_codes(texts: Sequence[str]) -> list[tuple[str, Compare]]:
    packed = Packed.of([text.replace(" ", "") for text in texts])
    return [("equal", _equal(packed)), ("edits", _levenshtein(packed))]


def _of_sets(values: Sequence[str], texts: Sequence[str]) -> list[tuple[str, Compare]]:
    members = [normalised(elements_of(value)) for value in values]
    packed = Packed.of([" ".join(sorted(member.replace(" ", "_") for member in group if member)) for group in members])
    elements = Vectors.of(*packed.keys("words"), packed.place)
    plain = Packed.of(texts)
    words = Vectors.of(*plain.keys("words"), plain.place)
    return [
        ("members", _known(packed, elements.cosines)),
        ("contained", _known(packed, lambda one, other: elements.overlaps(one, other)[0])),
        ("words", _known(plain, words.cosines)),
    ]


# -------------------------------------------------------------------------------------------------- similarities


def _known(packed: Packed, compute: Compare) -> Compare:
    """The same, NaN where a text is missing."""

    def similarity(one: Integers, other: Integers) -> Similarities:
        found = compute(one, other)
        found[packed.empty[one] | packed.empty[other]] = np.nan
        return found

    return similarity


def _jaro_winkler(packed: Packed) -> Compare:
    def compute(one: Integers, other: Integers) -> Similarities:
        out = np.zeros(len(one), dtype=np.float32)
        strings.jaro_winkler(packed.letters, packed.start, packed.place[one], packed.place[other], out)
        return out

    return _known(packed, compute)


def _levenshtein(packed: Packed) -> Compare:
    def compute(one: Integers, other: Integers) -> Similarities:
        letters, alphabet = packed.dense
        out = np.zeros(len(one), dtype=np.float32)
        strings.levenshtein(letters, packed.start, alphabet, packed.place[one], packed.place[other], out)
        return out

    return _known(packed, compute)


def _equal(packed: Packed) -> Compare:
    return _known(packed, lambda one, other: (packed.place[one] == packed.place[other]).astype(np.float32))


def _digits(packed: Packed) -> Compare:
    """What two texts share of their words with digits (models, years, house numbers); NaN where one has none."""
    numbers = Vectors.of(*packed.keys("numbers"), packed.place)
    none = (np.diff(numbers.start) == 0)[packed.place] if len(packed.place) else np.zeros(0, np.bool_)

    def compute(one: Integers, other: Integers) -> Similarities:
        found = numbers.overlaps(one, other)[0]
        found[none[one] | none[other]] = np.nan
        return found

    return compute


def _distance(points: Sequence[tuple[float, float] | None]) -> Compare:
    """By great circles."""
    where = np.radians(np.array([point or (np.nan, np.nan) for point in points]))

    def near(one: Integers, other: Integers) -> Similarities:
        (north, east), (north2, east2) = where[one].T, where[other].T
        half = np.sin((north - north2) / 2) ** 2 + np.cos(north) * np.cos(north2) * np.sin((east - east2) / 2) ** 2
        apart = 2 * EARTH * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
        return np.asarray(np.exp(-apart / NEAR), dtype=np.float32)

    return near


def _digits_of(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())
