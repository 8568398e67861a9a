"""The pictures of the parsing study.

In: a :class:`ParserRuns`. Out: PNG files; none for what is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from loopwise.loss.calibration import Reliability
from loopwise.plot.calibration import reliability as draw_reliability
from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, new_grid, plain, save
from studies.parser.finished import ParserRuns
from studies.parser.protocol import (
    ACCURACY,
    AR,
    BUDGET,
    CALIBRATED,
    CALIBRATION,
    CLL,
    FIGURE3,
    FIGURE4,
    L2,
    L2_AR,
    TABLE2,
    ParserTraining,
)
from studies.parser.published import printed_average
from studies.parser.tables import LOSSES, MODELS, analysed, second_order

STYLES = {CLL: (ORANGE, "s"), L2: (BLUE, "o"), L2_AR: (GREEN, "^"), AR: (PURPLE, "v")}
SPREAD = 0.14  # of dots of one column


CAPTIONS = {
    "figures.png": "Figure 3: UAS of English against iterations of BP, each point trained for its own number. Figure "
    f"4: UAS with other factors, {BUDGET} iterations. Bars: standard errors over sentences.",
    "table2.png": "Table 2: L2 less CLL on each treebank (dots) and on average (bars), published averages in grey.",
    "calibration.png": "How often arcs are right against how probable they were said to be, all arcs that "
    "pruning left.",
    "errors.png": "Recall and precision by the length of arcs, L2, second order with "
    f"{BUDGET} iterations against first.",
}


def draw(study: ParserRuns, folder: Path, parts: Collection[str]) -> None:
    """Draws what there is of some parts of the study."""
    pictures: tuple[tuple[set[str], int, Callable[[Any, ParserRuns], bool]], ...] = (
        ({FIGURE3, FIGURE4}, 2, _draw_figures),
        ({TABLE2}, 1, _draw_gains),
        ({CALIBRATION}, len(CALIBRATED), _draw_calibration),
        ({ACCURACY}, 2, _draw_errors),
    )
    for name, (shown, panels, paint) in zip(CAPTIONS, pictures, strict=True):
        if shown.isdisjoint(parts):
            continue
        grid = new_grid(1, panels, 8.6 if panels == 1 else 5.4 * panels, 4.6)
        if paint(grid[0], study):
            save(grid, folder / name)


def _draw_figures(panels: Any, study: ParserRuns) -> bool:
    counts = study.protocol.iterations
    drawn = False
    for loss in LOSSES:
        jobs = [second_order(study, count, loss) for count in counts]
        drawn |= _line(panels[0], study, loss, [float(count) for count in counts], jobs)
    panels[0].set_xticks(counts)
    _label(panels[0], "iterations of BP, in training and test", "UAS", "Figure 3")
    for place, loss in enumerate((CLL, L2, L2_AR)):
        jobs = [ParserTraining(study.protocol.english, factors, count, loss) for factors, count in MODELS.items()]
        drawn |= _line(panels[1], study, loss, [k + 0.08 * (place - 1) for k in range(len(MODELS))], jobs, joined=False)
    panels[1].set_xticks(range(len(MODELS)), list(MODELS))
    _label(panels[1], "factors", "UAS", "Figure 4")
    return drawn


def _line(
    axes: Axes, study: ParserRuns, loss: str, x: list[float], jobs: list[ParserTraining], joined: bool = True
) -> bool:
    found = [(at, score) for at, score in zip(x, map(study.uas, jobs), strict=True) if score is not None]
    if found:
        colour, marker = STYLES[loss]
        axes.errorbar(
            [at for at, _ in found], [score for _, (score, _) in found], yerr=[error for _, (_, error) in found],
            color=colour, marker=marker, markersize=5, capsize=2, linewidth=1.6, label=loss,
            linestyle="-" if joined else "none",
        )  # fmt: skip
    return bool(found)


def _draw_gains(panels: Any, study: ParserRuns) -> bool:
    axes = panels[0]
    models = study.models
    drawn = False
    for column, (title, factors, count) in enumerate(models):
        average = study.average(factors, count)
        if average is None:
            continue
        drawn = True
        printed = printed_average(title)
        if printed is not None:
            axes.bar(
                column - 0.2, printed[1], 0.36, color="#bbbbbb", label=None if column else "published, 19 languages"
            )
        axes.bar(
            column + 0.2, average.gap, 0.36, yerr=average.error, color=BLUE, ecolor=BLACK, capsize=3,
            label=None if column else f"ours, {average.treebanks} treebanks",
        )  # fmt: skip
        _dots(axes, study, column + 0.2, factors, count)
    axes.axhline(0.0, color="#999999", linewidth=0.8)
    axes.set_xticks(range(len(models)), [title for title, _, _ in models])
    _label(axes, "", "UAS of L2 less that of CLL", "Table 2")
    return drawn


def _dots(axes: Axes, study: ParserRuns, place: float, factors: str, count: int) -> None:
    names = study.finished
    for number, name in enumerate(names):
        ours, theirs = (ParserTraining(name, factors, count, loss) for loss in (L2, CLL))
        gap = study.compare(ours, theirs)
        assert gap is not None
        shift = SPREAD * (2 * number / max(1, len(names) - 1) - 1)
        axes.plot(place + shift, gap.gap, "o", color=BLACK, markersize=3, zorder=3)


def _draw_calibration(panels: Any, study: ParserRuns) -> bool:
    drawn = False
    for axes, count in zip(panels, CALIBRATED, strict=True):
        found = {}
        for loss in (CLL, L2):
            run = study.run(second_order(study, count, loss))
            if run is not None:
                found[loss] = _reliability(run["calibration"])
        draw_reliability(found, colours=(ORANGE, BLUE), axes=axes)
        axes.set_title(f"{count} iteration{'s' if count > 1 else ''}", loc="left", fontsize=10, fontweight="bold")
        drawn |= bool(found)
    return drawn


def _reliability(stored: dict[str, Any]) -> Reliability:
    confidence, frequency = (
        np.array([np.nan if value is None else value for value in stored[name]]) for name in ("confidence", "frequency")
    )
    return Reliability(confidence, frequency, np.array(stored["count"]), stored["brier"])


def _draw_errors(panels: Any, study: ParserRuns) -> bool:
    first, second = analysed(study)
    lines = {
        "1st order": (study.run(first), ORANGE, "s"),
        f"2nd order, {BUDGET} iterations": (study.run(second), BLUE, "o"),
    }
    for axes, what in zip(panels, ("recall", "precision"), strict=True):
        for title, (run, colour, marker) in lines.items():
            if run is not None:
                rows = run["lengths"]
                axes.plot(
                    range(len(rows)), [100 * row[what] for row in rows], color=colour, marker=marker, linewidth=1.6,
                    label=title,
                )  # fmt: skip
                axes.set_xticks(range(len(rows)), [row["length"] for row in rows])
        _label(axes, "length of the arc, in words", f"{what}, percent", what.capitalize())
    return any(run is not None for run, _, _ in lines.values())


def _label(axes: Axes, x: str, y: str, title: str) -> None:
    plain(axes)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
