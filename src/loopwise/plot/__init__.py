"""Pictures. Above the stages: nothing in the core imports this.

One convention: a function is called by what it draws, takes ``axes`` of matplotlib to draw on (by default new ones on a
figure of their own) and returns them; what has several panels returns an array of axes, arcs are SVG. :func:`save`
writes any of these to a file. matplotlib is imported when the first picture is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.lazy import Home, lazily

if TYPE_CHECKING:
    from loopwise.plot.calibration import reliability
    from loopwise.plot.curves import Curve, Panel, panels
    from loopwise.plot.estimators import gradients
    from loopwise.plot.frontiers import pareto
    from loopwise.plot.grafts import grafting
    from loopwise.plot.graphs import factor_graph
    from loopwise.plot.landscapes import landscape
    from loopwise.plot.marginals import beliefs, marginal_image, sweeps
    from loopwise.plot.pictures import gallery, image
    from loopwise.plot.style import save
    from loopwise.plot.traces import convergence
    from loopwise.plot.training import history
    from loopwise.plot.trees import arc_page, arcs

# Where each name lives. Modules are not called like functions: importing one would put it in the function's place.
_HOME: Home = {
    "loopwise.plot.graphs": ("factor_graph",),
    "loopwise.plot.marginals": ("beliefs", "sweeps", "marginal_image",),
    "loopwise.plot.traces": ("convergence",),
    "loopwise.plot.landscapes": ("landscape",),
    "loopwise.plot.training": ("history",),
    "loopwise.plot.estimators": ("gradients",),
    "loopwise.plot.calibration": ("reliability",),
    "loopwise.plot.frontiers": ("pareto",),
    "loopwise.plot.grafts": ("grafting",),
    "loopwise.plot.pictures": ("image", "gallery",),
    "loopwise.plot.trees": ("arcs", "arc_page",),
    "loopwise.plot.curves": ("Curve", "Panel", "panels",),
    "loopwise.plot.style": ("save",),
}  # fmt: skip

__all__ = [  # noqa: RUF022 (from models to results)
    "factor_graph", "beliefs", "sweeps", "marginal_image", "convergence", "landscape", "history", "gradients",
    "reliability", "pareto", "grafting", "image", "gallery", "arcs", "arc_page", "Curve", "Panel", "panels", "save",
]  # fmt: skip

__getattr__, __dir__ = lazily(__name__, _HOME)
