"""Coreference: which mentions of a text speak of the same thing."""

from loopwise.apps.coref.baselines import by_rule, head_match, singletons
from loopwise.apps.coref.estimator import Coref
from loopwise.apps.coref.report import CorefReport
from loopwise.apps.coref.synthetic import made_documents
from loopwise.apps.coref.variants import Variant, default_variant, published_variants
from loopwise.lazy import old_names

__all__ = [
    "Coref",
    "CorefReport",
    "Variant",
    "by_rule",
    "default_variant",
    "head_match",
    "made_documents",
    "published_variants",
    "singletons",
]

__getattr__ = old_names(__name__, {"Report": "CorefReport", "Way": "Variant", "published_ways": "published_variants"})
