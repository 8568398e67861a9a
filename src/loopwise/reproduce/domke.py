"""Domke 2010, *Implicit Differentiation by Perturbation*: which of its experiments there are, and what they write.

In: a mode and a folder. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in that folder. Each experiment
replaces its own cells and leaves those of the other alone; the pages show all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from loopwise.reproduce.domke_claims import figure2_claims
from loopwise.reproduce.domke_figure1 import CAPTION as FIGURE1_CAPTION
from loopwise.reproduce.domke_figure1 import PICTURE as FIGURE1
from loopwise.reproduce.domke_figure1 import draw_figure1
from loopwise.reproduce.domke_figure2 import (
    ENTROPIES,
    ESTIMATORS,
    INFERENCE,
    PUBLISHED,
    SHORTENED,
    Protocol,
    item_name,
    problems,
    run_figure2,
)
from loopwise.reproduce.domke_table1 import STANDING_IN, Models, count_steps, run_table1
from loopwise.reproduce.domke_table1 import Protocol as TableProtocol
from loopwise.reproduce.domke_table1_claims import table1_claims
from loopwise.reproduce.domke_table1_data import FIELDS
from loopwise.reproduce.domke_table1_page import protocol_of, table1_introduction
from loopwise.reproduce.page import Page, write_pages
from loopwise.reproduce.results import FULL, Cell, Deadline, Results

PAPER = "domke"
PICTURE = "figure2.png"
TITLE = "Domke 2010, Implicit Differentiation by Perturbation"
INTRODUCTION = (
    "Figure 2: what a gradient costs on grids with 5 values a variable, loss the univariate likelihood of a random "
    "labelling. Inference is sequential message passing to a tolerance of 1e-5; perturbation is two-sided; back-BP "
    "stops at 1e-4; the direct solver is a sparse LU factorisation, run to 64x64; MINRES stands in for SYMMLQ, which "
    "SciPy does not have; unroll (back-propagation through every sweep) is not in the paper.",
    "Times are of the backward alone (of inference: the forward alone), on one thread, the mean over seeds. "
    "Errors are relative to "
    "the direct solution at inference converged to 1e-10; where that is too large, to back-BP at 1e-10. The paper "
    "prints curves without numbers, so their shapes are stated as claims.",
)
CAPTIONS = {
    FIGURE1: FIGURE1_CAPTION,
    PICTURE: "Seconds (above) and relative error (below) of each gradient, against size and strength.",
}


def steps(mode: str) -> int:
    """How many times :func:`reproduce_figure2` calls its ``progress`` at most."""
    return len(list(problems(_protocol(mode), 0)))


def table_steps(mode: str, data: Path | None) -> int:
    """How many rows :func:`reproduce_table1` finishes at most."""
    return count_steps(protocol_of(mode), data)


def reproduce_figure2(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
    protocol: Protocol | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of the figure, at most for ``minutes``, and writes everything; whether it is complete."""
    results = Results.open(folder, PAPER, mode, seed)
    done, of = run_figure2(results, protocol or _protocol(mode), Deadline(minutes), progress)
    results.claim(*figure2_claims(results))
    shown = [*_panels(results, "seconds"), *_panels(results, "error")]
    save(panels(shown, columns=4, one_legend=True), folder / PICTURE)
    _write_pages(results, () if done == of else (f"Not finished: {done} of {of} grids were measured.",))
    return results, done == of


def reproduce_table1(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    progress: Callable[[str, bool], None] = lambda what, finished: None,
    data: Path | None = None,
    protocol: TableProtocol | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of Table 1 and draws Figure 1, at most for ``minutes``; whether it is complete.

    ``data``: where the Berkeley images are (:func:`~loopwise.reproduce.domke_table1_data.find_berkeley`).
    """
    protocol = protocol or protocol_of(mode)
    results = Results.open(folder, PAPER, mode, seed)
    done, of = run_table1(results, protocol, data, Deadline(minutes), progress)
    models = Models(folder, protocol, seed)
    results.claim(*table1_claims(models))
    draw_figure1(models, protocol, seed, data, folder)
    _write_pages(results, () if done == of else (f"Not finished: {done} of {of} rows of Table 1 were trained.",))
    return results, done == of


def _write_pages(results: Results, notes: tuple[str, ...]) -> None:
    items = results.items()
    introduction: list[str] = []
    if any(item.startswith("Table 1") for item in items):
        introduction += table1_introduction(results)
    if any(item.startswith("Figure 2") for item in items):
        introduction += INTRODUCTION
    units = {item: _unit(item) for item in items}
    pictures = {name: caption for name, caption in CAPTIONS.items() if (results.folder / name).exists()}
    write_pages(Page(TITLE, (*introduction, *notes), pictures, units), results)


def _unit(item: str) -> str:
    if item.startswith("Figure 2"):
        return "seconds, mean and standard error over seeds"
    over = "noisy copies of four images" if item.endswith(STANDING_IN) and FIELDS not in item else "images"
    return f"losses by the pixel, mean and standard error over {over}; rows are what was trained for"


def _protocol(mode: str) -> Protocol:
    return PUBLISHED if mode == FULL else SHORTENED


def _panels(results: Results, what: str) -> list[Panel]:
    """One panel for each entropy and each quantity that varies."""
    found = []
    for against, label in (("size", "side of the grid"), ("strength", "interaction strength a")):
        for entropy in ENTROPIES:
            cells = list(results.of_item(item_name(entropy, against)))
            rows = ESTIMATORS if what == "error" else (INFERENCE, *ESTIMATORS)
            curves = [_line(row, [cell for cell in cells if cell.row == row], what) for row in rows]
            y_label = "seconds" if what == "seconds" else "relative error"
            base = 0 if against == "strength" else 2
            found.append(Panel(f"{entropy}, {against}", label, y_label, curves, log_x=base, log_y=True, ticks=True))
    return found


def _line(row: str, cells: list[Cell], what: str) -> Curve:
    places = [float(cell.column.split("x")[0]) for cell in cells]
    return Curve(row, places, [cell.ours if what == "seconds" else cell.more["error"] for cell in cells])
