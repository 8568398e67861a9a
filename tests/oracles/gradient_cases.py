"""What tests of gradients through message passing share: two graphs, a loss that looks at everything, comparisons.

Compiled kernels differ by what a graph holds (small pairs, larger factors, equal cardinalities), so these tests keep to
two graphs, and whatever else they need is built to run in the same kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

import loopwise as lw

ENGINES = {"reference": lw.inference.Reference(), "compiled": lw.inference.Compiled(threads=1)}
SCHEDULES = {"flooding": lw.inference.Flooding(), "sequential": lw.Sequential(), "residual": lw.inference.Residual()}


def pair_graph() -> lw.FactorGraph:
    """Loopy, binary, pairwise, with unary factors."""
    return lw.random_mrf(variables=9, edges=16, unary=True, seed=0)


def mixed_graph() -> lw.FactorGraph:
    """Arity 1 to 4, cardinalities 2 to 4, several loops. Most factors are pairs of binary variables."""
    return lw.FactorGraph(
        [2, 3, 4, 2, 3, 2, 2, 2],
        {
            "unary": [[0], [3]],
            "wide": [[1]],
            "binary": [[0, 5], [5, 6], [6, 7], [7, 0], [3, 5], [3, 6], [3, 7], [5, 7]],
            "oblong": [[0, 1], [3, 4]],
            "odd": [[1, 2]],
            "triple": [[0, 1, 2]],
            "quad": [[0, 1, 3, 4]],
        },
    )


def beside(graph: lw.FactorGraph, tables: dict[str, Tensor]) -> tuple[lw.FactorGraph, dict[str, Tensor]]:
    """Another model and the mixed one in one graph, which runs in the kernels of the mixed one."""
    mixed = mixed_graph()
    scopes = {group.name: group.scopes for group in mixed.groups}
    scopes |= {f"other {group.name}": group.scopes + mixed.variables for group in graph.groups}
    whole = lw.FactorGraph(np.concatenate([mixed.cardinalities, graph.cardinalities]), scopes)
    return whole, tables_of(mixed) | {f"other {name}": table for name, table in tables.items()}


def tables_of(
    graph: lw.FactorGraph,
    *batch: int,
    seed: int = 1,
    scale: float = 1.0,
    shared: tuple[str, ...] = (),
    zeros: bool = False,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """Normal log-potentials; groups in ``shared`` are the same for all examples. ``zeros``: a tenth of the cells is
    -inf, but one configuration always stays possible."""
    rng = np.random.default_rng(seed)
    possible = rng.integers(0, graph.cardinalities)
    tables = {}
    for group in graph.groups:
        lead = () if group.name in shared else batch
        table = scale * rng.normal(size=(*lead, group.count, *group.shape))
        zero = (rng.random(table.shape) < 0.1) & zeros
        zero[(..., np.arange(group.count), *possible[group.scopes].T)] = False
        tables[group.name] = torch.tensor(np.where(zero, -np.inf, table), dtype=dtype)
    return tables


def normal(shape: torch.Size | tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def everything(beliefs: lw.Beliefs) -> Tensor:
    """A bent loss of all that inference returns: beliefs of variables and factors, log Z, messages, every sweep."""
    messages = torch.where(torch.isneginf(beliefs.messages), 0.0, beliefs.messages)
    found = [beliefs.states, 0.1 * beliefs.log_partition, 0.1 * messages]
    found += [beliefs.factor(group.name) for group in beliefs.graph.groups]
    if beliefs.trace is not None:
        found.append(beliefs.trace)
    total = beliefs.states.new_zeros(())
    for seed, values in enumerate(found):
        straight, bent = normal((2, *values.shape), seed, values.dtype)
        total = total + (straight * values + bent * values**2).sum()
    return total


def marginals_only(beliefs: lw.Beliefs) -> Tensor:
    """A bent loss of variable and factor beliefs: what every estimator can be asked for."""
    total = beliefs.states.new_zeros(())
    for seed, values in enumerate([beliefs.states, *(beliefs.factor(group.name) for group in beliefs.graph.groups)]):
        straight, bent = normal((2, *values.shape), seed, values.dtype)
        total = total + (straight * values + bent * values**2).sum()
    return total


def gradients(method, graph, tables, loss=everything, evidence=None, initial=None):
    """The loss (under "loss") and its derivatives with respect to every table (and ``initial``, if given)."""
    leaves = {name: table.detach().clone().requires_grad_() for name, table in tables.items()}
    given = dict(leaves)
    if initial is not None:
        given["initial"] = initial = initial.detach().clone().requires_grad_()
    value = loss(method(graph, leaves, evidence, initial=initial))
    found = torch.autograd.grad(value, list(given.values()), allow_unused=True)
    filled = [
        torch.zeros_like(leaf) if part is None else part for leaf, part in zip(given.values(), found, strict=True)
    ]
    return {"loss": value.detach()} | dict(zip(given, filled, strict=True))


def gap(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference of any part, relative to the largest number of that part."""
    assert found.keys() == expected.keys()
    worst = 0.0
    for name, value in expected.items():
        assert torch.isfinite(found[name]).all(), name
        if value.numel():
            scale = max(float(value.abs().max()), 1e-3)
            worst = max(worst, float((found[name] - value).abs().max()) / scale)
    return worst


def engines_gap(method, graph, tables, **options):
    """How far the compiled engine is from torch's automatic differentiation of the reference engine."""
    plain = gradients(replace(method, engine=lw.inference.Reference()), graph, tables, **options)
    fast = gradients(
        replace(method, engine=method.engine or lw.inference.Compiled(threads=1)), graph, tables, **options
    )
    return gap(fast, plain)


def calm(graph: lw.FactorGraph, *batch: int, **options: object) -> dict[str, torch.Tensor]:
    """Couplings weak enough for every schedule to converge."""
    return tables_of(graph, *batch, scale=0.3, **options)


def truncated(sweeps, **options):
    return lw.BP(iterations=sweeps, tolerance=0, **options)
