"""The chain factor against its table, against the base class's way to messages, and against the same graph in pairs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import loopwise as lw
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.chain import Chain
from loopwise.notices import ImpossibleError
from loopwise.testing import check_factor


def problem(length: int, states: int, batch: tuple[int, ...], seed: int, zeros: float = 0.0) -> tuple[Tensor, Tensor]:
    """Incoming messages and tables, some of them ruled out (never the first value, nor staying)."""
    generator = torch.Generator().manual_seed(seed)
    incoming = torch.randn(*batch, length, states, dtype=torch.float64, generator=generator)
    steps = 2 * torch.randn(*batch, length - 1, states, states, dtype=torch.float64, generator=generator)
    if zeros:
        gone = torch.rand(incoming.shape, generator=generator) < zeros
        gone[..., 0] = False
        incoming = incoming.masked_fill(gone, -torch.inf)
        blocked = torch.rand(steps.shape, generator=generator) < zeros
        blocked[..., 0, 0] = False
        steps = steps.masked_fill(blocked, -torch.inf)
    return incoming.flatten(-2), steps


def all_scores(factor: Chain, incoming: Tensor, steps: Tensor) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every assignment of one example and its score."""
    nodes = incoming.reshape(factor.length, factor.states)
    paths = list(product(range(factor.states), repeat=factor.length))
    scores = []
    for path in paths:
        total = torch.zeros((), dtype=torch.float64)
        for place, value in enumerate(path):
            total = total + nodes[place, value]
            if place:
                total = total + steps[place - 1, path[place - 1], value]
        scores.append(total)
    return paths, torch.stack(scores)


@given(
    length=st.integers(1, 4),
    states=st.integers(1, 3),
    zeros=st.sampled_from([0.0, 0.4]),
    batch=st.sampled_from([(), (2,)]),
    seed=st.integers(0, 1000),
)
def test_against_all_assignments(length: int, states: int, zeros: float, batch: tuple[int, ...], seed: int) -> None:
    factor = Chain(length, states)
    incoming, steps = problem(length, states, batch, seed, zeros)
    total, marginals = factor.log_partition(incoming, steps), factor.marginals(incoming, steps)
    messages = factor.messages(incoming, steps)
    slow = StructuredFactor.messages(factor, incoming, steps)
    torch.testing.assert_close(messages, slow, rtol=1e-9, atol=1e-9)
    best = factor.argmax(incoming, steps)
    for place in np.ndindex(batch):
        paths, scores = all_scores(factor, incoming[place], steps[place])
        torch.testing.assert_close(total[place], scores.logsumexp(0), rtol=1e-12, atol=1e-12)
        shares = scores.softmax(0)
        expected = torch.zeros(length, states, dtype=torch.float64)
        for path, share in zip(paths, shares, strict=True):
            expected[range(length), path] += share
        torch.testing.assert_close(marginals[place].reshape(length, states), expected, rtol=1e-9, atol=1e-12)
        assert float(scores[paths.index(tuple(best[place].tolist()))]) == pytest.approx(float(scores.max()), rel=1e-12)


@pytest.mark.parametrize(("length", "states", "zeros"), [(4, 3, 0.0), (3, 4, 0.3), (1, 3, 0.0)])
def test_the_contract_of_factors(length: int, states: int, zeros: float) -> None:
    _, steps = problem(length, states, (), 6, zeros)
    check_factor(Chain(length, states), potentials=steps)


