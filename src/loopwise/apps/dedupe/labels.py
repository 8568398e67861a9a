"""What people know of records: true ids, or pairs that match, are distinct, or nobody is sure of.

In: a column of ids; pairs from CSV, from JSON as the ``dedupe`` library writes it, or as lists. Out: :class:`Labels`.
Stage: use. Labels that contradict each other are named.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.texts import normalised
from loopwise.formats.errors import FormatError, listed, quoted
from loopwise.formats.files import PathLike, display_name, read_text
from loopwise.formats.table import read_cells

Integers = NDArray[np.int64]
MOST_CLOSED = 1000  # records of a group of matches of which all pairs are listed
CHANCE = 1.645  # standard errors by which labels must favour what they teach


class PairAnswer(str, Enum):
    """What is said of a pair."""

    MATCH = "match"
    DISTINCT = "distinct"
    UNSURE = "unsure"


_WORDS = {
    **dict.fromkeys(("match", "m", "yes", "y", "1", "true", "same"), PairAnswer.MATCH),
    **dict.fromkeys(("distinct", "d", "no", "n", "0", "false", "different"), PairAnswer.DISTINCT),
    **dict.fromkeys(("unsure", "u", "?", "uncertain", ""), PairAnswer.UNSURE),
}


def answer_of(word: str) -> PairAnswer | None:
    """What a word says: match, yes, 1; distinct, no, 0; unsure, ?; None if it says none of these."""
    return _WORDS.get(word.strip().lower())


@dataclass(frozen=True, eq=False)
class Labels:
    """Pairs of rows, and whether each matches; pairs that nobody is sure of are left out.

    Matches that follow from others are added; of more than ``MOST_CLOSED`` records that are all the same, only the
    pairs of the first so many, and those that were given.

    >>> Labels.of([(0, 1), (1, 2)], [(0, 3)]).matches.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """

    matches: Integers  # [m, 2], those that follow from others included
    distinct: Integers  # [d, 2]

    @staticmethod
    def of(matches: Any, distinct: Any, names: Sequence[str] | None = None) -> Labels:
        """From pairs of rows. ``names``: what messages call the rows. Contradictions are a ``ValueError``."""
        same, apart = _pairs(matches), _pairs(distinct)
        given = np.concatenate([same, apart])
        alone = given[given[:, 0] == given[:, 1], 0]
        if len(alone):
            raise ValueError(f"record {_called(int(alone[0]), names)} is paired with itself; name two records")
        near: dict[int, set[int]] = defaultdict(set)
        for one, other in same.tolist():
            near[one].add(other)
            near[other].add(one)
        group = _groups(near)
        for one, other in apart.tolist():
            if one in group and group[one] == group.get(other):
                raise ValueError(_contradiction(_path(near, one, other), names))
        members: dict[int, list[int]] = defaultdict(list)
        for row, name in group.items():
            members[name].append(row)
        follow = [_all_pairs(np.sort(each)[:MOST_CLOSED]) for each in members.values()]
        _, first = np.unique(apart, axis=0, return_index=True)
        return Labels(np.unique(np.concatenate([same, *follow]), axis=0), apart[np.sort(first)])

    @property
    def count(self) -> int:
        return len(self.matches) + len(self.distinct)


def _pairs(pairs: Any) -> Integers:
    found = np.asarray(list(pairs), dtype=np.int64).reshape(-1, 2)
    return np.sort(found, axis=1)


def _all_pairs(rows: Integers) -> Integers:
    one, other = np.triu_indices(len(rows), 1)
    return np.stack([rows[one], rows[other]], axis=1)


def _called(row: int, names: Sequence[str] | None) -> str:
    return quoted(str(row) if names is None else names[row])


def _groups(near: Mapping[int, set[int]]) -> dict[int, int]:
    group: dict[int, int] = {}
    for start in near:
        if start not in group:
            queue = [start]
            while queue:
                row = queue.pop()
                if row not in group:
                    group[row] = start
                    queue += near[row]
    return group


def _path(near: Mapping[int, set[int]], one: int, other: int) -> list[int]:
    """The shortest chain of matches between two rows."""
    before, queue = {one: one}, deque([one])
    while queue:
        row = queue.popleft()
        for next_row in sorted(near[row]):
            if next_row not in before:
                before[next_row] = row
                queue.append(next_row)
    chain = [other]
    while chain[-1] != one:
        chain.append(before[chain[-1]])
    return chain[::-1]


def _contradiction(chain: Sequence[int], names: Sequence[str] | None) -> str:
    called = [_called(row, names) for row in chain]
    if len(chain) == 2:
        return (
            f"labels contradict each other: {called[0]} and {called[1]} are said to match and to be distinct; drop one"
        )
    steps = " = ".join(called[:6] + ([f"… ({len(called) - 7} more)", called[-1]] if len(called) > 7 else called[6:]))
    ends = f"{called[0]} and {called[-1]}"
    return f"labels contradict each other: {steps} by matches, but {ends} are said to be distinct; drop one"


# ------------------------------------------------------------------------------------------------------ reading


def labels_of(labels: Any, records: Records, names: Sequence[str], side: Integers | None = None) -> Labels:
    """Labels given as such, as a file (.json, or CSV), or as ``{"match": [...], "distinct": [...]}`` of pairs of rows
    or of records. ``names``: the ids of the rows, by which files name them. ``side``: the table of each row where there
    are two: what both have is a row of the first where a pair names it first, else of the second.
    """
    if isinstance(labels, Labels):
        for row in np.concatenate([labels.matches, labels.distinct]).reshape(-1).tolist():
            if not 0 <= row < len(records):
                raise ValueError(f"labels name row {row}; {records.source} has rows 0 to {len(records) - 1}")
        return labels
    if isinstance(labels, str | os.PathLike):
        finder = _Finder(records, names, side, display_name(labels))
        if os.fspath(labels).removesuffix(".gz").lower().endswith(".json"):
            return _of_json(_read_json(labels), finder)
        return _of_csv(labels, finder)
    if isinstance(labels, Mapping):
        return _of_json(labels, _Finder(records, names, side, "the labels"))
    raise ValueError(
        f"labels must be a file, a mapping of match and distinct pairs, or Labels, not {type(labels).__name__}"
    )


def _read_json(path: PathLike) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as problem:
        raise FormatError(display_name(path), problem.lineno, f"this is no JSON: {problem.msg}") from None


class _Finder:
    """The rows that labels mean: by number, by id, or by what a record says."""

    def __init__(self, records: Records, names: Sequence[str], side: Integers | None, where: str) -> None:
        self.records, self.names, self.where = records, names, where
        self.side = np.full(len(records), -1) if side is None else side
        self.by_name = _rows_of(names)
        self.by_content: dict[tuple[str, ...], dict[tuple[str, ...], list[int]]] = {}

    def pair(self, one: Any, other: Any, line: int | None = None) -> tuple[int, int]:
        """Two rows; of equal records two different ones, where there are two."""
        firsts = sorted(self.rows(one, line), key=lambda row: self.side[row] == 1)
        seconds = sorted(self.rows(other, line), key=lambda row: self.side[row] == 0)
        found = next(((a, b) for a in firsts for b in seconds if a != b), None)
        if found is None:
            said = quoted(self.names[firsts[0]])
            raise FormatError(self.where, line, f"record {said} is paired with itself; name two records")
        return found

    def rows(self, told: Any, line: int | None) -> list[int]:
        """All rows that fit."""
        if isinstance(told, Mapping):
            return self._with_content(told)
        if isinstance(told, int | np.integer) and not isinstance(told, bool):
            if not 0 <= told < len(self.records):
                raise FormatError(self.where, line, f"row {told} is not there; rows are 0 to {len(self.records) - 1}")
            return [int(told)]
        if str(told) not in self.by_name:
            known = f"no record has the id {quoted(str(told))} (ids are {listed(self.names[:3])}, …)"
            raise FormatError(self.where, line, f"{known}; name the column of ids")
        return self.by_name[str(told)]

    def _with_content(self, told: Mapping[str, Any]) -> list[int]:
        columns = tuple(name for name in told if name in self.records.names)
        if not columns:
            known = listed(self.records.names)
            raise FormatError(self.where, None, f"a record has none of the columns {known}; label this table's records")
        if columns not in self.by_content:
            texts = [normalised(self.records.column(name)) for name in columns]
            self.by_content[columns] = _rows_of(list(zip(*texts, strict=True)))
        cells = tuple(normalised([_flat(told[name])])[0] for name in columns)
        if cells not in self.by_content[columns]:
            raise FormatError(self.where, None, f"no record of {self.records.source} reads {quoted(' / '.join(cells))}")
        return self.by_content[columns][cells]


K = TypeVar("K", bound=Hashable)


def _rows_of(keys: Sequence[K]) -> dict[K, list[int]]:
    found: dict[K, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        found[key].append(row)
    return dict(found)


def _flat(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping) and "__value__" in value:
        value = value["__value__"]
    return " ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)


def _of_json(told: Any, finder: _Finder) -> Labels:
    answers = {answer.value for answer in PairAnswer}
    if not isinstance(told, Mapping) or not told or set(told) - answers:
        raise FormatError(finder.where, None, 'labels must be {"match": [...], "distinct": [...]}, lists of pairs')
    found: dict[str, list[tuple[int, int]]] = {}
    for answer, pairs in told.items():
        if not _is_list(pairs):
            raise FormatError(finder.where, None, f"{answer} must be a list of pairs, not {quoted(pairs)}")
        found[answer] = [finder.pair(*_two(pair, answer, finder.where)) for pair in pairs]
    return Labels.of(found.get("match", []), found.get("distinct", []), finder.names)


def _two(pair: Any, answer: str, where: str) -> Any:
    if isinstance(pair, Mapping) and "__value__" in pair:  # as the dedupe library writes tuples
        pair = pair["__value__"]
    if not _is_list(pair) or len(pair) != 2:
        raise FormatError(where, None, f"each {answer} must be a pair of records, not {quoted(pair)}")
    return pair


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def _of_csv(path: PathLike, finder: _Finder) -> Labels:
    """Two columns of ids and one of answers, whatever they are called; the answer is the last column."""
    header, rows, lines = read_cells(path, delimiter=None)
    if len(header) < 3:
        raise FormatError(finder.where, 1, "labels need three columns: two ids, and match, distinct or unsure")
    if answer_of(header[-1]) is not None and {header[0], header[1]} <= finder.by_name.keys():
        what = "a pair stands where the columns are named; put a line such as id_1,id_2,label before it"
        raise FormatError(finder.where, 1, what)
    found: dict[PairAnswer, list[tuple[int, int]]] = {answer: [] for answer in PairAnswer}
    for line, cells in zip(lines, rows, strict=True):
        answer = answer_of(cells[-1])
        if answer is None:
            raise FormatError(finder.where, line, f"{quoted(cells[-1])} is no answer; say match, distinct or unsure")
        found[answer].append(finder.pair(cells[0], cells[1], line))
    return Labels.of(found[PairAnswer.MATCH], found[PairAnswer.DISTINCT], finder.names)


def names_of(records: Records, id_column: str | None, side: Integers | None = None) -> tuple[str, ...]:
    """What files call the rows: the values of ``id_column``, each of which must be there once (in each table, of two,
    by ``side``); else 0, 1, ..."""
    if id_column is None:
        return tuple(map(str, range(len(records))))
    names = records.column(id_column)
    seen: dict[tuple[str, int], int] = {}
    for row, name in enumerate(names):
        key = (name, -1 if side is None else int(side[row]))
        if not name:
            raise ValueError(f"row {row} of {records.source} has no id in column {quoted(id_column)}; give it one")
        if key in seen:
            raise ValueError(
                f"the id {quoted(name)} in column {quoted(id_column)} of {records.source} is that of rows "
                f"{seen[key]} and {row}; ids must differ"
            )
        seen[key] = row
    return names


def entities_of(ids: Any, records: Records) -> Integers:
    """The true entity of each row as a number, -1 where it is not known (an empty id).

    ``ids``: the name of a column, or one id a row. Ids that tell every row apart teach nothing and are an error.
    """
    values = list(records.column(ids)) if isinstance(ids, str) else ["" if _none(each) else str(each) for each in ids]
    what = f"column {quoted(ids)}" if isinstance(ids, str) else "the column of ids"
    if len(values) != len(records):
        raise ValueError(f"there are {len(values)} ids for {len(records)} records of {records.source}; give one each")
    known: dict[str, int] = {}
    found = np.array([known.setdefault(value, len(known)) if value else -1 for value in values], dtype=np.int64)
    filled = found[found >= 0]
    if not len(filled):
        raise ValueError(f"{what} of {records.source} is empty: no record's entity is known; give some")
    if len(set(filled.tolist())) == len(filled):
        raise ValueError(f"{what} of {records.source} is different in every row: no two records are the same entity")
    if len(set(filled.tolist())) == 1:
        raise ValueError(f"{what} of {records.source} is the same in every row: all records are one entity")
    return found


def _none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or value == ""


def clearly_more(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> bool:
    """Whether more labels are right by one way than by another, beyond chance (a sign test, one in twenty)."""
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return won - lost > CHANCE * sqrt(won + lost)
