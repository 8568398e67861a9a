"""A decision reads as beliefs do, and a hard one puts all mass on what was chosen."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.inference.decision import Decision, cell_masses

GRAPH = lw.FactorGraph([2, 3, 2], {"pair": [[0, 2]], "odd": [[1, 2], [1, 0]]})


@pytest.fixture
def beliefs() -> lw.Beliefs:
    return lw.BP()(GRAPH, lw.TablePotentials(GRAPH))


def test_cells_are_those_that_the_values_choose(beliefs: lw.Beliefs) -> None:
    values = torch.tensor([[1, 2, 0], [0, 1, 1]])
    masses = cell_masses(GRAPH, "odd", values, torch.zeros(0, dtype=torch.float64))
    assert masses.shape == (2, 2, 3, 2)
    assert masses.dtype == torch.float64
    for example, (first, middle, last) in enumerate(values.tolist()):
        assert masses[example, 0].nonzero().tolist() == [[middle, last]]
        assert masses[example, 1].nonzero().tolist() == [[middle, first]]


def test_a_hard_decision(beliefs: lw.Beliefs) -> None:
    decision = Decision.of_assignment(beliefs, torch.tensor([1, 2, 0]))
    assert decision.hard and "hard" in repr(decision)
    assert decision.states.tolist() == [0, 1, 0, 0, 1, 1, 0]
    assert decision.marginal(1).tolist() == [0, 0, 1]
    assert decision.assignment.tolist() == [1, 2, 0]
    assert decision.factor("pair")[0].tolist() == [[0, 0], [1, 0]]
    assert decision.factor("pair") is decision.factor("pair")


def test_what_is_not_there_is_named(beliefs: lw.Beliefs) -> None:
    decision = Decision.of_assignment(beliefs, torch.tensor([0, 0, 0]))
    with pytest.raises(ValueError, match="no variable 3"):
        decision.marginal(3)
    with pytest.raises(ValueError, match="pear"):
        decision.factor("pear")
