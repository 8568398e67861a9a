"""Sampled data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn import sample_examples, thirds
from oracles.enumeration import enumerate_model

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role


@pytest.mark.parametrize("exact", [None, lw.Exact()])
def test_samples_have_the_model_s_frequencies(exact: lw.Exact | None) -> None:
    graph = lw.FactorGraph([2, 3, 2], {"pair": [[0, 1]], "other": [[1, 2]], "ring": [[0, 2]]})
    potentials = lw.TablePotentials.random(graph, seed=1)
    tables = {name: table.detach().numpy() for name, table in potentials().items()}
    known = enumerate_model(graph, tables)
    count = 20_000
    examples = sample_examples(potentials, count, roles=[0, 1, 2], seed=5, burn_in=60, exact=exact)
    cell = examples.values @ np.array([6, 2, 1])
    found = np.bincount(cell, minlength=12) / count
    # Configurations are enumerated in the same order; four standard errors of a frequency of independent draws.
    allowed = 4 * np.sqrt(known.probabilities * (1 - known.probabilities) / count)
    assert (np.abs(found - known.probabilities) < allowed).all()


def test_samples_are_split_and_repeatable() -> None:
    graph = lw.random_mrf(8, 12, seed=0)
    potentials = lw.TablePotentials.random(graph, seed=0)
    roles = thirds(graph, seed=1)
    train, test = sample_examples(potentials, (30, 20), roles=roles, seed=2, burn_in=20)
    whole = sample_examples(potentials, 50, roles=roles, seed=2, burn_in=20)
    assert (len(train), len(test)) == (30, 20)
    assert np.array_equal(np.concatenate([train.values, test.values]), whole.values)
    assert np.array_equal(train.roles[0], roles)
    assert train.targets.scored[0].tolist() == (roles == OUTPUT).tolist()


def test_bad_sampling() -> None:
    graph = lw.chain(2)
    with pytest.raises(ValueError, match="positive number"):
        sample_examples(lw.TablePotentials(graph), (3, 0), roles=[0, 1], seed=0)
    with pytest.raises(ValueError, match="Linear do not say what graph"):
        sample_examples(torch.nn.Linear(1, 1), 3, roles=[0, 1], seed=0)
