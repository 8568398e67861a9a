"""Votes of factors, counted by hand."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import decode
from loopwise.graph import FactorGraph
from oracles.made_beliefs import beliefs_of, random_beliefs


def test_votes_of_pairs() -> None:
    graph = FactorGraph([2, 2, 2, 3], {"pair": [[0, 1], [1, 2]]})
    states = torch.tensor([0.9, 0.1, 0.4, 0.6, 0.8, 0.2, 0.1, 0.2, 0.7], dtype=torch.float64)
    tables = torch.tensor([[[0.1, 0.2], [0.5, 0.2]], [[0.1, 0.2], [0.1, 0.6]]], dtype=torch.float64)
    beliefs = beliefs_of(graph, states, {"pair": tables})
    hard = decode.FactorVote()(beliefs)
    # The first pair chooses (1, 0), the second (1, 1): variable 1 is tied, so its own belief decides.
    assert hard.assignment.tolist() == [1, 1, 1, 2]
    soft = decode.FactorVote(decode.Identity())(beliefs)
    torch.testing.assert_close(
        soft.states, torch.tensor([0.3, 0.7, (0.6 + 0.3) / 2, (0.4 + 0.7) / 2, 0.2, 0.8, 0.1, 0.2, 0.7]).double()
    )


def test_on_a_tree_identity_votes_are_the_marginals() -> None:
    graph = FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b": [[1, 2]], "c": [[2, 3]]})
    beliefs = lw.Exact()(graph, lw.TablePotentials.random(graph, seed=0)())
    torch.testing.assert_close(decode.FactorVote(decode.Identity())(beliefs).states, beliefs.states)
    some = decode.FactorVote(decode.SoftArgmax(0.5), groups=("a",))(beliefs)
    own = decode.SoftArgmax(0.5)(beliefs)
    assert torch.equal(some.states[5:], own.states[5:])
    assert not torch.allclose(some.states[:5], own.states[:5])


def test_forms_limits_and_gradients() -> None:
    graph = lw.chain(3, states=3)
    beliefs = random_beliefs(graph, (4,))
    decoder = decode.FactorVote(decode.SoftArgmax(decode.Trained(1e-4)))
    assert len(list(decoder.parameters())) == 1
    assert not decoder.soft()(beliefs).hard and decoder.hard()(beliefs).hard
    ends = [0, 1, 2, 6, 7, 8]  # the ends of the chain have one factor each, so there are no ties
    torch.testing.assert_close(decoder.soft()(beliefs).states[..., ends], decoder.hard()(beliefs).states[..., ends])
    logits = torch.randn(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def value(logits: torch.Tensor) -> torch.Tensor:
        made = beliefs_of(graph, beliefs.states[0], {"pair": logits.softmax(-1).reshape(2, 3, 3)})
        return decode.FactorVote(decode.SoftArgmax(0.6))(made).states

    assert torch.autograd.gradcheck(value, logits)
    with pytest.raises(ValueError, match="no factor group 'triple'"):
        decode.FactorVote(groups=("triple",))(beliefs)


def test_a_threshold_inside_is_refreshed_from_outside() -> None:
    graph = lw.chain(5)
    beliefs = lw.Exact()(graph, lw.TablePotentials.random(graph, seed=3)())
    inner = lw.decode.ApproximateF(lw.decode.PerCorpus())
    vote = lw.decode.FactorVote(inner)
    assert vote.needs_refresh and not lw.decode.FactorVote().needs_refresh
    vote.refresh([(beliefs, None)])
    assert float(inner.threshold.kappa) == float(beliefs.variables[:, 1].detach().median())
