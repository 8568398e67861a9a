"""Potentials from networks: tables checked on their way out, gradients on their way in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from loopwise.graph import FactorGraph, chain
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.potentials import NeuralPotentials

CHAIN = chain(4, states=3)


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unary = nn.Linear(5, 12)
        self.pair = nn.Linear(5, 9)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"unary": self.unary(x).unflatten(-1, (4, 3)), "pair": self.pair(x).unflatten(-1, (1, 3, 3))}


def test_one_network_for_all_groups() -> None:
    potentials = NeuralPotentials(CHAIN, Both())
    tables = potentials(torch.randn(7, 5))
    beliefs = BP(engine=Reference())(CHAIN, tables)
    assert beliefs.states.shape == (7, 12)
    beliefs.states.square().sum().backward()
    assert all(parameter.grad is not None for parameter in potentials.parameters())


def test_a_network_for_one_group_and_a_table_for_another() -> None:
    net = nn.Sequential(nn.Linear(5, 12), nn.Unflatten(-1, (4, 3)))
    potentials = NeuralPotentials(CHAIN, {"unary": net, "pair": torch.zeros(3, 3, dtype=torch.float64)})
    assert len(list(potentials.parameters())) == 3
    x = torch.randn(2, 6, 5)
    tables = potentials(x)
    assert torch.equal(tables["unary"], net(x))
    assert tables["pair"].dtype == torch.float32
    BP(engine=Reference())(CHAIN, tables).states.square().sum().backward()
    assert bool((potentials.parameter_tables[0].grad != 0).any())
    again = NeuralPotentials(CHAIN, {"unary": net, "pair": torch.ones(3, 3)})
    again.load_state_dict(potentials.state_dict())
    assert bool((again.parameter_tables[0] == 0).all())


def test_a_single_group_may_be_a_bare_tensor() -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    net = nn.Sequential(nn.Linear(5, 4), nn.Unflatten(-1, (1, 2, 2)))
    assert NeuralPotentials(graph, net)(torch.zeros(3, 5))["pair"].shape == (3, 1, 2, 2)


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="no network for group 'pair'"):
        NeuralPotentials(CHAIN, {"unary": nn.Linear(5, 12)})
    with pytest.raises(ValueError, match="no factor group 'other'"):
        NeuralPotentials(CHAIN, {"unary": nn.Linear(5, 12), "pair": torch.zeros(3, 3), "other": nn.Linear(1, 1)})
    with pytest.raises(ValueError, match="needs a module or a tensor, not list"):
        NeuralPotentials(CHAIN, {"unary": nn.Linear(5, 12), "pair": [0.0]})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"'unary' have shape \(7, 12\); they must end in \(4, 3\)"):
        NeuralPotentials(CHAIN, {"unary": nn.Linear(5, 12), "pair": torch.zeros(3, 3)})(torch.zeros(7, 5))
    with pytest.raises(ValueError, match="the network returned Tensor"):
        NeuralPotentials(CHAIN, nn.Linear(5, 12))(torch.zeros(7, 5))
