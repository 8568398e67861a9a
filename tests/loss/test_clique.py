"""Losses on factors, against loops over factors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import loopwise as lw
from loopwise import decode, loss
from loopwise.graph import FactorGraph
from loopwise.loss.base import allowed_cells
from oracles.made_beliefs import beliefs_of, random_beliefs, random_values
from oracles.strategies import graphs


@given(graphs(variables=(2, 6)), st.integers(0, 99))
def test_formulas_against_a_loop(graph: FactorGraph, seed: int) -> None:
    beliefs, values = random_beliefs(graph, (3,), seed), random_values(graph, (3,), seed, hidden=0.2)
    rows: list[list[tuple[Tensor, int]]] = [[], [], []]
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            for example in range(3):
                answer = values[example][scope.copy()].tolist()
                if group.arity >= 2 and min(answer) >= 0:
                    table = beliefs.factor(group.name)[example, row]
                    right = int(torch.arange(table.numel()).reshape(table.shape)[tuple(answer)])
                    rows[example].append((table.flatten(), right))
    assume(any(rows))
    formulas = {
        loss.CliqueLikelihood(): lambda p, y: -math.log(p[y]),
        loss.CliqueQuadratic(): lambda p, y: float((p**2).sum() - 2 * p[y]),
        loss.SmoothCliqueError(6.0): lambda p, y: (
            1 / (1 + math.exp(-6.0 * (max(p[:y].tolist() + p[y + 1 :].tolist()) - p[y]))) if len(p) > 1 else 0.0
        ),
    }
    for measure, formula in formulas.items():
        each = measure.per_example(beliefs, values)
        for example in range(3):
            expected = [formula(table, right) for table, right in rows[example]]
            assert float(each[example]) == pytest.approx(sum(expected) / max(len(expected), 1))
        counted = [float(each[example]) for example in range(3) if rows[example]]
        assert float(measure(beliefs, values)) == pytest.approx(sum(counted) / len(counted))


def test_sets_and_chosen_groups() -> None:
    graph = FactorGraph([2, 3, 2], {"a": [[0, 1]], "b": [[1, 2]], "one": [[0]]})
    beliefs = random_beliefs(graph)
    sets = loss.Targets.from_sets(graph, {0: 1, 1: {0, 2}, 2: {0, 1}})
    a, b = beliefs.factor("a")[0], beliefs.factor("b")[0]
    masses = [a[1, 0] + a[1, 2], b[[0, 2]].sum()]
    both = loss.CliqueLikelihood(normalise=False)(beliefs, sets)
    torch.testing.assert_close(both, -torch.stack(masses).log().sum())
    torch.testing.assert_close(loss.CliqueLikelihood(groups=["b"])(beliefs, sets), -masses[1].log())
    torch.testing.assert_close(loss.CliqueLikelihood(groups=["one"])(beliefs, sets), -beliefs.factor("one")[0, 1].log())
    cells = allowed_cells(graph, graph.group("a"), sets.allowed).reshape(2, 3)
    assert cells.tolist() == [[False] * 3, [True, False, True]]


def test_decisions_on_factors() -> None:
    graph = lw.chain(3)
    beliefs, values = random_beliefs(graph), torch.tensor([0, 1, 1])
    hard = decode.Max()(beliefs)
    right = [
        float(int(beliefs.factor("pair")[row].argmax()) == 2 * int(values[row]) + int(values[row + 1]))
        for row in range(2)
    ]
    assert float(loss.CliqueQuadratic()(hard, values)) == pytest.approx(sum(1 - 2 * r for r in right) / 2)
    torch.testing.assert_close(
        loss.CliqueLikelihood()(decode.SoftArgmax(1.0)(beliefs), values), loss.CliqueLikelihood()(beliefs, values)
    )


@pytest.mark.parametrize("measure", [loss.CliqueLikelihood(), loss.SmoothCliqueError(4.0), loss.CliqueQuadratic()])
def test_gradients(measure: loss.Loss) -> None:
    graph = lw.chain(3, states=2)
    targets = loss.Targets.of(graph, [[0, 1, 1], [1, 0, -1]])
    states = random_beliefs(graph, (2,)).states
    logits = torch.randn(2, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def value(logits: Tensor) -> Tensor:
        made = beliefs_of(graph, states, {"pair": logits.softmax(-1).reshape(2, 2, 2, 2)})
        return measure(decode.SoftArgmax(0.7)(made), targets)

    assert torch.autograd.gradcheck(value, logits)
    assert torch.autograd.gradgradcheck(value, logits)


def test_bad_input() -> None:
    beliefs = random_beliefs(lw.chain(3))
    with pytest.raises(ValueError, match=r"no factor of the groups \['pair'\] has targets for all"):
        loss.CliqueLikelihood()(beliefs, [0, -1, 0])
    with pytest.raises(ValueError, match="no factor group 'triple'"):
        loss.CliqueLikelihood(groups=["triple"])(beliefs, [0, 0, 0])
    with pytest.raises(ValueError, match="no factor of two or more variables"):
        loss.CliqueQuadratic()(random_beliefs(FactorGraph([2, 2], {"one": [[0]]})), [0, 0])
    constant = FactorGraph([2], {"nothing": torch.zeros(1, 0, dtype=torch.int64).numpy()})
    with pytest.raises(ValueError, match="has no variables"):
        loss.CliqueQuadratic(groups=["nothing"])(random_beliefs(constant), [0])
