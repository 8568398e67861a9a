"""Models in libDAI's factor-graph format.

In: a ``.fg`` file. Out: a :class:`TableModel`; and back. The file is the number of factors, then for each
factor: its number of variables, their labels, their cardinalities, the number of entries given, and these
entries as index and value; entries not given are 0. The index counts with the FIRST variable changing
fastest. ``#`` begins a comment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loopwise.formats.files import PathLike, atomic_write
from loopwise.formats.model import MAXIMUM_AXES, MAXIMUM_OMITTED_ENTRIES, TableModel, check_model
from loopwise.formats.numbers import Floats, NumberStream, bounded_product


@dataclass(frozen=True)
class _Block:
    """One factor as the file has it."""

    labels: tuple[int, ...]
    shape: tuple[int, ...]
    table: Floats


def read_fg(path: PathLike) -> TableModel:
    """A ``.fg`` model, plain or ``.gz``; variable k is the k-th smallest label. O(bytes + table cells)."""
    stream = NumberStream(path, comments=True)
    factors = stream.integer("the number of factors")
    # nothing is shorter than a factor without variables or entries
    stream.check_room(factors, 2, "factors")
    blocks: list[_Block] = []
    cardinality_of: dict[int, int] = {}
    omitted = 0
    for factor in range(factors):
        labels, shape = _read_scope(stream, factor, cardinality_of)
        cells, given = _read_size(stream, factor, labels, shape)
        omitted += cells - given
        if omitted > MAXIMUM_OMITTED_ENTRIES:
            raise stream.error(
                f"up to factor {factor} the tables leave out {omitted} or more entries as 0; dense tables "
                f"may have at most {MAXIMUM_OMITTED_ENTRIES} of those",
                stream.position - 1,
            )
        blocks.append(_Block(labels, shape, _read_table(stream, factor, shape, cells, given)))
    stream.finish()
    ordered = sorted(cardinality_of)
    number_of = {label: number for number, label in enumerate(ordered)}
    return TableModel(
        np.array([cardinality_of[label] for label in ordered], dtype=np.int64),
        tuple(tuple(number_of[label] for label in block.labels) for block in blocks),
        [block.table for block in blocks],
        labels=tuple(ordered),
    )


def write_fg(path: PathLike, model: TableModel) -> None:
    """Writes so that reading gives back the same numbers exactly; entries that are 0 are left out.

    The format knows variables only through factors: one in no factor gets a last factor of its own, all ones,
    which changes no probability (but is there when read back). The kind (``BAYES``) is not kept.
    """
    check_model(model)
    used = {variable for scope in model.scopes for variable in scope}
    alone = [variable for variable in range(model.variables) if variable not in used]
    with atomic_write(path) as out:
        out.write(f"{model.factors + len(alone)}\n")
        for scope, table in zip(model.scopes, model.tables, strict=True):
            out.write(_block_text(model, scope, np.asarray(table, dtype=np.float64)))
        for variable in alone:
            out.write(_block_text(model, (variable,), np.ones(int(model.cardinalities[variable]))))


def _read_scope(
    stream: NumberStream, factor: int, cardinality_of: dict[int, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Labels and cardinalities of a factor; adds them to ``cardinality_of``, with which they must agree."""
    size = stream.integer(f"the number of variables of factor {factor}")
    if size > MAXIMUM_AXES:
        raise stream.error(
            f"factor {factor} has {size} variables; at most {MAXIMUM_AXES} are supported", stream.position - 1
        )
    start = stream.position
    labels = tuple([stream.integer(f"a variable of factor {factor}") for _ in range(size)])
    if len(set(labels)) < size:
        raise stream.error(f"factor {factor} repeats a variable in its scope {list(labels)}", start)
    shape = tuple([stream.integer(f"a cardinality of factor {factor}", least=1) for _ in range(size)])
    for axis, (label, cardinality) in enumerate(zip(labels, shape, strict=True)):
        known = cardinality_of.setdefault(label, cardinality)
        if known != cardinality:
            raise stream.error(
                f"factor {factor} gives variable {label} the cardinality {cardinality}; "
                f"an earlier factor gave it {known}",
                start + size + axis,
            )
    return labels, shape


def _read_size(stream: NumberStream, factor: int, labels: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """How many entries the table has, and how many of them the file gives."""
    given = stream.integer(f"the number of entries of factor {factor}")
    stream.check_room(given, 2, f"entries of factor {factor}")
    cells = bounded_product(shape, MAXIMUM_OMITTED_ENTRIES + given)
    if given > cells:
        raise stream.error(
            f"factor {factor} over variables {list(labels)} gives {given} entries; "
            f"its cardinalities {list(shape)} allow {cells}",
            stream.position - 1,
        )
    return cells, given


def _read_table(stream: NumberStream, factor: int, shape: tuple[int, ...], cells: int, given: int) -> Floats:
    start = stream.position
    stream.take(2 * given, f"the entries of factor {factor}")
    entries = stream.numbers[start : stream.position].reshape(given, 2)
    indices = stream.as_integers(np.arange(start, stream.position, 2), f"indices of factor {factor}")
    values = entries[:, 1]
    fine = (values >= 0) & (values < np.inf) & (indices < cells)
    if not fine.all():
        bad = int(np.argmin(fine))
        if indices[bad] >= cells:
            raise stream.error(
                f"factor {factor} gives entry {indices[bad]}; its cardinalities {list(shape)} allow 0 to {cells - 1}",
                start + 2 * bad,
            )
        stream.check_potentials(start + 2 * bad + 1, start + 2 * bad + 2)
    table = np.zeros(cells)
    table[indices] = values
    if given > 1 and not (np.diff(indices) > 0).all():  # files are sorted as a rule; only others need the search
        order = np.argsort(indices, kind="stable")
        again = np.flatnonzero(np.diff(indices[order]) == 0)
        if again.size:
            second = int(order[again + 1].min())
            raise stream.error(f"factor {factor} gives entry {indices[second]} twice", start + 2 * second)
    return table.reshape(shape, order="F").copy(order="C")


def _block_text(model: TableModel, scope: tuple[int, ...], table: Floats) -> str:
    flat = table.ravel(order="F")
    indices = np.flatnonzero(flat)
    lines = [
        "",
        str(len(scope)),
        " ".join(str(model.labels[variable]) for variable in scope),
        " ".join(str(int(model.cardinalities[variable])) for variable in scope),
        str(len(indices)),
        *(f"{index} {value!r}" for index, value in zip(indices.tolist(), flat[indices].tolist(), strict=True)),
    ]
    return "\n".join(lines) + "\n"
