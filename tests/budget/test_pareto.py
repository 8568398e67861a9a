"""Frontiers: which points count, areas by hand, and whole sweeps over prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.plot import pareto as draw_pareto
from loopwise.plot import save


def test_a_frontier_of_every_method(study: tuple[lw.System, lw.Examples, lw.Examples], tmp_path: Path) -> None:
    system, train, test = study
    before = [param.detach().clone() for param in system.parameters()]
    methods = [
        budget.Learned(refit=1),
        budget.Learned(gate=None, features=budget.STANDARD, policy_fit=budget.PolicyFit(steps=30)),
        budget.Learned(features=budget.STANDARD, policy_fit=budget.PolicyFit(steps=30), continued=True, title="both"),
        budget.Lasso((1e-3, 1e-2)),
        budget.GroupLasso((3e-3,), refit=1),
        budget.Magnitude((10, 3), refit=1),
        budget.RandomFactors((10,), refit=1),
        budget.FixedSweeps((1, 2)),
        budget.FixedTolerance((0.1,)),
    ]
    frontier = budget.pareto(
        system, train, lw.loss.MSE(), (0.01, 10.0), test=test, methods=methods, epochs=5, rate=0.1, batch=16,
        timed=True, progress=False,
    )  # fmt: skip
    assert frontier.methods == ["dense", *(method.name for method in methods)]
    assert all(torch.equal(one, other) for one, other in zip(before, system.parameters(), strict=True))
    assert frontier.unit == "messages"
    roles = test.roles[0]
    for point in frontier:
        assert point.system is not None and point.seconds is not None and point.seconds > 0
        moved = budget.on_graph(test, point.system.graph)
        assert lw.evaluate(point.system, moved, lw.loss.MSE()) == pytest.approx(point.loss)
        scopes = point.system.graph.group("pair").scopes if point.factors else np.zeros((0, 2), dtype=int)
        sent = 2 * (roles[scopes] != lw.Role.INPUT).all(1).sum()
        assert point.cost == pytest.approx(sent * point.sweeps)
    dear, cheap = frontier.of("learned sparsity, refitted")
    assert cheap.cost < dear.cost <= frontier.of("dense")[0].cost
    stopped = frontier.of("learned stopping")
    assert stopped[1].sweeps < stopped[0].sweeps + 1e-9
    assert [point.cost for point in frontier.of("fixed sweeps")] == [frontier.points[0].cost / 3 * k for k in (1, 2)]
    assert len(frontier.of("magnitude")) == 2 and frontier.of("magnitude")[1].factors == 3
    assert all(frontier.hypervolume(method) >= 0 for method in frontier.methods)
    json = frontier.to_json()
    assert len(json["points"]) == len(frontier) and set(json["hypervolume"]) == set(frontier.methods)
    save(draw_pareto(frontier), tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
