"""Where training starts."""

from __future__ import annotations

import loopwise as lw
from loopwise.learn import Examples, System, fit
from oracles.fit_cases import FEW, GRAPH, INPUT, OUTPUT, data, sgd, weights

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def test_a_start_at_zero_with_hidden_variables_is_left() -> None:
    train = data(16)
    system = System(lw.TablePotentials(GRAPH), FEW)
    fit(system, train, MSE, optimizer=sgd(1e-12), epochs=1, batch=16)
    assert 0.05 < float(weights(system).std()) < 0.2
    seen = Examples.of(GRAPH, train.values, [INPUT, *[OUTPUT] * 7])
    system = System(lw.TablePotentials(GRAPH), FEW)
    fit(system, seen, MSE, optimizer=sgd(1e-12), epochs=1, batch=16)
    assert float(weights(system).abs().max()) < 1e-9  # nothing hidden: it stays where it was
