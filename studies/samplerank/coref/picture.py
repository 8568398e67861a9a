"""The picture of Table 1: how good each learner is, and what its updates cost.

In: a study. Out: a PNG file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, new_grid, plain, save
from studies.harness.statistics import mean_and_error
from studies.samplerank.coref.tables import LEARNERS, PRINTED, CorefRuns
from studies.samplerank.coref.training import ALONE, HEADS


def draw(study: CorefRuns, path: Path) -> None:
    """Draws and saves both panels, without touching matplotlib's global state."""
    grid = new_grid(1, 2, 12.0, 4.6)[0]
    grid[0].get_gridspec().set_width_ratios([1.5, 1.0])
    _draw_scores(grid[0], study)
    _draw_costs(grid[1], study)
    save(grid, path)


def _draw_scores(axes: Axes, study: CorefRuns) -> None:
    rows = [*LEARNERS, HEADS, ALONE]
    places = np.arange(len(rows), dtype=np.float64)
    width = 0.27
    axes.bar(
        places[: len(LEARNERS)] - width, [PRINTED[row]["f1"] for row in LEARNERS], width, color="#bbbbbb",
        label="published (ACE 2004)",
    )  # fmt: skip
    for offset, search, colour, label in (
        (0.0, "scores", BLUE, "8000 steps"),
        (width, "longer", GREEN, "longer search"),
    ):
        found = [list(study.scores(study.protocol.items[0], row, search).values()) for row in rows]
        shown = [place for place, values in enumerate(found) if values]
        means = [mean_and_error(found[place]) for place in shown]
        axes.bar(
            places[shown] + offset, [mean for mean, _ in means], width, yerr=[error or 0.0 for _, error in means],
            color=colour, ecolor=BLACK, capsize=2, label=label,
        )  # fmt: skip
    axes.set_xticks(places, [row.replace("SampleRank-", "SR-").replace(" (", "\n(") for row in rows], fontsize=8)
    axes.set_ylim(50, 100)
    axes.set_ylabel("B-cubed F1, percent")
    axes.set_title("Parts of at most 100 mentions", loc="left", fontsize=10, fontweight="bold")
    plain(axes)
    axes.legend(frameon=False, fontsize=8, ncols=3)


def _draw_costs(axes: Axes, study: CorefRuns) -> None:
    plain(axes)
    markers = ("o", "s", "^", "D", "v", "P")
    colours = (BLUE, ORANGE, GREEN, PURPLE, BLACK, "#56B4E9")
    for row, marker, colour in zip(LEARNERS, markers, colours, strict=True):
        active, seconds = (
            study.mean(study.protocol.items[0], row, "active"),
            study.mean(study.protocol.items[0], row, "seconds"),
        )
        if active is not None and seconds is not None:
            axes.plot([active], [seconds], marker, color=colour, markersize=8, linestyle="none", label=row)
    axes.margins(0.15)
    axes.set_xlim(left=0)
    axes.set_xlabel("active features an update")
    axes.set_ylabel("seconds to train a fold")
    axes.set_ylim(bottom=0)
    axes.set_title("What updates cost", loc="left", fontsize=10, fontweight="bold")
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)
