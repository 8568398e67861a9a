"""Factor graphs as pictures: circles for variables, squares for factors, diamonds for structured ones.

In: a graph, and what is observed. Out: axes. Places are from :mod:`loopwise.plot.layouts`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Integers, variable_range
from loopwise.plot.layouts import place
from loopwise.plot.style import BLUE, COLOURS, FAINT, INK, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 400  # nodes that a drawing shows: more are a grey cloud
NAMED = 60  # variables that have room for their names
FEW, FITS = 6, 4  # variables of a small drawing, and letters that fit into a circle
READABLE = 0.8  # of the full size, the least at which names can be read
SPACED, PAGE = 0.85, (10.0, 7.5)  # inches between neighbours, and of the largest drawing
OBSERVED, OPEN, EDGE = "#bdbdbd", "white", "#b5b5b5"


@dataclass(frozen=True, eq=False)
class _Kind:
    """The factors of one group that are drawn."""

    name: str
    scopes: list[Integers]
    structured: bool


def factor_graph(
    graph: FactorGraph,
    evidence: EvidenceLike = None,
    *,
    names: Sequence[str] | None = None,
    around: int | Collection[int] | None = None,
    hops: int = 2,
    most: int = MOST,
    axes: Axes | None = None,
) -> Axes:
    """Draws the bipartite graph of variables (circles) and factors (squares; structured ones are diamonds).

    Parameters
    ----------
    evidence:
        Of one example; observed variables are shaded, their values written beside their names.
    names:
        Of the variables; by default their numbers. Names are left out of large drawings.
    around, hops:
        Draws only what is within ``hops`` factors of these variables: for graphs too large to draw whole.
    most:
        Variables and factors of two or more variables that may be drawn; a larger graph is an error that says so.

    Grids and chains are laid out as such, other graphs by springs: O(nodes^2), a second for the largest.
    """
    observed = _observed(graph, evidence)
    labels = _labels(graph, names, observed)
    shown = np.arange(graph.variables) if around is None else _neighbourhood(graph, around, hops)
    kinds = _kinds(graph, shown)
    count = len(shown) + sum(len(scope) >= 2 for kind in kinds for scope in kind.scopes)
    if count > most:
        raise ValueError(
            f"{count} variables and factors are more than the {most} that can be told apart in a drawing; draw a part "
            "(around=0, hops=2), or raise most"
        )
    part = graph if around is None else _subgraph(graph, shown, kinds)
    number = np.full(graph.variables, -1)
    number[shown] = np.arange(len(shown))
    scopes = [number[scope] for kind in kinds for scope in kind.scopes]
    at = place(part, scopes)
    extent = np.ptp(np.concatenate([at.variables, at.factors, np.zeros((1, 2))]), axis=0)
    drawn_on = new_axes(*_size(extent)) if axes is None else axes
    scale = max(_scale(drawn_on, extent), READABLE if len(shown) <= NAMED else 0.0)
    _draw_edges(drawn_on, at.variables, at.factors, scopes)
    _draw_factors(drawn_on, kinds, at.factors, scale)
    _draw_variables(drawn_on, at.variables, observed[shown], scale)
    if len(shown) <= NAMED:
        _draw_names(drawn_on, at.variables, [labels[variable] for variable in shown], scale)
    bare(drawn_on)
    drawn_on.set_aspect("equal")
    drawn_on.margins(0.08 if len(shown) > FEW else 0.25)
    _legend(drawn_on, count)
    return drawn_on


def _observed(graph: FactorGraph, evidence: EvidenceLike) -> Integers:
    values = clamped_values(graph, evidence)
    if values.ndim > 1:
        raise ValueError(
            f"evidence of shape {values.shape} is that of several examples; give that of the one to draw, evidence[0]"
        )
    return values


def _labels(graph: FactorGraph, names: Sequence[str] | None, observed: Integers) -> list[str]:
    if names is not None and len(names) != graph.variables:
        raise ValueError(f"{len(names)} names do not fit {graph.variables} variables; give one for each")
    plain = [str(variable) for variable in range(graph.variables)] if names is None else [str(name) for name in names]
    return [
        name if value == FREE else f"{name}\n={value}" for name, value in zip(plain, observed.tolist(), strict=True)
    ]


def _neighbourhood(graph: FactorGraph, around: int | Collection[int], hops: int) -> Integers:
    """Variables within ``hops`` factors of those in ``around``."""
    wanted = [around] if isinstance(around, int) else list(around)
    for variable in wanted:
        if not 0 <= variable < graph.variables:
            raise ValueError(f"around names variable {variable}; {variable_range(graph.variables)}")
    if hops < 0:
        raise ValueError(f"hops must be 0 or more factors, not {hops}")
    near = np.zeros(graph.variables, dtype=np.bool_)
    near[wanted] = True
    for _ in range(hops):
        reached = near.copy()
        for group in graph.groups:
            reached[group.scopes[near[group.scopes].any(1)]] = True
        for kind in graph.structured:
            for scope in kind.scopes:
                reached[scope] |= near[scope].any()
        near = reached
    return np.flatnonzero(near)


def _kinds(graph: FactorGraph, shown: Integers) -> list[_Kind]:
    """Factors all of whose variables are shown."""
    inside = np.zeros(graph.variables, dtype=np.bool_)
    inside[shown] = True
    found = [_Kind(group.name, [*group.scopes[inside[group.scopes].all(1)]], False) for group in graph.groups]
    for kind in graph.structured:
        found.append(_Kind(f"{kind.name} ({kind.kinds()})", [s for s in kind.scopes if inside[s].all()], True))
    return [kind for kind in found if kind.scopes]


def _subgraph(graph: FactorGraph, shown: Integers, kinds: Sequence[_Kind]) -> FactorGraph:
    """The pairs among the shown variables: all that recognising a grid needs."""
    number = np.zeros(graph.variables, dtype=np.int64)
    number[shown] = np.arange(len(shown))
    pairs = [number[scope] for kind in kinds for scope in kind.scopes if len(scope) == 2]
    factors = {"pair": np.array(pairs)} if pairs else {}
    if any(len(scope) > 2 for kind in kinds for scope in kind.scopes):  # no grid, however its pairs look
        factors = {}
    return FactorGraph(graph.cardinalities[shown], factors)


def _size(extent: NDArray[np.float64]) -> tuple[float, float]:
    """Inches: most of one between neighbours, up to a page; and room for the legend."""
    inches = min(SPACED, (PAGE[0] - 1.6) / (extent[0] + 1), PAGE[1] / (extent[1] + 1))
    return max(3.2, inches * (float(extent[0]) + 1) + 1.6), max(1.6, inches * (float(extent[1]) + 1))


def _scale(axes: Axes, extent: NDArray[np.float64]) -> float:
    """How large nodes may be: what is between neighbours against what a name needs."""
    box = axes.get_window_extent()
    inches = min(box.width, box.height * (extent[0] + 1) / (extent[1] + 1)) / axes.figure.dpi / (extent[0] + 1)
    return float(np.clip(inches / SPACED, 0.3, 1.0))


def _draw_edges(axes: Axes, variables: Any, factors: Any, scopes: Sequence[Integers]) -> None:
    from matplotlib.collections import LineCollection

    lines = [(factors[number], variables[variable]) for number, scope in enumerate(scopes) for variable in scope]
    axes.add_collection(LineCollection(lines, colors=EDGE, linewidths=1.0, zorder=1))


def _draw_factors(axes: Axes, kinds: Sequence[_Kind], places: NDArray[np.float64], scale: float) -> None:
    start = 0
    for number, kind in enumerate(kinds):
        mine = places[start : start + len(kind.scopes)]
        start += len(kind.scopes)
        size = (15.0 if kind.structured else 8.0) * scale
        axes.scatter(
            mine[:, 0], mine[:, 1], s=size**2, marker="D" if kind.structured else "s", zorder=2,
            color=COLOURS[(number + 1) % len(COLOURS)], edgecolors="white", linewidths=0.6, label=kind.name,
        )  # fmt: skip


def _draw_variables(axes: Axes, places: NDArray[np.float64], observed: Integers, scale: float) -> None:
    for chosen, colour, label in ((observed == FREE, OPEN, "variable"), (observed != FREE, OBSERVED, "observed")):
        if chosen.any():
            axes.scatter(
                places[chosen, 0], places[chosen, 1], s=(22 * scale) ** 2, marker="o", zorder=3, color=colour,
                edgecolors=BLUE if label == "variable" else INK, linewidths=1.4 * max(scale, 0.5), label=label,
            )  # fmt: skip


def _draw_names(axes: Axes, places: NDArray[np.float64], names: Sequence[str], scale: float) -> None:
    """In the circles; names that have no room there stand below them."""
    long = max((len(line) for name in names for line in name.split("\n")), default=0) > FITS
    below: dict[str, Any] = (
        {"xytext": (0, -13 * scale), "textcoords": "offset points", "va": "top"} if long else {"va": "center"}
    )
    for at, name in zip(places, names, strict=True):
        axes.annotate(
            name, at, ha="center", fontsize=(8.5 if long else 7.5) * scale, color=INK, linespacing=0.9, **below,
        )  # fmt: skip


def _legend(axes: Axes, count: int) -> None:
    """Beside the drawing, with marks of one size."""
    handles, names = axes.get_legend_handles_labels()
    if not count or not names:
        return
    legend = axes.legend(
        handles[::-1], names[::-1], frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5),
        labelcolor=FAINT,
    )  # fmt: skip
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_sizes([50.0])  # type: ignore[attr-defined]
