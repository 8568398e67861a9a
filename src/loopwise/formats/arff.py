"""ARFF files, dense or sparse, as Weka and Mulan write them, and Mulan's XML lists of labels.

In: a ``.arff`` file (or ``.arff.gz``), an ``.xml`` file. Out: an :class:`ArffTable` of numbers, names of labels.
Numeric cells are read in bulk; line numbers are worked out when something is wrong.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import FormatError, quoted, shortened
from loopwise.formats.files import PathLike, display_name, read_bytes, read_text
from loopwise.formats.numbers import is_whole, number_in, whole_in

Floats = NDArray[np.float64]

_MISSING = "?"
_NUMERIC = {"numeric", "real", "integer"}
# A row that NumPy reads as we would: what else Python takes for numbers needs other characters.
_PLAIN = re.compile(r"[0-9eE+\-., \t]*")
# A word in quotes, in which a backslash takes the next character as it is, or one without spaces, commas, braces.
_WORD = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,{}'"]+))""")
_ESCAPED = re.compile(r"\\(.)")
_COMMA = re.compile(r"\s*(?:(,)|$)")


@dataclass(frozen=True)
class Attribute:
    """A column: ``values`` are those of a nominal one, None for numbers."""

    name: str
    values: tuple[str, ...] | None = None

    @property
    def is_flag(self) -> bool:
        """Whether the values are 0 and 1, in this order."""
        return self.values == ("0", "1")


@dataclass(frozen=True, eq=False)
class ArffTable:
    """``data`` is ``[rows, attributes]``, dense or a SciPy CSR array; nominal cells are numbers of values, NaN missing.

    ``data`` is sparse where the file is.
    """

    relation: str
    attributes: tuple[Attribute, ...]
    data: Any

    @cached_property
    def place(self) -> dict[str, int]:
        """Number of each attribute by name."""
        return {attribute.name: number for number, attribute in enumerate(self.attributes)}

    @property
    def meka_labels(self) -> tuple[str, ...]:
        """The labels that a MEKA file names by ``-C`` in its relation: the first n attributes, or the last if n < 0."""
        found = re.search(r"-C\s+(-?)([0-9]{1,9})(?![0-9])", self.relation)
        count = int(found[1] + found[2]) if found else 0
        names = [attribute.name for attribute in self.attributes]
        if abs(count) > len(names):
            return ()
        return tuple(names[:count] if count > 0 else names[len(names) + count :])


def read_arff(path: PathLike) -> ArffTable:
    """The table of a file. Strings, dates and relations are refused: they are no numbers. O(bytes)."""
    where = display_name(path)
    lines = _Lines(where, read_text(path))
    relation, attributes = _header(lines)
    rows = list(lines.rows())
    if not rows:
        raise FormatError(where, None, "the file has no rows after @data; add at least one")
    sparse = rows[0][1].startswith("{")
    data = _sparse(where, attributes, rows) if sparse else _dense(where, attributes, rows)
    return ArffTable(relation, attributes, data)


def read_label_names(path: PathLike) -> tuple[str, ...]:
    """The names in Mulan's list of labels, in order; those of nested labels too."""
    where = display_name(path)
    data = read_bytes(path)
    try:
        root = ElementTree.fromstring(data, ElementTree.XMLParser(target=_LabelTree(where)))
    except ElementTree.ParseError as problem:
        line = problem.position[0]
        raise FormatError(where, line, f"this is no XML: {str(problem).split(':')[0]}") from None
    except FormatError:
        raise
    except (LookupError, ValueError):  # a name that Python has no encoding for, or one that XML cannot have
        raise FormatError(
            where,
            1,
            f"the encoding {shortened(_declared_encoding(data))} cannot be read; save the list of labels as UTF-8",
        ) from None
    names = [node.get("name") for node in root.iter() if node.tag.rpartition("}")[2] == "label"]
    if not names or None in names:
        raise FormatError(
            where, None, "there is no <label name=...> in the file, or one without a name; name each label"
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise FormatError(where, None, f"the label {quoted(twice)} is listed twice; remove one of them")
    return tuple(str(name) for name in names)


class _LabelTree(ElementTree.TreeBuilder):
    """A tree that refuses to declare entities, which could make a small file grow without end."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def doctype(self, *_: object) -> None:
        raise FormatError(self.where, None, "the list of labels declares entities, which are not read; remove them")


def _declared_encoding(data: bytes) -> str:
    found = re.match(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([^"'>]*)""", data)
    return quoted(found[1].decode("ascii", "backslashreplace")) if found else "of the file"


