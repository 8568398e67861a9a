"""Tables: a Markov random field over columns, any of which are predicted from any others, whatever is missing."""

from loopwise.apps.table.estimator import MRFClassifier
from loopwise.apps.table.missingness import AnyRate, Missingness, Patterns, Rates
from loopwise.apps.table.model import BySize, ColumnChain, ColumnPairs, ColumnTree, Complete, Grid, Structure, ToOutputs
from loopwise.apps.table.table import Table
from loopwise.lazy import old_names

__all__ = [
    "AnyRate",
    "BySize",
    "ColumnChain",
    "ColumnPairs",
    "ColumnTree",
    "Complete",
    "Grid",
    "MRFClassifier",
    "Missingness",
    "Patterns",
    "Rates",
    "Structure",
    "Table",
    "ToOutputs",
]

__getattr__ = old_names(__name__, {"Chain": "ColumnChain", "Edges": "ColumnPairs", "Tree": "ColumnTree"})
