"""Beliefs as pictures: bars for a few variables, a map for many, an image for a grid, and how they came about.

In: :class:`~loopwise.Beliefs`. Out: axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import variable_range
from loopwise.inference.beliefs import Beliefs
from loopwise.plot.style import COLOURS, MARGINALS, colour_bar, new_axes, plain, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 12  # variables that are drawn as bars, or as lines by sweep
NAMED = 40  # variables that have room for their names beside a map


def beliefs(
    found: Beliefs,
    *,
    variables: Sequence[int] | None = None,
    example: int = 0,
    names: Sequence[str] | None = None,
    values: Sequence[str] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Marginals of variables: bars where they are few (at most 12), a map of variables against values where many.

    ``example``: which of a batch. ``names``: of all variables, by default their numbers; ``values``: what their values
    are called.
    """
    chosen, labels = _chosen(found, variables, names)
    table = _of_example(found.variables, example)[chosen]  # [chosen, values]
    cardinalities = found.graph.cardinalities[chosen]
    called = _value_names(values, int(cardinalities.max(initial=1)))
    few = len(chosen) <= FEW and len(called) <= len(COLOURS)
    drawn_on = (
        new_axes(7.0, 3.4 if few else float(np.clip(0.32 * len(called) + 1.6, 2.4, 6.0))) if axes is None else axes
    )
    if few:
        _draw_bars(drawn_on, table, cardinalities, labels, called)
    else:
        _draw_map(drawn_on, table.T, labels, called)
    return drawn_on


def sweeps(
    found: Beliefs,
    *,
    state: int = 1,
    variables: Sequence[int] | None = None,
    example: int = 0,
    names: Sequence[str] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """How the probability of value ``state`` moved sweep by sweep: lines for a few variables, a map for many.

    Needs the beliefs of every sweep: run inference with ``trace=True``.
    """
    chosen, labels = _chosen(found, variables, names)
    start = found.graph.layout.state_start[chosen]
    for variable, cardinality in zip(chosen, found.graph.cardinalities[chosen], strict=True):
        if not 0 <= state < cardinality:
            raise ValueError(
                f"variable {variable} has values 0 to {cardinality - 1}, so none is {state}; choose another state, or "
                "other variables"
            )
    rows = _of_example(trace_of(found), example, leading=1)[:, start + state]  # [sweeps + 1, chosen]
    drawn_on = new_axes(7.0, 3.6) if axes is None else axes
    if len(chosen) <= FEW and len(chosen) <= len(COLOURS):
        plain(drawn_on)
        for label, line, colour in zip(labels, rows.T, COLOURS, strict=False):
            drawn_on.plot(line, color=colour, linewidth=1.6, marker=".", label=label)
        drawn_on.set(ylim=(-0.02, 1.02), ylabel=f"believed P(x = {state})")
        if labels:
            drawn_on.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), title="variable")
    else:
        drawn = drawn_on.imshow(rows.T, vmin=0, vmax=1, cmap=MARGINALS, interpolation="nearest", aspect="auto")
        _name_rows(drawn_on, labels)
        colour_bar(drawn, drawn_on, f"believed P(x = {state})")
    drawn_on.set_xlabel("sweep")
    whole_numbers(drawn_on)
    return drawn_on


def marginal_image(
    found: Beliefs, shape: tuple[int, int], *, state: int = 1, example: int = 0, axes: Axes | None = None
) -> Axes:
    """The probability of value ``state`` at every pixel of a grid of ``shape`` rows and columns, row by row."""
    rows, columns = shape
    if rows * columns != found.graph.variables:
        raise ValueError(
            f"an image of {rows} x {columns} pixels does not fit {found.graph.variables} variables; give the rows and "
            "columns of the grid"
        )
    table = _of_example(found.variables, example)
    if not 0 <= state < table.shape[1]:
        raise ValueError(f"no variable has the value {state}; values are 0 to {table.shape[1] - 1}")
    drawn_on = new_axes(4.8, float(np.clip(4.0 * rows / columns + 0.3, 1.6, 6.5))) if axes is None else axes
    picture = table[:, state].reshape(rows, columns)
    drawn = drawn_on.imshow(picture, vmin=0, vmax=1, cmap=MARGINALS, interpolation="nearest")
    drawn_on.set_xticks([])
    drawn_on.set_yticks([])
    colour_bar(drawn, drawn_on, f"P(x = {state})")
    return drawn_on


