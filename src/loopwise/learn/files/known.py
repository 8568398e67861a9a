"""The classes that a saved system may be made of: a fixed table, since files name classes and are not to be trusted.

In: nothing. Out: :data:`KNOWN`. Stage: learning. Most are dataclasses, whose fields are what makes them again; modules
say which arguments do (their weights are saved apart). A class that is not here cannot be saved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn

from loopwise.decode import (
    MBR,
    ApproximateF,
    Drawn,
    FactorVote,
    Fixed,
    Geometric,
    Identity,
    Independent,
    Joint,
    LeastExpectedLoss,
    Linear,
    Listed,
    Max,
    PerCorpus,
    PerExample,
    SoftApproximateF,
    SoftArgmax,
    Trained,
)
from loopwise.gradient.covariance import Covariance
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.linear_solve import LinearSolve, Saddle, Schur
from loopwise.gradient.perturbation import CubeRoot, EqualSweeps, Perturbation, SquareRoot, ToTolerance
from loopwise.gradient.solvers import Direct, Minres
from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Unroll
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.structured import (
    And,
    AtMostOne,
    Chain,
    Count,
    ExactlyOne,
    Hypergraph,
    Implies,
    Or,
    Parity,
    ProjectiveTree,
    Tree,
)
from loopwise.inference.auto import Auto
from loopwise.inference.exact.method import Exact
from loopwise.inference.gibbs.method import Gibbs
from loopwise.inference.maximum.map_search import MapSearch
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.counting import Bethe, ExplicitCounting, MonotonicChains, Reweighted, SpanningTrees
from loopwise.inference.messages.features import (
    Bias,
    Confident,
    Entropy,
    LargestChange,
    LogSweep,
    MeanChange,
    Slowing,
    SweepShare,
    Undecided,
)
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.message_weights import BelowOne, MessageWeights, Tied
from loopwise.inference.messages.policy import Policy, StopByPolicy
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Flooding, Groups, RandomSequential, Residual, Sequential
from loopwise.inference.messages.stop import AnyOf, Satisfied, Tolerance
from loopwise.loss import metric
from loopwise.loss.reduction import Each, Mean, Pooled, Sum
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.potentials.tables import TablePotentials
from loopwise.potentials.tied import TiedTables

Options = Callable[[Any], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class KnownClass:
    """A class by its name in files; ``make`` makes of ``options(instance)``, as keywords, such an instance again."""

    name: str
    kind: type
    options: Options
    make: Callable[..., Any]
    sized: bool = False  # its numbers are sizes of weights that the file holds too


def _fields(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance) if field.init}


def _attributes(*names: str) -> Options:
    return lambda instance: {name: getattr(instance, name) for name in names}


def _tables(potentials: TablePotentials) -> dict[str, Any]:
    return {"graph": potentials.graph, **_dtype(potentials)}


def _tied(potentials: TiedTables) -> dict[str, Any]:
    groups = enumerate(potentials.graph.groups)
    classes = {group.name: potentials.get_buffer(f"classes_{number}").cpu().numpy() for number, group in groups}
    return {"graph": potentials.graph, "classes": classes, **_dtype(potentials)}


def _sparse(potentials: SparsePotentials) -> dict[str, Any]:
    return {**_attributes("graph", "groups", "table_dtype", "sparse_gradient")(potentials), **_dtype(potentials)}


def _make_sparse(graph: FactorGraph | None = None, **options: Any) -> SparsePotentials:
    potentials = SparsePotentials(**options)
    potentials.graph = graph
    return potentials


def _dtype(potentials: nn.Module) -> dict[str, Any]:
    first = next(potentials.parameters(), None)
    return {} if first is None else {"dtype": first.dtype}


_DATACLASSES: tuple[type, ...] = (
    BP, TRW, MeanField, Exact, Gibbs, Auto, MapSearch,
    Flooding, Sequential, RandomSequential, Residual, Groups,
    AnyOf, Satisfied, Tolerance, StopByPolicy,
    Bias, SweepShare, LogSweep, LargestChange, MeanChange, Slowing, Entropy, Confident, Undecided,
    Bethe, Reweighted, ExplicitCounting, SpanningTrees, MonotonicChains,
    Reference, Compiled,
    Unroll, Store, Recompute, Checkpoints, Fitting,
    FixedPoint, OneStep, Covariance,
    Perturbation, SquareRoot, CubeRoot, EqualSweeps, ToTolerance,
    LinearSolve, Saddle, Schur, Direct, Minres,
    Identity, Max, MBR,
    Joint, Independent, Drawn,
    Geometric, Linear, Listed,
    Mean, Sum, Pooled, Each,
    SparseGroup,
    And, AtMostOne, Chain, Count, ExactlyOne, Hypergraph, Implies, Or, Parity, ProjectiveTree, Tree,
)  # fmt: skip

_MODULES: dict[type, Options] = {
    TablePotentials: _tables,
    TiedTables: _tied,
    SoftArgmax: _attributes("temperature"),
    ApproximateF: _attributes("threshold", "temperature", "positive"),
    SoftApproximateF: _attributes("threshold", "temperature", "positive"),
    FactorVote: _attributes("decoder", "groups"),
    MessageWeights: MessageWeights.options,
    BelowOne: _attributes("values"),
    Policy: _attributes("features"),
    Tied: lambda tied: {"values": tied.values, "index": tied.index.cpu().numpy()},
    Trained: _attributes(),
    PerExample: _attributes(),
    PerCorpus: _attributes(),
    Fixed: lambda threshold: {"kappa": threshold.value},
    LeastExpectedLoss: _attributes("samples", "count", "seed", "beta", "loss"),
}

# Metrics by the names they have in files; a decoder may weigh samples by one.
_METRICS = {
    "Accuracy": metric.Accuracy,
    "HammingError": metric.HammingError,
    "FBeta": metric.FBetaScore,
    "F1": metric.F1Score,
}

KNOWN: tuple[KnownClass, ...] = (
    *(KnownClass(kind.__name__, kind, _fields, kind, sized=kind is SparseGroup) for kind in _DATACLASSES),
    *(KnownClass(f"metric.{name}", kind, _fields, kind) for name, kind in _METRICS.items()),
    *(KnownClass(kind.__name__, kind, options, kind) for kind, options in _MODULES.items()),
    KnownClass("SparsePotentials", SparsePotentials, _sparse, _make_sparse),
)

# Names in files of earlier versions, and what they are called now.
OLD_NAMES = {"Given": "ExplicitCounting"}
