"""A dependency parser trained for the few iterations of belief propagation it will be given.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.lazy import Home, lazily, old_names

if TYPE_CHECKING:
    from loopwise.apps.parser.estimator import Parser, ParseTree
    from loopwise.apps.parser.objectives import CLL, AnnealedRisk, SquaredDistance
    from loopwise.apps.parser.options import Pruning, Templates
    from loopwise.apps.parser.preparing import PreparedSentences
    from loopwise.apps.parser.report import AttachmentScores, by_length, score, sentence_counts
    from loopwise.apps.parser.significance import ParserComparison, paired_bootstrap

# Where each name lives. Nothing is imported before it is asked for.
_HOME: Home = {
    "loopwise.apps.parser.objectives": ("AnnealedRisk", "CLL", "SquaredDistance",),
    "loopwise.apps.parser.significance": ("ParserComparison", "paired_bootstrap",),
    "loopwise.apps.parser.estimator": ("Parser", "ParseTree",),
    "loopwise.apps.parser.preparing": ("PreparedSentences",),
    "loopwise.apps.parser.options": ("Pruning", "Templates",),
    "loopwise.apps.parser.report": ("AttachmentScores", "by_length", "score", "sentence_counts",),
}  # fmt: skip

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

__getattr__, __dir__ = lazily(
    __name__,
    _HOME,
    old_names(
        __name__,
        {
            "Comparison": "ParserComparison",
            "L2": "SquaredDistance",
            "Prepared": "PreparedSentences",
            "Scores": "AttachmentScores",
            "Tree": "ParseTree",
        },
        depth=4,
    ),
)