def trace_of(found: Beliefs) -> Any:
    """The beliefs of every sweep."""
    if found.trace is None:
        raise ValueError(
            f"{found.status.method} kept no beliefs of earlier sweeps; run it with trace=True, as in lw.BP(trace=True)"
        )
    return found.trace


def _chosen(
    found: Beliefs, variables: Sequence[int] | None, names: Sequence[str] | None
) -> tuple[list[int], list[str]]:
    """Which variables are drawn, and what they are called."""
    count = found.graph.variables
    if names is not None and len(names) != count:
        raise ValueError(f"{len(names)} names do not fit {count} variables; give one for each")
    chosen = list(range(count)) if variables is None else [int(variable) for variable in variables]
    for variable in chosen:
        if not 0 <= variable < count:
            raise ValueError(f"no variable {variable}; {variable_range(count)}")
    if not chosen:
        raise ValueError("there is no variable to draw; name at least one")
    return chosen, [str(variable) if names is None else str(names[variable]) for variable in chosen]


def _value_names(values: Sequence[str] | None, count: int) -> list[str]:
    if values is not None and len(values) < count:
        raise ValueError(f"{len(values)} names of values do not suffice for variables of {count} values")
    return [str(value) for value in range(count)] if values is None else [str(value) for value in values[:count]]


def _of_example(tensor: Any, example: int, leading: int = 0) -> NDArray[np.float64]:
    """One example of ``[*leading, *batch, ...]`` as an array; a batch of more dimensions counts row by row."""
    array = tensor.detach().cpu().double().numpy()
    tail = 1 if leading else 2  # a trace is [sweeps, *batch, states], marginals are [*batch, variables, values]
    batch = array.shape[leading : array.ndim - tail]
    count = int(np.prod(batch))
    if not 0 <= example < count:
        raise ValueError(f"no example {example}; there are examples 0 to {count - 1}")
    flat = array.reshape(*array.shape[:leading], count, *array.shape[array.ndim - tail :])
    return np.asarray(np.take(flat, example, axis=leading))


def _draw_bars(
    axes: Axes,
    table: NDArray[np.float64],
    cardinalities: NDArray[np.int64],
    labels: Sequence[str],
    values: Sequence[str],
) -> None:
    """Groups of bars, a colour for each value; of variables that all have two values the second alone says it."""
    plain(axes)
    axes.grid(False, axis="x")
    places = np.arange(len(table), dtype=np.float64)
    if len(values) == 2 and (cardinalities == 2).all():
        axes.bar(places, table[:, 1], 0.6, color=COLOURS[0])
        axes.set_ylabel(f"P(x = {values[1]})")
    else:
        width = 0.8 / len(values)
        for value, name in enumerate(values):
            there = cardinalities > value
            offset = (value - (len(values) - 1) / 2) * width
            axes.bar(places[there] + offset, table[there, value], 0.92 * width, color=COLOURS[value], label=name)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), title="value")
        axes.set_ylabel("probability")
    axes.set_xticks(places, labels, rotation=0 if max(map(len, labels)) < 8 else 30)
    axes.set_ylim(0, 1)
    axes.set_xlabel("variable")


def _draw_map(axes: Axes, table: NDArray[np.float64], labels: Sequence[str], values: Sequence[str]) -> None:
    """Values against variables, ``[values, variables]``."""
    drawn = axes.imshow(table, vmin=0, vmax=1, cmap=MARGINALS, interpolation="nearest", aspect="auto")
    axes.set_yticks(range(len(values)), values, fontsize=8)
    if len(labels) <= NAMED:
        axes.set_xticks(range(len(labels)), labels, fontsize=7, rotation=0 if max(map(len, labels)) < 4 else 90)
    axes.set_xlabel("variable")
    axes.set_ylabel("value")
    colour_bar(drawn, axes, "probability")


def _name_rows(axes: Axes, labels: Sequence[str]) -> None:
    if len(labels) <= NAMED:
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylabel("variable")
