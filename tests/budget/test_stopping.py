"""Stopping policies: features, the hard rule in batches against whole traces, gradients by differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget import hard_rule
from loopwise.budget.features import STANDARD, Course, Feature, stacked
from loopwise.budget.smoothing import first_stop
from loopwise.inference.base import Problem
from loopwise.inference.by_variable import reduce_variables
from loopwise.inference.compiled import CompiledSolution
from loopwise.inference.kernel_run import KernelRun, Workspace

LIMIT = 7


def ring(length: int = 9, states: int = 2) -> lw.FactorGraph:
    first = np.arange(length)
    scopes = np.stack([first, (first + 1) % length], axis=1)
    return lw.FactorGraph(np.full(length, states), {"unary": first[:, None], "pair": scopes})


def tables_of(graph: lw.FactorGraph, examples: int, seed: int = 0, scale: float = 1.0) -> dict[str, Tensor]:
    """Shared pairs, unary tables whose strength differs much from example to example."""
    generator = torch.Generator().manual_seed(seed)
    tables = {}
    for group in graph.groups:
        lead = (examples,) if group.arity == 1 else ()
        table = scale * torch.randn(*lead, group.count, *group.shape, generator=generator, dtype=torch.float64)
        if group.arity == 1:
            table = table * torch.linspace(0.1, 4.0, examples)[:, None, None]
        tables[group.name] = table
    return tables


def policy_for(features: tuple[Feature, ...] = STANDARD, seed: int = 0) -> budget.Policy:
    policy = budget.Policy(features)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        policy.weights.copy_(torch.randn(len(features), generator=generator, dtype=torch.float64))
        policy.centre.copy_(0.1 * torch.randn(len(features), generator=generator, dtype=torch.float64))
    return policy


def settling(limit: int = LIMIT, level: float = -2.0, **options: object) -> budget.Stopping:
    """Stops once the largest change is below 10^level: examples differ in when that is."""
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([level, -1.0]))
    return budget.Stopping(lw.BP(iterations=limit, **options), policy)  # type: ignore[arg-type]


def by_trace(stopping: budget.Stopping, graph: lw.FactorGraph, tables: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The hard rule, the slow way: every example alone, every sweep a run of its own."""
    beliefs = stopping.traced(graph, tables)
    assert beliefs.trace is not None
    watched = torch.ones(graph.variables, dtype=torch.bool)
    rows, sweeps = [], []
    for example in range(beliefs.trace.shape[1]):
        course = Course(graph, beliefs.trace[:, example], watched, stopping.limit)
        stop = int(first_stop(stopping.policy(course).detach()))
        rows.append(beliefs.trace[stop + 1, example])
        sweeps.append(stop + 1)
    return torch.stack(rows), torch.tensor(sweeps)


@pytest.mark.parametrize("examples", [3, 40, 150])
@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
def test_examples_stop_by_themselves(examples: int, schedule: object) -> None:
    graph = ring()
    tables = tables_of(graph, examples)
    stopping = settling(20, -5.0, schedule=schedule)
    beliefs = stopping(graph, tables)
    states, sweeps = by_trace(stopping, graph, tables)
    assert torch.equal(beliefs.status.sweeps, sweeps)
    assert examples == 3 or len(torch.unique(sweeps)) > 1
    torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-10)


@pytest.mark.parametrize("features", [STANDARD, (budget.Bias(), budget.Slowing(), budget.LargestChange(smooth=9.0))])
def test_all_features_in_batches(features: tuple[Feature, ...]) -> None:
    graph = ring(7, 3)
    tables = tables_of(graph, 70)
    for seed in range(4):
        stopping = budget.Stopping(lw.BP(iterations=LIMIT), policy_for(features, seed))
        states, sweeps = by_trace(stopping, graph, tables)
        beliefs = stopping(graph, tables)
        assert torch.equal(beliefs.status.sweeps, sweeps)
        torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-10)


