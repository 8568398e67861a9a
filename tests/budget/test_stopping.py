"""Stopping policies: features, the hard rule in batches against whole traces, gradients by differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget.smoothing import first_stop
from loopwise.inference.by_variable import reduce_variables
from loopwise.inference.messages.features import STANDARD
from oracles.stopping_cases import LIMIT, by_trace, policy_for, ring, settling, tables_of


def test_evidence_roles_and_patterns() -> None:
    graph = ring()
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (50, 9))
    same = np.tile([0, 1, 2], 3)
    for roles in (np.broadcast_to(same, (50, 9)), rng.permuted(np.tile(same, (50, 1)), axis=1)):
        evidence = lw.Evidence.of(values, roles)
        tables = tables_of(graph, 50)
        stopping = budget.Stopping(lw.BP(iterations=LIMIT), policy_for())
        beliefs = stopping(graph, tables, evidence)
        run = stopping.every_sweep(graph, tables, evidence)
        stops = first_stop(run.scores.detach())
        assert torch.equal(beliefs.status.sweeps, stops + 1)
        picked = run.beliefs.states[stops, torch.arange(50)]
        torch.testing.assert_close(beliefs.states, picked.detach(), rtol=0, atol=1e-10)
        # Features look at outputs, not at hidden variables.
        outputs = torch.tensor(roles == lw.Role.OUTPUT)
        entropy = -torch.xlogy(run.beliefs.states, run.beliefs.states)
        mean = (reduce_variables(graph, lambda block: block.sum(-1), entropy) * outputs).sum(-1) / outputs.sum(-1)
        place = [type(feature) for feature in STANDARD].index(budget.Entropy)
        torch.testing.assert_close(run.features[..., place], mean.detach())


def test_outputs_that_are_not_known_are_watched_all_the_same() -> None:
    graph, tables = ring(), tables_of(ring(), 1)
    roles = np.tile([0, 1, 2], 3)
    values = np.random.default_rng(0).integers(0, 2, 9)
    known = lw.Examples.of(graph, values[None], roles)
    unknown = lw.Examples.of(graph, np.where(roles == lw.Role.OUTPUT, -1, values)[None], roles)
    stopping = budget.Stopping(lw.BP(iterations=LIMIT), policy_for())
    found = [stopping.every_sweep(graph, tables, each.evidence).features for each in (known, unknown)]
    assert torch.equal(*found)


def test_engines_agree() -> None:
    graph, tables = ring(5, 3), tables_of(ring(5, 3), 20)
    stopping = settling(9)
    other = replace(stopping, inference=replace(stopping.inference, engine=lw.inference.Reference()))
    mine, theirs = stopping(graph, tables), other(graph, tables)
    assert torch.equal(mine.status.sweeps, theirs.status.sweeps)
    torch.testing.assert_close(mine.states, theirs.states, rtol=0, atol=1e-10)


def test_wide_tables_run_in_the_log_domain() -> None:
    graph, tables = ring(), tables_of(ring(), 40)
    tables["unary"][::2] *= 400.0
    stopping = settling(9)
    beliefs = stopping(graph, tables)
    states, sweeps = by_trace(stopping, graph, tables)
    assert "log" in beliefs.status.domain
    assert torch.equal(beliefs.status.sweeps, sweeps)
    torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-9)


def test_factor_beliefs_and_messages_are_of_the_last_sweep() -> None:
    graph, tables = ring(), tables_of(ring(), 12)
    beliefs = settling()(graph, tables)
    for example in range(12):
        alone = {"unary": tables["unary"][example], "pair": tables["pair"]}
        count = int(beliefs.status.sweeps[example])
        again = lw.BP(iterations=count, tolerance=0)(graph, alone)
        torch.testing.assert_close(beliefs.factor("pair")[example], again.factor("pair"), rtol=0, atol=1e-10)
        torch.testing.assert_close(beliefs.messages[example], again.messages, rtol=0, atol=1e-10)
        torch.testing.assert_close(beliefs.log_partition[example], again.log_partition, rtol=0, atol=1e-10)
    assert beliefs.status.messages == int(beliefs.status.sweeps.sum()) * graph.layout.edges


def test_hard_beliefs_have_the_gradient_of_the_sweeps_made() -> None:
    graph = ring()
    tables = {name: table.requires_grad_() for name, table in tables_of(graph, 5).items()}
    stopping = settling()
    beliefs = stopping(graph, tables)
    mine = torch.autograd.grad(beliefs.states.square().sum(), list(tables.values()))
    sweeps = beliefs.status.sweeps
    total = torch.zeros((), dtype=torch.float64)
    for count in torch.unique(sweeps).tolist():
        states = lw.BP(iterations=count, tolerance=0)(graph, tables).states
        total = total + states[sweeps == count].square().sum()
    for found, wanted in zip(mine, torch.autograd.grad(total, list(tables.values())), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("threshold", [budget.IndependentThresholds(), budget.Shared()])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_gradients_of_the_expected_loss_by_differences(threshold: budget.RandomThreshold, limit: int) -> None:
    """Through the beliefs of every sweep and through features that depend on residuals, for tables and policy."""
    graph = ring(4)
    roles = [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.HIDDEN, lw.Role.OUTPUT]
    values = np.random.default_rng(1).integers(0, 2, (3, 4))
    examples = lw.Examples.of(graph, values, roles)
    smooth = (budget.Bias(), budget.LargestChange(smooth=5.0), budget.MeanChange(), budget.Slowing(),
              budget.SweepShare(), budget.LogSweep(), budget.Entropy(), budget.LargestChange())  # fmt: skip
    policy = policy_for(smooth)
    system = lw.System(lw.TablePotentials.random(graph, seed=0), budget.Stopping(lw.BP(iterations=limit), policy))
    budgeted = budget.Budgeted(system, budget.MessageCost(), budget.Smoothing(threshold=threshold, decay=0.01))
    loss = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.3)

    def value() -> Tensor:
        return loss(budgeted(examples, step=2), examples.targets)

    params = list(budgeted.parameters())
    assert any(param is policy.weights for param in params)
    slopes = torch.autograd.grad(value(), params)
    generator = torch.Generator().manual_seed(5)
    for param, slope in zip(params, slopes, strict=True):
        direction = torch.randn(param.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            kept, step = param.clone(), 1e-5
            param.copy_(kept + step * direction)
            above = float(value())
            param.copy_(kept - step * direction)
            below = float(value())
            param.copy_(kept)
        assert float((slope * direction).sum()) == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-9)


def test_detached_features_leave_out_their_share() -> None:
    graph = ring(5)
    tables = {name: table.requires_grad_() for name, table in tables_of(graph, 3).items()}
    stopping = budget.Stopping(lw.BP(iterations=3), policy_for())
    slopes = [
        torch.autograd.grad(each.every_sweep(graph, tables).scores.sum(), list(tables.values()), allow_unused=True)
        for each in (stopping,)
    ]
    assert all(slope is not None and bool(slope.any()) for slope in slopes[0])
    detached = replace(stopping, detach_features=True).every_sweep(graph, tables).scores
    found = torch.autograd.grad(detached.sum(), [*tables.values(), stopping.policy.weights], allow_unused=True)
    assert found[0] is None and found[1] is None and found[2] is not None


def test_an_empty_graph_and_an_empty_batch() -> None:
    stopping = settling()
    alone = lw.FactorGraph([2, 2], {"unary": [[0], [1]]})
    beliefs = stopping(alone, {"unary": torch.zeros(2, 2, dtype=torch.float64)})
    assert beliefs.status.exact and beliefs.states.tolist() == [0.5] * 4
    graph = ring()
    nothing = stopping(
        graph, {"unary": torch.zeros(0, 9, 2, dtype=torch.float64), "pair": torch.zeros(9, 2, 2).double()}
    )
    assert nothing.states.shape == (0, 18)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at least one feature"):
        budget.Policy(())
    with pytest.raises(ValueError, match="no feature of a policy"):
        budget.Policy(["residual"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="sweeps to stop after"):
        budget.Stopping(lw.Exact(), budget.Policy())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1 iteration"):
        budget.Stopping(lw.BP(iterations=0), budget.Policy())
    with pytest.raises(ValueError, match=r"must be a lw\.budget\.Policy"):
        budget.Stopping(lw.BP(), torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hold variables only"):
        graph = ring()
        settling().every_sweep(graph, tables_of(graph, 2)).beliefs.factor("pair")


def test_nothing_to_infer() -> None:
    """All variables are seen: a policy has no changes to look at."""
    graph = lw.chain(3)
    tables = lw.TablePotentials.random(graph, seed=0)()
    beliefs = budget.Stopping(lw.BP(iterations=3), budget.Policy())(graph, tables, lw.Evidence.of([[0, 1, 0]], 0))
    np.testing.assert_array_equal(beliefs.states.detach().numpy().reshape(3, 2), [[1, 0], [0, 1], [1, 0]])
