"""Exact inference: against enumeration, transfer matrices, finite differences and frequencies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, chain, complete, grid
from loopwise.inference.exact import method as exact
from loopwise.inference.exact.method import Exact, TooLargeError
from loopwise.notices import ImpossibleError
from oracles.enumeration import enumerate_model

Model = tuple[FactorGraph, dict[str, np.ndarray]]


@st.composite
def models(draw: st.DrawFn, scales: tuple[float, ...] = (1.0, 30.0, 1e4), zeros: bool = True) -> Model:
    """Arity 0 to 4, mixed cardinalities with 1 among them, isolated variables, shared scopes, hard zeros."""
    cards = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    variables = st.integers(0, len(cards) - 1)
    scopes = draw(st.lists(st.lists(variables, min_size=1, max_size=4, unique=True), max_size=9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale, share = draw(st.sampled_from(scales)), draw(st.sampled_from([0.0, 0.2])) if zeros else 0.0
    shapes = [tuple(cards[variable] for variable in scope) for scope in scopes]
    tables = [np.where(rng.random(shape) < share, -np.inf, scale * rng.normal(size=shape)) for shape in shapes]
    graph, groups = FactorGraph.from_factors(cards, list(zip(scopes, tables, strict=True)))
    constants = draw(st.integers(0, 2))
    if constants:
        names = {group.name: group.scopes for group in graph.groups}
        graph = FactorGraph(cards, {**names, "constant": np.zeros((constants, 0), dtype=np.int64)})
        groups["constant"] = scale * rng.normal(size=constants)
    return graph, groups


def tensors(tables: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(table) for name, table in tables.items()}


def normal_tables(graph: FactorGraph, seed: int, *batch: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: torch.randn(*batch, group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }


def close(ours: torch.Tensor, truth: object, scale: float = 1.0) -> bool:
    return bool(np.allclose(ours.detach().numpy(), truth, rtol=1e-10, atol=1e-10 * scale))


@settings(max_examples=150, deadline=None)
@given(models(), st.sampled_from([1.0, 0.5, 3.0]))
def test_marginals_log_partition_and_entropy_by_enumeration(model: Model, temperature: float) -> None:
    graph, tables = model
    try:
        truth = enumerate_model(graph, tables, temperature)
    except ZeroDivisionError:
        with pytest.raises(ImpossibleError):
            Exact(temperature=temperature)(graph, tensors(tables))
        return
    beliefs = Exact(temperature=temperature)(graph, tensors(tables))
    # Cells of 1e4 leave 1e-12 of rounding in each score.
    size = max(1.0, *(float(np.abs(table[np.isfinite(table)]).max(initial=0)) for table in tables.values()), 1.0)
    assert close(beliefs.states, truth.states, size)
    assert close(beliefs.log_partition, truth.log_partition, size)
    for group in graph.groups:
        assert close(beliefs.factor(group.name), truth.factors[group.name], size)
    chances = np.exp((truth.scores - truth.log_partition) / temperature)
    entropy = -np.sum(chances[chances > 0] * np.log(chances[chances > 0]))
    assert close(beliefs.entropy(), entropy, size)
    assert beliefs.status.exact and beliefs.status.converged


@settings(max_examples=80, deadline=None)
@given(models(), st.booleans())
def test_maximum_by_enumeration_also_under_ties(model: Model, ties: bool) -> None:
    graph, tables = model
    if ties:
        tables = {name: np.sign(table) for name, table in tables.items()}
    try:
        truth = enumerate_model(graph, tables)
    except ZeroDivisionError:
        assume(False)
    beliefs = Exact(temperature=0.0)(graph, tensors(tables))
    ours = int(np.flatnonzero((truth.configurations == beliefs.assignment.numpy()).all(1))[0])
    assert truth.scores[ours] == pytest.approx(truth.best_score, rel=1e-12, abs=1e-9)
    assert float(beliefs.log_partition) == pytest.approx(truth.best_score, rel=1e-12, abs=1e-9)
    for variable in range(graph.variables):
        assert float(beliefs.marginal(variable)[beliefs.assignment[variable]]) == 1.0


@settings(max_examples=40, deadline=None)
@given(models(scales=(1.0,)))
def test_leaving_out_impossible_values_changes_nothing(model: Model) -> None:
    graph, tables = model
    try:
        plain = Exact()(graph, tensors(tables))
    except ImpossibleError:
        assume(False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "WORTH_PRUNING", 0.0)
        pruned, best = Exact()(graph, tensors(tables)), Exact(temperature=0.0)(graph, tensors(tables))
    assert close(pruned.states, plain.states.numpy())
    assert close(pruned.log_partition, plain.log_partition.numpy())
    for group in graph.groups:
        assert close(pruned.factor(group.name), plain.factor(group.name).numpy())
    assert close(best.log_partition, enumerate_model(graph, tables).best_score)
    possible = enumerate_model(graph, tables)
    seen = {tuple(row) for row in possible.configurations[np.isfinite(possible.scores)].tolist()}
    assert {tuple(row) for row in pruned.sample(20, seed=0).tolist()} <= seen


@settings(max_examples=12, deadline=None)
@given(models(scales=(1.0,), zeros=False), st.sampled_from([1.0, 0.5]), st.booleans())
def test_gradients_by_finite_differences(model: Model, temperature: float, prune: bool) -> None:
    graph, tables = model
    assume(graph.layout.states <= 14 and tables)
    names = list(tables)

    def results(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        beliefs = Exact(temperature=temperature)(graph, dict(zip(names, values, strict=True)))
        return (
            beliefs.states,
            beliefs.log_partition,
            beliefs.entropy(),
            *(beliefs.factor(name) for name in names),
        )

    inputs = [torch.tensor(tables[name], requires_grad=True) for name in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "WORTH_PRUNING", 0.0 if prune else math.inf)
        assert torch.autograd.gradcheck(results, inputs)


def test_gradients_vanish_at_hard_zeros_and_agree_elsewhere() -> None:
    graph = FactorGraph([2, 3, 2], {"a": [[0, 1]], "b": [[1, 2]], "c": [[0, 2]]})
    tables = normal_tables(graph, 0)
    tables["a"][0, 0, 1] = -torch.inf
    tables["b"][0, 2, 0] = -torch.inf

    def results(*values: torch.Tensor) -> torch.Tensor:
        full = {
            name: torch.where(torch.isneginf(tables[name]), tables[name], value)
            for name, value in zip(tables, values, strict=True)
        }
        beliefs = Exact()(graph, full)
        return torch.cat([beliefs.states, beliefs.log_partition[None], beliefs.factor("a").reshape(-1)])

    start = [table.clone().clamp(min=0.0).requires_grad_() for table in tables.values()]
    assert torch.autograd.gradcheck(results, start)
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    weights = torch.arange(7, dtype=torch.float64)
    ((Exact()(graph, leaves).states * weights).sum() + Exact()(graph, leaves).log_partition).backward()
    for name, leaf in leaves.items():
        assert leaf.grad is not None and bool(leaf.grad.isfinite().all())
        assert bool((leaf.grad[torch.isneginf(tables[name])] == 0).all())


def test_batches_equal_one_example_at_a_time() -> None:
    graph = grid(3, 3, 2)
    tables = {"unary": normal_tables(graph, 1, 2, 3)["unary"], "pair": normal_tables(graph, 2, 3)["pair"]}
    together = Exact()(graph, tables)
    assert together.states.shape == (2, 3, 18)
    samples = together.sample(5, seed=0)
    assert samples.shape == (5, 2, 3, 9)
    for row in range(2):
        for column in range(3):
            alone = Exact()(graph, {"unary": tables["unary"][row, column], "pair": tables["pair"][column]})
            assert close(together.states[row, column], alone.states.numpy())
            assert close(together.factor("pair")[row, column], alone.factor("pair").numpy())
            assert close(together.log_partition[row, column], alone.log_partition.numpy())
            assert close(together.entropy()[row, column], alone.entropy().numpy())


def test_tied_tables_sum_their_gradients() -> None:
    graph = chain(6, 3)
    tied = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    unary = normal_tables(graph, 0)["unary"]
    Exact()(graph, {"unary": unary, "pair": tied}).log_partition.backward()
    apart = tied.detach().expand(5, 3, 3).clone().requires_grad_()
    Exact()(graph, {"unary": unary, "pair": apart}).log_partition.backward()
    assert tied.grad is not None and apart.grad is not None
    assert close(tied.grad, apart.grad.sum(0).numpy())


def test_grid_against_transfer_matrix() -> None:
    rows = columns = 12
    graph = grid(rows, columns)
    tables = normal_tables(graph, 3)
    unary, pair = tables["unary"].numpy(), tables["pair"].numpy()
    across = pair[: rows * (columns - 1)].reshape(rows, columns - 1, 2, 2)
    down = pair[rows * (columns - 1) :].reshape(rows - 1, columns, 2, 2)
    # log-sum over one more cell at a time, the state being the last 12 cells visited.
    log_weight = np.zeros((2,) * columns)
    for row in range(rows):
        for column in range(columns):
            step = unary[row * columns + column][:, None] + (
                down[row - 1, column].T if row else np.zeros((2, 2))
            )  # [new, old]
            moved = np.moveaxis(log_weight, column, 0)
            if row == 0:
                moved = np.stack([moved[0] + step[0, 0], moved[0] + step[1, 0]])
            else:
                moved = np.stack([np.logaddexp(moved[0] + step[v, 0], moved[1] + step[v, 1]) for v in range(2)])
            log_weight = np.moveaxis(moved, 0, column)
            if column:
                shape = [1] * columns
                shape[column - 1] = shape[column] = 2
                log_weight = log_weight + across[row, column - 1].reshape(shape)
    truth = np.logaddexp.reduce(log_weight.reshape(-1))
    assert close(Exact()(graph, tables).log_partition, truth)


def test_long_chain_against_forward_recursion() -> None:
    length = 100_000
    graph = chain(length)
    tables = normal_tables(graph, 4)
    message, total = tables["unary"][0].numpy(), 0.0
    for unary, pair in zip(tables["unary"][1:].numpy(), tables["pair"].numpy(), strict=True):
        message = unary + np.logaddexp(message[0] + pair[0], message[1] + pair[1])
        total += message.max()
        message = message - message.max()
    beliefs = Exact()(graph, tables)
    assert float(beliefs.log_partition) == pytest.approx(total + np.logaddexp(*message), rel=1e-12)
    last = np.exp(message - np.logaddexp(*message))
    assert np.allclose(beliefs.marginal(length - 1).numpy(), last, atol=1e-10)
    # Calibrated: neighbouring pair marginals agree with the variables everywhere.
    assert torch.allclose(beliefs.factor("pair").sum(-1), beliefs.variables[:-1], atol=1e-9)


def test_star_of_high_degree_has_product_form() -> None:
    leaves = 5000
    graph = FactorGraph([2] * (leaves + 1), {"pair": [[0, leaf] for leaf in range(1, leaves + 1)]})
    tables = normal_tables(graph, 5)
    rows = torch.logsumexp(tables["pair"], -1).sum(0)
    beliefs = Exact()(graph, tables)
    assert close(beliefs.log_partition, torch.logsumexp(rows, 0).numpy())
    assert close(beliefs.marginal(0), torch.softmax(rows, 0).numpy(), 100.0)


def test_blocks_of_every_kind_agree_with_another_root() -> None:
    """Large cliques (several blocks, both block layouts) against elimination in NumPy."""
    graph = FactorGraph([3, 4, 2, 5, 3, 2, 4, 3], {"all": [list(range(8))], "part": [[2, 5]], "one": [[3]]})
    tables = normal_tables(graph, 6)
    joint = tables["all"][0] + tables["one"][0].reshape(1, 1, 1, 5, 1, 1, 1, 1)
    joint = joint + tables["part"][0].reshape(1, 1, 2, 1, 1, 2, 1, 1)
    chances = torch.softmax(joint.reshape(-1), 0).reshape(joint.shape)
    beliefs = Exact()(graph, tables)
    for variable in range(8):
        others = [axis for axis in range(8) if axis != variable]
        assert close(beliefs.marginal(variable), chances.sum(others).numpy())
    assert close(beliefs.factor("part")[0], chances.sum([0, 1, 3, 4, 6, 7]).numpy())
    assert close(beliefs.factor("all")[0], chances.numpy())


def test_samples_have_the_right_frequencies() -> None:
    graph = FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b": [[1, 2]], "c": [[0, 2]]})
    tables = normal_tables(graph, 7)
    tables["a"][0, 1, 2] = -torch.inf
    truth = enumerate_model(graph, {name: table.numpy() for name, table in tables.items()})
    count = 40_000
    samples = Exact()(graph, tables).sample(count, seed=1)
    assert samples.shape == (count, 4)
    cells = np.ravel_multi_index(tuple(samples.numpy().T), (2, 3, 2, 2))
    frequency = np.bincount(cells, minlength=24) / count
    spread = np.sqrt(truth.probabilities * (1 - truth.probabilities) / count)
    assert (np.abs(frequency - truth.probabilities) <= 5 * spread).all()
    assert torch.equal(samples, Exact()(graph, tables).sample(count, seed=1))
    assert not torch.equal(samples, Exact()(graph, tables).sample(count, seed=2))


def test_evidence_conditions_beliefs_samples_and_entropy() -> None:
    graph = FactorGraph([2, 3, 2], {"a": [[0, 1]], "b": [[1, 2]]})
    tables = normal_tables(graph, 8)
    truth = enumerate_model(graph, {name: table.numpy() for name, table in tables.items()})
    given_two = truth.configurations[:, 1] == 2
    chances = truth.probabilities[given_two] / truth.probabilities[given_two].sum()
    beliefs = Exact()(graph, tables, {1: 2})
    samples = beliefs.sample(50, seed=0)
    assert bool((samples[:, 1] == 2).all()) and samples.shape == (50, 3)
    assert len(samples.unique(dim=0)) > 1
    entropy = -np.sum(chances * np.log(chances))
    assert close(beliefs.entropy(), entropy)
    first = np.bincount(truth.configurations[given_two][:, 0], weights=chances)
    assert close(beliefs.marginal(0), first)


def test_refuses_what_does_not_fit_and_says_what_would_help() -> None:
    graph = grid(8, 8)
    tables = normal_tables(graph, 9)
    with pytest.raises(TooLargeError, match=r"GiB.*over the limit.*induced width.*raise memory_limit"):
        Exact(memory_limit=1000)(graph, tables)
    with pytest.raises(TooLargeError, match="raise cell_limit"):
        Exact(cell_limit=100)(graph, tables)
    with pytest.raises(TooLargeError, match="BP or TRW"):
        Exact()(complete(80), normal_tables(complete(80), 0))
    with pytest.raises(ValueError, match="temperature"):
        Exact(temperature=-1.0)


def test_contradictions_are_impossible_not_nan() -> None:
    graph = FactorGraph([2, 2], {"same": [[0, 1]], "different": [[0, 1]]})
    same = torch.log(torch.eye(2, dtype=torch.float64))[None]
    different = torch.log(1 - torch.eye(2, dtype=torch.float64))[None]
    with pytest.raises(ImpossibleError, match="no possible configuration"):
        Exact()(graph, {"same": same, "different": different})
    mixed = torch.stack([same, different])
    with pytest.raises(ImpossibleError, match=r"example \(1,\)"):
        Exact()(graph, {"same": same, "different": mixed})


def test_single_precision_in_single_precision_out() -> None:
    graph = grid(3, 3)
    tables = {name: table.float() for name, table in normal_tables(graph, 10).items()}
    beliefs = Exact()(graph, tables)
    assert beliefs.states.dtype == beliefs.log_partition.dtype == beliefs.factor("pair").dtype == torch.float32
