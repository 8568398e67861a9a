"""Products for end users, each a folder or file of its own; names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.lazy import Home, lazily

if TYPE_CHECKING:
    from loopwise.apps.chain import ChainCRF, Tagger
    from loopwise.apps.coref.estimator import Coref
    from loopwise.apps.decoder.decoder import Decoder
    from loopwise.apps.dedupe.estimator import Dedupe
    from loopwise.apps.grid_crf.estimator import GridCRF
    from loopwise.apps.grid_crf.model import AffineUnary, ContrastPair, ConvUnary, TiedPair
    from loopwise.apps.multilabel.estimator import MultiLabel
    from loopwise.apps.parser.estimator import Parser
    from loopwise.apps.pipeline import Pipeline
    from loopwise.apps.table.estimator import MRFClassifier
    from loopwise.apps.table.table import Table

# Where each name lives. Nothing is imported before it is asked for.
_HOME: Home = {
    "loopwise.apps.grid_crf.model": ("AffineUnary", "ContrastPair", "ConvUnary", "TiedPair",),
    "loopwise.apps.chain": ("ChainCRF", "Tagger",),
    "loopwise.apps.coref.estimator": ("Coref",),
    "loopwise.apps.decoder.decoder": ("Decoder",),
    "loopwise.apps.dedupe.estimator": ("Dedupe",),
    "loopwise.apps.grid_crf.estimator": ("GridCRF",),
    "loopwise.apps.table.estimator": ("MRFClassifier",),
    "loopwise.apps.multilabel.estimator": ("MultiLabel",),
    "loopwise.apps.table.table": ("Table",),
    "loopwise.apps.parser.estimator": ("Parser",),
    "loopwise.apps.pipeline": ("Pipeline",),
}  # fmt: skip

__all__ = [
    "AffineUnary",
    "ChainCRF",
    "ContrastPair",
    "ConvUnary",
    "Coref",
    "Decoder",
    "Dedupe",
    "GridCRF",
    "MRFClassifier",
    "MultiLabel",
    "Parser",
    "Pipeline",
    "Table",
    "Tagger",
    "TiedPair",
]

__getattr__, __dir__ = lazily(__name__, _HOME)
