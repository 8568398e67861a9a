"""Rows of evidence against BP on each row's own graph, gradients against finite differences and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.evidence_rows import EvidenceRows, RowAnswers, losses_of, sweeps_of

SIZES = [2, 3, 4, 2, 5]
SCOPES = [(0,), (1,), (4,), (0, 1), (2, 1), (2, 3), (0, 3), (0, 1, 4), (4, 2, 3), (3,)]
SWEEPS = 4


def model(seed: int = 0) -> tuple[EvidenceRows, np.ndarray, dict[str, torch.Tensor]]:
    graph = lw.FactorGraph.from_scopes(SIZES, SCOPES)
    rows = EvidenceRows(graph, SWEEPS)
    weights = np.random.default_rng(seed).normal(size=rows.size)
    tables, first = {}, 0
    for group in graph.groups:
        end = first + group.count * group.cells
        tables[group.name] = torch.tensor(weights[first:end].reshape(group.count, *group.shape), requires_grad=True)
        first = end
    return rows, weights, tables


def evidence(count: int = 30, seed: int = 1) -> np.ndarray:
    """Rows of every pattern, also those with everything or nothing known."""
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, size, count) for size in SIZES], axis=1)
    values[rng.random(values.shape) < 0.5] = -1
    values[0], values[1] = -1, [size - 1 for size in SIZES]
    return values


def test_beliefs_are_those_of_bp_row_by_row() -> None:
    rows, weights, tables = model()
    values = evidence()
    found = rows.beliefs(weights, values)
    method = lw.BP(iterations=SWEEPS, tolerance=0)
    for row, own in zip(values, found, strict=True):
        np.testing.assert_allclose(own, method(rows.graph, tables, row).states.detach().numpy(), atol=1e-12)


def test_gradients_are_those_of_autograd_through_bp() -> None:
    rows, weights, tables = model(2)
    values, rng = evidence(8), np.random.default_rng(3)
    targets = np.stack([rng.integers(0, size, 8) for size in SIZES], axis=1)
    share = rng.random(values.shape)
    loss, gradient = rows.loss(weights, values, targets, share)
    method, total = lw.BP(iterations=SWEEPS, tolerance=0), torch.zeros((), dtype=torch.float64)
    start = rows.integers.start
    for row in range(8):
        states = method(rows.graph, tables, values[row]).states
        for place in np.flatnonzero(values[row] < 0):
            total = total - share[row, place] * torch.log(states[start[place] + targets[row, place]])
    total.backward()
    hand = np.concatenate([tables[group.name].grad.reshape(-1).numpy() for group in rows.graph.groups])
    assert loss == pytest.approx(total.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, hand, atol=1e-10)


def test_threads_give_the_same() -> None:
    rows, weights, _ = model()
    values = np.tile(evidence(), (20, 1))
    targets = np.zeros_like(values)
    both = EvidenceRows(rows.graph, SWEEPS, threads=2)
    np.testing.assert_array_equal(both.beliefs(weights, values), rows.beliefs(weights, values))
    one, two = rows.loss(weights, values, targets, np.ones(1)), both.loss(weights, values, targets, np.ones(1))
    assert two[0] == pytest.approx(one[0]) and two[1] == pytest.approx(one[1])


def test_strong_potentials_do_not_underflow() -> None:
    """Sixty neighbours that speak against each other by 40 nats each."""
    graph = lw.FactorGraph.from_scopes([2] * 61, [(place, 60) for place in range(60)])
    tables = np.array([[[20.0, -20.0], [-20.0, 20.0]]] * 60)
    rows = EvidenceRows(graph, 2)
    values = np.full((1, 61), -1)
    values[0, :30], values[0, 30:59] = 0, 1
    found = rows.beliefs(tables.reshape(-1), values)[0, -2:]
    assert np.isfinite(found).all() and found[0] == pytest.approx(1.0)


def test_only_plain_bp_goes_by_rows() -> None:
    assert sweeps_of(lw.BP(iterations=7, tolerance=0)) == 7
    for other in (lw.BP(iterations=7), lw.BP(iterations=7, tolerance=0, damping=0.5), lw.Exact()):
        assert sweeps_of(other) is None
    wide = lw.FactorGraph.from_scopes([2] * 4, [(0, 1, 2, 3)])
    with pytest.raises(ValueError, match="at most 3 variables"):
        EvidenceRows(wide, 3)
    hard = lw.TablePotentials(
        lw.chain(2), {"unary": np.array([[0.0, -np.inf], [0.0, 0.0]]), "pair": np.zeros((1, 2, 2))}
    )
    assert RowAnswers.of(lw.System(hard, lw.BP(iterations=3, tolerance=0))) is None


def test_losses_count_targets_only() -> None:
    beliefs = np.array([[0.25, 0.75, 0.5, 0.5]])
    found = losses_of(beliefs, np.array([0, 2, 4]), np.array([[1, -1]]))
    np.testing.assert_allclose(found, [[-np.log(0.75), 0.0]])
