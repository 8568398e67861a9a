"""Losses on decisions and beliefs, and objectives on whole models."""

from loopwise.loss.base import Loss, Measure, OnFactors, OnVariables
from loopwise.loss.clique import CliqueLikelihood, CliqueQuadratic, SmoothCliqueError
from loopwise.loss.f_measure import F1, FBeta
from loopwise.loss.interpolated import Interpolated, OnBeliefs
from loopwise.loss.likelihood import Objective, SurrogateLikelihood, TruncatedLikelihood
from loopwise.loss.piecewise import Piecewise
from loopwise.loss.pseudo_likelihood import PseudoLikelihood
from loopwise.loss.reduction import Each, Mean, Pooled, Reduction, Sum
from loopwise.loss.targets import Targets
from loopwise.loss.univariate import L1, MSE, Hamming, SmoothError, UnivariateLikelihood, UnivariateQuadratic

L2 = UnivariateQuadratic  # as the parsing literature calls it

__all__ = [
    "F1",
    "L1",
    "L2",
    "MSE",
    "CliqueLikelihood",
    "CliqueQuadratic",
    "Each",
    "FBeta",
    "Hamming",
    "Interpolated",
    "Loss",
    "Mean",
    "Measure",
    "Objective",
    "OnBeliefs",
    "OnFactors",
    "OnVariables",
    "Piecewise",
    "Pooled",
    "PseudoLikelihood",
    "Reduction",
    "SmoothCliqueError",
    "SmoothError",
    "Sum",
    "SurrogateLikelihood",
    "Targets",
    "TruncatedLikelihood",
    "UnivariateLikelihood",
    "UnivariateQuadratic",
]
