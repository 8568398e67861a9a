"""Cost models against counting by hand, and calibrated ones in their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.formats.errors import FormatError

GRAPH = lw.FactorGraph.from_scopes([2, 3, 2, 4], [[0], [0, 1], [1, 2], [0, 1, 3], []])
OBSERVED = np.array([True, False, False, False])


def test_counts_by_hand() -> None:
    assert float(budget.Factors().sweep(GRAPH)) == 3
    assert float(budget.Messages().sweep(GRAPH)) == 7
    assert float(budget.Cells().sweep(GRAPH)) == 2 * 6 + 2 * 6 + 3 * 24
    assert float(budget.Sweeps().sweep(GRAPH)) == 1
    # With variable 0 observed the first pair is unary and the triple is a pair of 3 x 4.
    assert float(budget.Factors().sweep(GRAPH, observed=OBSERVED)) == 2
    assert float(budget.Messages().sweep(GRAPH, observed=OBSERVED)) == 4
    assert float(budget.Cells().sweep(GRAPH, observed=OBSERVED)) == 2 * 6 + 2 * 12
    assert float(budget.Cells(sliced=False).sweep(GRAPH, observed=OBSERVED)) == 96


def test_presences_are_weights() -> None:
    present = {"2x3": torch.tensor([0.25]), "3x2": torch.tensor([[0.5], [1.0]])}
    assert budget.Messages().sweep(GRAPH, present).tolist() == [0.5 + 1 + 3, 0.5 + 2 + 3]
    tied = {"pair": torch.tensor([0.5])}
    assert float(budget.Messages().sweep(lw.chain(5), tied)) == 4


@pytest.mark.parametrize("schedule", [lw.inference.Flooding()])
def test_beliefs_report_what_was_sent(schedule: object) -> None:
    tables = {group.name: torch.zeros(group.count, *group.shape).double() for group in GRAPH.groups}
    tables["3x2"] = torch.randn(1, 3, 2).double()
    values = np.tile([1, -1, -1, -1], (9, 1))
    beliefs = lw.BP(iterations=30, schedule=schedule)(GRAPH, tables, values)  # type: ignore[arg-type]
    costs = budget.Messages().of(beliefs, values)
    assert float(costs.sum()) == beliefs.status.messages
    assert torch.equal(budget.Sweeps().of(beliefs, values), beliefs.status.sweeps.double())


def test_nanoseconds_add_up() -> None:
    model = budget.Nanoseconds(message=2.0, cell=0.5, sweep_start=10.0, run_start=100.0)
    graph = lw.chain(3)
    assert float(model.run(graph, 5.0)) == 5 * (4 * 2.0 + 16 * 0.5 + 10.0) + 100.0
    with pytest.raises(ValueError, match="message must be a number of nanoseconds"):
        budget.Nanoseconds(message=-1.0)


def test_slicing_is_paid_once_for_each_factor_that_evidence_cuts() -> None:
    model, graph = budget.Nanoseconds(message=0.0, slice=3.0), lw.chain(4)
    observed = np.array([True, False, True, False])
    assert float(model.run(graph, 5.0)) == 0.0
    assert float(model.run(graph, 5.0, None, observed)) == 3 * 3.0
    half = {"pair": torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)}
    price = model.run(graph, 5.0, half, observed)
    assert price.item() == 1.5 * 3.0
    assert torch.autograd.grad(price, half["pair"])[0].tolist() == [3.0, 3.0, 3.0]
    assert float(replace(model, sliced=False).run(graph, 5.0, None, observed)) == 0.0


def test_calibrated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.budget import calibration

    rates = (3.0, 0.25, 40.0, 900.0, 7.0)

    def pretend(graph: lw.FactorGraph, observed: np.ndarray, sweeps: int, batch: int, engine: object) -> float:
        exact = budget.Nanoseconds(True, *rates).run(graph, float(sweeps), None, observed)
        return float(exact) * batch / 1e9

    monkeypatch.setattr(calibration, "_seconds", pretend)
    path = tmp_path / "times.json"
    model = budget.calibrate(path, batch=64)
    found = (model.message, model.cell, model.sweep_start, model.run_start, model.slice)
    assert found == pytest.approx(rates, rel=1e-3)
    monkeypatch.setattr(calibration, "_seconds", lambda *_: pytest.fail("measured again"))
    assert budget.calibrate(path) == model
    assert budget.calibrate(path, batch=64, sliced=False).sliced is False
    with pytest.raises(ValueError, match="batches of 64, not 1;"):
        budget.calibrate(path, batch=1)
    replace(model, machine="another").save(path)
    with pytest.raises(ValueError, match="the machine another, not"):
        budget.calibrate(path)
    path.write_text("{}")
    with pytest.raises(FormatError, match="no file of run times"):
        budget.calibrate(path)
    with pytest.raises(ValueError, match="batch must be at least 1"):
        budget.calibrate(batch=0)


def test_measured_times_are_positive() -> None:
    graph = lw.chain(6)
    system = lw.System(lw.TablePotentials.random(graph, seed=0), lw.BP(iterations=3, tolerance=0))
    examples = lw.Examples.of(graph, np.zeros((20, 6), dtype=int), [0, 1, 1, 1, 1, 0])
    assert budget.seconds_each(system, examples, repeats=2) > 0
