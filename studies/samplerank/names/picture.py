"""The picture of Table 3: how good each learner is, against what its training takes.

In: a study. Out: a PNG file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, new_grid, plain, save
from studies.samplerank.names.methods import (
    ALL1,
    ALL10,
    CRFSUITE,
    LIKELIHOOD,
    PERCEPTRON,
    PUBLISHED_SET,
    RICHER_SET,
    SR1,
    SR10,
    SSVM,
    FeatureSet,
)
from studies.samplerank.names.tables import NamesRuns

MARKS = {
    SR10: ("o", BLUE), SR1: ("o", "#8fc1e3"), ALL10: ("s", GREEN), ALL1: ("s", "#8fd3bf"), LIKELIHOOD: ("^", ORANGE),
    PERCEPTRON: ("v", PURPLE), SSVM: ("D", BLACK), CRFSUITE: ("P", "#999999"),
}  # fmt: skip


def draw(study: NamesRuns, path: Path) -> None:
    """Draws and saves a panel a set of features, without touching matplotlib's global state."""
    grid = new_grid(1, 2, 12.0, 4.6)[0]
    for axes, features, title in (
        (grid[0], PUBLISHED_SET, "Features as published"),
        (grid[1], RICHER_SET, "Our default features"),
    ):
        _draw(axes, study, features, title)
    save(grid, path)


def _draw(axes: Axes, study: NamesRuns, features: FeatureSet, title: str) -> None:
    """Only corpora on which every row shown has been run count, so that means are of the same texts."""
    plain(axes)
    rows = [row for row in MARKS if study.corpora(features, row)]
    names = study.corpora(features, *rows) if rows else []
    for row in rows if names else []:
        marker, colour = MARKS[row]
        f1 = np.mean([study.resampled(features, name, row) for name in names], axis=0)
        seconds = np.exp(np.mean([np.log(study.seconds(features, name, row) or np.nan) for name in names]))
        axes.errorbar(
            [seconds], [f1[0]], [f1[1:].std()], fmt=marker, color=colour, markersize=7, elinewidth=1, label=row
        )
    axes.set_xscale("log")
    axes.margins(0.1)
    axes.set_xlabel("seconds to train, geometric mean over corpora")
    axes.set_ylabel("F1 in percent, mean over corpora")
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    if names:
        axes.legend(frameon=False, fontsize=8)
