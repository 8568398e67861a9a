"""Nanoseconds of a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.formats.errors import FormatError


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
    with pytest.raises(ValueError, match="batch must be a whole number of at least 1"):
        budget.calibrate(batch=0)
