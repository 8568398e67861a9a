"""``python -m studies PAPER``: a published study run again, published beside ours.

In: the name of a paper, how much of it, where to. Out: results, pictures and a page in a folder, what holds on standard
output. Stage: above all studies; only this module maps names to them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopwise.cli.messages import is_interactive, one_line_each, say
from loopwise.cli.targets import check_apart
from studies.harness.results import FILE, FULL, QUICK, Results

if TYPE_CHECKING:
    from studies.harness.queue import Tell, Workers
    from studies.harness.study import Study, StudyOrder

KEPT = Path("docs/results")  # where the last full run is kept
SCRATCH = Path("out/studies")
DATA = Path("../shared/data")  # where the collection is looked for, beside the project


class Paper(str, Enum):
    """The studies there are."""

    ERMA = "erma"
    DOMKE = "domke"
    SAMPLERANK = "samplerank"
    COST_AWARE = "cost-aware"
    PARSER = "parser"
    DECODER = "decoder"
    TABLES = "tables"
    ENTITIES = "entities"


app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    paper: Annotated[
        Paper,
        typer.Argument(
            help="erma: training for the loss (tables 3 to 6, figure 1); domke: gradients and images (figure 2, table "
            "1); samplerank: learning inside a walk (tables 1 to 3); cost-aware: accuracy and run time; parser: trees "
            "(figures 3 and 4, tables 1 and 2); decoder: error-correcting codes, beside published figures; tables: no "
            "paper, but ours beside what users have, with missing cells; entities: duplicates, beside dedupe and "
            "splink."
        ),
    ],
    table: Annotated[list[int] | None, typer.Option(help="Only this table; may be repeated.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Only this figure; may be repeated.")] = None,
    item: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this, which has no number: of parser epochs, calibration, prior, rates or accuracy, of "
            "cost-aware strong, sweeps, stopping, both or gates; may be repeated."
        ),
    ] = None,
    practice: Annotated[
        bool, typer.Option("--practice", help="Of erma, instead: other optimisers and inference, calibration.")
    ] = False,
    budgets: Annotated[
        bool, typer.Option("--budgets", help="Of erma, instead: finished trainings, a prior, 100 sweeps down to one.")
    ] = False,
    posterior: Annotated[
        bool, typer.Option("--posterior", help="Of erma, instead: intervals and calibration under a posterior.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small models and data, minutes. The default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The published protocol: hours.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Stop after so long; the same command again continues.")] = None,
    seed: Annotated[int, typer.Option(help="For models, data and training.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; runs go to its subfolder runs, and are used again.",
            show_default=f"{SCRATCH}/PAPER, or {KEPT}/PAPER with --full",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data collection.", show_default=f"LOOPWISE_DATA or {DATA}")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time.", show_default="one a core")] = None,
    workers: Annotated[
        str | None, typer.Option(help="Instead: the address of a Dask scheduler, whose workers do the runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The results file instead of the claims.")] = False,
    page: Annotated[
        Path | None, typer.Option(help="Instead: write the pages of this folder anew from its results.json.")
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(help="Instead: decide the claims of this folder anew by the rules as they are, from its numbers."),
    ] = None,
) -> None:
    """A published study run again: numbers, pictures, what holds."""
    with one_line_each():
        study = study_of(paper)
        if page is not None or judge is not None:
            _tell(_anew(study, page, judge), as_json)
            return
        if quick and full:
            raise ValueError("--quick and --full exclude each other; give one of them")
        order = _order(study, FULL if full else QUICK, out, data, _workers(study, jobs, workers))
        order = replace(
            order,
            parts=_parts(table, figure, item, practice=practice, budgets=budgets, posterior=posterior),
            minutes=minutes,
            seed=seed,
        )
        results, complete = _watched(study, order)
        if not complete:
            say("not finished: run the same command again to continue")
        _tell(results, as_json)


def study_of(paper: Paper) -> Study:
    """The study of a paper; the others are not imported."""
    from importlib import import_module

    study: Study = import_module(f"studies.{paper.value.replace('-', '_')}.run").STUDY
    return study


def _anew(study: Study, page: Path | None, judge: Path | None) -> Results:
    """The pages, or the claims with them, of results that are there."""
    from studies.harness.study import judge_again, rebuild_pages

    if judge is None:
        assert page is not None
        return rebuild_pages(study, page)
    if page is not None:
        raise ValueError("--judge writes the pages too; leave --page out")
    return judge_again(study, judge)


def _parts(
    tables: list[int] | None, figures: list[int] | None, items: list[str] | None, **named: bool
) -> tuple[str, ...]:
    asked = (("table", tables), ("figure", figures), ("item", items))
    several = [f"{kind} {which}" for kind, some in asked for which in some or ()]
    return (*several, *(name for name, wanted in named.items() if wanted))


def _workers(study: Study, jobs: int | None, address: str | None) -> Workers | None:
    """Who does the runs; None: one process a core."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, not {jobs}")
    if jobs is not None and address is not None:
        raise ValueError("--jobs and --workers exclude each other: the workers of a cluster are as many as they are")
    option = "--workers" if jobs is None else "--jobs"
    if (jobs or address) and not study.side_by_side:
        raise ValueError(f"{option} means nothing to {study.name}, whose runs are timed, one after another")
    return jobs or address


