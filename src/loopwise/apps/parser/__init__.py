"""A dependency parser trained for the few iterations of belief propagation it will be given.

Names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from loopwise.lazy import old_names

if TYPE_CHECKING:
    from loopwise.apps.parser.estimator import Parser as Parser
    from loopwise.apps.parser.estimator import ParseTree as ParseTree
    from loopwise.apps.parser.objectives import CLL as CLL
    from loopwise.apps.parser.objectives import AnnealedRisk as AnnealedRisk
    from loopwise.apps.parser.objectives import SquaredDistance as SquaredDistance
    from loopwise.apps.parser.options import Pruning as Pruning
    from loopwise.apps.parser.options import Templates as Templates
    from loopwise.apps.parser.preparing import PreparedSentences as PreparedSentences
    from loopwise.apps.parser.report import AttachmentScores as AttachmentScores
    from loopwise.apps.parser.report import by_length as by_length
    from loopwise.apps.parser.report import score as score
    from loopwise.apps.parser.report import sentence_counts as sentence_counts
    from loopwise.apps.parser.significance import ParserComparison as ParserComparison
    from loopwise.apps.parser.significance import paired_bootstrap as paired_bootstrap

_HOME = {
    "AnnealedRisk": "objectives",
    "CLL": "objectives",
    "ParserComparison": "significance",
    "SquaredDistance": "objectives",
    "Parser": "estimator",
    "PreparedSentences": "preparing",
    "Pruning": "options",
    "AttachmentScores": "report",
    "Templates": "options",
    "ParseTree": "estimator",
    "by_length": "report",
    "paired_bootstrap": "significance",
    "score": "report",
    "sentence_counts": "report",
}

__all__ = [
    "CLL",
    "AnnealedRisk",
    "AttachmentScores",
    "ParseTree",
    "Parser",
    "ParserComparison",
    "PreparedSentences",
    "Pruning",
    "SquaredDistance",
    "Templates",
    "by_length",
    "paired_bootstrap",
    "score",
    "sentence_counts",
]


_old_name = old_names(
    __name__,
    {
        "Comparison": "ParserComparison",
        "L2": "SquaredDistance",
        "Prepared": "PreparedSentences",
        "Scores": "AttachmentScores",
        "Tree": "ParseTree",
    },
    depth=4,
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        return _old_name(name)
    value = globals()[name] = getattr(importlib.import_module(f"loopwise.apps.parser.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
