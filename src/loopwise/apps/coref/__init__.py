"""Coreference: which mentions of a text speak of the same thing."""

from loopwise.apps.coref.baselines import head_match, singletons
from loopwise.apps.coref.estimator import Coref
from loopwise.apps.coref.report import Report
from loopwise.apps.coref.synthetic import made_documents
from loopwise.apps.coref.ways import Way, default_way, published_ways

__all__ = ["Coref", "Report", "Way", "default_way", "head_match", "made_documents", "published_ways", "singletons"]
