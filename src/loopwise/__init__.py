"""loopwise trains discrete graphical models for the loss you measure, under the inference you can afford.

Names are imported when first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from loopwise import apps as apps
    from loopwise import budget as budget
    from loopwise import decode as decode
    from loopwise import formats as formats
    from loopwise import learn as learn
    from loopwise import loss as loss
    from loopwise import plot as plot
    from loopwise import walk as walk
    from loopwise.budget import pareto as pareto
    from loopwise.compare.gradients import compare_gradients as compare_gradients
    from loopwise.gradient.covariance import Covariance as Covariance
    from loopwise.gradient.fixed_point import FixedPoint as FixedPoint
    from loopwise.gradient.fixed_point import OneStep as OneStep
    from loopwise.gradient.hvp import hvp as hvp
    from loopwise.gradient.linear_solve import LinearSolve as LinearSolve
    from loopwise.gradient.linear_solve import Saddle as Saddle
    from loopwise.gradient.linear_solve import Schur as Schur
    from loopwise.gradient.perturbation import CubeRoot as CubeRoot
    from loopwise.gradient.perturbation import EqualSweeps as EqualSweeps
    from loopwise.gradient.perturbation import Perturbation as Perturbation
    from loopwise.gradient.perturbation import SquareRoot as SquareRoot
    from loopwise.gradient.perturbation import ToTolerance as ToTolerance
    from loopwise.gradient.perturbation import symmetry_gap as symmetry_gap
    from loopwise.gradient.solvers import Direct as Direct
    from loopwise.gradient.solvers import Minres as Minres
    from loopwise.gradient.unroll import Checkpoints as Checkpoints
    from loopwise.gradient.unroll import Fitting as Fitting
    from loopwise.gradient.unroll import Recompute as Recompute
    from loopwise.gradient.unroll import Store as Store
    from loopwise.gradient.unroll import Unroll as Unroll
    from loopwise.graph import FREE as FREE
    from loopwise.graph import Evidence as Evidence
    from loopwise.graph import FactorGraph as FactorGraph
    from loopwise.graph import Group as Group
    from loopwise.graph import Role as Role
    from loopwise.graph import Union as Union
    from loopwise.graph import chain as chain
    from loopwise.graph import complete as complete
    from loopwise.graph import grid as grid
    from loopwise.graph import random_mrf as random_mrf
    from loopwise.graph import union as union
    from loopwise.graph.structured import And as And
    from loopwise.graph.structured import AtMostOne as AtMostOne
    from loopwise.graph.structured import Chain as Chain
    from loopwise.graph.structured import Count as Count
    from loopwise.graph.structured import ExactlyOne as ExactlyOne
    from loopwise.graph.structured import Hypergraph as Hypergraph
    from loopwise.graph.structured import Implies as Implies
    from loopwise.graph.structured import Or as Or
    from loopwise.graph.structured import Parity as Parity
    from loopwise.graph.structured import ProjectiveTree as ProjectiveTree
    from loopwise.graph.structured import StructuredFactor as StructuredFactor
    from loopwise.graph.structured import Tree as Tree
    from loopwise.inference.auto import Auto as Auto
    from loopwise.inference.auto import infer as infer
    from loopwise.inference.base import Inference as Inference
    from loopwise.inference.base import Problem as Problem
    from loopwise.inference.beliefs import Beliefs as Beliefs
    from loopwise.inference.beliefs import Status as Status
    from loopwise.inference.compiled import Compiled as Compiled
    from loopwise.inference.counting import Bethe as Bethe
    from loopwise.inference.counting import Counting as Counting
    from loopwise.inference.counting import CountingNumbers as CountingNumbers
    from loopwise.inference.counting import Given as Given
    from loopwise.inference.counting import MonotonicChains as MonotonicChains
    from loopwise.inference.counting import Reweighted as Reweighted
    from loopwise.inference.counting import SpanningTrees as SpanningTrees
    from loopwise.inference.counting import check_concavity as check_concavity
    from loopwise.inference.counting import concave_scaling as concave_scaling
    from loopwise.inference.exact import Exact as Exact
    from loopwise.inference.exact import TooLargeError as TooLargeError
    from loopwise.inference.gibbs import Gibbs as Gibbs
    from loopwise.inference.gibbs import sample as gibbs_sample
    from loopwise.inference.implicit import marginal_map as marginal_map
    from loopwise.inference.map_search import MapSearch as MapSearch
    from loopwise.inference.maximum import Maximum as Maximum
    from loopwise.inference.mean_field import MeanField as MeanField
    from loopwise.inference.message_passing import BP as BP
    from loopwise.inference.message_passing import TRW as TRW
    from loopwise.inference.message_weights import BelowOne as BelowOne
    from loopwise.inference.message_weights import MessageWeights as MessageWeights
    from loopwise.inference.message_weights import Tied as Tied
    from loopwise.inference.reference import Reference as Reference
    from loopwise.inference.schedules import Flooding as Flooding
    from loopwise.inference.schedules import Groups as Groups
    from loopwise.inference.schedules import RandomSequential as RandomSequential
    from loopwise.inference.schedules import Residual as Residual
    from loopwise.inference.schedules import Sequential as Sequential
    from loopwise.inference.stop import AnyOf as AnyOf
    from loopwise.inference.stop import Satisfied as Satisfied
    from loopwise.inference.stop import Stop as Stop
    from loopwise.inference.stop import Tolerance as Tolerance
    from loopwise.learn import Examples as Examples
    from loopwise.learn import History as History
    from loopwise.learn import Stage as Stage
    from loopwise.learn import System as System
    from loopwise.learn import TemplateExamples as TemplateExamples
    from loopwise.learn import TotalSize as TotalSize
    from loopwise.learn import TrainingError as TrainingError
    from loopwise.learn import evaluate as evaluate
    from loopwise.learn import fit as fit
    from loopwise.learn import optim as optim
    from loopwise.learn import risk as risk
    from loopwise.learn import sample_examples as sample_examples
    from loopwise.learn import score_examples as score_examples
    from loopwise.learn import thirds as thirds
    from loopwise.loss import metric as metric
    from loopwise.notices import BudgetWarning as BudgetWarning
    from loopwise.notices import ChangedError as ChangedError
    from loopwise.notices import ConstraintWarning as ConstraintWarning
    from loopwise.notices import ConvergenceWarning as ConvergenceWarning
    from loopwise.notices import DataWarning as DataWarning
    from loopwise.notices import GradientError as GradientError
    from loopwise.notices import GradientWarning as GradientWarning
    from loopwise.notices import ImpossibleError as ImpossibleError
    from loopwise.notices import LoopwiseWarning as LoopwiseWarning
    from loopwise.potentials import Features as Features
    from loopwise.potentials import NeuralPotentials as NeuralPotentials
    from loopwise.potentials import SparseGroup as SparseGroup
    from loopwise.potentials import SparsePotentials as SparsePotentials
    from loopwise.potentials import TablePotentials as TablePotentials
    from loopwise.potentials import Template as Template
    from loopwise.potentials import TemplateBatch as TemplateBatch
    from loopwise.potentials import TiedTables as TiedTables
    from loopwise.potentials import feature_keys as feature_keys
    from loopwise.potentials import hashed as hashed
    from loopwise.potentials import priors as prior
    from loopwise.potentials import text_keys as text_keys
    from loopwise.walk import SampleRank as SampleRank

# Where each name lives, in the order of the stages; a pair where the name is another one there.
_HOME: dict[str, tuple[str | tuple[str, str], ...]] = {
    "loopwise.graph": (
        "Evidence", "FactorGraph", "FREE", "Group", "Role", "Union", "chain", "complete", "grid",
        "random_mrf", "union",
    ),
    "loopwise.graph.structured": (
        "And", "AtMostOne", "Chain", "Count", "ExactlyOne", "Hypergraph", "Implies", "Or", "Parity", "ProjectiveTree",
        "StructuredFactor", "Tree",
    ),
    "loopwise.potentials": (
        "Features", "NeuralPotentials", "SparseGroup", "SparsePotentials", "TablePotentials", "Template",
        "TemplateBatch", "TiedTables", "feature_keys", "hashed", "text_keys",
    ),
    "loopwise.gradient.unroll": ("Checkpoints", "Fitting", "Recompute", "Store", "Unroll"),
    "loopwise.gradient.fixed_point": ("FixedPoint", "OneStep"),
    "loopwise.gradient.perturbation": (
        "CubeRoot", "EqualSweeps", "Perturbation", "SquareRoot", "ToTolerance", "symmetry_gap",
    ),
    "loopwise.gradient.linear_solve": ("LinearSolve", "Saddle", "Schur"),
    "loopwise.gradient.solvers": ("Direct", "Minres"),
    "loopwise.gradient.covariance": ("Covariance",),
    "loopwise.gradient.hvp": ("hvp",),
    "loopwise.inference.base": ("Inference", "Problem"),
    "loopwise.notices": (
        "BudgetWarning", "ChangedError", "ConstraintWarning", "ConvergenceWarning", "DataWarning", "GradientError",
        "GradientWarning", "ImpossibleError", "LoopwiseWarning",
    ),
    "loopwise.inference.beliefs": ("Beliefs", "Status"),
    "loopwise.inference.message_passing": ("BP", "TRW"),
    "loopwise.inference.message_weights": ("BelowOne", "MessageWeights", "Tied"),
    "loopwise.inference.schedules": ("Flooding", "Groups", "RandomSequential", "Residual", "Sequential"),
    "loopwise.inference.stop": ("AnyOf", "Satisfied", "Stop", "Tolerance"),
    "loopwise.inference.counting": (
        "Bethe", "Counting", "CountingNumbers", "Given", "MonotonicChains", "Reweighted", "SpanningTrees",
        "check_concavity", "concave_scaling",
    ),
    "loopwise.inference.reference": ("Reference",),
    "loopwise.inference.compiled": ("Compiled",),
    "loopwise.inference.mean_field": ("MeanField",),
    "loopwise.inference.gibbs": ("Gibbs", ("gibbs_sample", "sample")),
    "loopwise.inference.implicit": ("marginal_map",),
    "loopwise.inference.exact": ("Exact", "TooLargeError"),
    "loopwise.inference.maximum": ("Maximum",),
    "loopwise.inference.map_search": ("MapSearch",),
    "loopwise.inference.auto": ("Auto", "infer"),
    "loopwise.learn": (
        "Examples", "History", "Stage", "System", "TemplateExamples", "TotalSize", "TrainingError", "evaluate", "fit",
        "risk", "sample_examples", "score_examples", "thirds",
    ),
    "loopwise.budget": ("pareto",),
    "loopwise.walk": ("SampleRank",),
    "loopwise.compare.gradients": ("compare_gradients",),
}  # fmt: skip
# Stages that are used by their own name, `lw.loss.MSE()`.
_SUBMODULES = {
    "apps": "loopwise.apps",
    "budget": "loopwise.budget",
    "decode": "loopwise.decode",
    "formats": "loopwise.formats",
    "learn": "loopwise.learn",
    "loss": "loopwise.loss",
    "metric": "loopwise.loss.metric",
    "optim": "loopwise.learn.optim",
    "plot": "loopwise.plot",
    "prior": "loopwise.potentials.priors",
    "walk": "loopwise.walk",
}
_PLACE_OF = {
    (entry if isinstance(entry, str) else entry[0]): (module, entry if isinstance(entry, str) else entry[1])
    for module, entries in _HOME.items()
    for entry in entries
}

__all__ = [  # noqa: RUF022 (the order of the stages)
    "Evidence", "FactorGraph", "FREE", "Group", "Role", "Union", "chain", "complete", "grid",
    "random_mrf", "union",
    "And", "AtMostOne", "Chain", "Count", "ExactlyOne", "Hypergraph", "Implies", "Or", "Parity", "ProjectiveTree",
    "StructuredFactor", "Tree",
    "Features", "NeuralPotentials", "SparseGroup", "SparsePotentials", "TablePotentials", "Template", "TemplateBatch",
    "TiedTables", "feature_keys", "hashed", "text_keys",
    "Checkpoints", "Fitting", "Recompute", "Store", "Unroll", "FixedPoint", "OneStep", "Perturbation", "LinearSolve",
    "CubeRoot", "EqualSweeps", "SquareRoot", "ToTolerance", "symmetry_gap", "Saddle", "Schur", "Direct", "Minres",
    "Covariance", "hvp", "marginal_map",
    "Inference", "Problem", "Beliefs", "Status",
    "BudgetWarning", "ChangedError", "ConstraintWarning", "ConvergenceWarning", "DataWarning", "GradientError",
    "GradientWarning", "ImpossibleError", "LoopwiseWarning",
    "BP", "TRW", "BelowOne", "MessageWeights", "Tied",
    "Flooding", "Groups", "RandomSequential", "Residual", "Sequential", "AnyOf", "Satisfied", "Stop", "Tolerance",
    "Bethe", "Counting", "CountingNumbers", "Given", "MonotonicChains", "Reweighted", "SpanningTrees",
    "check_concavity", "concave_scaling", "Reference", "Compiled",
    "MeanField", "Gibbs", "gibbs_sample", "Exact", "TooLargeError", "MapSearch", "Maximum", "Auto",
    "infer",
    "Examples", "History", "Stage", "System", "TemplateExamples", "TotalSize", "TrainingError", "evaluate", "fit",
    "risk", "sample_examples", "score_examples", "thirds", "pareto", "SampleRank", "compare_gradients",
    "apps", "budget", "decode", "formats", "learn", "loss", "metric", "optim", "plot", "prior", "walk",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        module = globals()[name] = importlib.import_module(_SUBMODULES[name])
        return module
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'loopwise' has no attribute {name!r}")
    home, there = _PLACE_OF[name]
    value = getattr(importlib.import_module(home), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACE_OF, *_SUBMODULES})
