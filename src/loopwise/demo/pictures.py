"""The pictures of the demo, each small enough for a telephone, each for a light page and for a dark one.

In: :class:`~loopwise.demo.findings.Findings`. Out: PNG bytes with a transparent ground.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from loopwise.demo.findings import Findings
from loopwise.demo.trials import LIKELIHOOD, LOSS, TRUTH, Floats
from loopwise.plot.calibration import reliability as draw_reliability
from loopwise.plot.style import BLACK, BLUE, FAINT, INK, LINE, ORANGE, PALE, new_grid, plain, whole_numbers

COLOURS = {LIKELIHOOD: ORANGE, LOSS: BLUE, TRUTH: BLACK}
NAMES = {LIKELIHOOD: "trained by likelihood", LOSS: "trained for the loss", TRUTH: "true model"}
# What a colour becomes on a dark page: lighter relatives of the same hues, and greys turned round.
DARK = {
    ORANGE.lower(): "#f0a860", BLUE.lower(): "#6cb8f0", BLACK: "#d8d8d8", INK: "#d8d8d8", "#000000": "#d8d8d8",
    LINE: "#3c4148", PALE: "#8a8f96", FAINT: "#b0b4ba",
}  # fmt: skip
DOTS = 150  # an inch: more than is shown, for sharp screens


@dataclass(frozen=True)
class Picture:
    """A PNG for each ground, and what it shows for those who cannot see it."""

    light: bytes
    dark: bytes
    alternative: str


def loss_picture(findings: Findings) -> Picture:
    """Loss against sweeps: both trainings, what comes of cutting short a patient one, and the true model as zero."""
    axes = _axes()
    budgets, places = findings.amounts.budgets, range(len(findings.amounts.budgets))
    base = findings.losses(TRUTH)
    patient = [findings.after(LIKELIHOOD, max(budgets), budget) - base.mean() for budget in budgets]
    name = f"by likelihood with {max(budgets)}, cut only in use"
    axes.plot(places, patient, ":", color=COLOURS[LIKELIHOOD], linewidth=1.6, label=name)
    for goal in (LIKELIHOOD, LOSS):
        above = np.array([findings.losses(goal, budget) - base for budget in budgets])  # [budgets, models]
        axes.plot(places, above, color=COLOURS[goal], linewidth=0.7, alpha=0.4)
        axes.plot(places, above.mean(1), "o-", color=COLOURS[goal], linewidth=2.2, markersize=6, label=NAMES[goal])
    _reference(axes, "true model, BP run to its end", 0.0)
    axes.set_xticks(list(places), [str(budget) for budget in budgets])
    axes.set(xlabel="sweeps of BP, in training and in use", ylabel="squared error above the true model")
    _legend(axes)
    return _saved(axes, "Test loss against sweeps of belief propagation for both trainings.")


def course_picture(findings: Findings) -> Picture:
    """The test loss of the watched systems while they are trained."""
    axes = _axes()
    for goal in (LIKELIHOOD, LOSS):
        losses = findings.course(goal, findings.amounts.watched)
        places = range(1, len(losses) + 1)
        axes.plot(places, losses, "o-", color=COLOURS[goal], linewidth=1.8, markersize=3.5, label=NAMES[goal])
    _reference(axes, "true model, BP run to its end", float(findings.losses(TRUTH).mean()))
    axes.set(xlabel="epochs of training", ylabel="squared error of test beliefs")
    whole_numbers(axes)
    _legend(axes)
    return _saved(axes, "Test loss after each epoch of both trainings.")


def reliability_picture(findings: Findings) -> Picture:
    """How often things believed so much were so, under the budget that is watched."""
    axes = _axes(height=4.3)
    budget = findings.amounts.watched
    goals = (LIKELIHOOD, LOSS)
    found = {NAMES[goal]: findings.reliability(goal, budget) for goal in goals}
    draw_reliability(found, colours=[COLOURS[goal] for goal in goals], axes=axes)
    return _saved(axes, f"Reliability of the beliefs after {budget} sweeps under both trainings.")


def after_picture(findings: Findings) -> Picture:
    """The loss of the watched systems as sweeps go by, before and after the point where they will be cut."""
    axes = _axes()
    amounts = findings.amounts
    sweeps = range(amounts.horizon + 1)
    for goal in (LIKELIHOOD, LOSS):
        losses = [findings.after(goal, amounts.watched, sweep) for sweep in sweeps]
        axes.plot(sweeps, losses, "o-", color=COLOURS[goal], linewidth=1.8, markersize=3.5, label=NAMES[goal])
    _reference(axes, "true model, BP run to its end", float(findings.losses(TRUTH).mean()))
    _cut(axes, amounts.watched)
    axes.set(xlabel="sweeps", ylabel="squared error", xlim=(0, amounts.horizon))
    _legend(axes)
    return _saved(axes, "Test loss of both systems after each sweep.")


def paths_picture(findings: Findings, goal: str) -> Picture:
    """The belief in the right value of each output of one example, sweep by sweep."""
    axes = _axes(height=3.1)
    amounts = findings.amounts
    paths: Floats = findings.of(goal, amounts.watched)[0].paths
    axes.plot(range(len(paths)), paths, color=COLOURS[goal], linewidth=0.9, alpha=0.7)
    _cut(axes, amounts.watched)
    axes.set(xlabel="sweeps", ylabel="belief in the right value", xlim=(0, amounts.horizon), ylim=(0, 1))
    axes.set_title(NAMES[goal], loc="right", fontsize=10, color=COLOURS[goal], fontweight="bold")
    return _saved(axes, f"Beliefs of one example sweep by sweep, {NAMES[goal]}.")


def grey_image(levels: Floats) -> bytes:
    """Numbers from 0 (black) to 1 (white), a pixel each."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.round(255 * np.clip(levels, 0, 1)).astype(np.uint8)).save(stream, format="PNG")
    return stream.getvalue()


