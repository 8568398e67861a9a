"""Closed-form weights: smoothed counts, powers, lines through ordered values; rows that count."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.table.model import mutual_information
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.start import (
    CountSmoothing,
    conditional_information,
    corrected,
    counts,
    log_tables,
    network,
    positions,
    tilted,
)


def made(rows: int = 200, seed: int = 0) -> CountedRows:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, (rows, 3))
    values[:, 0] = np.where(rng.random(rows) < 0.7, values[:, 2], values[:, 0])
    values[rng.random(values.shape) < 0.1] = -1
    return CountedRows.of(values)


def table(smoothing: CountSmoothing, rows: CountedRows, *, ordered: bool = False) -> np.ndarray:
    return np.exp(log_tables([(0, 2)], rows, (3, 3, 3), smoothing, (ordered, False, False))[0])


def test_counts_are_believed_between_what_was_seen_and_chance() -> None:
    rows = made()
    seen = counts((0, 2), rows, (3, 3, 3))
    alone = counts((0,), rows, (3, 3, 3)) + 1 / 3
    shares = alone / alone.sum()
    np.testing.assert_allclose(table(CountSmoothing(1e-9), rows), seen / seen.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(table(CountSmoothing(1e9), rows), np.tile(shares[:, None], 3), atol=1e-6)
    by_hand = shares[:, None] * (seen + 2.0) / (seen.sum(axis=0) * shares[:, None] + 2.0)
    np.testing.assert_allclose(table(CountSmoothing(2.0), rows), by_hand / by_hand.sum(axis=0))
    np.testing.assert_allclose(table(CountSmoothing(2.0, power=0.0), rows), np.tile(shares[:, None], 3))
    half = np.sqrt(table(CountSmoothing(2.0), rows) * shares[:, None])
    np.testing.assert_allclose(table(CountSmoothing(2.0, power=0.5), rows), half / half.sum(axis=0))


def test_without_a_second_parent_factors_are_pairs() -> None:
    parents = [(2,), (0, 2), (1, 2, 0)]
    assert CountSmoothing(1.0, np.inf).scopes(parents) == [(2,), (0, 2), (1, 2)]
    assert CountSmoothing(1.0, 3.0).scopes(parents) == parents


def test_the_line_through_ordered_values_has_most_posterior_probability() -> None:
    shares, seen = np.array([0.2, 0.3, 0.3, 0.2]), np.array([[5.0, 0.0], [3.0, 1.0], [1.0, 2.0], [0.0, 0.0]])
    place = positions(4)
    assert place.mean() == pytest.approx(0) and np.mean(place**2) == pytest.approx(1)
    found = tilted(shares, seen)
    for column in range(2):
        slope = np.polyfit(place, np.log(found[:, column] / shares), 1)[0]

        def objective(weight: float, own: np.ndarray = seen[:, column]) -> float:
            logs = np.log(shares) + weight * place
            return float(own @ (logs - np.log(np.exp(logs).sum())) - weight**2 / 2)

        best = objective(slope)
        assert best >= objective(slope + 1e-3) and best >= objective(slope - 1e-3)
    rows = made()
    line = tilted(np.exp(log_tables([(0,)], rows, (3, 3, 3), CountSmoothing())[0]), counts((0, 2), rows, (3, 3, 3)))
    np.testing.assert_allclose(table(CountSmoothing(1e9), rows, ordered=True), line, atol=1e-6)


def test_rows_that_count_twice_are_rows_that_are_there_twice() -> None:
    rows = made(60)
    often = np.random.default_rng(3).integers(1, 4, 60)
    twice = CountedRows.of(np.repeat(rows.values, often, axis=0))
    weighted = CountedRows.of(rows.values, often.astype(float))
    sizes = (3, 3, 3)
    for one, other in zip(
        log_tables([(0, 2), (1, 2, 0)], twice, sizes, CountSmoothing()),
        log_tables([(0, 2), (1, 2, 0)], weighted, sizes, CountSmoothing()),
        strict=True,
    ):
        np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(
        mutual_information(twice.values, sizes), mutual_information(weighted.values, sizes, weighted.counts)
    )
    np.testing.assert_allclose(
        conditional_information(twice, sizes, 2), conditional_information(weighted, sizes, 2), atol=1e-12
    )
    np.testing.assert_allclose(corrected(np.zeros((3, 3)), twice, sizes), corrected(np.zeros((3, 3)), weighted, sizes))
    assert network(twice, sizes, (2,)) == network(weighted, sizes, (2,))
