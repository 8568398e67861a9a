"""``loopwise demo``: the newcomer's minute. A table in the terminal, a picture on disk.

The measuring is in :mod:`loopwise.cli.demo_experiment`, the drawing in :mod:`loopwise.plot.comparison`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopwise.cli.messages import is_interactive, one_line_each

if TYPE_CHECKING:
    from rich.table import Table

    from loopwise.cli.demo_experiment import Cell, Findings

PICTURE = "comparison.png"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("out/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller grid and fewer models.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON instead of a table.")] = False,
    seed: Annotated[int, typer.Option(help="For the random models.")] = 0,
) -> None:
    """How far BP, TRW and mean field are from exact inference as couplings grow: a table and a picture."""
    with one_line_each():
        findings = _with_progress(side=6 if quick else 10, models=5 if quick else 20, seed=seed)
        from loopwise.cli.demo_experiment import SHOWN_COUPLING
        from loopwise.plot.comparison import draw_comparison

        out.mkdir(parents=True, exist_ok=True)
        picture = out / PICTURE
        draw_comparison(findings.cells, findings.images, SHOWN_COUPLING, picture)
        if as_json:
            cells = [asdict(cell) for cell in findings.cells]
            typer.echo(json.dumps({"side": findings.side, "seed": seed, "cells": cells, "picture": str(picture)}))
        else:
            _print(findings, picture)


def _with_progress(side: int, models: int, seed: int) -> Findings:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from loopwise.cli.demo_experiment import experiment, steps

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not is_interactive()) as bar:
        task = bar.add_task("starting (the first run compiles for some seconds)", total=steps())

        def progress(what: str) -> None:
            bar.update(task, advance=1, description=what)

        return experiment(side, models, seed, progress)


def _print(findings: Findings, picture: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table(findings))
    console.print("\n".join(_lessons(findings.cells)))
    console.print(f"Picture: {picture}", soft_wrap=True)


def _lessons(cells: tuple[Cell, ...]) -> list[str]:
    """What this run showed, not what such runs usually show."""
    weakest = min(cell.coupling for cell in cells)
    best = min((cell for cell in cells if cell.coupling == weakest), key=lambda cell: cell.error)
    lines = [f"Closest at the weakest coupling: {best.method}, off by {best.error:.2g} on average."]
    for method in dict.fromkeys(cell.method for cell in cells):
        lost = [cell.coupling for cell in cells if cell.method == method and cell.converged < cell.models]
        if lost:
            lines.append(f"{method} does not converge on every model from coupling {min(lost):g} (yellow rows).")
    return [*lines, "The status of every answer says so at the time."]


def _table(findings: Findings) -> Table:
    from rich.table import Table

    models = findings.cells[0].models
    table = Table(
        title=f"Spin grids of {findings.side} x {findings.side}, {models} random models for each coupling",
        caption="error: mean absolute error of marginals; log Z off: estimate less exact log Z",
        title_style="bold",
    )
    for heading in ("coupling", "method", "error", "log Z off", "bound", "sweeps", "converged"):
        table.add_column(heading, justify="left" if heading in ("method", "bound") else "right", no_wrap=True)
    previous: Cell | None = None
    for cell in findings.cells:
        starts = previous is None or previous.coupling != cell.coupling
        if starts and previous is not None:
            table.add_section()
        table.add_row(
            f"{cell.coupling:g}" if starts else "",
            cell.method,
            f"{cell.error:.4f}",
            f"{cell.log_partition_error:+.3f}",
            _bound(cell),
            f"{cell.sweeps:.0f}",
            f"{cell.converged} of {cell.models}",
            style=None if cell.converged == cell.models else "yellow",
        )
        previous = cell
    return table


def _bound(cell: Cell) -> str:
    if cell.bound_holds is None:
        return "none"
    return f"{cell.bound} {'ok' if cell.bound_holds else 'FAILS'}"
