"""Inference: from numbers to beliefs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwise.lazy import renamed, value_of

if TYPE_CHECKING:
    from loopwise.inference.auto import Auto as Auto
    from loopwise.inference.auto import infer as infer
    from loopwise.inference.base import Inference as Inference
    from loopwise.inference.base import Problem as Problem
    from loopwise.inference.beliefs import Beliefs as Beliefs
    from loopwise.inference.beliefs import Status as Status
    from loopwise.inference.compiled import Compiled as Compiled
    from loopwise.inference.counting import Bethe as Bethe
    from loopwise.inference.counting import Counting as Counting
    from loopwise.inference.counting import CountingNumbers as CountingNumbers
    from loopwise.inference.counting import ExplicitCounting as ExplicitCounting
    from loopwise.inference.counting import MonotonicChains as MonotonicChains
    from loopwise.inference.counting import Reweighted as Reweighted
    from loopwise.inference.counting import SpanningTrees as SpanningTrees
    from loopwise.inference.counting import check_concavity as check_concavity
    from loopwise.inference.counting import concave_scaling as concave_scaling
    from loopwise.inference.exact import Exact as Exact
    from loopwise.inference.exact import TooLargeError as TooLargeError
    from loopwise.inference.explain import Explanation as Explanation
    from loopwise.inference.gibbs import Gibbs as Gibbs
    from loopwise.inference.gibbs import sample as gibbs_sample
    from loopwise.inference.implicit import marginal_map as marginal_map
    from loopwise.inference.map_search import MapSearch as MapSearch
    from loopwise.inference.maximum import Maximum as Maximum
    from loopwise.inference.mean_field import MeanField as MeanField
    from loopwise.inference.message_passing import BP as BP
    from loopwise.inference.message_passing import TRW as TRW
    from loopwise.inference.message_weights import BelowOne as BelowOne
    from loopwise.inference.message_weights import MessageWeights as MessageWeights
    from loopwise.inference.message_weights import Tied as Tied
    from loopwise.inference.reference import Reference as Reference
    from loopwise.inference.schedules import Flooding as Flooding
    from loopwise.inference.schedules import Groups as Groups
    from loopwise.inference.schedules import RandomSequential as RandomSequential
    from loopwise.inference.schedules import Residual as Residual
    from loopwise.inference.schedules import Sequential as Sequential
    from loopwise.inference.stop import AnyOf as AnyOf
    from loopwise.inference.stop import Satisfied as Satisfied
    from loopwise.inference.stop import Stop as Stop
    from loopwise.inference.stop import Tolerance as Tolerance

# Where each name lives; a pair where the name is another one there. Nothing is imported before it is asked for.
_HOME: dict[str, tuple[str | tuple[str, str], ...]] = {
    "loopwise.inference.base": ("Inference", "Problem",),
    "loopwise.inference.beliefs": ("Beliefs", "Status",),
    "loopwise.inference.message_passing": ("BP", "TRW",),
    "loopwise.inference.message_weights": ("BelowOne", "MessageWeights", "Tied",),
    "loopwise.inference.schedules": ("Flooding", "Groups", "RandomSequential", "Residual", "Sequential",),
    "loopwise.inference.stop": ("AnyOf", "Satisfied", "Stop", "Tolerance",),
    "loopwise.inference.counting": (
        "Bethe", "Counting", "CountingNumbers", "ExplicitCounting", "MonotonicChains", "Reweighted", "SpanningTrees",
        "check_concavity", "concave_scaling",
    ),
    "loopwise.inference.reference": ("Reference",),
    "loopwise.inference.compiled": ("Compiled",),
    "loopwise.inference.mean_field": ("MeanField",),
    "loopwise.inference.gibbs": ("Gibbs", ("gibbs_sample", "sample"),),
    "loopwise.inference.implicit": ("marginal_map",),
    "loopwise.inference.exact": ("Exact", "TooLargeError",),
    "loopwise.inference.maximum": ("Maximum",),
    "loopwise.inference.map_search": ("MapSearch",),
    "loopwise.inference.auto": ("Auto", "infer",),
    "loopwise.inference.explain": ("Explanation",),
}  # fmt: skip

__all__ = [  # noqa: RUF022 (as above)
    "Inference", "Problem", "Beliefs", "Status", "BP", "TRW", "BelowOne", "MessageWeights", "Tied", "Flooding",
    "Groups", "RandomSequential", "Residual", "Sequential", "AnyOf", "Satisfied", "Stop", "Tolerance", "Bethe",
    "Counting", "CountingNumbers", "ExplicitCounting", "MonotonicChains", "Reweighted", "SpanningTrees",
    "check_concavity", "concave_scaling", "Reference", "Compiled", "MeanField", "Gibbs", "gibbs_sample", "marginal_map",
    "Exact", "TooLargeError", "Maximum", "MapSearch", "Auto", "infer", "Explanation",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Given":
        return renamed("lw.inference.Given", "lw.inference.ExplicitCounting", __getattr__("ExplicitCounting"))
    value = globals()[name] = value_of(__name__, _HOME, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