# --------------------------------------------------------------------------------------------------------- header


class _Lines:
    """Lines without comments and blank ones, with their numbers."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self._lines = enumerate(io.StringIO(text, newline=None), start=1)  # any of the three line ends

    def rows(self) -> Iterator[tuple[int, str]]:
        for number, line in self._lines:
            stripped = line.strip()
            if stripped and not stripped.startswith("%"):
                yield number, stripped


def _header(lines: _Lines) -> tuple[str, tuple[Attribute, ...]]:
    relation, attributes, seen = "", [], set()
    for number, line in lines.rows():
        keyword, _, rest = line.partition(" ") if " " in line.split("\t")[0] else line.partition("\t")
        word = keyword.lower()
        if word == "@relation":
            relation = _word(rest, lines.where, number)[0]
        elif word == "@attribute":
            attribute = _attribute(rest, lines.where, number)
            if attribute.name in seen:
                raise FormatError(
                    lines.where, number, f"two attributes are called {quoted(attribute.name)}; rename one of them"
                )
            seen.add(attribute.name)
            attributes.append(attribute)
        elif word == "@data":
            if not attributes:
                raise FormatError(lines.where, number, "there is no @attribute before @data; declare each column first")
            return relation, tuple(attributes)
        else:
            raise FormatError(
                lines.where, number, f"{quoted(line)} is none of @relation, @attribute and @data; is this ARFF?"
            )
    raise FormatError(lines.where, None, "there is no @data in the file; is this ARFF, and whole?")


def _attribute(text: str, where: str, line: int) -> Attribute:
    name, end = _word(text, where, line)
    kind = text[end:].strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise FormatError(where, line, f"the values of attribute {quoted(name)} have no closing brace; add it")
        values = tuple(_cells(kind[1:-1], where, line))
        if len(set(values)) != len(values) or not values:
            raise FormatError(
                where,
                line,
                f"the values of attribute {quoted(name)} are none, or one is listed twice; list each value once",
            )
        return Attribute(name, values)
    word = kind.split()[0].lower() if kind else ""
    if word in _NUMERIC:
        return Attribute(name)
    if word in ("string", "date", "relational"):
        raise FormatError(
            where,
            line,
            f"attribute {quoted(name)} is of type {word}, which is no number; remove it, or make it nominal",
        )
    raise FormatError(
        where,
        line,
        f"attribute {quoted(name)} has the unknown type {quoted(kind)}; use NUMERIC, or {{a, b}} for a list of values",
    )


def _word(text: str, where: str, line: int) -> tuple[str, int]:
    """The first word, its quotes removed, and where it ends."""
    found = _WORD.match(text)
    if found is None:
        raise FormatError(where, line, f"a name was expected where {quoted(text.strip())} stands")
    return _unquoted(found), found.end()


def _unquoted(found: re.Match[str]) -> str:
    inside = found[1] if found[1] is not None else found[2]
    return str(found[3] if inside is None else _ESCAPED.sub(r"\1", inside))


def _cells(text: str, where: str, line: int) -> list[str]:
    """Cells between commas; quotes are removed."""
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    cells, place = [], 0
    while True:
        found = _WORD.match(text, place)
        if found is None:
            raise FormatError(where, line, f"a value was expected where {quoted(text[place:])} stands")
        cells.append(_unquoted(found))
        after = _COMMA.match(text, found.end())
        if after is None:
            raise FormatError(where, line, f"a comma was expected where {quoted(text[found.end() :].lstrip())} stands")
        if not after[1]:
            return cells
        place = after.end()


# ----------------------------------------------------------------------------------------------------------- data


class _Columns:
    """How cells of each attribute become numbers."""

    def __init__(self, where: str, attributes: Sequence[Attribute]) -> None:
        self.where, self.attributes = where, attributes
        self.codes = [
            None if attribute.values is None else {value: code for code, value in enumerate(attribute.values)}
            for attribute in attributes
        ]

    def number(self, column: int, cell: str, line: int) -> float:
        """One cell, with an error that says what is wrong with it."""
        if cell == _MISSING:
            return np.nan
        attribute, codes = self.attributes[column], self.codes[column]
        if codes is not None:
            if cell not in codes:
                raise FormatError(
                    self.where,
                    line,
                    f"attribute {quoted(attribute.name)} has no value {quoted(cell)}; "
                    "add it to the list of values, or mend the cell",
                )
            return float(codes[cell])
        value = number_in(cell)
        if value is None:
            raise FormatError(
                self.where, line, f"{quoted(cell)} is no number; attribute {quoted(attribute.name)} is numeric"
            )
        if not np.isfinite(value):
            raise FormatError(
                self.where, line, f"attribute {quoted(attribute.name)} is {shortened(cell)}; numbers must be finite"
            )
        return value


def _dense(where: str, attributes: Sequence[Attribute], rows: Sequence[tuple[int, str]]) -> Floats:
    columns, width = _Columns(where, attributes), len(attributes)
    flags = np.array([attribute.is_flag for attribute in attributes])
    plain = all(attribute.values is None or attribute.is_flag for attribute in attributes)
    data = np.empty((len(rows), width))
    for place, (line, text) in enumerate(rows):
        cells = _cells(text, where, line)
        if len(cells) != width:
            raise FormatError(
                where,
                line,
                f"this row has {len(cells)} values; there are {width} attributes; write ? for a missing one",
            )
        if plain and _PLAIN.fullmatch(text):
            try:
                data[place] = cells
            except ValueError:
                pass
            else:
                row = data[place]
                if np.isfinite(row).all() and ((row[flags] == 0) | (row[flags] == 1)).all():
                    continue
        data[place] = [columns.number(column, cell, line) for column, cell in enumerate(cells)]
    return data


def _sparse(where: str, attributes: Sequence[Attribute], rows: Sequence[tuple[int, str]]) -> Any:
    from scipy import sparse

    columns = _Columns(where, attributes)
    start, index, value = [0], [], []
    for line, text in rows:
        if not (text.startswith("{") and text.endswith("}")):
            raise FormatError(where, line, "this row has no braces, the first one has; all must be sparse, or none")
        last = -1
        inside = text[1:-1].strip()
        for entry in inside.split(",") if inside else ():
            column, cell = _entry(entry, columns, line)
            if column <= last:
                raise FormatError(where, line, f"attribute number {column} comes after {last}; numbers must rise")
            last = column
            number = columns.number(column, cell, line)
            if number != 0.0:
                index.append(column)
                value.append(number)
        start.append(len(index))
    return sparse.csr_array(
        (np.array(value, dtype=np.float64), np.array(index, dtype=np.int32), np.array(start)),
        shape=(len(rows), len(attributes)),
    )


def _entry(entry: str, columns: _Columns, line: int) -> tuple[int, str]:
    """Number of the attribute, and the cell, of ``12 0.5``."""
    number, cell = (*entry.split(None, 1), "", "")[:2]
    if not is_whole(number) or not cell:
        raise FormatError(columns.where, line, f"{quoted(entry.strip())} is not the number of an attribute and a value")
    place = whole_in(number)
    if place is None or place >= len(columns.attributes):
        raise FormatError(
            columns.where,
            line,
            f"there is no attribute number {shortened(number)}; they go from 0 to {len(columns.attributes) - 1}",
        )
    stripped = cell.strip()
    return place, _word(stripped, columns.where, line)[0] if stripped[:1] in "'\"" else stripped
