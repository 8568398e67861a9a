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
    from loopwise.inference.exact.method import Exact as Exact
    from loopwise.inference.exact.method import TooLargeError as TooLargeError
    from loopwise.inference.explain import Explanation as Explanation
    from loopwise.inference.gibbs.method import Gibbs as Gibbs
    from loopwise.inference.gibbs.method import sample as gibbs_sample
    from loopwise.inference.maximum.map_search import MapSearch as MapSearch
    from loopwise.inference.maximum.method import Maximum as Maximum
    from loopwise.inference.mean_field.method import MeanField as MeanField
    from loopwise.inference.messages.compiled import Compiled as Compiled
    from loopwise.inference.messages.counting import Bethe as Bethe
    from loopwise.inference.messages.counting import Counting as Counting
    from loopwise.inference.messages.counting import CountingNumbers as CountingNumbers
    from loopwise.inference.messages.counting import ExplicitCounting as ExplicitCounting
    from loopwise.inference.messages.counting import MonotonicChains as MonotonicChains
    from loopwise.inference.messages.counting import Reweighted as Reweighted
    from loopwise.inference.messages.counting import SpanningTrees as SpanningTrees
    from loopwise.inference.messages.counting import check_concavity as check_concavity
    from loopwise.inference.messages.counting import concave_scaling as concave_scaling
    from loopwise.inference.messages.implicit import marginal_map as marginal_map
    from loopwise.inference.messages.message_passing import BP as BP
    from loopwise.inference.messages.message_passing import TRW as TRW
    from loopwise.inference.messages.message_weights import BelowOne as BelowOne
    from loopwise.inference.messages.message_weights import MessageWeights as MessageWeights
    from loopwise.inference.messages.message_weights import Tied as Tied
    from loopwise.inference.messages.reference import Reference as Reference
    from loopwise.inference.messages.schedules import Flooding as Flooding
    from loopwise.inference.messages.schedules import Groups as Groups
    from loopwise.inference.messages.schedules import RandomSequential as RandomSequential
    from loopwise.inference.messages.schedules import Residual as Residual
    from loopwise.inference.messages.schedules import Sequential as Sequential
    from loopwise.inference.messages.stop import AnyOf as AnyOf
    from loopwise.inference.messages.stop import Satisfied as Satisfied
    from loopwise.inference.messages.stop import Stop as Stop
    from loopwise.inference.messages.stop import Tolerance as Tolerance

# Where each name lives; a pair where the name is another one there. Nothing is imported before it is asked for.
_HOME: dict[str, tuple[str | tuple[str, str], ...]] = {
    "loopwise.inference.base": ("Inference", "Problem",),
    "loopwise.inference.beliefs": ("Beliefs", "Status",),
    "loopwise.inference.messages.message_passing": ("BP", "TRW",),
    "loopwise.inference.messages.message_weights": ("BelowOne", "MessageWeights", "Tied",),
    "loopwise.inference.messages.schedules": ("Flooding", "Groups", "RandomSequential", "Residual", "Sequential",),
    "loopwise.inference.messages.stop": ("AnyOf", "Satisfied", "Stop", "Tolerance",),
    "loopwise.inference.messages.counting": (
        "Bethe", "Counting", "CountingNumbers", "ExplicitCounting", "MonotonicChains", "Reweighted", "SpanningTrees",
        "check_concavity", "concave_scaling",
    ),
    "loopwise.inference.messages.reference": ("Reference",),
    "loopwise.inference.messages.compiled": ("Compiled",),
    "loopwise.inference.mean_field.method": ("MeanField",),
    "loopwise.inference.gibbs.method": ("Gibbs", ("gibbs_sample", "sample"),),
    "loopwise.inference.messages.implicit": ("marginal_map",),
    "loopwise.inference.exact.method": ("Exact", "TooLargeError",),
    "loopwise.inference.maximum.method": ("Maximum",),
    "loopwise.inference.maximum.map_search": ("MapSearch",),
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
