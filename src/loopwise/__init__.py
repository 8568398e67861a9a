"""loopwise trains discrete graphical models for the loss you measure, under the inference you can afford.

What most programs need is here; everything else is in the module of its stage, `lw.inference.Tolerance`. Names are
imported when first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from loopwise.lazy import Home, value_of

__version__ = "0.1.0"

if TYPE_CHECKING:
    from loopwise import apps as apps
    from loopwise import budget as budget
    from loopwise import compare as compare
    from loopwise import decode as decode
    from loopwise import formats as formats
    from loopwise import gradient as gradient
    from loopwise import graph as graph
    from loopwise import inference as inference
    from loopwise import learn as learn
    from loopwise import loss as loss
    from loopwise import notices as notices
    from loopwise import plot as plot
    from loopwise import potentials as potentials
    from loopwise import testing as testing
    from loopwise import walk as walk
    from loopwise.gradient.fixed_point import FixedPoint
    from loopwise.gradient.hvp import hvp
    from loopwise.gradient.perturbation import Perturbation
    from loopwise.gradient.unroll import Unroll
    from loopwise.graph import Evidence, FactorGraph, Role, chain, complete, grid, random_mrf
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
    from loopwise.inference.auto import Auto, infer
    from loopwise.inference.beliefs import Beliefs
    from loopwise.inference.exact.method import Exact
    from loopwise.inference.explain import explain
    from loopwise.inference.gibbs.method import Gibbs
    from loopwise.inference.mean_field.method import MeanField
    from loopwise.inference.messages.message_passing import BP, TRW
    from loopwise.inference.messages.message_weights import MessageWeights
    from loopwise.inference.messages.schedules import Groups, Residual, Sequential
    from loopwise.learn import Examples, System, TemplateExamples, evaluate, fit, optim, posterior, sample_examples
    from loopwise.loss import metric
    from loopwise.potentials import NeuralPotentials, SparsePotentials, TablePotentials, Template
    from loopwise.potentials import priors as prior

# Where each name lives, in the order of the stages.
_HOME: Home = {
    "loopwise.graph": ("Evidence", "FactorGraph", "Role", "chain", "complete", "grid", "random_mrf",),
    "loopwise.graph.structured": (
        "And", "AtMostOne", "Chain", "Count", "ExactlyOne", "Hypergraph", "Implies", "Or", "Parity",
        "ProjectiveTree", "StructuredFactor", "Tree",
    ),
    "loopwise.potentials": ("NeuralPotentials", "SparsePotentials", "TablePotentials", "Template",),
    "loopwise.gradient.unroll": ("Unroll",),
    "loopwise.gradient.fixed_point": ("FixedPoint",),
    "loopwise.gradient.perturbation": ("Perturbation",),
    "loopwise.gradient.hvp": ("hvp",),
    "loopwise.inference.auto": ("Auto", "infer",),
    "loopwise.inference.messages.message_passing": ("BP", "TRW",),
    "loopwise.inference.exact.method": ("Exact",),
    "loopwise.inference.mean_field.method": ("MeanField",),
    "loopwise.inference.gibbs.method": ("Gibbs",),
    "loopwise.inference.beliefs": ("Beliefs",),
    "loopwise.inference.explain": ("explain",),
    "loopwise.inference.messages.message_weights": ("MessageWeights",),
    "loopwise.inference.messages.schedules": ("Groups", "Residual", "Sequential",),
    "loopwise.learn": ("Examples", "System", "TemplateExamples", "evaluate", "fit", "sample_examples",),
}  # fmt: skip
# Stages that are used by their own name, `lw.loss.MSE()`, in their order.
_SUBMODULES = {
    "graph": "loopwise.graph",
    "potentials": "loopwise.potentials",
    "prior": "loopwise.potentials.priors",
    "gradient": "loopwise.gradient",
    "inference": "loopwise.inference",
    "decode": "loopwise.decode",
    "loss": "loopwise.loss",
    "metric": "loopwise.loss.metric",
    "learn": "loopwise.learn",
    "optim": "loopwise.learn.optim",
    "posterior": "loopwise.learn.posterior",
    "budget": "loopwise.budget",
    "walk": "loopwise.walk",
    "apps": "loopwise.apps",
    "formats": "loopwise.formats",
    "plot": "loopwise.plot",
    "compare": "loopwise.compare",
    "testing": "loopwise.testing",
    "notices": "loopwise.notices",
}
# Names that stood here before 0.1 was released, by the stage that has them now. They go in 0.2.
_MOVED = {
    "graph": (
        "FREE", "Group", "Union", "union",
    ),
    "potentials": (
        "Features", "SparseGroup", "TemplateBatch", "TiedTables", "feature_keys", "hashed", "text_keys",
    ),
    "gradient": (
        "Checkpoints", "Fitting", "Recompute", "Store", "OneStep", "CubeRoot", "EqualSweeps", "SquareRoot",
        "ToTolerance", "symmetry_gap", "LinearSolve", "Saddle", "Schur", "Direct", "Minres", "Covariance",
    ),
    "inference": (
        "Inference", "Problem", "Status", "BelowOne", "Tied", "Flooding", "RandomSequential",
        "AnyOf", "Satisfied", "Stop", "Tolerance", "Bethe", "Counting", "CountingNumbers", "Given",
        "MonotonicChains", "Reweighted", "SpanningTrees", "check_concavity", "concave_scaling", "Reference",
        "Compiled", "gibbs_sample", "marginal_map", "TooLargeError", "Maximum", "MapSearch",
    ),
    "notices": (
        "BudgetWarning", "ChangedError", "ConstraintWarning", "ConvergenceWarning", "DataWarning",
        "GradientError", "GradientWarning", "ImpossibleError", "LoopwiseWarning",
    ),
    "learn": (
        "History", "Stage", "TotalSize", "TrainingError", "risk", "score_examples", "thirds",
    ),
    "budget": (
        "pareto",
    ),
    "walk": (
        "SampleRank",
    ),
    "compare": (
        "compare_gradients",
    ),
}  # fmt: skip
# Of these, those that have another name now.
_RENAMED = {"Given": "ExplicitCounting"}

__all__ = [  # noqa: RUF022 (the order of the stages)
    "Evidence", "FactorGraph", "Role", "chain", "complete", "grid", "random_mrf", "And", "AtMostOne", "Chain", "Count",
    "ExactlyOne", "Hypergraph", "Implies", "Or", "Parity", "ProjectiveTree", "StructuredFactor", "Tree",
    "NeuralPotentials", "SparsePotentials", "TablePotentials", "Template", "Unroll", "FixedPoint", "Perturbation",
    "hvp", "Auto", "infer", "BP", "TRW", "Exact", "MeanField", "Gibbs", "Beliefs", "explain", "MessageWeights",
    "Groups", "Residual", "Sequential", "Examples", "System", "TemplateExamples", "evaluate", "fit", "sample_examples",
    "graph", "potentials", "prior", "gradient", "inference", "decode", "loss", "metric", "learn", "optim", "posterior",
    "budget", "walk", "apps", "formats", "plot", "compare", "testing", "notices",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        module = globals()[name] = importlib.import_module(_SUBMODULES[name])
        return module
    stage = next((stage for stage, names in _MOVED.items() if name in names), None)
    if stage is not None:
        return _moved(name, stage)
    value = globals()[name] = value_of(__name__, _HOME, name)
    return value


def _moved(name: str, stage: str) -> Any:
    """A name that stood here, from where it is now; said at each use, to the line that uses it."""
    now = _RENAMED.get(name, name)
    text = f"lw.{name} has moved to lw.{stage}.{now}; the old name goes in version 0.2"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    return getattr(importlib.import_module(f"loopwise.{stage}"), now)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
