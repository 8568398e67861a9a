"""``infer`` chooses: exact where it can, and it says what it did."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, chain, complete, grid
from loopwise.inference.auto import Auto, infer
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import Sequential
from loopwise.notices import ConvergenceWarning, ImpossibleError
from loopwise.potentials import TablePotentials
from oracles.enumeration import enumerate_model

TINY = 1000.0  # bytes: too little for anything but a handful of variables


def tables(graph: FactorGraph, seed: int = 0, scale: float = 1.0) -> dict[str, torch.Tensor]:
    return {name: table.detach() for name, table in TablePotentials.random(graph, seed=seed, scale=scale)().items()}


def test_small_models_are_solved_exactly() -> None:
    graph = grid(3, 3)
    beliefs = infer(graph, tables(graph))
    truth = enumerate_model(graph, tables(graph))
    assert beliefs.status.exact and beliefs.status.method == "Exact"
    assert any("junction tree fits" in note for note in beliefs.status.notes)
    np.testing.assert_allclose(beliefs.states.numpy(), truth.states, atol=1e-10)
    assert float(beliefs.log_partition) == pytest.approx(truth.log_partition, rel=1e-12)


def test_temperature_zero_is_the_joint_maximum() -> None:
    graph = grid(3, 3)
    beliefs = infer(graph, tables(graph), temperature=0.0)
    assert beliefs.assignment.tolist() == enumerate_model(graph, tables(graph)).best.tolist()


def test_large_models_get_sequential_bp() -> None:
    graph = grid(60, 60)
    beliefs = infer(graph, tables(graph, scale=0.3))
    assert beliefs.status.method == "BP" and beliefs.status.converged and not beliefs.status.exact
    assert any("no junction tree" in note for note in beliefs.status.notes)
    bp = BP(schedule=Sequential())(graph, tables(graph, scale=0.3))
    torch.testing.assert_close(beliefs.states, bp.states)


def test_the_memory_limit_decides() -> None:
    graph = grid(6, 6)
    assert infer(graph, tables(graph)).status.exact
    assert infer(graph, tables(graph, scale=0.3), memory_limit=TINY).status.method == "BP"


def test_the_cell_limit_counts_all_examples() -> None:
    graph = grid(5, 5)
    method = Auto(cell_limit=2000.0)
    assert method(graph, tables(graph, scale=0.3)).status.method == "Exact"
    batch = {name: table.expand(1000, *table.shape).clone() for name, table in tables(graph, scale=0.3).items()}
    assert method(graph, batch).status.method == "BP"


def test_evidence_makes_a_model_small_enough() -> None:
    side = 40
    graph = grid(side, side)
    observed = {variable: 0 for variable in range(side * side) if variable % side % 4 == 0}
    beliefs = infer(graph, tables(graph), observed)
    assert beliefs.status.exact
    torch.testing.assert_close(beliefs.states, Exact()(graph, tables(graph), observed).states)


def test_zeros_make_a_model_small_enough() -> None:
    """All but two of many values are impossible: far too large without seeing that, easy with it."""
    graph = grid(5, 5, states=40)
    given = tables(graph)
    given["unary"][:, 2:] = -torch.inf
    beliefs = infer(graph, given)
    assert beliefs.status.exact
    small = grid(5, 5, states=2)
    restricted = {"unary": given["unary"][:, :2], "pair": given["pair"][:, :2, :2]}
    torch.testing.assert_close(beliefs.log_partition, Exact()(small, restricted).log_partition)


def test_oscillation_is_damped() -> None:
    """Repulsive couplings on a complete graph make flooding BP flip for ever."""
    graph = complete(8)
    given = {
        "unary": torch.tensor([0.1, 0.0], dtype=torch.float64).expand(8, 2),
        "pair": torch.tensor([[-0.3, 0.3], [0.3, -0.3]], dtype=torch.float64).expand(28, 2, 2),
    }
    flooding = BP()
    with pytest.warns(ConvergenceWarning):
        assert not flooding(graph, given).status.converged
    beliefs = Auto(memory_limit=TINY, otherwise=flooding)(graph, given)
    assert beliefs.status.method == "BP" and beliefs.status.converged
    assert any("damped" in note for note in beliefs.status.notes)
    assert int(beliefs.status.sweeps) > flooding.iterations


def test_failure_to_converge_is_said() -> None:
    graph = complete(12)
    method = Auto(memory_limit=TINY, otherwise=BP(iterations=2, tolerance=1e-12))
    with pytest.warns(ConvergenceWarning):
        assert not method(graph, tables(graph, scale=2.0)).status.converged


def test_impossible_models_are_errors_either_way() -> None:
    """An odd cycle of inequalities between binary variables."""
    graph = complete(3)
    forbidden = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64).expand(3, 2, 2)
    with pytest.raises(ImpossibleError):
        infer(graph, {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": forbidden})


def test_batches_and_empty_graphs() -> None:
    graph = chain(4)
    batch = {name: torch.stack([table, 2 * table]) for name, table in tables(graph).items()}
    beliefs = infer(graph, batch)
    for example in range(2):
        truth = enumerate_model(graph, {name: table[example] for name, table in batch.items()})
        np.testing.assert_allclose(beliefs.states[example].numpy(), truth.states, atol=1e-10)
    nothing = infer(FactorGraph([], {}), {})
    assert nothing.status.exact and float(nothing.log_partition) == 0.0


@pytest.mark.parametrize(
    "options",
    [{"memory_limit": 0.0}, {"cell_limit": -1.0}, {"temperature": -1.0}],
    ids=lambda options: next(iter(options)),
)
def test_bad_options(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Auto(**options)
