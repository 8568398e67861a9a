"""Pictures. Above the stages: nothing in the core imports this.

One convention: a function is called by what it draws, takes ``axes`` of matplotlib to draw on (by default new ones on a
figure of their own) and returns them; what has several panels returns an array of axes, arcs are SVG. :func:`save`
writes any of these to a file. matplotlib is imported when the first picture is drawn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwise.plot.calibration import reliability as reliability
    from loopwise.plot.curves import Curve as Curve
    from loopwise.plot.curves import Panel as Panel
    from loopwise.plot.curves import panels as panels
    from loopwise.plot.estimators import gradients as gradients
    from loopwise.plot.frontiers import pareto as pareto
    from loopwise.plot.grafts import grafting as grafting
    from loopwise.plot.graphs import factor_graph as factor_graph
    from loopwise.plot.landscapes import landscape as landscape
    from loopwise.plot.marginals import beliefs as beliefs
    from loopwise.plot.marginals import marginal_image as marginal_image
    from loopwise.plot.marginals import sweeps as sweeps
    from loopwise.plot.pictures import gallery as gallery
    from loopwise.plot.pictures import image as image
    from loopwise.plot.style import save as save
    from loopwise.plot.traces import convergence as convergence
    from loopwise.plot.training import history as history
    from loopwise.plot.trees import arc_page as arc_page
    from loopwise.plot.trees import arcs as arcs

# Modules are not called like functions: importing one would put it in the function's place.
_HOME = {
    "factor_graph": "graphs",
    "beliefs": "marginals",
    "sweeps": "marginals",
    "marginal_image": "marginals",
    "convergence": "traces",
    "landscape": "landscapes",
    "history": "training",
    "gradients": "estimators",
    "reliability": "calibration",
    "pareto": "frontiers",
    "grafting": "grafts",
    "image": "pictures",
    "gallery": "pictures",
    "arcs": "trees",
    "arc_page": "trees",
    "Curve": "curves",
    "Panel": "curves",
    "panels": "curves",
    "save": "style",
}

__all__ = [  # noqa: RUF022 (from models to results)
    "factor_graph", "beliefs", "sweeps", "marginal_image", "convergence", "landscape", "history", "gradients",
    "reliability", "pareto", "grafting", "image", "gallery", "arcs", "arc_page", "Curve", "Panel", "panels", "save",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loopwise.plot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"loopwise.plot.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
