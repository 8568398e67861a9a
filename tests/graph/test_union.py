"""Disjoint unions: structure, exact inverses, and inference on the whole against inference on the parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, Union, chain, union
from loopwise.graph.structured import Chain, Or
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from oracles.strategies import Model, models

parts_strategy = st.lists(models(variables=(0, 4), most_factors=4), min_size=1, max_size=4)


def check_same(ours: list[dict[str, object]], given_tables: list[dict[str, object]]) -> None:
    for mine, theirs in zip(ours, given_tables, strict=True):
        assert list(mine) == list(theirs)
        for name in mine:
            assert type(mine[name]) is type(theirs[name])
            assert np.array_equal(np.asarray(mine[name]), np.asarray(theirs[name]))


@given(parts_strategy)
def test_every_factor_keeps_its_variables(parts: list[Model]) -> None:
    whole = union([graph for graph, _ in parts])
    assert whole.graph.variables == sum(graph.variables for graph, _ in parts)
    assert whole.graph.factors == sum(graph.factors for graph, _ in parts)
    for number, (graph, _) in enumerate(parts):
        where = whole.variables_of(number)
        assert np.array_equal(whole.graph.cardinalities[where], graph.cardinalities)
        for group in graph.groups:
            target, rows = whole.rows[number][group.name]
            assert np.array_equal(whole.graph.group(target).scopes[rows] - where.start, group.scopes)
            assert whole.graph.group(target).shape == group.shape


@given(parts_strategy)
def test_split_undoes_join(parts: list[Model]) -> None:
    whole = Union.of([graph for graph, _ in parts])
    tensors = [tables for _, tables in parts]
    arrays = [{name: table.numpy() for name, table in tables.items()} for tables in tensors]
    check_same(whole.split(whole.join(tensors)), tensors)  # type: ignore[arg-type]
    check_same(whole.split(whole.join(arrays)), arrays)  # type: ignore[arg-type]


@given(parts_strategy, st.integers(0, 2**32 - 1))
def test_join_undoes_split(parts: list[Model], seed: int) -> None:
    whole = Union.of([graph for graph, _ in parts])
    rng = np.random.default_rng(seed)
    tables = {group.name: rng.normal(size=(group.count, *group.shape)) for group in whole.graph.groups}
    back = whole.join(whole.split(tables))
    assert list(back) == list(tables)
    assert all(np.array_equal(back[name], tables[name]) for name in tables)


@given(parts_strategy)
def test_exact_inference_on_the_whole_is_that_on_the_parts(parts: list[Model]) -> None:
    whole = union([graph for graph, _ in parts])
    beliefs = Exact()(whole.graph, whole.join([tables for _, tables in parts]))  # type: ignore[arg-type]
    factors = whole.split({group.name: beliefs.factor(group.name) for group in whole.graph.groups})
    log_partition = 0.0
    start = whole.graph.layout.state_start
    for number, (graph, tables) in enumerate(parts):
        alone = Exact()(graph, tables)
        log_partition += float(alone.log_partition)
        where = whole.variables_of(number)
        ours = beliefs.states[start[where.start] : start[where.stop]]
        torch.testing.assert_close(ours, alone.states, rtol=1e-10, atol=1e-10)
        for group in graph.groups:
            torch.testing.assert_close(factors[number][group.name], alone.factor(group.name), rtol=1e-10, atol=1e-10)
    assert float(beliefs.log_partition) == pytest.approx(log_partition, abs=1e-9)


def test_bp_on_chains_of_different_lengths() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [chain(length, states=3) for length in (1, 4, 2, 1, 7)]
    tables = [
        {
            group.name: torch.randn(group.count, *group.shape, generator=generator, dtype=torch.float64)
            for group in graph.groups
        }
        for graph in graphs
    ]
    whole = union(graphs)
    assert [group.name for group in whole.graph.groups] == [
        "unary",
        "pair",
    ]  # also with chains of one variable
    beliefs = BP()(whole.graph, whole.join(tables))  # type: ignore[arg-type]
    for number, graph in enumerate(graphs):
        alone = BP()(graph, tables[number])
        torch.testing.assert_close(beliefs.variables[whole.variables_of(number)], alone.variables, rtol=1e-9, atol=1e-9)


def test_one_name_with_two_shapes_becomes_two_groups() -> None:
    two, three = FactorGraph([2, 2], {"pair": [[0, 1]]}), FactorGraph([3, 3], {"pair": [[1, 0]]})
    whole = union([two, three, two])
    assert [(group.name, group.count) for group in whole.graph.groups] == [("pair[2x2]", 2), ("pair[3x3]", 1)]
    assert whole.graph.group("pair[3x3]").scopes.tolist() == [[3, 2]]


def test_new_names_avoid_names_the_user_gave() -> None:
    first = FactorGraph([2, 2, 3, 3], {"pair": [[0, 1]], "pair[2x2]": [[2, 3]]})
    second = FactorGraph([3, 3], {"pair": [[0, 1]]})
    whole = union([first, second])
    tables = [
        {"pair": np.full((1, 2, 2), 1.0), "pair[2x2]": np.full((1, 3, 3), 2.0)},
        {"pair": np.full((1, 3, 3), 3.0)},
    ]
    check_same(whole.split(whole.join(tables)), tables)  # type: ignore[arg-type]


def test_empty_groups_of_different_shapes_can_be_inferred() -> None:
    whole = union([chain(1, states=2), chain(1, states=3)])
    tables = [{"unary": np.zeros((1, k)), "pair": np.zeros((0, k, k))} for k in (2, 3)]
    assert float(Exact()(whole.graph, whole.join(tables)).log_partition) == pytest.approx(np.log(6))


def test_gradients_pass_through() -> None:
    graphs = [chain(2), chain(3)]
    whole = union(graphs)
    tables = [
        {group.name: torch.zeros(group.count, *group.shape, requires_grad=True) for group in graph.groups}
        for graph in graphs
    ]
    joined = whole.join(tables)  # type: ignore[arg-type]
    whole.split(joined)[1]["pair"].sum().backward()  # type: ignore[attr-defined]
    assert tables[1]["pair"].grad is not None
    assert (tables[1]["pair"].grad == 1).all()
    assert (tables[0]["pair"].grad == 0).all()


def test_union_refuses() -> None:
    with pytest.raises(ValueError, match="a union needs at least one graph"):
        union([])
    whole = union([chain(2), chain(3)])
    good = {"unary": np.zeros((2, 2)), "pair": np.zeros((1, 2, 2))}
    with pytest.raises(ValueError, match="tables of 1 graphs for a union of 2"):
        whole.join([good])
    with pytest.raises(ValueError, match=r"group 'unary' of graph 1 .* shape \(2, 2\); it must be \(3, 2\)"):
        whole.join([good, good])
    with pytest.raises(ValueError, match=r"graph 0 has the groups \['unary', 'pair'\], but .* \['unary'\]"):
        whole.join([{"unary": good["unary"]}, good])
    for part in (2, -1):
        with pytest.raises(ValueError, match=f"part {part} is out of range: the union has 2 parts"):
            whole.variables_of(part)


def test_a_group_without_factors_goes_with_those_of_its_name() -> None:
    """Whatever shape it would have by itself; its tables go there and come back."""
    parts = [
        FactorGraph([2, 3], {"pair": np.zeros((0, 2), dtype=np.int64)}),
        FactorGraph([2, 3, 3], {"pair": [[0, 1], [0, 2]]}),
        FactorGraph([3], {"pair": np.zeros((0, 2), dtype=np.int64)}),
    ]
    whole = union(parts)
    assert [(group.name, group.shape) for group in whole.graph.groups] == [("pair", (2, 3))]
    assert whole.factor_start("pair").tolist() == [0, 0, 2, 2] and whole.factor_part("pair").tolist() == [1, 1]
    assert whole.variable_part.tolist() == [0, 0, 1, 1, 1, 2]
    tables = [{"pair": np.zeros((0, 1, 1))}, {"pair": np.ones((2, 2, 3))}, {"pair": np.zeros((0, 3, 3))}]
    check_same(whole.split(whole.join(tables)), tables)  # type: ignore[arg-type]
    assert len(union([parts[0], parts[2]]).graph.groups) == 1


def test_potentials_of_structured_factors_are_joined_and_split() -> None:
    def sentence(length: int, chains: int) -> FactorGraph:
        rows = np.arange(length * chains).reshape(chains, length)
        scopes = {"tag": np.arange(length * chains)[:, None]}
        structured = {"steps": [(Chain(length, 2), row) for row in rows], "some": [(Or(length), row) for row in rows]}
        return FactorGraph([2] * (length * chains), scopes, structured)

    graphs, rng = [sentence(2, 1), sentence(3, 2), sentence(2, 0)], np.random.default_rng(0)
    tables = [
        {
            "tag": torch.tensor(rng.normal(size=(graph.variables, 2))),
            "steps": [
                torch.tensor(rng.normal(size=factor.potentials_shape)) for factor, _ in graph.structured[0].members
            ],
        }
        for graph in graphs[:2]
    ]
    tables.append({"tag": torch.zeros(0, 2, dtype=torch.float64)})
    whole = union(graphs)
    joined = whole.join(tables)
    assert len(joined["steps"]) == 3
    alone = [BP()(graph, own) for graph, own in zip(graphs, tables, strict=True)]
    assert torch.allclose(BP()(whole.graph, joined).states, torch.cat([each.states for each in alone]))
    for mine, theirs in zip(whole.split(joined), tables, strict=True):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(a, b) for a, b in zip(mine.get("steps", []), theirs.get("steps", []), strict=True))
    with pytest.raises(ValueError, match=r"graph 1 has the groups \['tag', 'steps'\], but its tables are \['tag'\]"):
        whole.join([tables[0], {"tag": tables[1]["tag"]}, tables[2]])
    with pytest.raises(ValueError, match="1 tensors of potentials for the 2 structured factors 'steps' of graph 1"):
        whole.join([tables[0], {**tables[1], "steps": tables[1]["steps"][:1]}, tables[2]])
