"""ARFF files as inputs and labels.

In: a file, which of its attributes are labels. Out: :class:`LabelledData`; :class:`LabelledColumns`, how attributes
became features, which a saved model keeps. Stage: use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.apps.inputs import is_sparse
from loopwise.formats.arff import ArffTable, Attribute, read_arff, read_label_names
from loopwise.formats.errors import FormatError, listed, quoted
from loopwise.formats.files import PathLike, display_name
from loopwise.learn.label_sets.weights import Floats, Integers
from loopwise.notices import DataWarning, warn


@dataclass(frozen=True)
class LabelledColumns:
    """Attributes that are inputs, and names of labels.

    A nominal attribute whose values are not just 0 and 1 becomes a feature for each value.
    """

    inputs: tuple[Attribute, ...]
    labels: tuple[str, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [
            name
            for attribute in self.inputs
            for name in (
                [f"{attribute.name}={value}" for value in attribute.values]
                if attribute.values is not None and not attribute.is_flag
                else [attribute.name]
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """Names and values."""
        inputs = [[attribute.name, attribute.values] for attribute in self.inputs]
        return {"inputs": inputs, "labels": list(self.labels)}

    @staticmethod
    def from_json(json: dict[str, Any]) -> LabelledColumns:
        """What :meth:`to_json` wrote."""
        inputs = [
            Attribute(str(name), None if values is None else tuple(map(str, values))) for name, values in json["inputs"]
        ]
        return LabelledColumns(tuple(inputs), tuple(map(str, json["labels"])))


@dataclass(frozen=True, eq=False)
class LabelledData:
    """``inputs`` ``[examples, features]``, dense (NaN missing) or sparse; ``labels`` 0 or 1, None where absent."""

    inputs: Any
    labels: Integers | None
    columns: LabelledColumns

    def __len__(self) -> int:
        return int(self.inputs.shape[0])


def read_labelled(path: PathLike, labels: PathLike | Sequence[str] | None = None) -> LabelledData:
    """An ARFF file whose ``labels`` are listed in an XML file, by name, or (None) by ``-C`` in its relation (MEKA)."""
    table = read_arff(path)
    names = tuple(labels) if isinstance(labels, list | tuple) else ()
    if labels is None:
        names = table.meka_labels
        if not names:
            raise FormatError(
                display_name(path),
                None,
                "the file does not say which attributes are labels; give the XML list of them as labels (--labels)",
            )
    elif not names:
        names = read_label_names(labels)  # type: ignore[arg-type]
    columns = columns_of(table, names, display_name(path))
    return apply_columns(table, columns, display_name(path), wants_labels=True)


def columns_of(table: ArffTable, names: Sequence[str], where: str) -> LabelledColumns:
    """Labels by name, all other attributes as inputs."""
    for name, count in Counter(names).items():
        if count > 1:
            raise FormatError(where, None, f"the label {quoted(name)} is named twice; name each label once")
        if name not in table.place:
            raise FormatError(
                where, None, f"there is no attribute {quoted(name)}, which is to be a label; see the names in the file"
            )
        values = table.attributes[table.place[name]].values
        if values is not None and set(values) - {"0", "1"}:
            raise FormatError(
                where, None, f"the label {quoted(name)} has the values {listed(values)}; it must be 0 or 1; recode it"
            )
    labels = set(names)
    inputs = tuple(attribute for attribute in table.attributes if attribute.name not in labels)
    if not inputs:
        raise FormatError(where, None, "all attributes are labels; there is no input; list fewer")
    return LabelledColumns(inputs, tuple(names))


def read_for(path: PathLike, columns: LabelledColumns, *, wants_labels: bool) -> LabelledData:
    """A file for a trained model: its attributes are found by name; labels may be absent unless wanted."""
    return apply_columns(read_arff(path), columns, display_name(path), wants_labels=wants_labels)


def apply_columns(table: ArffTable, columns: LabelledColumns, where: str, *, wants_labels: bool) -> LabelledData:
    """Inputs and labels of a table."""
    for attribute in columns.inputs:
        if attribute.name not in table.place:
            raise FormatError(
                where,
                None,
                f"there is no attribute {quoted(attribute.name)}, which the model has as an input; "
                "give files with the attributes of training",
            )
    labels = None
    if wants_labels or all(name in table.place for name in columns.labels):
        labels = _labels(table, columns.labels, where, wants_labels)
    return LabelledData(_inputs(table, columns.inputs, where), labels, columns)


def _labels(table: ArffTable, names: Sequence[str], where: str, strict: bool) -> Integers | None:
    found = np.empty((table.data.shape[0], len(names)), dtype=np.int64)
    for place, name in enumerate(names):
        if name not in table.place:
            raise FormatError(
                where,
                None,
                f"there is no attribute {quoted(name)}, which is a label; give files with the labels of training",
            )
        cells, values = _column(table, name), table.attributes[table.place[name]].values
        if values == ("1", "0"):
            cells = 1.0 - cells
        if not np.isin(cells, (0.0, 1.0)).all():
            if not strict:
                return None
            row = int(np.flatnonzero(~np.isin(cells, (0.0, 1.0)))[0])
            raise FormatError(
                where,
                None,
                f"label {quoted(name)} of example {row + 1} is {cells[row]:g}; it must be 0 or 1; recode it",
            )
        found[:, place] = cells
    return found


def _column(table: ArffTable, name: str) -> Floats:
    column = table.data[:, [table.place[name]]]
    return np.asarray(column.toarray() if is_sparse(column) else column, dtype=np.float64).reshape(-1)


def _inputs(table: ArffTable, inputs: Sequence[Attribute], where: str) -> Any:
    from scipy import sparse

    pieces: list[Any] = []
    single: list[int] = []
    unseen = 0

    def flush() -> None:
        if single:
            pieces.append(table.data[:, single.copy()])
            single.clear()

    for attribute in inputs:
        own = table.attributes[table.place[attribute.name]]
        if attribute.values is None or attribute.is_flag:
            if own.values is not None and not own.is_flag:
                raise FormatError(
                    where,
                    None,
                    f"attribute {quoted(attribute.name)} is nominal, but the model has numbers; "
                    "give files with the attributes of training",
                )
            single.append(table.place[attribute.name])
            continue
        flush()
        indicators, count = _indicators(_column(table, attribute.name), own, attribute, where)
        pieces.append(indicators)
        unseen += count
    flush()
    if unseen:
        warn(
            f"{where}: {unseen} cells hold values of attributes that training did not see; they are read as none of "
            "those it saw",
            DataWarning,
        )
    if is_sparse(table.data):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(piece) for piece in pieces]))
    return np.concatenate(pieces, axis=1)


def _indicators(cells: Floats, own: Attribute, wanted: Attribute, where: str) -> tuple[Floats, int]:
    """A column a value of ``wanted``, and how many cells have another value, which is 0 in all of them; missing cells
    are missing in all of them."""
    if own.values is None:
        raise FormatError(
            where,
            None,
            f"attribute {quoted(own.name)} is numeric, but the model has its values by name; "
            "give files with the attributes of training",
        )
    assert wanted.values is not None
    code = np.array([wanted.values.index(value) if value in wanted.values else -1 for value in own.values])
    known = np.isfinite(cells)
    found = np.full(len(cells), -1)
    found[known] = code[cells[known].astype(np.int64)]
    table: Floats = (found[:, None] == np.arange(len(wanted.values))).astype(np.float64)
    table[~known] = np.nan
    return table, int((found[known] < 0).sum())
