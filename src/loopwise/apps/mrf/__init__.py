"""Classifiers of tables: a Markov random field over columns, with missing values, for any loss."""

from loopwise.apps.mrf.estimator import MRFClassifier
from loopwise.apps.mrf.structures import Chain, Complete, Edges, Grid, Structure, ToOutputs, Tree

__all__ = ["Chain", "Complete", "Edges", "Grid", "MRFClassifier", "Structure", "ToOutputs", "Tree"]
