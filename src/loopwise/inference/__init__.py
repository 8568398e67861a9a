"""Inference: from numbers to beliefs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.lazy import Home, lazily, old_names

if TYPE_CHECKING:
    from loopwise.inference.auto import Auto, infer
    from loopwise.inference.base import Inference, Problem
    from loopwise.inference.beliefs import Beliefs, Status
    from loopwise.inference.exact.method import Exact, TooLargeError
    from loopwise.inference.explain import Explanation
    from loopwise.inference.gibbs.method import Gibbs
    from loopwise.inference.gibbs.method import sample as gibbs_sample
    from loopwise.inference.maximum.map_search import MapSearch
    from loopwise.inference.maximum.method import Maximum
    from loopwise.inference.mean_field.method import MeanField
    from loopwise.inference.messages.compiled import Compiled
    from loopwise.inference.messages.counting import (
        Bethe,
        Counting,
        CountingNumbers,
        ExplicitCounting,
        MonotonicChains,
        Reweighted,
        SpanningTrees,
        check_concavity,
        concave_scaling,
    )
    from loopwise.inference.messages.implicit import marginal_map
    from loopwise.inference.messages.message_passing import BP, TRW
    from loopwise.inference.messages.message_weights import BelowOne, MessageWeights, Tied
    from loopwise.inference.messages.reference import Reference
    from loopwise.inference.messages.schedules import Flooding, Groups, RandomSequential, Residual, Sequential
    from loopwise.inference.messages.stop import AnyOf, Satisfied, Stop, Tolerance

# Where each name lives; a pair where the name is another one there. Nothing is imported before it is asked for.
_HOME: Home = {
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

__getattr__, __dir__ = lazily(__name__, _HOME, old_names(__name__, {"Given": "ExplicitCounting"}, depth=4))
