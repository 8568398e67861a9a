"""``loopwise fit --structure auto``: a table whose model the data choose, trained for cells that will be missing.

In: a table, options. Out: a saved :class:`~loopwise.apps.Table`, a report.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from loopwise.cli.tables import EVERY, named

if TYPE_CHECKING:
    from loopwise.apps import Table


@dataclass(frozen=True)
class AutoOptions:
    """What the command line says."""

    outputs: str
    ignore: list[str]
    missing: str | None
    missing_like: Path | None
    bins: int | None
    numbers: list[str] | None
    seed: int
    curve: Path | None = None


def train_auto(train: Path, target: Path, options: AutoOptions, as_json: bool) -> None:
    """Trains, saves, reports."""
    from loopwise.apps import Table
    from loopwise.apps.table.reading import cells_of_texts
    from loopwise.formats.table import read_cells

    _check_picture(options.curve)
    header, rows, _ = read_cells(train)
    header, rows = _without(train, header, rows, options.ignore)
    outputs = None if options.outputs == EVERY else named(options.outputs, "--outputs")
    if outputs is not None and not outputs:
        raise ValueError(f"no output is named, so there is nothing to predict; name a column, or {EVERY}")
    cells = cells_of_texts(header, rows, outputs or (), options.numbers)
    inputs = [name for name in header if name not in (outputs or ())]
    model = Table(outputs=outputs, missing=_missing(options, inputs), seed=options.seed)
    if options.bins is not None:
        model.bins = options.bins
    model.fit(cells)
    model.save(target)
    if options.curve is not None:
        _draw(model, options.curve)
    _report(model, train, target, len(rows), as_json)


def _check_picture(path: Path | None) -> None:
    """Refuses a name that no picture has before anything is trained."""
    if path is not None:
        from loopwise.plot.style import check_kind

        check_kind(path)


def _draw(model: Table, path: Path) -> None:
    """The curve of grafting; where nothing was tried there is none."""
    from loopwise import plot

    if not model.steps_:
        typer.echo("no further factor was worth a try, so there is no curve to draw", err=True)
        return
    plot.save(plot.grafting(model.steps_, model.ungrafted_loss_), path)


def _without(
    path: Path, header: list[str], rows: list[list[str]], ignore: list[str]
) -> tuple[list[str], list[list[str]]]:
    from loopwise.formats.errors import quoted
    from loopwise.formats.vocabulary import known_names

    for name in ignore:
        if name not in header:
            raise ValueError(f"{path} has no column {quoted(name)} to ignore; {known_names('columns', header, name)}")
    kept = [place for place, name in enumerate(header) if name not in ignore]
    return [header[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _missing(options: AutoOptions, inputs: list[str]) -> Any:
    """The rule of missing cells."""
    import numpy as np

    from loopwise.apps.table import Patterns
    from loopwise.formats.errors import listed, quoted
    from loopwise.formats.numbers import number_in
    from loopwise.formats.table import read_cells
    from loopwise.formats.vocabulary import first_repeat

    if options.missing is not None and options.missing_like is not None:
        raise ValueError("--missing and --missing-like say the same thing twice; give one of them")
    if options.missing_like is not None:
        header, rows, _ = read_cells(options.missing_like)
        place = {name: number for number, name in enumerate(header)}
        if not set(inputs) & set(place):
            raise ValueError(
                f"{options.missing_like} has no input column, so every cell would be missing; its columns must be "
                f"called {listed(inputs)}"
            )
        empty = [[name not in place or not row[place[name]] for name in inputs] for row in rows]
        return Patterns(np.array(empty, dtype=np.bool_).reshape(len(rows), len(inputs)))
    if options.missing is None:
        return None
    parts = [text.rpartition("=") for text in options.missing.split(",")]
    rates = [number_in(rate.strip()) for _, _, rate in parts]
    names = [name.strip() for name, sign, _ in parts if sign]
    if None in rates or len(names) not in (0, len(rates)) or first_repeat(names) is not None:
        raise ValueError(
            "--missing must be a share such as 0.3, one for each input, or age=0.3,sex=0.1 for some of them, not "
            f"{quoted(options.missing)}"
        )
    return dict(zip(names, rates, strict=True)) if names else rates


def _report(model: Table, train: Path, target: Path, rows: int, as_json: bool) -> None:
    import numpy as np

    graph = model.system_.graph
    loss = ([model.ungrafted_loss_] + [step.loss for step in model.steps_ if step.kept])[-1]
    if as_json:
        trials = [{"what": t.what, "l2": str(t.l2), "joint": t.joint, "loss": t.loss} for t in model.trials_]
        steps = [
            {"factors": s.factors, "cost": s.cost, "loss": s.loss, "seconds": s.seconds, "kept": s.kept}
            for s in model.steps_
        ]
        report = {
            "train": str(train), "system": str(target), "rows": rows, "variables": graph.variables,
            "outputs": list(model.outputs_), "factors": graph.factors, "columns": model.kinds_, "l2": str(model.l2_),
            "joint": model.joint_, "development_loss": loss, "trials": trials, "grafted": steps,
        }  # fmt: skip
        typer.echo(json.dumps(report, allow_nan=False))
        return
    typer.echo(
        f"rows {rows}, variables {graph.variables}, outputs {len(model.outputs_) or 'any'}, factors {graph.factors}"
    )
    for name, kind in model.kinds_.items():
        typer.echo(f"  {name}: {kind}")
    added = sum(len(step.added) for step in model.steps_ if step.kept)
    prior = "weights in closed form" if np.isinf(model.l2_) else f"prior of strength {model.l2_:g}"
    typer.echo(f"{prior}, {added} factors added; development loss {loss:.4f}")
    typer.echo(f"saved {target}")
