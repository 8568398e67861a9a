"""Does an inference method keep what every method promises?

In: a deterministic inference method. Out: nothing, or an AssertionError that says which promise was broken.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.method import Exact
from loopwise.inference.loss_of_beliefs import Tables, ignored_convergence


def check_inference(inference: Inference, *, tolerance: float = 1e-6, scale: float = 0.5, seed: int = 0) -> None:
    """Puts a deterministic method through what every method promises, on a tree and on a graph with cycles.

    Beliefs are distributions; those of factors agree with those of their variables once converged; what the status
    calls exact is; observed variables are point masses; a batch is its examples one by one; renaming variables
    renames beliefs. Potentials are normal with standard deviation ``scale``. An AssertionError says what failed.
    """
    for graph in _sample_graphs():
        generator = torch.Generator().manual_seed(seed)
        tables = {
            group.name: scale * torch.randn(3, group.count, *group.shape, generator=generator, dtype=torch.float64)
            for group in graph.groups
        }
        single = {name: table[0] for name, table in tables.items()}
        with torch.no_grad(), ignored_convergence():
            beliefs = inference(graph, single)
            _check_distributions(beliefs, tolerance)
            if beliefs.status.exact:
                _check_same("what the status calls exact", beliefs, Exact()(graph, single), tolerance)
            _check_batch(inference, graph, tables, tolerance)
            _check_renaming(inference, graph, single, beliefs, tolerance)
            observed = inference(graph, single, {0: 1})
            if float(observed.marginal(0)[1]) != 1.0:
                raise AssertionError(f"variable 0, observed to be 1, has the belief {observed.marginal(0).tolist()}")
            _check_distributions(observed, tolerance)


def _sample_graphs() -> tuple[FactorGraph, ...]:
    tree = FactorGraph.from_scopes([2, 3, 2, 4, 2], [(0,), (0, 1), (1, 2, 3), (3, 4)])
    loopy = FactorGraph.from_scopes([2, 3, 2, 2], [(0,), (1,), (0, 1), (1, 2), (2, 3), (3, 0), (0, 1, 3)])
    return tree, loopy


def _check_distributions(beliefs: Beliefs, tolerance: float) -> None:
    graph, rounding = beliefs.graph, 1e-6 if beliefs.states.dtype == torch.float32 else 1e-9
    marginals = [beliefs.marginal(variable) for variable in range(graph.variables)]
    for variable, marginal in enumerate(marginals):
        if bool((marginal < 0).any()) or not math.isclose(float(marginal.sum()), 1.0, abs_tol=rounding):
            raise AssertionError(f"the belief of variable {variable} is no distribution: {marginal.tolist()}")
    for group in graph.groups:
        for row, scope in enumerate(group.scopes.tolist()):
            joint = beliefs.factor(group.name)[row]
            if bool((joint < 0).any()) or not math.isclose(float(joint.sum()), 1.0, abs_tol=rounding):
                raise AssertionError(f"the belief of factor {row} of group {group.name!r} is no distribution")
            for axis, variable in enumerate(scope):
                others = [other for other in range(group.arity) if other != axis]
                gap = float(((joint.sum(others) if others else joint) - marginals[variable]).abs().max())
                if beliefs.status.converged and gap > tolerance:
                    raise AssertionError(
                        f"converged, yet factor {row} of group {group.name!r} and variable {variable} disagree about "
                        f"the variable's marginal by {gap:.2g} (tolerance {tolerance:.2g})"
                    )


def _check_same(what: str, found: Beliefs, expected: Beliefs, tolerance: float) -> None:
    """Variable beliefs, factor beliefs and log-partition."""
    pairs = {
        "variable beliefs": (found.states, expected.states),
        "log-partition": (found.log_partition, expected.log_partition),
    }
    for group in found.graph.groups:
        pairs[f"beliefs of group {group.name!r}"] = (found.factor(group.name), expected.factor(group.name))
    for name, (mine, theirs) in pairs.items():
        if mine.shape != theirs.shape:
            raise AssertionError(f"{what}: {name} have shape {tuple(mine.shape)} instead of {tuple(theirs.shape)}")
        gap = float((mine - theirs).abs().max()) if mine.numel() else 0.0
        if not gap <= tolerance:
            raise AssertionError(f"{what}: {name} differ by {gap:.2g} (tolerance {tolerance:.2g})")


def _check_batch(inference: Inference, graph: FactorGraph, tables: Tables, tolerance: float) -> None:
    together = inference(graph, tables)
    status = together.status
    for name, shape in (("sweeps", status.sweeps.shape), ("residual", status.residual.shape)):
        if tuple(shape) != (3,):
            raise AssertionError(f"the {name} of a batch of 3 have shape {tuple(shape)} instead of (3,)")
    for example in range(3):
        alone = inference(graph, {name: table[example] for name, table in tables.items()})
        chosen = Beliefs(
            graph,
            together.states[example],
            lambda name, example=example: together.factor(name)[example],  # type: ignore[misc]
            lambda example=example: together.log_partition[example],  # type: ignore[misc]
            status,
        )
        _check_same(f"example {example} of a batch against the example alone", chosen, alone, tolerance)


def _check_renaming(
    inference: Inference, graph: FactorGraph, tables: Tables, beliefs: Beliefs, tolerance: float
) -> None:
    """Variable v becomes variable ``renamed[v]``, a reversal: every order by number is another one."""
    renamed = np.arange(graph.variables)[::-1]
    other = FactorGraph(
        graph.cardinalities[np.argsort(renamed)], {group.name: renamed[group.scopes] for group in graph.groups}
    )
    found = inference(other, tables)
    states = torch.cat([found.marginal(int(renamed[variable])) for variable in range(graph.variables)])
    back = Beliefs(graph, states, found.factor, lambda: found.log_partition, found.status)
    if beliefs.status.converged and found.status.converged:
        _check_same("the model with its variables renamed", back, beliefs, tolerance)
