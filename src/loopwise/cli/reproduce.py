"""``loopwise reproduce``: published experiments run again, published beside ours.

One command a paper. Results go to a folder: JSON, pictures, a page. What holds goes to standard output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.messages import is_interactive, one_line_each, say
from loopwise.cli.targets import check_apart

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from loopwise.reproduce.results import Results

reproduce = typer.Typer(no_args_is_help=True, help="Published experiments run again: numbers, pictures, what holds.")

KEPT = Path("docs/results")  # where the last full run is kept
SCRATCH = Path("out/reproduce")
DATA = Path("../shared/data")  # where the collection is looked for, beside the project

Minutes = Annotated[float | None, typer.Option(help="Stop after so long; the same command again continues.")]
Jobs = Annotated[int | None, typer.Option(help="Runs at a time.", show_default="one a core")]
Json = Annotated[bool, typer.Option("--json", help="The results file instead of the claims.")]


def _folder(paper: str) -> Any:
    """The option for where results go."""
    return typer.Option(
        help="Folder for the results; runs go to its subfolder runs, and are used again.",
        show_default=f"{SCRATCH / paper}, or {KEPT / paper} with --full",
    )


@reproduce.callback()
def _reproduce() -> None:
    pass


@reproduce.command()
def domke(
    table: Annotated[int | None, typer.Option(help="Which table: 1, what training for each loss gives.")] = None,
    figure: Annotated[
        int | None,
        typer.Option(
            help="Which figure: 2, the time of each gradient; 1 comes with table 1.", show_default="2, without --table"
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small grids or images, a few minutes at most. The default.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The published protocol: hours.")] = False,
    minutes: Minutes = None,
    out: Annotated[Path | None, _folder("domke")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="bsds_binary_200.npz or a folder that holds it, for table 1.",
            show_default="in LOOPWISE_DATA or ../shared/data; else random fields stand in",
        ),
    ] = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="For the grids, labellings, splits and noise.")] = 0,
) -> None:
    """Domke 2010: implicit differentiation by perturbation."""
    with one_line_each():
        _check_mode(quick, full)
        if table not in (None, 1):
            raise ValueError(f"--table {table} is not reproduced; --table 1 is")
        if figure not in (None, 1, 2):
            raise ValueError(f"--figure {figure} is not reproduced; --figure 1 (with --table 1) and --figure 2 are")
        wants_table = table is not None or figure == 1
        if data is not None and not wants_table:
            raise ValueError("--data means nothing to --figure 2, which draws its own grids; give --table 1")
        folder, _ = _folders("domke", full, out, data)
        complete = True
        if wants_table:
            results, complete = _domke_table(folder, full, seed, minutes, _data(data))
        if figure == 2 or not wants_table:
            results, drawn = _domke_figure(folder, full, seed, minutes)
            complete = complete and drawn
        _tell(results, complete, as_json)


@reproduce.command()
def erma(
    table: Annotated[list[int] | None, typer.Option(help="Only this table: 3, 4, 5 or 6; may be repeated.")] = None,
    figure: Annotated[int | None, typer.Option(help="Only this figure: 1, the landscapes.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small models, under ten minutes. The default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The published protocol: hours.")] = False,
    minutes: Minutes = None,
    out: Annotated[Path | None, _folder("erma")] = None,
    practice: Annotated[
        bool, typer.Option("--practice", help="Instead: other optimisers, other inference, calibration; what to use.")
    ] = False,
    jobs: Jobs = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="For models, data and training.")] = 0,
) -> None:
    """Stoyanov, Ropson & Eisner 2011: training for the loss, through truncated BP."""
    with one_line_each():
        _check_mode(quick, full)
        wrong = next((number for number in table or [] if number not in (3, 4, 5, 6)), None)
        if wrong is not None:
            raise ValueError(f"--table {wrong} is not reproduced; --table 3, 4, 5 and 6 are")
        if figure not in (None, 1):
            raise ValueError(f"--figure {figure} is not reproduced; --figure 1 is")
        jobs = _checked_jobs(jobs)
        folder, runs = _folders("erma", full, out)
        if practice and (table or figure):
            raise ValueError("--practice has neither tables nor figures of the paper; leave --table and --figure out")
        tables = sorted(set(table)) if table else [] if figure else [3, 4, 5, 6]
        if practice:
            results, complete = _erma_practice(folder, runs, full, seed, minutes, jobs)
        else:
            chosen = figure is not None or not table
            results, complete = _erma(folder, runs, full, seed, minutes, tables, chosen, jobs)
        _tell(results, complete, as_json)


@reproduce.command()
def samplerank(
    table: Annotated[int, typer.Option(help="Which table: 1, coreference; 2, multi-label; 3, names in text.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Few documents, a few minutes. The default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The published protocol: an hour or more.")] = False,
    minutes: Minutes = None,
    out: Annotated[Path | None, _folder("samplerank")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data collection.",
            show_default="LOOPWISE_DATA or ../shared/data; else made-up documents, for table 1",
        ),
    ] = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="For splits, walks and training.")] = 0,
) -> None:
    """Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011: learning inside a walk."""
    with one_line_each():
        _check_mode(quick, full)
        if table not in (1, 2, 3):
            raise ValueError(f"--table {table} is not reproduced; --table 1, 2 and 3 are")
        folder, runs = _folders("samplerank", full, out, data)
        results, complete = _samplerank(table, folder, runs, full, seed, minutes, _data(data))
        _tell(results, complete, as_json)


@reproduce.command("cost-aware")
def cost_aware(
    quick: Annotated[bool, typer.Option("--quick", help="One small truth, under ten minutes. The default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Ten truths at full size: hours.")] = False,
    minutes: Minutes = None,
    out: Annotated[Path | None, _folder("cost-aware")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="For models, data and training.")] = 0,
) -> None:
    """Eisner & Stoyanov 2011: accuracy and run time in one objective."""
    with one_line_each():
        _check_mode(quick, full)
        folder, runs = _folders("cost-aware", full, out)
        results, complete = _cost_aware(folder, runs, full, seed, minutes, _checked_jobs(jobs))
        _tell(results, complete, as_json)


@reproduce.command()
def parser(
    figure: Annotated[
        list[int] | None,
        typer.Option(help="Only this figure: 3, accuracy against iterations; 4, against factors; may be repeated."),
    ] = None,
    table: Annotated[
        list[int] | None,
        typer.Option(help="Only this table: 1, against exact inference; 2, all languages; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few sentences and treebanks, under 15 minutes. The default.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="All treebanks: hours.")] = False,
    minutes: Minutes = None,
    out: Annotated[Path | None, _folder("parser")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data collection.", show_default="LOOPWISE_DATA or ../shared/data"),
    ] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="For the draw of sentences and the order of training.")] = 0,
) -> None:
    """Gormley, Dredze & Eisner 2015: parsers trained for the iterations of BP they are given."""
    with one_line_each():
        _check_mode(quick, full)
        folder, runs = _folders("parser", full, out, data)
        items = _parser_items(figure or [], table or [])
        results, complete = _parser(items, folder, runs, full, seed, minutes, _data(data), _checked_jobs(jobs))
        _tell(results, complete, as_json)


def _check_mode(quick: bool, full: bool) -> None:
    if quick and full:
        raise ValueError("--quick and --full exclude each other; give one of them")


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, not {jobs}")
    return jobs


def _folders(paper: str, full: bool, out: Path | None, data: Path | None = None) -> tuple[Path, Path]:
    """Where results and finished runs go. What is kept in the repository is small; the runs behind it are not."""
    folder = out if out is not None else (KEPT if full else SCRATCH) / paper
    runs = SCRATCH / f"{paper}-runs" if full and out is None else folder / "runs"
    check_apart(
        [(f"the folder for the {what}, {path},", path) for what, path in (("results", folder), ("runs", runs))], (data,)
    )
    return folder, runs


def _data(given: Path | None) -> Path | None:
    """The folder that was given, or the collection beside the project; None leaves it to LOOPWISE_DATA or stand-ins."""
    if given is None and "LOOPWISE_DATA" not in os.environ and DATA.is_dir():
        return DATA
    return given


def _mode(full: bool) -> str:
    from loopwise.reproduce.results import FULL, QUICK

    return FULL if full else QUICK


@dataclass(frozen=True)
class _Watch:
    """What a study tells while it runs: a bar on terminals, and lines of a log that nobody watches otherwise."""

    bar: Progress
    task: TaskID
    logged: bool

    def at(self, what: str, done: int) -> None:
        """So many runs are done."""
        self.bar.update(self.task, completed=done, description=what)
        if self.logged:
            say(f"{done} runs: {what}")

    def on(self, what: str, by: int = 1) -> None:
        """``by`` more are done."""
        self.bar.update(self.task, advance=by, description=what)
        if self.logged:
            say(what)


@contextmanager
def _watched(total: int, full: bool) -> Iterator[_Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_interactive()) as bar:
        task = bar.add_task("starting (the first run compiles for some seconds)", total=total)
        yield _Watch(bar, task, full and not is_interactive())


def _domke_figure(folder: Path, full: bool, seed: int, minutes: float | None) -> tuple[Results, bool]:
    from loopwise.reproduce.domke import reproduce_figure2, steps

    mode = _mode(full)
    with _watched(steps(mode), full) as watch:
        return reproduce_figure2(folder, mode, seed, minutes, watch.on)


def _domke_table(folder: Path, full: bool, seed: int, minutes: float | None, data: Path | None) -> tuple[Results, bool]:
    from loopwise.reproduce.domke import reproduce_table1, table_steps

    mode = _mode(full)
    with _watched(table_steps(mode, data), full) as watch:
        return reproduce_table1(folder, mode, seed, minutes, watch.on, data)  # a row that is finished counts 1


def _erma(
    folder: Path,
    runs: Path,
    full: bool,
    seed: int,
    minutes: float | None,
    tables: list[int],
    figure: bool,
    jobs: int | None,
) -> tuple[Results, bool]:
    from loopwise.reproduce.erma import reproduce, steps

    mode = _mode(full)
    with _watched(steps(mode, tables, figure), full) as watch:
        return reproduce(folder, mode, seed, minutes, watch.at, tables, figure, runs=runs, workers=jobs)


def _erma_practice(
    folder: Path, runs: Path, full: bool, seed: int, minutes: float | None, jobs: int | None
) -> tuple[Results, bool]:
    from loopwise.reproduce.erma import practice_steps, reproduce_practice

    mode = _mode(full)
    with _watched(practice_steps(mode), full) as watch:
        return reproduce_practice(folder, mode, seed, minutes, watch.at, runs=runs, workers=jobs)


def _samplerank(
    table: int, folder: Path, runs: Path, full: bool, seed: int, minutes: float | None, data: Path | None
) -> tuple[Results, bool]:
    from loopwise.reproduce.samplerank import reproduce_table, steps

    mode = _mode(full)
    with _watched(steps(table, mode, data), full) as watch:
        return reproduce_table(table, folder, mode, seed, minutes, watch.at, data, runs)


def _cost_aware(
    folder: Path, runs: Path, full: bool, seed: int, minutes: float | None, jobs: int | None
) -> tuple[Results, bool]:
    from loopwise.reproduce.cost_aware import reproduce, steps

    mode = _mode(full)
    with _watched(steps(mode), full) as watch:
        return reproduce(folder, mode, seed, minutes, watch.at, runs=runs, workers=jobs)


def _parser_items(figures: list[int], tables: list[int]) -> list[str]:
    """The names of what was asked for; without anything, all there is."""
    from loopwise.reproduce.parser_jobs import FIGURE3, FIGURE4, ITEMS, TABLE1, TABLE2

    known = {("figure", 3): FIGURE3, ("figure", 4): FIGURE4, ("table", 1): TABLE1, ("table", 2): TABLE2}
    wanted = [("figure", number) for number in figures] + [("table", number) for number in tables]
    wrong = next((entry for entry in wanted if entry not in known), None)
    if wrong is not None:
        raise ValueError(f"--{wrong[0]} {wrong[1]} is not reproduced; --figure 3 and 4, --table 1 and 2 are")
    return [known[entry] for entry in wanted] or list(ITEMS)


def _parser(
    items: list[str],
    folder: Path,
    runs: Path,
    full: bool,
    seed: int,
    minutes: float | None,
    data: Path | None,
    jobs: int | None,
) -> tuple[Results, bool]:
    from loopwise.reproduce.parser import reproduce, steps

    mode = _mode(full)
    with _watched(steps(mode, items, data), full) as watch:
        return reproduce(folder, mode, seed, minutes, watch.at, items, data, runs, workers=jobs)


def _tell(results: Results, complete: bool, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from loopwise.reproduce.page import verdict
    from loopwise.reproduce.results import FILE

    if not complete:
        say("not finished: run the same command again to continue")
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
