"""``loopwise impute``: a table without empty cells.

The table goes to standard output or a file: most probable values, or joint draws.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.messages import one_line_each
from loopwise.cli.targets import target_of

if TYPE_CHECKING:
    from loopwise.apps import Table


def impute(
    model: Annotated[Path, typer.Argument(help="A file that loopwise fit --structure auto saved.")],
    data: Annotated[
        Path, typer.Argument(help="A .csv table; columns go by their names, and those the model does not know stay.")
    ],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each with empty cells: how sure they are.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(help="So many joint draws instead, one after another, numbered.", min=1)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    seed: Annotated[int, typer.Option(help="For draws.")] = 0,
) -> None:
    """Fill the empty cells of a table."""
    with one_line_each():
        from loopwise.apps import Table
        from loopwise.formats import atomic_write
        from loopwise.formats.table import csv_line, read_cells
        from loopwise.formats.vocabulary import known_names

        if probabilities and samples is not None:
            raise ValueError("--probabilities is about most probable values, --samples about draws; give one of them")
        target = target_of(out, inputs=(model, data))
        trained = Table.load(model)
        header, rows, _ = read_cells(data)
        if not set(header) & set(trained.columns_):
            known = known_names("columns", trained.columns_, header[0])
            raise ValueError(f"{data} has no column that the model knows; {known}")
        lines = _lines(trained, header, rows, probabilities, samples, seed)
        with atomic_write(target) as stream:
            stream.writelines(csv_line(cells) for cells in lines)


def _lines(
    model: Table, header: list[str], rows: list[list[str]], probabilities: bool, samples: int | None, seed: int
) -> list[list[Any]]:
    """The header and the rows of what is written."""
    cells = model.read_cells(header, rows)
    if samples is not None:
        drawn = model.impute(cells, samples=samples, seed=seed)
        found: list[list[Any]] = [["sample", *header]]
        for number, table in enumerate(drawn, start=1):
            found += [[number, *row] for row in _filled(model, header, rows, table)]
        return found
    table, sure = model.impute(cells, probabilities=True)
    filled = _filled(model, header, rows, table)
    if not probabilities:
        return [header, *filled]
    place_of = {name: place for place, name in enumerate(model.columns_)}
    empty = [name for place, name in enumerate(header) if name in place_of and any(not row[place] for row in rows)]
    at = {name: header.index(name) for name in empty}
    extra = [
        ["1" if row[at[name]] else f"{sure[number, place_of[name]]:.6g}" for name in empty]
        for number, row in enumerate(rows)
    ]
    names = [*header, *(f"{name} probability" for name in empty)]
    return [names, *([*own, *more] for own, more in zip(filled, extra, strict=True))]


def _filled(model: Table, header: list[str], rows: list[list[str]], table: Any) -> list[list[Any]]:
    """The rows with their empty cells from ``table``; every other cell as it was."""
    from loopwise.formats.coding import as_text

    place_of = {name: place for place, name in enumerate(model.columns_)}
    return [
        [
            text if text or name not in place_of else as_text(table[number, place_of[name]])
            for name, text in zip(header, row, strict=True)
        ]
        for number, row in enumerate(rows)
    ]
