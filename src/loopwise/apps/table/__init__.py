"""Tables: a Markov random field over columns, any of which are predicted from any others, whatever is missing."""

from loopwise.apps.table.estimator import MRFClassifier
from loopwise.apps.table.missingness import AnyRate, Missingness, Patterns, Rates
from loopwise.apps.table.model import BySize, Chain, Complete, Edges, Grid, Structure, ToOutputs, Tree
from loopwise.apps.table.table import Table

__all__ = [
    "AnyRate",
    "BySize",
    "Chain",
    "Complete",
    "Edges",
    "Grid",
    "MRFClassifier",
    "Missingness",
    "Patterns",
    "Rates",
    "Structure",
    "Table",
    "ToOutputs",
    "Tree",
]
