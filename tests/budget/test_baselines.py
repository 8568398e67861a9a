"""L1, group lasso and plain pruning, against closed forms and a known structure."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.learn.optim import AdaGradCOMID

TARGET = torch.tensor([[[2.0, -0.3], [0.1, -1.5]], [[0.2, -0.1], [0.1, 0.05]]], dtype=torch.float64)


def descend(optimizer: torch.optim.Optimizer, tables: torch.Tensor, penalty: float = 0.0) -> torch.Tensor:
    """To the minimum of half the squared distance to TARGET, plus the penalty if it is to be a subgradient."""

    def loss() -> torch.Tensor:
        return 0.5 * (tables - TARGET).square().sum() + penalty * tables.abs().sum()

    for _ in range(150):
        lw.optim.take_step(optimizer, loss)
    return tables.detach()


def test_proximal_l1_has_its_closed_form() -> None:
    tables = torch.zeros_like(TARGET).requires_grad_()
    found = descend(AdaGradCOMID([tables], rate=0.5, prior=lw.prior.L1(0.4)), tables)
    wanted = TARGET.sign() * (TARGET.abs() - 0.4).clamp(min=0)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-2)
    assert torch.equal(found == 0, wanted == 0)


def test_subgradients_reach_no_zeros_and_groups_go_as_wholes() -> None:
    tables = torch.ones_like(TARGET).requires_grad_()
    found = descend(torch.optim.SGD([tables], lr=0.03), tables, 0.4)
    assert not bool((found == 0).any())
    tables = torch.ones_like(TARGET).requires_grad_()
    grouped = descend(AdaGradCOMID([tables], rate=0.5, prior=lw.prior.GroupSparsity(0.4)), tables)
    assert not bool(grouped[1].any()) and not bool((grouped[0] == 0).any())


def dense(seed: int = 0) -> lw.System:
    return lw.System(lw.TablePotentials.random(lw.graph.complete(6), seed=seed), lw.BP(iterations=2, tolerance=0))


def test_zero_factors_go() -> None:
    system = dense()
    with torch.no_grad():
        system.potentials.tables[1][[2, 5]] = 0.0  # type: ignore[union-attr, index]
        system.potentials.tables[1][7] = 1e-4  # type: ignore[union-attr, index]
    assert budget.without_zeros(system).graph.group("pair").count == 13
    assert budget.without_zeros(system, below=1e-3).graph.group("pair").count == 12
    torch.testing.assert_close(budget.without_zeros(system).beliefs().states, system.beliefs().states)


def test_the_strongest_stay() -> None:
    system = dense()
    strength = budget.Interaction()(system.potentials.tables[1].detach(), 2)  # type: ignore[union-attr, index]
    smaller = budget.strongest(system, 4)
    best = set(torch.topk(strength, 4).indices.tolist())
    scopes = system.graph.group("pair").scopes[sorted(best)]
    assert np.array_equal(smaller.graph.group("pair").scopes, scopes)
    assert budget.random_factors(system, 4, seed=0).graph.group("pair").count == 4
    one, other = (budget.random_factors(system, 4, seed=s).graph.group("pair").scopes for s in (0, 1))
    assert not np.array_equal(one, other)
    with pytest.raises(ValueError, match="15 factors to choose from"):
        budget.strongest(system, 16)


def test_a_known_structure_is_found() -> None:
    """A sparse truth among all pairs: gates, group lasso and magnitude against the truth and against chance."""
    graph = lw.graph.complete(8)
    pairs = graph.group("pair").scopes
    true = np.zeros(28, dtype=bool)
    true[np.random.default_rng(0).permutation(28)[:7]] = True
    agree = 1.5 * torch.eye(2).double()
    tables = {"unary": torch.zeros(8, 2).double(), "pair": torch.from_numpy(true)[:, None, None] * agree}
    roles = np.tile(np.eye(8, dtype=int), (100, 1))  # each variable is asked for, given all others
    truth = lw.TablePotentials(graph, tables)
    examples = lw.sample_examples(truth, 800, roles=roles, seed=1, burn_in=100)
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))
    optimizer = partial(AdaGradCOMID, rate=0.1)
    lw.fit(system, examples, lw.loss.MSE(), optimizer=optimizer, epochs=8, progress=False)

    def overlap(found: lw.System) -> tuple[float, float]:
        kept = {tuple(scope) for scope in found.graph.group("pair").scopes.tolist()}
        right = {tuple(scope) for scope in pairs[true].tolist()}
        return len(kept & right) / len(kept), len(kept & right) / len(right)

    own = lw.TablePotentials(graph, {name: table.detach() for name, table in system.potentials().items()})
    gated = lw.System(budget.Gated(own, budget.Gate().scaled_to(graph, own())), system.inference)
    budget.fit(gated, examples, lw.loss.MSE(), 0.3, cost=budget.FactorCost(sliced=False), epochs=6, progress=False)
    group = lw.prior.GroupSparsity(3e-2)
    found = {
        "gates": budget.prune(gated),
        "group lasso": budget.fit_with_prior(system, examples, lw.loss.MSE(), group, epochs=6, progress=False),
        "magnitude": budget.strongest(system, 7),
    }
    chance = overlap(budget.random_factors(system, 7, seed=3))
    for name, each in found.items():
        precision, recall = overlap(each)
        least = 0.5 if name == "group lasso" else 0.7
        assert precision >= least and recall > 0.5, (name, precision, recall)
        assert precision > chance[0] and recall > chance[1]


def test_a_penalty_needs_tables() -> None:
    graph = lw.chain(3)
    system = lw.System(lw.potentials.TiedTables(graph), lw.BP())
    examples = lw.Examples.of(graph, [[0, 1, 1]], [0, 1, 1])
    with pytest.raises(ValueError, match="needs free tables"):
        budget.fit_with_prior(system, examples, lw.loss.MSE(), lw.prior.L1(0.1))
