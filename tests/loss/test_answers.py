"""Assignments beside their targets: what is scored, what is right, what does not fit."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.loss.answers import KnownAnswers
from loopwise.loss.targets import Targets


def test_integers_beside_integers() -> None:
    found = KnownAnswers.of(torch.tensor([[0, 1, 1], [1, 1, 0]]), torch.tensor([0, -1, 0]))
    assert found.scored.tolist() == [[True, False, True]] * 2
    assert (found.right & found.scored).tolist() == [[True, False, False], [False, False, True]]


def test_sets_hold_what_is_right() -> None:
    graph = lw.chain(2, states=3)
    sets = torch.tensor([[True, False, True], [False, True, False]])
    found = KnownAnswers.of(torch.tensor([[2, 0], [1, 1]]), Targets.from_sets(graph, sets.reshape(-1)))
    assert found.right.tolist() == [[True, False], [False, True]]


def test_what_does_not_fit_is_named() -> None:
    assignment = torch.tensor([[0, 1, 1]])
    with pytest.raises(ValueError, match=r"targets must be integers beside an assignment, not torch\.float32"):
        KnownAnswers.of(assignment, torch.tensor([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="variables"):
        KnownAnswers.of(assignment, torch.tensor([0, 1]))
