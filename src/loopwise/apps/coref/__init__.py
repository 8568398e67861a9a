"""Coreference: which mentions of a text speak of the same thing."""

from typing import Any

from loopwise.apps.coref.baselines import head_match, singletons
from loopwise.apps.coref.estimator import Coref
from loopwise.apps.coref.report import Report
from loopwise.apps.coref.synthetic import made_documents
from loopwise.apps.coref.variants import Variant, default_variant, published_variants
from loopwise.lazy import renamed

__all__ = [
    "Coref",
    "Report",
    "Variant",
    "default_variant",
    "head_match",
    "made_documents",
    "published_variants",
    "singletons",
]

_RENAMED = {"Way": "Variant", "published_ways": "published_variants"}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = _RENAMED[name]
    return renamed(f"lw.apps.coref.{name}", f"lw.apps.coref.{now}", globals()[now])
