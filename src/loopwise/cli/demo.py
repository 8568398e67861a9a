"""``loopwise demo``: the newcomer's minute. A table that fills in the terminal, a page on disk.

The measuring is in :mod:`loopwise.demo.findings`, the page in :mod:`loopwise.demo.page`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopwise.cli.messages import is_interactive, one_line_each, say

if TYPE_CHECKING:
    from rich.table import Table

    from loopwise.demo.findings import DemoProgress, Findings


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the numbers.")] = Path("out/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A toy, to see that it works; it shows nothing.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time.", show_default="one a core, at most 4")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The results file instead of the table.")] = False,
    seed: Annotated[int, typer.Option(help="For models, data and training.")] = 0,
) -> None:
    """Training for the loss against likelihood as inference is cut short: under two minutes, a table and a page."""
    with one_line_each():
        if jobs is not None and jobs < 1:
            raise ValueError(f"--jobs must be at least 1, not {jobs}")
        findings = _watched(out, quick, seed, jobs)
        if as_json:
            from loopwise.demo.results import FILE

            typer.echo(json.dumps(json.loads((out / FILE).read_text(encoding="utf-8"))))
        else:
            _print(findings, out)


def _watched(out: Path, quick: bool, seed: int, jobs: int | None) -> Findings:
    """Runs everything, with a table and a bar on standard error for whoever watches."""
    from loopwise.demo.run import demonstrate

    if not is_interactive():
        say("training some small systems; this takes a minute or two")
        return demonstrate(out, seed, lambda progress: None, quick=quick, workers=jobs)
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns)
    task = bar.add_task("starting", total=None)
    with Live(bar, console=Console(stderr=True), transient=True, refresh_per_second=4) as live:

        def tell(progress: DemoProgress) -> None:
            bar.update(task, completed=progress.done, total=progress.of, description=progress.what)
            live.update(Group(_table(progress.findings), bar))

        return demonstrate(out, seed, tell, quick=quick, workers=jobs)


def _print(findings: Findings, out: Path) -> None:
    from rich.console import Console

    from loopwise.demo.run import PAGE
    from loopwise.demo.summary import headline, image_sentence, reliability_sentence

    console = Console(highlight=False)
    console.print(_table(findings))
    for sentence in (headline(findings), reliability_sentence(findings), image_sentence(findings)):
        console.print(sentence)
    console.print(f"Page with pictures, to be opened in a browser: {out / PAGE}", soft_wrap=True)


def _table(findings: Findings) -> Table:
    from rich.table import Table

    from loopwise.demo.summary import loss_table

    headings, *lines = loss_table(findings)
    table = Table(
        title=f"Test loss on {findings.amounts.models} random models, trained and used with so many sweeps of BP",
        caption="mean squared error of beliefs, lower is better\n"
        f"cut in use: trained by likelihood with {max(findings.amounts.budgets)} sweeps, used with fewer",
        title_style="bold",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, line in enumerate(lines, 1):
        table.add_row(*line, end_section=number == len(lines) - 1)
    return table
