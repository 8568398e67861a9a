"""Colours, axes and files that all pictures share: readable in print, on a screen and with any colour vision.

In: axes. Out: the same, plain; new ones; a file. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008): told apart under the common kinds of colour blindness.
BLUE, ORANGE, GREEN, PURPLE, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#333333"
SKY, AMBER = "#56B4E9", "#E69F00"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, SKY, AMBER, "#999999", "#7F3C8D", "#B00020")  # markers tell late ones
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h", "<")
INK, FAINT, PALE, LINE = "#222222", "#555555", "#999999", "#dddddd"  # of words, notes, things to compare with, grids
MARGINALS = "cividis"  # perceptually uniform, made for colour-vision deficiency
SCREEN = 150  # dots an inch


def plain(axes: Axes) -> None:
    """Only the axes that are read, and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


def bare(axes: Axes) -> None:
    """No axes at all, for what has no numbers along its sides."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def whole_numbers(axes: Axes) -> None:
    """Ticks of the x axis for things that are counted."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def new_axes(width: float = 7.0, height: float = 4.4) -> Axes:
    """Axes on a figure of their own, in inches, without touching matplotlib's global state."""
    return new_grid(1, 1, width, height)[0, 0]  # type: ignore[no-any-return]


def new_grid(rows: int, columns: int, width: float, height: float, dpi: int = SCREEN) -> Any:
    """An array ``[rows, columns]`` of axes on one figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    made = figure.subplots(rows, columns, squeeze=False)
    for axes in made.flat:
        axes._repr_html_ = lambda: _svg(figure)  # matplotlib shows axes in notebooks as text
    return made


def _svg(figure: Any) -> str:
    from loopwise.plot.html import svg_of

    return svg_of(figure.axes[0])


def colour_bar(drawn: Any, axes: Axes, label: str) -> None:
    """The scale of an image, from 0 to 1."""
    bar = axes.figure.colorbar(drawn, ax=axes, ticks=[0, 0.5, 1], shrink=0.85, pad=0.03, label=label)
    bar.outline.set_visible(False)


def save(picture: Any, path: str | Path) -> None:
    """Writes the figure of ``picture`` (what any drawing function returns) to ``path``; it appears whole or not at all.

    The ending says how: ``.png``, ``.svg``, ``.pdf``. Arcs are SVG, or a page with ``.html``.
    """
    from loopwise.formats import atomic_write_bytes

    kind = Path(path).suffix.lower().removeprefix(".")
    if hasattr(picture, "to_file_text"):
        content = picture.to_file_text(kind).encode()
        with atomic_write_bytes(path) as stream:
            stream.write(content)
        return
    figure = _figure_of(picture)
    check_kind(path)
    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format=kind, dpi=figure.dpi)


def check_kind(path: str | Path) -> None:
    """A ``ValueError`` unless the ending of ``path`` is that of a kind of picture."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lower().removeprefix(".") not in known:
        raise ValueError(f"{Path(path).name!r} does not end in a kind of picture; use one of {', '.join(known)}")


def _figure_of(picture: Any) -> Any:
    first = picture.flat[0] if hasattr(picture, "flat") else picture
    figure = getattr(first, "figure", None)
    if figure is None or not hasattr(figure, "savefig"):
        raise ValueError(
            f"{type(picture).__name__} is no picture; give what a function of lw.plot returned, or axes of matplotlib"
        )
    return figure