# --- Axes, and both grounds ------------------------------------------------------------------------------------------


def _axes(width: float = 5.2, height: float = 3.7) -> Axes:
    axes: Axes = new_grid(1, 1, width, height, DOTS)[0, 0]
    plain(axes)
    return axes


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=9)


def _reference(axes: Axes, name: str, level: float) -> None:
    axes.axhline(level, color=BLACK, linewidth=1.2, linestyle="--", label=name)


def _cut(axes: Axes, sweeps: int) -> None:
    axes.axvline(sweeps, color=PALE, linewidth=1.0, linestyle=":")
    place = ("data", "axes fraction")
    axes.annotate("cut here", (sweeps, 1.02), xycoords=place, ha="center", fontsize=8, color=FAINT)


def _saved(axes: Axes, alternative: str) -> Picture:
    figure: Any = axes.figure
    light = _png(figure)
    for artist in figure.findobj():
        _darken(artist)
    return Picture(light, _png(figure), alternative)


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", transparent=True, metadata={"Software": None})
    return stream.getvalue()


def _darken(artist: Any) -> None:
    """Replaces the colours of one part of a figure."""
    if isinstance(artist, Line2D):
        artist.set_color(_dark(artist.get_color()))
        artist.set_markerfacecolor(_dark(artist.get_markerfacecolor()))
        artist.set_markeredgecolor(_dark(artist.get_markeredgecolor()))
    elif isinstance(artist, Text):
        artist.set_color(_dark(artist.get_color()))
    elif isinstance(artist, Patch):
        artist.set_edgecolor(_dark(artist.get_edgecolor()))
    elif isinstance(artist, Collection):
        artist.set_facecolor([_dark(colour) for colour in np.atleast_2d(artist.get_facecolor())])


def _dark(colour: Any) -> Any:
    named = isinstance(colour, str) and colour in ("none", "auto")
    return colour if named else DARK.get(to_hex(colour), colour)