def _order(study: Study, mode: str, out: Path | None, data: Path | None, workers: Workers | None) -> StudyOrder:
    """Where results and finished runs go. What is kept in the repository is small; the runs behind it are not."""
    from studies.harness.study import StudyOrder

    full = mode == FULL
    folder = out if out is not None else (KEPT if full else SCRATCH) / study.name
    runs = SCRATCH / f"{study.name}-runs" if full and out is None else folder / "runs"
    check_apart(
        [(f"the folder for the {what}, {path},", path) for what, path in (("results", folder), ("runs", runs))], (data,)
    )
    return StudyOrder(folder, mode, data=data, runs=runs, workers=workers)


def _with_data(study: Study, order: StudyOrder) -> StudyOrder:
    """The folder that was given, or the collection beside the project; None leaves it to LOOPWISE_DATA or stand-ins."""
    if not study.reads_data(order.parts):
        if order.data is not None:
            asked = " ".join((study.name, *(f"--{part}" for part in order.parts)))
            raise ValueError(f"--data means nothing to {asked}, which draws its own; leave it out")
        return order
    if order.data is None and "LOOPWISE_DATA" not in os.environ and DATA.is_dir():
        return replace(order, data=DATA)
    return order


def _watched(study: Study, order: StudyOrder) -> tuple[Results, bool]:
    """Runs what is left, with a bar for whoever watches, and lines of a log for a long run that nobody does."""
    from studies.harness.study import reproduce as run_study

    order = _with_data(study, study.chosen(order))
    with _bar(study.steps(order), logged=order.mode == FULL) as tell:
        return run_study(study, replace(order, tell=tell))


@contextmanager
def _bar(total: int, logged: bool) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_interactive()) as bar:
        task = bar.add_task("starting (the first run compiles for some seconds)", total=total)

        def tell(what: str, done: int) -> None:
            bar.update(task, completed=done, description=what)
            if logged and not is_interactive():
                say(f"{done} runs: {what}")

        yield tell


def _tell(results: Results, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from studies.harness.page import verdict

    if as_json:
        typer.echo(json.dumps(json.loads((results.folder / FILE).read_text(encoding="utf-8"))))
        return
    table = Table()
    for heading in ("published claim", "here", "evidence"):
        table.add_column(heading)
    for claim in results.claims:
        table.add_row(claim.text, verdict(claim), claim.evidence, style=None if claim.holds else "yellow")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"Results, pictures and page.html: {results.folder}", soft_wrap=True)
