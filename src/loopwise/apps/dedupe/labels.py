"""What people know of records: true ids, or pairs that match, are distinct, or nobody is sure of.

In: a column of ids; pairs from CSV, from JSON as the ``dedupe`` library writes it, or as lists. Out: :class:`Labels`.
Stage: use. Labels that contradict each other are named.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.texts import normalised
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name, read_text
from loopwise.formats.quoting import listed, quoted
from loopwise.formats.table import read_cells

Integers = NDArray[np.int64]
CHANCE = 1.645  # standard errors by which labels must favour what they teach


class Answer(str, Enum):
    """What is said of a pair."""

    MATCH = "match"
    DISTINCT = "distinct"
    UNSURE = "unsure"


_WORDS = {
    **dict.fromkeys(("match", "m", "yes", "y", "1", "true", "same"), Answer.MATCH),
    **dict.fromkeys(("distinct", "d", "no", "n", "0", "false", "different"), Answer.DISTINCT),
    **dict.fromkeys(("unsure", "u", "?", "uncertain", ""), Answer.UNSURE),
}


def answer_of(word: str) -> Answer | None:
    """What a word says: match, yes, 1; distinct, no, 0; unsure, ?; None if it says none of these."""
    return _WORDS.get(word.strip().lower())


@dataclass(frozen=True, eq=False)
class Labels:
    """Pairs of rows, and whether each matches; pairs that nobody is sure of are left out.

    >>> Labels.of([(0, 1), (1, 2)], [(0, 3)]).matches.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """

    matches: Integers  # [m, 2], those that follow from others included
    distinct: Integers  # [d, 2]

    @staticmethod
    def of(matches: Any, distinct: Any, names: Sequence[str] | None = None) -> Labels:
        """From pairs of rows. ``names``: what messages call the rows. Contradictions are a ``ValueError``."""
        same, apart = _pairs(matches), _pairs(distinct)
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
        found = [(a, b) for each in members.values() for i, a in enumerate(sorted(each)) for b in sorted(each)[i + 1 :]]
        return Labels(_pairs(sorted(found)), apart)

    @property
    def count(self) -> int:
        return len(self.matches) + len(self.distinct)


def _pairs(pairs: Any) -> Integers:
    found = np.asarray(list(pairs), dtype=np.int64).reshape(-1, 2)
    return np.sort(found, axis=1)


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
    called = [quoted(str(row) if names is None else names[row]) for row in chain]
    if len(chain) == 2:
        return (
            f"labels contradict each other: {called[0]} and {called[1]} are said to match and to be distinct; drop one"
        )
    steps = " = ".join(called[:6] + ([f"… ({len(called) - 7} more)", called[-1]] if len(called) > 7 else called[6:]))
    ends = f"{called[0]} and {called[-1]}"
    return f"labels contradict each other: {steps} by matches, but {ends} are said to be distinct; drop one"


# ------------------------------------------------------------------------------------------------------ reading


def labels_of(labels: Any, records: Records, names: Sequence[str]) -> Labels:
    """Labels given as such, as a file (.json, or CSV), or as ``{"match": [...], "distinct": [...]}`` of pairs of rows
    or of records. ``names``: the ids of the rows, by which files name them."""
    if isinstance(labels, Labels):
        for row in np.concatenate([labels.matches, labels.distinct]).reshape(-1).tolist():
            if not 0 <= row < len(records):
                raise ValueError(f"labels name row {row}; {records.source} has rows 0 to {len(records) - 1}")
        return labels
    if isinstance(labels, str | os.PathLike):
        if os.fspath(labels).removesuffix(".gz").lower().endswith(".json"):
            return _of_json(_read_json(labels), records, names, display_name(labels))
        return _of_csv(labels, names)
    if isinstance(labels, Mapping):
        return _of_json(labels, records, names, "the labels")
    raise ValueError(
        f"labels must be a file, a mapping of match and distinct pairs, or Labels, not {type(labels).__name__}"
    )


def _read_json(path: PathLike) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as problem:
        raise FormatError(display_name(path), problem.lineno, f"this is no JSON: {problem.msg}") from None


def _of_json(told: Any, records: Records, names: Sequence[str], where: str) -> Labels:
    if not isinstance(told, Mapping) or not ({"match", "distinct"} & set(told)):
        raise FormatError(where, None, 'labels must be {"match": [...], "distinct": [...]}, lists of pairs')
    finder = _Finder(records, names, where)
    found = {key: [finder.pair(pair, key) for pair in told.get(key, [])] for key in ("match", "distinct")}
    return Labels.of(found["match"], found["distinct"], names)


class _Finder:
    """Rows by number, by id, or by what a record says."""

    def __init__(self, records: Records, names: Sequence[str], where: str) -> None:
        self.records, self.where = records, where
        self.by_name = {name: row for row, name in enumerate(names)}
        self.by_content: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}

    def pair(self, pair: Any, key: str) -> tuple[int, int]:
        if isinstance(pair, Mapping) and "__value__" in pair:  # as the dedupe library writes tuples
            pair = pair["__value__"]
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise FormatError(self.where, None, f"each {key} must be a pair of records, not {quoted(pair)}")
        return self.row(pair[0]), self.row(pair[1])

    def row(self, told: Any) -> int:
        if isinstance(told, Mapping):
            return self._by_content(told)
        if isinstance(told, int) and not isinstance(told, bool):
            if not 0 <= told < len(self.records):
                raise FormatError(self.where, None, f"row {told} is not there; rows are 0 to {len(self.records) - 1}")
            return told
        return _row(self.by_name, str(told), self.where, None)

    def _by_content(self, told: Mapping[str, Any]) -> int:
        columns = tuple(name for name in told if name in self.records.names)
        if not columns:
            known = listed(self.records.names)
            raise FormatError(self.where, None, f"a record has none of the columns {known}; label this table's records")
        if columns not in self.by_content:
            texts = [normalised(self.records.column(name)) for name in columns]
            rows = {cells: row for row, cells in reversed(list(enumerate(zip(*texts, strict=True))))}
            self.by_content[columns] = rows
        cells = tuple(normalised([_flat(told[name])])[0] for name in columns)
        if cells not in self.by_content[columns]:
            raise FormatError(self.where, None, f"no record of {self.records.source} reads {quoted(' / '.join(cells))}")
        return self.by_content[columns][cells]


def _flat(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping) and "__value__" in value:
        value = value["__value__"]
    return " ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)


def _of_csv(path: PathLike, names: Sequence[str]) -> Labels:
    """Two columns of ids and one of answers, whatever they are called; the answer is the last column."""
    where = display_name(path)
    header, rows, lines = read_cells(path)
    if len(header) < 3:
        raise FormatError(where, 1, "labels need three columns: two ids, and match, distinct or unsure")
    by_name = {name: row for row, name in enumerate(names)}
    found: dict[Answer, list[tuple[int, int]]] = {answer: [] for answer in Answer}
    for line, cells in zip(lines, rows, strict=True):
        answer = answer_of(cells[-1])
        if answer is None:
            raise FormatError(where, line, f"{quoted(cells[-1])} is no answer; say match, distinct or unsure")
        one, other = (_row(by_name, name, where, line) for name in cells[:2])
        if one == other:
            raise FormatError(where, line, f"record {quoted(cells[0])} is paired with itself; name two records")
        found[answer].append((one, other))
    return Labels.of(found[Answer.MATCH], found[Answer.DISTINCT], names)


def _row(by_name: Mapping[str, int], name: str, where: str, line: int | None) -> int:
    if name not in by_name:
        known = listed(list(by_name)[:3])
        raise FormatError(
            where, line, f"no record has the id {quoted(name)} (ids are {known}, …); name the column of ids"
        )
    return by_name[name]


def names_of(records: Records, id_column: str | None) -> tuple[str, ...]:
    """What files call the rows: the values of ``id_column``, each of which must be there once; else 0, 1, ..."""
    if id_column is None:
        return tuple(map(str, range(len(records))))
    names = records.column(id_column)
    seen: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise ValueError(f"row {row} of {records.source} has no id in column {quoted(id_column)}; give it one")
        if name in seen:
            raise ValueError(
                f"the id {quoted(name)} in column {quoted(id_column)} of {records.source} is that of rows "
                f"{seen[name]} and {row}; ids must differ"
            )
        seen[name] = row
    return names


def entities_of(ids: Any, records: Records) -> Integers:
    """The true entity of each row as a number, -1 where it is not known (an empty id).

    ``ids``: the name of a column, or one id a row. Ids that tell every row apart teach nothing and are an error.
    """
    values = list(records.column(ids)) if isinstance(ids, str) else ["" if _none(each) else str(each) for each in ids]
    what = f"column {quoted(ids)}" if isinstance(ids, str) else "the ids"
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
