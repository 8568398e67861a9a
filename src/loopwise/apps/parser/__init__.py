"""A dependency parser trained for the few iterations of belief propagation it will be given.

Names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwise.apps.parser.evaluation import Scores as Scores
    from loopwise.apps.parser.evaluation import by_length as by_length
    from loopwise.apps.parser.evaluation import score as score
    from loopwise.apps.parser.evaluation import sentence_counts as sentence_counts
    from loopwise.apps.parser.objectives import CLL as CLL
    from loopwise.apps.parser.objectives import L2 as L2
    from loopwise.apps.parser.objectives import AnnealedRisk as AnnealedRisk
    from loopwise.apps.parser.options import Pruning as Pruning
    from loopwise.apps.parser.options import Templates as Templates
    from loopwise.apps.parser.parser import Parser as Parser
    from loopwise.apps.parser.parser import Tree as Tree
    from loopwise.apps.parser.preparing import Prepared as Prepared
    from loopwise.apps.parser.significance import Comparison as Comparison
    from loopwise.apps.parser.significance import paired_bootstrap as paired_bootstrap

_HOME = {
    "AnnealedRisk": "objectives",
    "CLL": "objectives",
    "Comparison": "significance",
    "L2": "objectives",
    "Parser": "parser",
    "Prepared": "preparing",
    "Pruning": "options",
    "Scores": "evaluation",
    "Templates": "options",
    "Tree": "parser",
    "by_length": "evaluation",
    "paired_bootstrap": "significance",
    "score": "evaluation",
    "sentence_counts": "evaluation",
}

__all__ = [
    "CLL",
    "L2",
    "AnnealedRisk",
    "Comparison",
    "Parser",
    "Prepared",
    "Pruning",
    "Scores",
    "Templates",
    "Tree",
    "by_length",
    "paired_bootstrap",
    "score",
    "sentence_counts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loopwise.apps.parser' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"loopwise.apps.parser.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
