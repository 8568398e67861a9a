"""Products for end users, each a folder or file of its own; names are imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwise.apps.chain import ChainCRF as ChainCRF
    from loopwise.apps.chain import Tagger as Tagger
    from loopwise.apps.coref.estimator import Coref as Coref
    from loopwise.apps.decoder.decoder import Decoder as Decoder
    from loopwise.apps.dedupe.estimator import Dedupe as Dedupe
    from loopwise.apps.grid_crf.estimator import GridCRF as GridCRF
    from loopwise.apps.grid_crf.model import AffineUnary as AffineUnary
    from loopwise.apps.grid_crf.model import ContrastPair as ContrastPair
    from loopwise.apps.grid_crf.model import ConvUnary as ConvUnary
    from loopwise.apps.grid_crf.model import TiedPair as TiedPair
    from loopwise.apps.multilabel.estimator import MultiLabel as MultiLabel
    from loopwise.apps.parser.estimator import Parser as Parser
    from loopwise.apps.pipeline import Pipeline as Pipeline
    from loopwise.apps.table.estimator import MRFClassifier as MRFClassifier
    from loopwise.apps.table.table import Table as Table

# Where each name lives.
_HOME = {
    "AffineUnary": "loopwise.apps.grid_crf.model",
    "ChainCRF": "loopwise.apps.chain",
    "ContrastPair": "loopwise.apps.grid_crf.model",
    "ConvUnary": "loopwise.apps.grid_crf.model",
    "Coref": "loopwise.apps.coref.estimator",
    "Decoder": "loopwise.apps.decoder.decoder",
    "Dedupe": "loopwise.apps.dedupe.estimator",
    "GridCRF": "loopwise.apps.grid_crf.estimator",
    "MRFClassifier": "loopwise.apps.table.estimator",
    "MultiLabel": "loopwise.apps.multilabel.estimator",
    "Table": "loopwise.apps.table.table",
    "TiedPair": "loopwise.apps.grid_crf.model",
    "Parser": "loopwise.apps.parser.estimator",
    "Pipeline": "loopwise.apps.pipeline",
    "Tagger": "loopwise.apps.chain",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loopwise.apps' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
