"""Budget: accuracy and run time in one objective; learned stopping, learned sparsity, Pareto frontiers."""

from loopwise.budget.baselines import fit_with_prior, random_factors, strongest, without_zeros
from loopwise.budget.budgeted import Budgeted, Smoothing
from loopwise.budget.calibration import Nanoseconds, calibrate
from loopwise.budget.cost import CellCost, Cost, FactorCost, MessageCost, SweepCost
from loopwise.budget.escalation import Escalation
from loopwise.budget.frontier import Frontier, Point, best_points, hypervolume, lower_hull
from loopwise.budget.gated_template import GatedTemplate, WithoutGroups
from loopwise.budget.gates import Gate, Gated
from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.gating.deploying import deploy
from loopwise.budget.gating.evidence_gates import ByEvidence, EvidenceGate
from loopwise.budget.gating.message_gates import MessageGates, send_only
from loopwise.budget.gating.methods import LearnedGates, ResidualSweeps
from loopwise.budget.graft import Grafted, GraftStep, Host, expected_gain, graft, graft_on, with_factors
from loopwise.budget.measure import seconds_each, spend
from loopwise.budget.methods import (
    BudgetCurve,
    FixedSweeps,
    FixedTolerance,
    GroupLasso,
    Lasso,
    Learned,
    Magnitude,
    RandomFactors,
)
from loopwise.budget.objective import SpeedAugmented
from loopwise.budget.pareto import pareto
from loopwise.budget.policy_fit import PolicyFit, fit_policy
from loopwise.budget.presence import PresenceStep, Published, Tanh
from loopwise.budget.pruning import keep, kept_factors, on_graph, prune
from loopwise.budget.saving import load, save
from loopwise.budget.selection import Selected, Selection
from loopwise.budget.smoothing import Doubling, Falling, IndependentThresholds, RandomThreshold, Shared
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
from loopwise.lazy import old_names

__all__ = [
    "STANDARD",
    "Bias",
    "BudgetCurve",
    "Budgeted",
    "ByEvidence",
    "CellCost",
    "Centred",
    "ChosenMessages",
    "Confident",
    "Cost",
    "Course",
    "Doubling",
    "Entropy",
    "Escalation",
    "EvidenceGate",
    "FactorCost",
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
    "IndependentThresholds",
    "Interaction",
    "LargestChange",
    "Lasso",
    "Learned",
    "LearnedGates",
    "LogSweep",
    "Magnitude",
    "MeanChange",
    "MessageCost",
    "MessageGates",
    "Nanoseconds",
    "Point",
    "Policy",
    "PolicyFit",
    "PresenceStep",
    "Published",
    "RandomFactors",
    "RandomThreshold",
    "Raw",
    "ResidualSweeps",
    "Selected",
    "Selection",
    "Shared",
    "Slowing",
    "Smoothing",
    "SpeedAugmented",
    "StopByPolicy",
    "Stopping",
    "Strength",
    "SweepCost",
    "SweepShare",
    "Tanh",
    "Undecided",
    "WithoutGroups",
    "best_points",
    "calibrate",
    "deploy",
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
    "send_only",
    "spend",
    "standardise_policy",
    "strongest",
    "with_factors",
    "without_zeros",
]

__getattr__ = old_names(
    __name__,
    {
        "Cells": "CellCost",
        "Factors": "FactorCost",
        "Independent": "IndependentThresholds",
        "Messages": "MessageCost",
        "Method": "BudgetCurve",
        "Step": "PresenceStep",
        "Sweeps": "SweepCost",
        "Threshold": "RandomThreshold",
    },
)
