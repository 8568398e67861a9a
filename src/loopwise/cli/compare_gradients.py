"""``loopwise compare-gradients``: every gradient estimator on a model file, side by side.

The loss is that of a random labelling. The table (or JSON) goes to standard output; the status and warnings go to
standard error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import grouped
from loopwise.cli.messages import is_interactive, one_line_each
from loopwise.cli.methods import MessageOptions, MethodName, TaskName
from loopwise.cli.problem import read_problem
from loopwise.cli.targets import check_outputs

if TYPE_CHECKING:
    from rich.table import Table

    from loopwise.compare.gradients import GradientComparison, Row
    from loopwise.compare.losses import LabellingLoss


class DifferentiableMethod(str, Enum):
    """Inference methods that have gradients, by name."""

    BP = "bp"
    TRW = "trw"
    MEAN_FIELD = "meanfield"
    EXACT = "exact"


class ComparedLossName(str, Enum):
    """Losses of a labelling by name."""

    UNIVARIATE = "univariate"
    CLIQUE = "clique"
    UNIVARIATE_QUADRATIC = "univariate-quadratic"
    CLIQUE_QUADRATIC = "clique-quadratic"


@grouped
def compare_gradients(
    model: Annotated[
        Path, typer.Argument(help="A .uai, .fg or .bif file, plain or .gz; - reads a .uai from standard input.")
    ],
    *,
    evidence: Annotated[Path | None, typer.Option(help="A .evid file of observed values, plain or .gz.")] = None,
    method: Annotated[DifferentiableMethod, typer.Option(help="Inference method.")] = DifferentiableMethod.BP,
    loss: Annotated[
        ComparedLossName,
        typer.Option(help="Loss of a random labelling: likelihood or quadratic, of variables or factors."),
    ] = ComparedLossName.UNIVARIATE,
    messages: MessageOptions,
    directions: Annotated[
        int, typer.Option(help="Random directions to measure errors along, on models of over 100 numbers.", min=1)
    ] = 8,
    repeats: Annotated[int, typer.Option(help="Calls that times are the median of.", min=1)] = 5,
    plot: Annotated[Path | None, typer.Option(help="Draw error against time to this PNG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON instead of a table.")] = False,
    seed: Annotated[int, typer.Option(help="For the labelling and the directions.")] = 0,
) -> None:
    """Error, time and memory of every gradient estimator on a model file, and which are not valid there."""
    with one_line_each():
        choice = messages.choice(MethodName(method.value), TaskName.MAR, seed)
        check_outputs({"--plot": plot}, inputs=(model, evidence))
        graph, potentials, observed, sizes = read_problem(model, evidence)
        from loopwise.compare.gradients import compare_gradients as compare
        from loopwise.compare.losses import random_labelling

        labels, chosen = random_labelling(graph, seed, observed), _losses()[loss]
        with _busy("comparing gradients (the first run compiles for some seconds)"):
            found = compare(
                graph, potentials, lambda beliefs: chosen(beliefs, labels), choice.inference(), observed,
                directions=directions, repeats=repeats, seed=seed,
            )  # fmt: skip
        if plot is not None:
            from loopwise import plot as pictures

            pictures.save(pictures.gradients(found.rows), plot)
        if as_json:
            typer.echo(json.dumps({"model": sizes, "loss": loss.value, "seed": seed, **_report(found)}))
        else:
            _print(found, plot)


def _losses() -> dict[ComparedLossName, LabellingLoss]:
    from loopwise.compare import losses

    return {
        ComparedLossName.UNIVARIATE: losses.univariate_likelihood,
        ComparedLossName.CLIQUE: losses.clique_likelihood,
        ComparedLossName.UNIVARIATE_QUADRATIC: losses.univariate_quadratic,
        ComparedLossName.CLIQUE_QUADRATIC: losses.clique_quadratic,
    }


@contextmanager
def _busy(what: str) -> Iterator[None]:
    from rich.console import Console

    if is_interactive():
        with Console(stderr=True).status(what):
            yield
    else:
        yield


def _print(found: GradientComparison, plot: Path | None) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for line in found.heading():
        console.print(line, markup=False)
    console.print(_table(found))
    for remark in found.remarks():
        console.print(remark, markup=False)
    if plot is not None:
        console.print(f"Picture: {plot}", soft_wrap=True, markup=False)


def _table(found: GradientComparison) -> Table:
    from rich.markup import escape
    from rich.table import Table

    headings, *lines = found.lines()
    table = Table()
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right")
    for row, line in zip(found.rows, lines, strict=True):
        table.add_row(*(escape(cell) for cell in line), style=None if row.valid else "yellow")
    return table


def _report(found: GradientComparison) -> dict[str, Any]:
    return {
        "status": found.status,
        "reference": found.reference,
        "forward_seconds": found.forward_seconds,
        "forward_bytes": found.forward_bytes,
        "rows": [_row(row) for row in found.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    values = {"valid": row.valid, **asdict(row)}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
