"""Several options in turn."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise.learn import fit
from loopwise.learn.sweep import sweep
from oracles.fit_cases import data, fresh, sgd

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def _loss_at(rate: float) -> float:
    return fit(fresh(), data(16), MSE, optimizer=sgd(rate), epochs=1, batch=16).losses[0] + rate


def test_sweeps() -> None:
    rates = [{"rate": 0.1}, {"rate": 0.2}]
    assert sweep(_loss_at, rates, jobs=1) == [_loss_at(0.1), _loss_at(0.2)]
    assert sweep(pow, [{"base": 2, "exp": 5}, {"base": 3, "exp": 2}], jobs=2) == [32, 9]
    with pytest.raises(ValueError, match=r"rate.*in the run with \{'rate': -1.0\}"):
        sweep(_loss_at, [{"rate": -1.0}], jobs=1)
    with pytest.raises(ValueError, match="jobs must be a whole number of at least 1"):
        sweep(pow, [], jobs=0)
