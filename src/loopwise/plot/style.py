"""Colours and axes that all pictures share: readable in print, on a screen and with any colour vision."""

from __future__ import annotations

from matplotlib.axes import Axes

# Okabe and Ito (2008): told apart under the common kinds of colour blindness.
BLUE, ORANGE, GREEN, PURPLE, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#333333"
MARGINALS = "cividis"  # perceptually uniform, made for colour-vision deficiency


def plain(axes: Axes) -> None:
    """Only the axes that are read, and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
