"""Filled cells and joint draws of a trained table against all configurations of its model."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps import Table
from loopwise.apps.table import ColumnChain, ColumnPairs, selection, training
from loopwise.apps.table.completion import drawn, most_probable
from oracles.enumeration import enumerate_model

EVIDENCE = ((-1, -1, -1, -1), (0, -1, -1, 2), (-1, 1, -1, -1))
DRAWS = 20_000


def trained(structure: object, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(training, "LEAST_STEPS", 40)
    monkeypatch.setattr(selection, "PATH", (30.0, 3.0))
    rng = np.random.default_rng(5)
    hidden = rng.integers(0, 3, 300)
    cells = [np.where(rng.random(300) < 0.75, (hidden + shift) % 3, rng.integers(0, 3, 300)) for shift in range(4)]
    table = np.array(["a", "b", "c"], dtype=object)[np.stack(cells, axis=1)]
    return Table(structure=structure).fit(table, progress=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("structure", "apart"), [(ColumnChain(), 1e-9), (ColumnPairs(((0, 1), (1, 2), (2, 3), (0, 3))), 0.02), (None, 0.03)]
)
def test_beliefs_and_draws_are_those_of_the_joint_model(
    structure: object, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained(structure, monkeypatch)
    graph, tables = model.system_.graph, model.system_.potentials()
    every = enumerate_model(graph, {name: table.detach().numpy() for name, table in tables.items()})
    for evidence in map(np.array, EVIDENCE):
        fits = ((evidence < 0) | (every.configurations == evidence)).all(axis=1)
        joint = every.probabilities * fits / every.probabilities[fits].sum()
        values, sure = most_probable(model._model, evidence[None])
        for place, beliefs in enumerate(model._model.beliefs(evidence[None])):
            right = np.bincount(every.configurations[:, place], joint, 3)
            np.testing.assert_allclose(beliefs[0], right, atol=apart)
            if evidence[place] < 0:
                assert sure[0, place] == beliefs[0].max() and values[0, place] == beliefs[0].argmax()
            else:
                assert sure[0, place] == 1 and values[0, place] == evidence[place]
        rows = drawn(model._model, np.tile(evidence, (DRAWS, 1)), np.random.default_rng(0))
        shape = (3,) * 4
        found = np.bincount(np.ravel_multi_index(tuple(rows.T), shape), minlength=81) / DRAWS
        wanted = np.bincount(np.ravel_multi_index(tuple(every.configurations.T), shape), joint, 81)
        chance = np.random.default_rng(1).multinomial(DRAWS, wanted / wanted.sum()) / DRAWS
        distance, usual = (0.5 * np.abs(each - wanted).sum() for each in (found, chance))
        assert distance < usual + 0.01 + apart
