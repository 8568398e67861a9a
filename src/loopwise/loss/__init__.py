"""Losses on decisions and beliefs, and objectives on whole models."""

from loopwise.lazy import old_names
from loopwise.loss.base import Loss, Measure, OnFactors, OnVariables
from loopwise.loss.clique import CliqueLikelihood, CliqueQuadratic, SmoothCliqueError
from loopwise.loss.f_measure import F1, FBeta
from loopwise.loss.interpolated import Interpolated, OnBeliefs
from loopwise.loss.likelihood import LikelihoodObjective, SurrogateLikelihood, TruncatedLikelihood
from loopwise.loss.piecewise import Piecewise
from loopwise.loss.pseudo_likelihood import PseudoLikelihood
from loopwise.loss.reduction import Each, Mean, Pooled, Reduction, Sum
from loopwise.loss.targets import Targets
from loopwise.loss.univariate import MAE, MSE, Hamming, SmoothError, UnivariateLikelihood, UnivariateQuadratic

L1 = MAE  # as Stoyanov, Ropson and Eisner (2011) call it
L2 = UnivariateQuadratic  # as the parsing literature calls it

__all__ = [
    "F1",
    "L1",
    "L2",
    "MAE",
    "MSE",
    "CliqueLikelihood",
    "CliqueQuadratic",
    "Each",
    "FBeta",
    "Hamming",
    "Interpolated",
    "LikelihoodObjective",
    "Loss",
    "Mean",
    "Measure",
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

__getattr__ = old_names(__name__, {"Objective": "LikelihoodObjective"})
