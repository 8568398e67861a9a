"""A system trained once."""

from __future__ import annotations

import pytest

import loopwise as lw


@pytest.fixture(scope="session")
def study() -> tuple[lw.System, lw.Examples, lw.Examples]:
    graph = lw.graph.complete(8)
    truth = lw.TablePotentials.random(graph, seed=0)
    train, test = lw.sample_examples(truth, (96, 64), roles=lw.learn.thirds(graph, seed=1), seed=2, burn_in=50)
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))
    lw.fit(system, train, lw.loss.MSE(), optimizer=lambda p: lw.optim.AdaGradCOMID(p, rate=0.3), epochs=10)
    return system, train, test