def test_in_a_graph_beside_tables() -> None:
    """One factor in place of five tables: BP gives the exact marginals at once, with gradients."""
    incoming, steps = (tensor.requires_grad_() for tensor in problem(6, 3, (), 7))
    unary = incoming.reshape(6, 3)
    graph = lw.FactorGraph(np.full(6, 3), {"unary": np.arange(6)[:, None]}, {"chain": (Chain(6, 3), range(6))})
    beliefs = lw.BP(iterations=2, tolerance=0)(graph, {"unary": unary, "chain": steps})
    exact = lw.BP(iterations=7, tolerance=0, engine=lw.inference.Reference())(
        lw.chain(6, states=3), {"unary": unary, "pair": steps}
    )
    torch.testing.assert_close(beliefs.states, exact.states)
    weights = torch.arange(18.0, dtype=torch.float64)
    found, wanted = (
        torch.autograd.grad((one.states * weights).sum(), (incoming, steps), retain_graph=True)
        for one in (beliefs, exact)
    )
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-10)


def test_gradients_of_two_orders() -> None:
    factor = Chain(4, 3)
    incoming, steps = (tensor.requires_grad_() for tensor in problem(4, 3, (2,), 1))
    assert torch.autograd.gradcheck(factor.log_partition, (incoming, steps))
    assert torch.autograd.gradcheck(factor.messages, (incoming, steps))
    assert torch.autograd.gradgradcheck(factor.log_partition, (incoming, steps))
    (slope,) = torch.autograd.grad(factor.log_partition(incoming, steps).sum(), incoming)
    torch.testing.assert_close(slope, factor.marginals(incoming, steps))


def test_gradients_with_values_ruled_out() -> None:
    factor = Chain(4, 3)
    incoming, steps = problem(4, 3, (), 2, zeros=0.4)
    leaf, table = incoming.requires_grad_(), steps.requires_grad_()
    slopes = torch.autograd.grad(factor.log_partition(leaf, table), (leaf, table))
    assert all(bool(slope.isfinite().all()) for slope in slopes)
    torch.testing.assert_close(slopes[0], factor.marginals(incoming, steps).detach())


def test_the_same_chain_in_pairs() -> None:
    factor = Chain(6, 3)
    incoming, steps = problem(6, 3, (), 3)
    exact = lw.BP(iterations=7, tolerance=0, engine=lw.inference.Reference())  # on a tree
    beliefs = exact(lw.chain(6, states=3), {"unary": incoming.reshape(6, 3), "pair": steps})
    torch.testing.assert_close(factor.log_partition(incoming, steps), beliefs.log_partition)
    torch.testing.assert_close(factor.marginals(incoming, steps), beliefs.states)


def test_long_chains_keep_their_digits() -> None:
    factor = Chain(3000, 2)
    incoming, steps = problem(3000, 2, (), 4)
    marginals = factor.marginals(20 * incoming, 20 * steps).reshape(3000, 2)
    torch.testing.assert_close(marginals.sum(-1), torch.ones(3000, dtype=torch.float64), rtol=1e-12, atol=0)


def test_samples_have_the_marginals() -> None:
    factor, count = Chain(3, 3), 20000
    incoming, steps = problem(3, 3, (2,), 5, zeros=0.3)
    drawn = factor.sample(incoming, steps, count=count, generator=np.random.default_rng(0))
    assert drawn.shape == (count, 2, 3)
    shares = torch.nn.functional.one_hot(drawn, 3).double().mean(0).flatten(-2)
    assert float((shares - factor.marginals(incoming, steps)).abs().max()) < 5 * 0.5 / count**0.5


def test_what_is_impossible_or_missing_is_said() -> None:
    factor = Chain(2, 2)
    blocked = torch.full((1, 2, 2), -torch.inf, dtype=torch.float64)
    nothing = torch.zeros(4, dtype=torch.float64)
    assert float(factor.log_partition(nothing, blocked)) == -np.inf
    for call in (factor.messages, factor.argmax):
        with pytest.raises(ImpossibleError, match="Chain over 2 variables"):
            call(nothing, blocked)
    with pytest.raises(ImpossibleError):
        factor.sample(nothing, blocked, count=1, generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="needs log-potentials"):
        factor.messages(nothing)
    with pytest.raises(ValueError, match="length of a Chain"):
        Chain(0, 2)
