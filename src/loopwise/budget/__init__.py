"""Budget: accuracy and run time in one objective; learned stopping, learned sparsity, Pareto frontiers."""

from loopwise.budget.baselines import fit_with_prior, random_factors, strongest, without_zeros
from loopwise.budget.budgeted import Budgeted, Smoothing
from loopwise.budget.calibration import Nanoseconds, calibrate
from loopwise.budget.cost import Cells, Cost, Factors, Messages, Sweeps
from loopwise.budget.escalation import Escalation
from loopwise.budget.frontier import Frontier, Point, best_points, hypervolume, lower_hull
from loopwise.budget.gated_template import GatedTemplate, WithoutGroups
from loopwise.budget.gates import Gate, Gated
from loopwise.budget.graft import Grafted, GraftStep, Host, expected_gain, graft, graft_on, with_factors
from loopwise.budget.measure import seconds_each, spend
from loopwise.budget.methods import (
    FixedSweeps,
    FixedTolerance,
    GroupLasso,
    Lasso,
    Learned,
    Magnitude,
    Method,
    RandomFactors,
)
from loopwise.budget.objective import SpeedAugmented
from loopwise.budget.pareto import pareto
from loopwise.budget.policy_fit import PolicyFit, fit_policy
from loopwise.budget.presence import Published, Step, Tanh
from loopwise.budget.pruning import keep, kept_factors, on_graph, prune
from loopwise.budget.saving import load, save
from loopwise.budget.selection import Selected, Selection
from loopwise.budget.smoothing import Doubling, Falling, Independent, Shared, Threshold
from loopwise.budget.stopping import Stopping
from loopwise.budget.strength import Centred, Interaction, Raw, Strength
from loopwise.budget.training import fit, standardise_policy
from loopwise.inference.messages.features import (
    STANDARD,
    Bias,
    Confident,
    Course,
    Entropy,
    Feature,
    LargestChange,
    LogSweep,
    MeanChange,
    Slowing,
    SweepShare,
    Undecided,
)
from loopwise.inference.messages.policy import Policy, StopByPolicy

__all__ = [
    "STANDARD",
    "Bias",
    "Budgeted",
    "Cells",
    "Centred",
    "Confident",
    "Cost",
    "Course",
    "Doubling",
    "Entropy",
    "Escalation",
    "Factors",
    "Falling",
    "Feature",
    "FixedSweeps",
    "FixedTolerance",
    "Frontier",
    "Gate",
    "Gated",
    "GatedTemplate",
    "GraftStep",
    "Grafted",
    "GroupLasso",
    "Host",
    "Independent",
    "Interaction",
    "LargestChange",
    "Lasso",
    "Learned",
    "LogSweep",
    "Magnitude",
    "MeanChange",
    "Messages",
    "Method",
    "Nanoseconds",
    "Point",
    "Policy",
    "PolicyFit",
    "Published",
    "RandomFactors",
    "Raw",
    "Selected",
    "Selection",
    "Shared",
    "Slowing",
    "Smoothing",
    "SpeedAugmented",
    "Step",
    "StopByPolicy",
    "Stopping",
    "Strength",
    "SweepShare",
    "Sweeps",
    "Tanh",
    "Threshold",
    "Undecided",
    "WithoutGroups",
    "best_points",
    "calibrate",
    "expected_gain",
    "fit",
    "fit_policy",
    "fit_with_prior",
    "graft",
    "graft_on",
    "hypervolume",
    "keep",
    "kept_factors",
    "load",
    "lower_hull",
    "on_graph",
    "pareto",
    "prune",
    "random_factors",
    "save",
    "seconds_each",
    "spend",
    "standardise_policy",
    "strongest",
    "with_factors",
    "without_zeros",
]
