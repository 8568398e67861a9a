"""Systems with a structured factor: trained through BP, saved and loaded, and what refuses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw


def system_and_examples() -> tuple[lw.System, lw.Examples]:
    """Four switches, exactly one of which is on, beside a hidden cause."""
    graph = lw.FactorGraph(
        [2] * 5, {"pair": [[0, 4], [1, 4], [2, 4], [3, 4]]}, {"one": (lw.ExactlyOne(4), [0, 1, 2, 3])}
    )
    rng = np.random.default_rng(0)
    values = np.zeros((12, 5), dtype=np.int64)
    values[np.arange(12), rng.integers(0, 4, 12)] = 1
    values[:, 4] = rng.integers(0, 2, 12)
    roles = [lw.Role.OUTPUT] * 4 + [lw.Role.INPUT]
    return lw.System(lw.TablePotentials.random(graph, seed=1), lw.BP(iterations=5)), lw.Examples.of(
        graph, values, roles
    )


def test_training_and_saving(tmp_path: Path) -> None:
    system, examples = system_and_examples()
    for goal in (lw.loss.MSE(), lw.loss.SurrogateLikelihood()):
        before = lw.evaluate(system, examples, goal)
        lw.fit(system, examples, goal, optimizer=lambda p: torch.optim.Adam(p, lr=0.05), epochs=5, progress=False)
        assert lw.evaluate(system, examples, goal) < before
    system.save(tmp_path / "one.loopwise")
    again = lw.System.load(tmp_path / "one.loopwise")
    assert again.graph == system.graph
    torch.testing.assert_close(again.beliefs(examples).states, system.beliefs(examples).states, rtol=0, atol=0)
    on = system.beliefs(examples).variables[:, :4, 1].sum(-1)
    torch.testing.assert_close(on, torch.ones_like(on), atol=0.2, rtol=0)


def test_the_right_method_is_chosen() -> None:
    system, examples = system_and_examples()
    beliefs = lw.infer(system.graph, system.tables(examples), {4: 1})
    assert any("structured" in note for note in beliefs.status.notes)


@pytest.mark.parametrize("objective", [lw.loss.PseudoLikelihood(), lw.loss.Piecewise()])
def test_objectives_of_single_tables_refuse(objective: lw.loss.LikelihoodObjective) -> None:
    system, examples = system_and_examples()
    with pytest.raises(ValueError, match="'one' is a structured factor"):
        lw.learn.risk(system, examples, objective)
