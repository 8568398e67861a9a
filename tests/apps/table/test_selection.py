"""Choices by cross-validation: centres of the prior, means of weights, what chance might do."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.table import AnyRate, selection, training
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.selection import StructureSearch, select
from loopwise.apps.table.training import Task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LEAST_STEPS", 30)
    monkeypatch.setattr(selection, "PATH", (30.0, 3.0))


def made(rows: int, *, equal: bool, seed: int = 0) -> CountedRows:
    """The last column follows the first, or (``equal``) whether the first two are the same."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, (rows, 4))
    truth = values[:, 0] == values[:, 1] if equal else values[:, 0]
    values[:, 3] = np.where(rng.random(rows) < 0.95, truth, values[:, 3])
    return CountedRows.of(values)


def test_pairs_are_kept_where_they_are_enough_and_more_is_found_where_not() -> None:
    task = Task((2, 2, 2, 2), (3,), AnyRate())
    simple = select(task, made(150, equal=False))
    assert all(len(scope) < 3 for scope in simple.net.scopes) and not simple.added
    joint = select(task, made(300, equal=True))
    assert any({0, 1, 3} <= set(scope) for scope in joint.net.scopes)
    assert min(trial.loss for trial in joint.trials) < 0.9 * np.log(2)


def test_weights_are_the_mean_of_what_is_as_good_but_for_chance() -> None:
    search = StructureSearch(Task((2, 2, 2, 2), (3,), AnyRate()), made(60, equal=False))
    routes = [route for centre in search._centres() for route in search._path(centre)]
    best = min(routes, key=lambda route: search._mean(route.losses))
    chosen = search._mixed(routes)
    assert (best.smoothing, best.l2) in search.members
    near = [route for route in routes if (route.smoothing, route.l2) in search.members]
    np.testing.assert_allclose(chosen.weights[0], np.mean([route.weights[0] for route in near], axis=0))
    worst = max(routes, key=lambda route: search._mean(route.losses))
    assert (worst.smoothing, worst.l2) not in search.members and 1 <= len(near) < len(routes)
    fitted = search.finish(0.5, [])
    assert np.isfinite(fitted.weights).all() and fitted.weights.shape == fitted.net.start.shape


def test_rows_of_large_tables_are_judged_in_part() -> None:
    for rows, folds, judged in ((90, 4, 23), (900, 3, 300), (2000, 1, 500), (60_000, 1, 5000)):
        found = selection.splits(rows, seed=0)
        assert len(found) == folds and len(found[0][1]) == judged
        for train, dev in found:
            assert np.array_equal(np.sort(np.concatenate([train, dev])), np.arange(rows))


def test_what_chance_may_save_is_the_standard_error_of_paired_losses() -> None:
    search = StructureSearch(Task((2, 2, 2, 2), (3,), AnyRate()), made(60, equal=False))
    rng = np.random.default_rng(0)
    old, gain = rng.random(60), rng.normal(0.1, 0.2, 60)
    assert search._saved(old, old - gain) == pytest.approx(gain.mean())
    assert search._noise(old, old - gain) == pytest.approx(gain.std(ddof=1) / np.sqrt(60))
