"""Models in the format of the UAI inference competitions.

In: a ``.uai`` file. Out: a :class:`TableModel`; and back. The file is ``MARKOV`` or ``BAYES``, the number
of variables, their cardinalities, the number of factors, the scopes (each: its size, its variables), the
tables (each: its number of entries, then these with the last variable of the scope changing fastest).
Line breaks mean nothing.
"""

from __future__ import annotations

import numpy as np

from loopwise.formats.errors import quoted
from loopwise.formats.files import PathLike, atomic_write
from loopwise.formats.model import MAXIMUM_AXES, MAXIMUM_OMITTED_ENTRIES, ModelKind, TableModel, check_model
from loopwise.formats.numbers import Floats, Integers, NumberStream, bounded_product


def read_uai(path: PathLike) -> TableModel:
    """A ``.uai`` model, plain or ``.gz``. O(bytes) in bulk, plus a small step for each factor."""
    stream = NumberStream(path, header=True)
    kind = _kind(stream)
    variables = stream.integer("the number of variables")
    stream.check_room(variables, 1, "variables")
    cardinalities = stream.integers(variables, "cardinalities", least=1)
    factors = stream.integer("the number of factors")
    # a scope of size 0, a table size and one entry: nothing is shorter
    stream.check_room(factors, 3, "factors")
    scopes = _read_scopes(stream, factors, variables)
    tables = _read_tables(stream, scopes, cardinalities)
    stream.finish()
    _check_unused(stream, scopes, cardinalities)
    return TableModel(cardinalities, scopes, tables, kind)


def write_uai(path: PathLike, model: TableModel) -> None:
    """Writes so that reading gives back the same numbers exactly. Labels are lost: variables are 0, 1, ..."""
    check_model(model)
    with atomic_write(path) as out:
        out.write(f"{model.kind.value}\n{model.variables}\n")
        out.write(" ".join(map(str, model.cardinalities.tolist())) + f"\n{model.factors}\n")
        for scope in model.scopes:
            out.write(" ".join(map(str, (len(scope), *scope))) + "\n")
        for table in model.tables:
            entries = np.asarray(table, dtype=np.float64).ravel().tolist()
            out.write(f"\n{len(entries)}\n{' '.join(map(repr, entries))}\n")


def _kind(stream: NumberStream) -> ModelKind:
    try:
        return ModelKind(stream.word.upper())
    except ValueError:
        kinds = " or ".join(kind.value for kind in ModelKind)
        raise stream.header_error(
            f"the file begins with {quoted(stream.word)}; a UAI model begins with {kinds}"
        ) from None


def _check_unused(stream: NumberStream, scopes: tuple[tuple[int, ...], ...], cardinalities: Integers) -> None:
    """Values of variables without a table cost the file nothing, but whoever computes their marginals memory."""
    unused = np.ones(len(cardinalities), dtype=np.bool_)
    unused[[variable for scope in scopes for variable in scope]] = False
    if cardinalities[unused].sum(dtype=np.float64) > MAXIMUM_OMITTED_ENTRIES:
        largest = int(np.argmax(np.where(unused, cardinalities, 0)))
        raise stream.error(
            f"variable {largest} has {cardinalities[largest]} values and no factor; variables without one may have at "
            f"most {MAXIMUM_OMITTED_ENTRIES} values together",
            1 + largest,
        )


def _read_scopes(stream: NumberStream, factors: int, variables: int) -> tuple[tuple[int, ...], ...]:
    """Sizes one by one, since each says where the next is; the variables all at once."""
    begin = stream.position
    sizes: list[int] = []
    for factor in range(factors):
        sizes.append(stream.integer(f"the number of variables of factor {factor}"))
        stream.take(sizes[-1], f"variables of factor {factor}")
    is_variable = np.ones(stream.position - begin, dtype=np.bool_)
    starts = np.cumsum(np.array([0, *sizes], dtype=np.int64) + 1) - 1  # of each scope's size, from ``begin``
    is_variable[starts[:-1]] = False
    places: Integers = np.flatnonzero(is_variable) + begin
    named = stream.as_integers(places, "scopes")
    too_large = np.flatnonzero(named >= variables)
    if too_large.size:
        place = int(places[too_large[0]])
        factor = int(np.searchsorted(starts, place - begin)) - 1
        raise stream.error(
            f"factor {factor} names variable {named[too_large[0]]}; the model has {variables} variables, "
            "counted from 0",
            place,
        )
    flat = named.tolist()
    scopes = []
    end = 0
    for factor, size in enumerate(sizes):
        scope = tuple(flat[end : end + size])
        end += size
        if len(set(scope)) < size:
            raise stream.error(
                f"factor {factor} repeats a variable in its scope {list(scope)}", begin + int(starts[factor])
            )
        scopes.append(scope)
    return tuple(scopes)


def _read_tables(stream: NumberStream, scopes: tuple[tuple[int, ...], ...], cardinalities: Integers) -> list[Floats]:
    begin = stream.position
    sizes = cardinalities.tolist()
    tables = []
    for factor, scope in enumerate(scopes):
        shape = tuple([sizes[variable] for variable in scope])
        what = f"the table of factor {factor} over variables {list(scope)}"
        if len(shape) > MAXIMUM_AXES:
            raise stream.error(f"{what} has {len(shape)} axes; at most {MAXIMUM_AXES} are supported", stream.position)
        cells = bounded_product(shape, len(stream.numbers))
        count = stream.integer(f"the number of entries of {what}")
        if cells > len(stream.numbers):
            raise stream.error(f"{what} needs more entries than the file has numbers", stream.position - 1)
        if count != cells:
            raise stream.error(
                f"{what} has {count} entries; its cardinalities {list(shape)} ask for {cells}",
                stream.position - 1,
            )
        tables.append(stream.take(cells, what).reshape(shape))
    # The sizes between the tables are fine already, so one pass over all these numbers checks the entries.
    stream.check_potentials(begin, stream.position)
    return tables
