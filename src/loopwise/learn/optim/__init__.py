"""Optimisers, as torch optimisers are, and what goes with them."""

from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.optim.adam import DenseAdam
from loopwise.learn.optim.lbfgs import LBFGS, measured_curvature
from loopwise.learn.optim.probe import Probe, probe
from loopwise.learn.optim.smd import SMD
from loopwise.learn.optim.steps import clip_gradients, finish, inverse_square_root, take_step

__all__ = [
    "LBFGS",
    "SMD",
    "AdaGradCOMID",
    "DenseAdam",
    "Probe",
    "clip_gradients",
    "finish",
    "inverse_square_root",
    "measured_curvature",
    "probe",
    "take_step",
]
