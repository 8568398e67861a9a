"""Systems of every kind, and files that were spoilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import loopwise as lw
from loopwise import budget, decode, gradient, inference
from loopwise.gradient.linear_solve import Saddle, Schur
from loopwise.gradient.perturbation import CubeRoot, EqualSweeps, SquareRoot, ToTolerance
from loopwise.gradient.solvers import Direct, Minres
from loopwise.gradient.unroll import Fitting
from loopwise.learn import Examples, System
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.potentials.tied import TiedTables

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role


GRAPH = lw.FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b, c.d": [[1, 2]], "ring": [[0, 2], [2, 3]], "free": [[3]]})


POTENTIALS = lw.TablePotentials.random(GRAPH, seed=0)


def parameter(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


def spread_rho() -> dict[str, Any]:
    return {"a": 0.7, "b, c.d": np.array([0.9]), "ring": torch.tensor([0.6, 0.8], dtype=torch.float64)}


INFERENCES: list[inference.Inference] = [
    lw.BP(iterations=3, tolerance=0.0, damping=0.1, schedule=lw.Sequential(), engine=inference.Compiled(threads=1)),
    lw.BP(iterations=2, tolerance=0, temperature=0.5, engine=inference.Reference(), trace=True),
    lw.BP(iterations=4, tolerance=0, schedule=lw.Residual(), gradient=lw.Unroll(gradient.Checkpoints(every=2))),
    lw.BP(iterations=3, tolerance=0, schedule=lw.Groups(("ring", "a", "b, c.d"), uniform_start=True)),
    lw.BP(iterations=2, tolerance=0, counting=inference.Bethe(), gradient=lw.Unroll(gradient.Store())),
    lw.BP(
        iterations=2, tolerance=0, counting=inference.Reweighted(spread_rho()), gradient=lw.Unroll(gradient.Recompute())
    ),
    lw.BP(
        iterations=2, tolerance=0, counting=inference.ExplicitCounting(spread_rho(), np.zeros(())),
        gradient=lw.Unroll(Fitting(1e6)),
    ),
    lw.BP(iterations=2, damping=parameter(0.2), counting=inference.Reweighted(spread_rho() | {"a": parameter(0.8)})),
    lw.BP(iterations=2, tolerance=0, gradient=lw.FixedPoint(anderson=2), schedule=inference.Flooding()),
    lw.BP(iterations=2, tolerance=0, gradient=gradient.OneStep()),
    lw.TRW(iterations=3, tolerance=0, rho=inference.SpanningTrees(trees=7)),
    lw.TRW(
        iterations=3, tolerance=0, rho=inference.MonotonicChains(), gradient=gradient.LinearSolve(Schur(), Minres(1e-9))
    ),
    lw.TRW(iterations=3, tolerance=0, rho=spread_rho(), gradient=gradient.LinearSolve(Saddle(), Direct())),
    lw.TRW(iterations=3, tolerance=0, rho=0.5, gradient=lw.Perturbation(step=CubeRoot(), stopping=ToTolerance(1e-12))),
    lw.MeanField(iterations=200, restarts=2, gradient=lw.Perturbation(step=SquareRoot(), stopping=EqualSweeps())),
    lw.Exact(temperature=0.7, gradient=gradient.Covariance()),
    lw.Exact(memory_limit=float("inf")),
    lw.Gibbs(samples=400, burn_in=50, chains=8, seed=2**40),
    lw.Auto(otherwise=lw.BP(schedule=lw.Sequential(), damping=0.3)),
    lw.BP(
        iterations=3, schedule=inference.RandomSequential(3),
        stop=inference.AnyOf(inference.Satisfied(), inference.Tolerance(1e-3)),
    ),
    lw.BP(iterations=4, stop=budget.StopByPolicy(budget.Policy([
        budget.Bias(), budget.SweepShare(), budget.LogSweep(), budget.LargestChange(), budget.MeanChange(),
        budget.Slowing(), budget.Entropy(), budget.Confident(0.8), budget.Undecided(),
    ]))),
    lw.BP(iterations=2, tolerance=0, schedule=lw.Groups(("ring", "a", "b, c.d")), weights=lw.MessageWeights(
        GRAPH, messages={"ring": parameter(0.9)}, damping=inference.BelowOne(parameter(0.1)),
        memory=inference.Tied(torch.nn.Parameter(torch.tensor([0.1, -0.2])), np.arange(GRAPH.variables) % 2),
    )),
]  # fmt: skip


DECODERS: list[decode.BeliefDecoder] = [
    decode.Identity(),
    decode.Max(),
    decode.Max(training=decode.SoftArgmax(decode.Trained(0.3))),
    decode.SoftArgmax(0.7),
    decode.SoftArgmax(decode.Geometric(1.0, 0.1, 5)),
    decode.SoftArgmax(decode.Linear(1.0, 0.1, 5)),
    decode.SoftArgmax(decode.Listed((1.0, 0.5))),
    decode.SoftArgmax(decode.Trained(0.6)),
    decode.SoftArgmax(parameter(0.4)),
    decode.SoftArgmax(torch.tensor(0.4)),
    decode.ApproximateF(decode.PerExample(), positive=[1, 2]),
    decode.ApproximateF(decode.PerCorpus(), decode.Trained(0.2)),
    decode.SoftApproximateF(decode.Fixed(0.3), 0.9),
    decode.ApproximateF(decode.LeastExpectedLoss(decode.Independent(), count=20, seed=4, beta=2.0)),
    decode.ApproximateF(
        decode.LeastExpectedLoss(decode.Independent(), count=9, loss=lw.metric.Accuracy(reduction=lw.loss.Each()))
    ),
    decode.FactorVote(decode.Max(), groups=("ring",)),
    decode.MBR(lw.metric.HammingError(reduction=lw.loss.Each()), count=30, seed=1),
    decode.MBR(lw.metric.F1Score(reduction=lw.loss.Each()), decode.Independent(), count=30, training=decode.Identity()),
    decode.MBR(
        lw.metric.FBetaScore(beta=2.0, positive={1, 2}, reduction=lw.loss.Each()),
        decode.Drawn(torch.zeros(5, 6, 4, dtype=torch.int64)),
        count=5,
    ),
]


def systems() -> list[System]:
    found = [System(POTENTIALS, method, decode.Max()) for method in INFERENCES]
    for decoder in DECODERS:
        system = System(POTENTIALS, lw.Exact(), decoder)
        system.refresh(examples_of(GRAPH))
        found.append(system)
    found.append(System(TiedTables.random(GRAPH, {"ring": [1, 0]}, seed=0, dtype=torch.float32), lw.BP()))
    # Reductions other than Each make no loss of pairs, but a class is a class.
    others = [decode.MBR(lw.metric.F1Score(reduction=kind())) for kind in (lw.loss.Mean, lw.loss.Sum, lw.loss.Pooled)]
    return found + [System(POTENTIALS, lw.Exact(), other) for other in others]


def examples_of(graph: lw.FactorGraph, **inputs: Any) -> Examples:
    values = np.random.default_rng(0).integers(0, graph.cardinalities, (6, graph.variables))
    return Examples.of(graph, values, [OUTPUT, INPUT, OUTPUT, HIDDEN], **inputs)


def structured_system() -> System:
    """Every structured factor there is, over one row of binary variables."""
    grammar = lw.Hypergraph((2, 2), ((1, (0,), ((0, 1),)), (0, (), ((1, 1),))), 1, (0, 0))
    factors: list[lw.StructuredFactor] = [
        lw.ProjectiveTree(2), lw.Tree(2, single_root=False), lw.Chain(3, 2), lw.ExactlyOne(3), lw.AtMostOne(2), grammar,
        lw.Parity(3, odd=None), lw.Count.at_least(4, 2), lw.Or(3, (1,)), lw.And(3, output=True), lw.Implies(2),
    ]  # fmt: skip
    structured = {f"{type(factor).__name__}.": (factor, np.arange(factor.arity)) for factor in factors}
    return System(lw.TablePotentials(lw.FactorGraph([2] * 4, {"pair": [[0, 1]]}, structured)), lw.BP(iterations=2))


def sparse_system() -> System:
    groups = {
        "a": SparseGroup((2, 3), 4, table="shared"),
        "b, c.d": SparseGroup((3, 2), 4, table="shared"),
        "ring": SparseGroup((2, 2), 1, columns=(0, -1, -1, 0)),
        "free": SparseGroup((2,), 5),
    }
    potentials = SparsePotentials(groups, dtype=torch.float32, table_dtype=torch.float64)
    with torch.no_grad():
        for weight in potentials.weights:
            weight.normal_(generator=torch.Generator().manual_seed(0))
    return System(potentials, lw.Exact(), decode.Max(), graph=GRAPH)


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "s.loopwise"
    System(POTENTIALS, lw.BP(), decode.SoftArgmax()).save(path)
    return path