def test_those_that_run_on_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is swept after the easy examples stopped are full lanes of the others, not all lanes."""
    graph = ring()
    tables = tables_of(graph, 256, scale=2.0)
    tables["unary"][torch.arange(256) % 4 == 0] *= 0.05  # these are in for a long run
    made: list[int] = []
    monkeypatch.setattr(hard_rule, "LOOK", 0)  # looks as often as can be, though sweeps are short
    monkeypatch.setattr(hard_rule, "AT_LEAST", 1)
    resume = KernelRun.resume

    def spy(run: KernelRun, options: Any, result: Any, blocks: Any, workspace: Any) -> Any:
        made.append(32 * len(blocks) * options.iterations)
        return resume(run, options, result, blocks, workspace)

    monkeypatch.setattr(KernelRun, "resume", spy)
    beliefs = settling(60, -7.0)(graph, tables)
    swept, wanted = sum(made), int(beliefs.status.sweeps.sum())
    assert wanted <= swept < 0.8 * 256 * int(beliefs.status.sweeps.max())


@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
@pytest.mark.parametrize("own", [("pair",), ("unary", "pair"), ("unary",)])
def test_what_is_gathered_goes_on_as_it_would_have(schedule: object, own: tuple[str, ...]) -> None:
    """Tables that examples share, and tables of their own: both move with the examples that still run."""
    graph = ring(5, 3)
    generator = torch.Generator().manual_seed(3)
    tables = {}
    for group in graph.groups:
        table = torch.randn(100, group.count, *group.shape, generator=generator, dtype=torch.float64)
        tables[group.name] = table if group.name in own else table[0]
    method = lw.BP(iterations=2, tolerance=0, schedule=schedule, engine=lw.inference.Compiled(1))  # type: ignore[arg-type]
    problem = Problem(graph, tables, torch.Size([100]), torch.empty(0, dtype=torch.float64))
    solution = lw.inference.Compiled(1).solve(problem, method, method.counting_numbers(graph))
    assert isinstance(solution, CompiledSolution)
    (part,) = solution.session.parts
    chosen = np.array([3, 4, 40, 77, 99])
    run, result = part.run.gathered(part.options, part.result, chosen)
    workspace = Workspace()
    whole = replace(method, iterations=6, trace=True)(graph, tables).trace
    assert whole is not None
    for first, count in ((2, 1), (3, 3)):
        more = part.options._replace(iterations=count)
        trace, moved = run.resume(more, result, np.arange(run.blocks), workspace)
        for sweep in range(count):
            after = run.storage.unpack_examples(trace[sweep + 1], len(chosen))
            wanted = whole[first + sweep + 1, chosen]
            torch.testing.assert_close(after, wanted, rtol=0, atol=1e-12)
            change = (wanted - whole[first + sweep, chosen]).abs().amax(-1)
            np.testing.assert_allclose(moved[sweep, : len(chosen)], change, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize("threshold", [budget.Independent(), budget.Shared()])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_gradients_of_the_expected_loss_by_differences(threshold: budget.Threshold, limit: int) -> None:
    """Through the beliefs of every sweep and through features that depend on residuals, for tables and policy."""
    graph = ring(4)
    roles = [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.HIDDEN, lw.Role.OUTPUT]
    values = np.random.default_rng(1).integers(0, 2, (3, 4))
    examples = lw.Examples.of(graph, values, roles)
    smooth = (budget.Bias(), budget.LargestChange(smooth=5.0), budget.MeanChange(), budget.Slowing(),
              budget.SweepShare(), budget.LogSweep(), budget.Entropy(), budget.LargestChange())  # fmt: skip
    policy = policy_for(smooth)
    system = lw.System(lw.TablePotentials.random(graph, seed=0), budget.Stopping(lw.BP(iterations=limit), policy))
    budgeted = budget.Budgeted(system, budget.Messages(), budget.Smoothing(threshold=threshold, decay=0.01))
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


def test_features_by_hand() -> None:
    graph = lw.FactorGraph([2, 3], {"pair": [[0, 1]]})
    trace = torch.tensor(
        [[[0.5, 0.5, 0.2, 0.3, 0.5]], [[0.95, 0.05, 0.6, 0.2, 0.2]], [[0.95, 0.05, 0.61, 0.2, 0.19]]],
        dtype=torch.float64,
    )
    course = Course(graph, trace, torch.tensor([True, True]), limit=4)
    found = dict(zip([type(each).__name__ for each in STANDARD], stacked(STANDARD, course).unbind(-1), strict=True))
    log10 = lambda x: float(np.log10(1e-8 + x))  # noqa: E731
    assert found["Bias"].flatten().tolist() == [1.0, 1.0]
    assert found["LargestChange"].flatten().tolist() == pytest.approx([log10(0.45), log10(0.01)])
    assert found["MeanChange"].flatten().tolist() == pytest.approx([log10(1.7 / 5), log10(0.02 / 5)])
    assert found["Slowing"].flatten().tolist() == pytest.approx([0.0, log10(0.01) - log10(0.45)])
    assert found["SweepShare"].flatten().tolist() == [0.25, 0.5]
    assert found["LogSweep"].flatten().tolist() == pytest.approx([0.0, np.log(2)])
    assert found["Confident"].flatten().tolist() == [0.5, 0.5]
    assert found["Undecided"].flatten().tolist() == [0.5, 0.0]
    entropy = -sum(p * np.log(p) for p in (0.95, 0.05)) / 2 - sum(p * np.log(p) for p in (0.6, 0.2, 0.2)) / 2
    assert float(found["Entropy"][0]) == pytest.approx(entropy)
    nothing = Course(graph, trace, torch.tensor([False, False]), limit=4)
    assert not bool(budget.Entropy()(nothing).any())


def test_features_of_the_last_rows_do_not_need_the_first_ones() -> None:
    graph = ring(5)
    trace = lw.BP(iterations=6, tolerance=0, trace=True)(graph, tables_of(graph, 4)).trace
    assert trace is not None
    watched = torch.ones(5, dtype=torch.bool)
    whole = stacked(STANDARD, Course(graph, trace, watched, 6))
    for sweep in range(2, 7):
        last = (trace[sweep - 1] - trace[sweep - 2]).abs().amax(-1)
        part = Course(graph, trace[sweep - 1 : sweep + 1], watched, 6, first=sweep, last=last)
        torch.testing.assert_close(stacked(STANDARD, part)[-1], whole[sweep - 1])


def test_standardised_features() -> None:
    policy = budget.Policy()
    values = torch.randn(100, len(STANDARD), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3 + 2
    values[:, 0] = 1.0
    policy.standardise(values)
    scaled = (values - policy.centre) / policy.scale
    assert torch.equal(scaled[:, 0], torch.ones(100, dtype=torch.float64))
    torch.testing.assert_close(scaled[:, 1:].mean(0), torch.zeros(8, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(scaled[:, 1:].std(0, correction=0), torch.ones(8, dtype=torch.float64))


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


def test_one_example_that_rests_is_read_again_and_not_called_converged() -> None:
    """Whether messages rest was not looked at: beliefs at rest say nothing of it."""
    graph = lw.grid(3, 3)
    potentials = {group.name: 0.3 * torch.randn(group.count, *group.shape).double() for group in graph.groups}
    never = budget.Policy()
    for parameter in never.parameters():
        parameter.data.zero_()
    beliefs = budget.Stopping(lw.BP(iterations=50), never)(graph, potentials)
    assert not beliefs.status.converged
    expected = lw.BP(iterations=50, tolerance=0)(graph, potentials).log_partition
    assert float(beliefs.log_partition) == pytest.approx(float(expected))
    later = budget.Stopping(lw.BP(iterations=50), never)(graph, potentials)
    potentials["pair"].mul_(2)
    with pytest.raises(lw.notices.ChangedError):
        _ = later.messages
