"""Slicing observed variables away and putting beliefs back, against enumeration with hard unary factors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loopwise.graph import FREE, FactorGraph
from loopwise.graph.conditioning import Conditioning
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.method import Exact
from loopwise.notices import ImpossibleError
from loopwise.potentials.conditioning import restore_factors, restore_variables, slice_tables
from oracles.enumeration import Enumeration, enumerate_model
from oracles.strategies import Model, evidence_for, models

BATCHES = [(), (3,), (1,), (2, 2), (2, 1), (1, 3)]
LIKE = torch.empty(0, dtype=torch.float64)


def enumerate_clamped(graph: FactorGraph, tables: dict[str, np.ndarray], values: np.ndarray) -> Enumeration:
    """The model with one factor more for each observed variable, which forbids every other value."""
    scopes: dict[str, np.ndarray] = {group.name: group.scopes for group in graph.groups}
    clamped = dict(tables)
    for variable in np.flatnonzero(values != FREE):
        name = f"observed {variable}"
        scopes[name] = np.array([[variable]])
        row = np.full((1, graph.cardinalities[variable]), -np.inf)
        row[0, values[variable]] = 0.0
        clamped[name] = row
    return enumerate_model(FactorGraph(graph.cardinalities, scopes), clamped)


def spread(graph: FactorGraph, tables: dict[str, Tensor], batch: tuple[int, ...], seed: int) -> dict[str, Tensor]:
    """Each group in some form that broadcasts to ``batch``: shared or batched, a table each or a tied one."""
    rng = np.random.default_rng(seed)
    given_tables = {}
    for group in graph.groups:
        table = tables[group.name]
        lead = [(), batch, tuple(rng.choice([1, size]) for size in batch), batch[1:]][rng.integers(4)]
        form = rng.integers(3)
        if form:
            table = table[0] if form == 1 and not lead else table[:1]
        given_tables[group.name] = table + torch.tensor(rng.normal(size=(*lead, *table.shape)))
    return given_tables


def examples(
    graph: FactorGraph, tables: dict[str, Tensor], values: np.ndarray, batch: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], dict[str, np.ndarray], np.ndarray]]:
    """The plain model and the evidence of each example."""
    full = {
        group.name: np.broadcast_to(
            (tables[group.name] if tables[group.name].ndim > group.arity else tables[group.name][None]).numpy(),
            (*batch, group.count, *group.shape),
        )
        for group in graph.groups
    }
    every = np.broadcast_to(values, (*batch, graph.variables))
    for place in product(*(range(size) for size in batch)):
        yield place, {name: table[place] for name, table in full.items()}, every[place]


def check_against_enumeration(
    beliefs: Beliefs,
    graph: FactorGraph,
    tables: dict[str, Tensor],
    values: np.ndarray,
    batch: tuple[int, ...],
) -> None:
    tolerance = 1e-9 if beliefs.states.dtype == torch.float64 else 1e-4
    assert tuple(beliefs.batch_shape) == batch
    assert tuple(beliefs.log_partition.shape) == batch
    for place, table, observed in examples(graph, tables, values, batch):
        truth = enumerate_clamped(graph, table, observed)
        assert np.allclose(beliefs.states[place].numpy(), truth.states, atol=tolerance)
        assert float(beliefs.log_partition[place]) == pytest.approx(truth.log_partition, abs=10 * tolerance)
        for group in graph.groups:
            ours = beliefs.factor(group.name)
            assert tuple(ours.shape) == (*batch, group.count, *group.shape)
            assert ours.dtype == beliefs.states.dtype
            assert np.allclose(ours[place].numpy(), truth.factors[group.name], atol=tolerance)
        decoded = beliefs.assignment[place].numpy()
        assert (decoded[observed != FREE] == observed[observed != FREE]).all()
        for variable, marginal in enumerate(truth.variables):
            assert marginal[decoded[variable]] >= marginal.max() - tolerance


@given(st.data(), models(), st.sampled_from(BATCHES), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_same_variables_observed_in_every_example(
    data: st.DataObject, model: Model, batch: tuple[int, ...], shared: bool, seed: int
) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, () if shared else batch))
    forms = spread(graph, tables, batch, seed)
    beliefs = Exact()(graph, forms, np.broadcast_to(values, (*batch, graph.variables)) if shared else values)
    check_against_enumeration(beliefs, graph, forms, values, batch)


@given(st.data(), models(), st.sampled_from(BATCHES), st.integers(0, 2**32 - 1))
def test_different_variables_observed_in_each_example(
    data: st.DataObject, model: Model, batch: tuple[int, ...], seed: int
) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, batch, same_variables=False))
    forms = spread(graph, tables, batch, seed)
    check_against_enumeration(Exact()(graph, forms, values), graph, forms, values, batch)


@given(st.data(), models(zeros=True), st.sampled_from([(), (2,)]))
def test_hard_zeros_and_impossible_evidence(data: st.DataObject, model: Model, batch: tuple[int, ...]) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, batch, same_variables=False))
    try:
        for _, table, observed in examples(graph, tables, values, batch):
            enumerate_clamped(graph, table, observed)
    except ZeroDivisionError:
        with pytest.raises(ImpossibleError):
            Exact()(graph, tables, values)
    else:
        check_against_enumeration(Exact()(graph, tables, values), graph, tables, values, batch)


@given(st.data(), models(), st.integers(0, 2**32 - 1))
def test_single_precision(data: st.DataObject, model: Model, seed: int) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, (2,), same_variables=False))
    forms = {name: table.float() for name, table in spread(graph, tables, (2,), seed).items()}
    if not forms:
        return
    beliefs = Exact()(graph, forms, values)
    assert beliefs.states.dtype == torch.float32
    check_against_enumeration(beliefs, graph, forms, values, (2,))


@given(st.data(), models(), st.sampled_from([(), (2,)]), st.integers(0, 2**32 - 1))
def test_joint_maximum_given_evidence(data: st.DataObject, model: Model, batch: tuple[int, ...], seed: int) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, batch, same_variables=False))
    forms = spread(graph, tables, batch, seed)
    beliefs = Exact(temperature=0)(graph, forms, values)
    for place, table, observed in examples(graph, forms, values, batch):
        truth = enumerate_clamped(graph, table, observed)
        mine = (truth.configurations == beliefs.assignment[place].numpy()).all(1)
        assert truth.scores[mine][0] == pytest.approx(truth.best_score, abs=1e-9)
        assert float(beliefs.log_partition[place]) == pytest.approx(truth.best_score, abs=1e-9)


def test_names_of_pieces_never_collide_with_the_users() -> None:
    graph = FactorGraph(
        [2] * 4, {"pair": [[0, 1], [2, 3]], "pair|1": [[3]], "evidence|2": [[2], [3]], "pair|": [[1, 2]]}
    )
    rng = np.random.default_rng(0)
    tables = {group.name: torch.tensor(rng.normal(size=(group.count, *group.shape))) for group in graph.groups}
    for values in (np.array([1, -1, -1, -1]), np.array([[1, 0, -1, 1], [0, 1, 1, -1]])):
        check_against_enumeration(Exact()(graph, tables, values), graph, tables, values, values.shape[:-1])


def test_many_axes_are_kept_apart() -> None:
    """Keeping axes 1 and 2 is not keeping axis 12."""
    scopes = [list(range(13)), [*range(10, 13), *range(10)]]
    graph = FactorGraph([2] * 13, {"wide": scopes})
    tables = {"wide": torch.randn(2, *[2] * 13, dtype=torch.float64, generator=torch.Generator().manual_seed(0))}
    observed = np.zeros(13, dtype=np.int64)
    observed[[1, 2]] = -1  # axes 1, 2 of the first factor are free, and axes 4, 5 of the second
    check_against_enumeration(Exact()(graph, tables, observed), graph, tables, observed, ())
    graph = FactorGraph([2] * 14, {"wide": [list(range(13)), [0, 13, *range(3, 13), 1]]})
    observed = np.zeros(14, dtype=np.int64)
    observed[[1, 2]] = -1  # axes 1, 2 of the first factor are free, and axis 12 of the second
    check_against_enumeration(Exact()(graph, tables, observed), graph, tables, observed, ())


def test_slicing_and_restoring_are_differentiable() -> None:
    graph = FactorGraph([2, 3, 2, 2], {"three": [[0, 1, 2], [3, 1, 0]], "pair": [[1, 0], [1, 3]], "one": [[0], [2]]})
    values = torch.tensor([[1, 2, -1, -1], [0, 1, -1, 1]])
    plan = Conditioning.of(graph, np.array([1, 1, 0, 0], dtype=bool), np.array([0, 0, 0, 1], dtype=bool))
    generator = torch.Generator().manual_seed(0)
    shapes = {"three": (2, 1, 2, 3, 2), "pair": (2, 3, 2), "one": (2, 2)}  # the first batched and tied
    names = list(shapes)
    inputs = [
        torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in shapes.values()
    ]

    def sliced(*tables: Tensor) -> tuple[Tensor, ...]:
        small = slice_tables(plan, dict(zip(names, tables, strict=True)), values, LIKE)
        return tuple(small[piece.target] for piece in plan.pieces)

    assert torch.autograd.gradcheck(sliced, inputs)
    assert torch.autograd.gradgradcheck(sliced, inputs)
    small_states = torch.randn(2, plan.graph.layout.states, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda states: restore_variables(plan, states, values), [small_states])
    small = {
        group.name: torch.randn(2, group.count, *group.shape, dtype=torch.float64).requires_grad_()
        for group in plan.graph.groups
    }
    for name in names:
        targets = [piece.target for piece in plan.pieces if piece.source == name]

        def restored(*beliefs: Tensor, name: str = name, targets: list[str] = targets) -> Tensor:
            known = dict(zip(targets, beliefs, strict=True))
            return restore_factors(plan, name, known.__getitem__, values, torch.Size([2]), LIKE)

        assert torch.autograd.gradcheck(restored, [small[target] for target in targets])


@given(st.data(), models(largest_cardinality=3, most_factors=5))
def test_gradient_of_the_log_partition_is_the_clamped_marginals(data: st.DataObject, model: Model) -> None:
    graph, tables = model
    values = data.draw(evidence_for(graph, (2,), same_variables=False))
    tables = {name: table.requires_grad_() for name, table in tables.items()}
    beliefs = Exact()(graph, tables, values)
    if not tables:
        return
    gradients = torch.autograd.grad(beliefs.log_partition.sum(), list(tables.values()), allow_unused=True)
    for name, gradient in zip(tables, gradients, strict=True):
        assert gradient is not None
        torch.testing.assert_close(gradient, beliefs.factor(name).detach().sum(0), rtol=1e-9, atol=1e-9)
