"""Numbers: log-potentials, a tensor a group; priors on their parameters."""

from loopwise.potentials.features import Features
from loopwise.potentials.hashing import feature_keys, hashed, text_keys
from loopwise.potentials.neural import NeuralPotentials
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.potentials.tables import TablePotentials
from loopwise.potentials.template import Template, TemplateBatch
from loopwise.potentials.tied import TiedTables

__all__ = [
    "Features",
    "NeuralPotentials",
    "SparseGroup",
    "SparsePotentials",
    "TablePotentials",
    "Template",
    "TemplateBatch",
    "TiedTables",
    "feature_keys",
    "hashed",
    "text_keys",
]
