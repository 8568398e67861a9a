"""Classifiers of tables: a Markov random field over columns, with missing values, for any loss."""

from loopwise.apps.table.estimator import MRFClassifier
from loopwise.apps.table.model import BySize, Chain, Complete, Edges, Grid, Structure, ToOutputs, Tree

__all__ = ["BySize", "Chain", "Complete", "Edges", "Grid", "MRFClassifier", "Structure", "ToOutputs", "Tree"]
