"""Training of a table: the prior that ordered values share, sweeps that are enough, rows that count."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.table.missingness import Rates
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.start import CountSmoothing, network, positions
from loopwise.apps.table.training import Development, DrawnRoles, Network, Task, sweeps_enough
from loopwise.inference.evidence_rows import EvidenceRows
from loopwise.learn.progress import silent

SIZES = (4, 3, 2)


def made(rows: int, seed: int = 0) -> CountedRows:
    rng = np.random.default_rng(seed)
    return CountedRows.of(np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1))


def net_of(rows: CountedRows, *, ordered: tuple[bool, ...] = (), deep: bool = False) -> Network:
    task = Task(SIZES, (2,), Rates((0.4,)), ordered=ordered)
    second = 3.0 if deep else np.inf
    parents = [(2,), (0, 2), (1, 2, 0)] if deep else network(rows, SIZES, (2,))
    return Network.of(task, parents, rows, CountSmoothing(1.0, second))


def test_values_of_an_ordered_variable_share_a_line() -> None:
    net = net_of(made(50), ordered=(True, False, False), deep=True)
    root = net.prior.root.toarray()
    place = net.rows.place(1)  # the table of 0 and 2
    line = positions(4)
    covariance = np.kron(np.eye(4) + np.outer(line, line), np.eye(2))
    np.testing.assert_allclose((root @ root)[place, place], covariance, atol=1e-12)
    np.testing.assert_allclose(root, root.T)
    vector = np.random.default_rng(0).normal(size=net.rows.size)
    np.testing.assert_allclose(net.prior.inner(net.prior.outer(vector)), vector)
    plain = net_of(made(50))
    np.testing.assert_array_equal(plain.prior.outer(vector[: plain.rows.size]), vector[: plain.rows.size])


def test_a_start_away_from_the_centre_is_kept() -> None:
    rows = made(30)
    net = net_of(rows, ordered=(True, True, False))
    start = net.start + np.random.default_rng(1).normal(size=net.rows.size)
    objective = DrawnRoles(net.task, net, rows, start, 1.0, 0.0, 2, seed=0)
    np.testing.assert_allclose(objective.now(), start)
    objective.round(silent)
    assert np.abs(objective.now() - start).max() > 1e-3


def test_two_sweeps_are_enough_on_a_star() -> None:
    assert sweeps_enough([(2,), (0, 2), (1, 2), (0,)], (2,)) == 2
    assert sweeps_enough([(0, 2), (0, 1)], (2,)) > 4 and sweeps_enough([(0, 1, 2)], (2,)) > 4
    assert sweeps_enough([(0, 2), (1, 2)], (1, 2)) > 4
    rows = made(40)
    net = net_of(rows)
    assert net.rows.sweeps == 2
    holes = np.where(np.random.default_rng(0).random(rows.values.shape) < 0.5, -1, rows.values)
    more = EvidenceRows(net.rows.graph, 7)
    np.testing.assert_allclose(net.rows.beliefs(net.start, holes), more.beliefs(net.start, holes), atol=1e-12)


def test_losses_of_development_rows_are_means_over_draws() -> None:
    rows = made(25)
    net = net_of(rows)
    judge = Development.of(net.task, rows[:10], seed=0)
    assert judge.loss(net, net.start).shape == (10,) and judge.counts.tolist() == [1.0] * 10
    assert judge.loss(net, net.start).mean() == pytest.approx(np.log(2), abs=0.2)  # nothing is to be learnt
