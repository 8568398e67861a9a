"""Chain kernels against enumeration, against exact inference on the same factor graph, and at the edge of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import loopwise as lw
from loopwise.inference.families import chains as chains_module
from loopwise.inference.families.chains import Chains
from loopwise.notices import ImpossibleError

Floats = NDArray[np.float64]


@dataclass
class Enumerated:
    """Everything about one chain, by going through all its paths."""

    log_z: float
    single: Floats
    double: Floats  # [length, K, K], zero at the first token
    best: tuple[int, ...]
    probability: dict[tuple[int, ...], float]


def enumerate_chain(unary: Floats, pair: Floats) -> Enumerated:
    length, states = unary.shape
    scores = {}
    for path in product(range(states), repeat=length):
        steps = sum(pair[0 if len(pair) == 1 else t, path[t - 1], path[t]] for t in range(1, length))
        scores[path] = sum(unary[t, path[t]] for t in range(length)) + steps
    values = np.array(list(scores.values()))
    highest = values.max()
    log_z = highest + np.log(np.exp(values - highest).sum())
    single, double = np.zeros((length, states)), np.zeros((length, states, states))
    shares = {path: float(np.exp(score - log_z)) for path, score in scores.items()}
    for path, share in shares.items():
        for t in range(length):
            single[t, path[t]] += share
            if t > 0:
                double[t, path[t - 1], path[t]] += share
    return Enumerated(float(log_z), single, double, max(scores, key=scores.__getitem__), shares)


def random_chains(
    lengths: list[int], states: int, shared: bool, scale: float, seed: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    rng = np.random.default_rng(seed)
    start = np.cumsum([0, *lengths])
    unary = rng.normal(0, scale, (start[-1], states))
    pair = rng.normal(0, scale, (1 if shared else start[-1], states, states))
    return start, unary, pair


def of_chain(array: Floats, begin: int, end: int) -> Floats:
    return array if len(array) == 1 else array[begin:end]


@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    states=st.integers(1, 3),
    shared=st.booleans(),
    scale=st.sampled_from([0.0, 1.0, 30.0, 400.0, 3000.0]),
    threads=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
def test_against_enumeration(
    lengths: list[int], states: int, shared: bool, scale: float, threads: int, seed: int
) -> None:
    start, unary, pair = random_chains(lengths, states, shared, scale, seed)
    chains = Chains(start, threads)
    known, each = chains.marginals(unary, pair), chains.marginals(unary, pair, each=True)
    path, scores = chains.best(unary, pair)
    total = np.zeros((states, states))
    for chain, (begin, end) in enumerate(pairwise(start)):
        if begin == end:
            assert known.log_z[chain] == 0.0 and scores[chain] == 0.0
            continue
        truth = enumerate_chain(unary[begin:end], of_chain(pair, begin, end))
        np.testing.assert_allclose(known.log_z[chain], truth.log_z, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(known.single[begin:end], truth.single, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(each.double[begin:end], truth.double, rtol=1e-9, atol=1e-12)
        total += truth.double.sum(axis=0)
        assert tuple(path[begin:end]) == truth.best
        np.testing.assert_allclose(np.exp(scores[chain] - truth.log_z), truth.probability[truth.best], rtol=1e-9)
        own = chains.path_scores(unary, pair, path)[begin:end].sum()
        np.testing.assert_allclose(own, scores[chain], rtol=1e-12, atol=1e-12)
    if shared and each.double.shape[0] != 1:
        np.testing.assert_allclose(known.double[0], total, rtol=1e-9, atol=1e-12)


@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    states=st.integers(2, 3),
    shared=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_adjoints_are_covariances(lengths: list[int], states: int, shared: bool, seed: int) -> None:
    """Slopes of a function of marginals in the scores: by enumeration of the covariance, and by differences."""
    start, unary, pair = random_chains(lengths, states, shared, 1.0, seed)
    rng = np.random.default_rng(seed + 1)
    in_tags, in_steps = rng.normal(size=unary.shape), rng.normal(size=(len(unary), states, states))
    chains = Chains(start)

    def value(unary: Floats, pair: Floats) -> float:
        known = chains.marginals(unary, pair, each=True)
        return float((known.single * in_tags).sum() + (known.double * in_steps).sum())

    found = chains.adjoints(chains.marginals(unary, pair, each=True), in_tags, in_steps, shared=shared)
    for which, (scores, adjoint) in enumerate(zip((unary, pair), found, strict=True)):
        assert adjoint.shape == scores.shape
        for place in rng.choice(scores.size, min(scores.size, 6), replace=False):
            cell = np.unravel_index(place, scores.shape)
            values = []
            for sign in (1, -1):
                moved = [unary.copy(), pair.copy()]
                moved[which][cell] += sign * 1e-5
                values.append(value(*moved))
            assert adjoint[cell] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("shared", [True, False])
def test_the_same_factor_graph(shared: bool) -> None:
    """Log Z and marginals of lw.Exact on the chain written as tables; gradients of BP, which is exact there."""
    start, unary, pair = random_chains([7], 4, shared, 1.5, 3)
    graph = lw.chain(7, states=4)
    tables = {"unary": torch.from_numpy(unary), "pair": torch.from_numpy(pair if shared else pair[1:])}
    beliefs = lw.Exact()(graph, tables)
    chains = Chains(start)
    known = chains.marginals(unary, pair, each=True)
    np.testing.assert_allclose(known.log_z[0], beliefs.log_partition.item(), rtol=1e-12)
    np.testing.assert_allclose(known.single.reshape(-1), beliefs.states.numpy(), rtol=1e-9)
    np.testing.assert_allclose(known.double[1:], beliefs.factor("pair").numpy(), rtol=1e-9, atol=1e-15)
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    slope = torch.randn(28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    swept = lw.BP(iterations=8, tolerance=0, engine=lw.inference.Reference())(graph, leaves)
    gradients = torch.autograd.grad((swept.states * slope).sum(), list(leaves.values()))
    nothing = np.zeros((7, 4, 4))
    found = chains.adjoints(known, slope.reshape(7, 4).numpy(), nothing, shared=shared)
    np.testing.assert_allclose(found[0], gradients[0].numpy(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found[1] if shared else found[1][1:], gradients[1].numpy(), rtol=1e-8, atol=1e-12)


def test_long_chains_with_wide_ranges_agree_with_logarithms() -> None:
    """Mass that underflows early may be all that is left later: the result must not know."""
    length, states = 60, 3
    unary, pair = np.zeros((length, states)), np.full((1, states, states), -400.0)
    pair[0, np.arange(states), np.arange(states)] = 0.0
    unary[:30, 1] = -30.0  # state 1 is 900 nats behind after 30 tokens ...
    unary[30:, 0] = unary[30:, 2] = -31.0  # ... and ahead at the end, too late to be worth a change
    found = Chains(np.array([0, length])).marginals(unary, pair)
    # Nearly all mass is on paths without a change or with one: sum those by hand.
    alone = [unary[:, state].sum() for state in range(states)]
    switched = [
        unary[:cut, one].sum() + unary[cut:, two].sum() - 400.0
        for cut in range(1, length)
        for one in range(states)
        for two in range(states)
        if one != two
    ]
    terms = np.array(alone + switched)
    log_z = terms.max() + np.log(np.exp(terms - terms.max()).sum())
    np.testing.assert_allclose(found.log_z[0], log_z, rtol=1e-9)
    np.testing.assert_allclose(found.single.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("each", [True, False])
def test_marginals_sum_to_one_at_any_size_of_scores(each: bool) -> None:
    start, unary, pair = random_chains([1, 5, 9], 3, True, 1e30, 6)
    unary[3] = unary[3].max()  # as probable as each other, but for what rounding of log Z would make of it
    unary[-1] = unary[-1].max()
    found = Chains(start).marginals(unary, pair, each=each)
    np.testing.assert_allclose(found.single.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.double.sum(), 4 + 8, rtol=1e-12)


def test_forbidden_steps_and_impossible_chains() -> None:
    start, unary, pair = random_chains([4], 3, True, 1.0, 5)
    unary[2] = [0.0, -np.inf, -np.inf]
    pair[0, 1, 0] = -np.inf
    truth = enumerate_chain(unary, pair)
    known = Chains(start).marginals(unary, pair, each=True)
    np.testing.assert_allclose(known.single, truth.single, rtol=1e-9, atol=1e-15)
    assert known.single[2, 1] == 0.0 and known.double[2, 1, 0] == 0.0
    unary[3] = -np.inf
    with pytest.raises(ImpossibleError, match="sentence 0"):
        Chains(start).marginals(unary, pair)


def test_samples_have_the_joint_distribution() -> None:
    """Frequencies of whole paths against their probabilities: a chi-squared test at one in ten thousand."""
    length, states, count = 3, 2, 20000
    _, unary, pair = random_chains([length], states, True, 1.0, 7)
    truth = enumerate_chain(unary, pair)
    start = np.arange(count + 1) * length
    drawn = Chains(start, 2).sample(np.tile(unary, (count, 1)), pair, np.random.default_rng(0)).reshape(count, length)
    paths, seen = np.unique(drawn, axis=0, return_counts=True)
    observed = {tuple(path): number for path, number in zip(paths.tolist(), seen.tolist(), strict=True)}
    chi2 = sum(
        (observed.get(path, 0) - count * share) ** 2 / (count * share) for path, share in truth.probability.items()
    )
    from scipy.stats import chi2 as distribution

    assert chi2 < distribution.ppf(0.9999, len(truth.probability) - 1)


@pytest.mark.parametrize("count", [7, 40, 64, 150])
def test_threads_change_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains_module, "_MANY", 30)
    lengths = np.random.default_rng(count).integers(0, 12, count).tolist()
    start, unary, pair = random_chains(lengths, 4, True, 2.0, 11)
    one, two = Chains(start, 1).marginals(unary, pair), Chains(start, 2).marginals(unary, pair)
    assert np.array_equal(one.single, two.single) and np.array_equal(one.log_z, two.log_z)
    np.testing.assert_allclose(one.double, two.double, rtol=1e-13)


@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=70).filter(any),
    states=st.integers(1, 6),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_side_by_side_is_one_by_one(lengths: list[int], states: int, scale: float, threads: int, seed: int) -> None:
    """Many chains in lanes against the same chains one after another."""
    start, unary, pair = random_chains(lengths, states, True, scale, seed)
    together, alone = Chains(start, threads)._side_by_side(unary, pair), Chains(start).marginals(unary, pair)
    assert together is not None and len(start) <= chains_module._MANY
    np.testing.assert_allclose(together.log_z, alone.log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(together.single, alone.single, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(together.double, alone.double, rtol=1e-9, atol=1e-12)


def test_wide_ranges_are_not_done_side_by_side() -> None:
    start, unary, pair = random_chains([3, 4], 3, True, 1.0, 1)
    for place, value in ((0, -400.0), (2, np.nan)):
        wide = unary.copy()
        wide[place, 1] = value
        assert Chains(start)._side_by_side(wide, pair) is None
    pair[0, 1] = -np.inf  # nothing may follow state 1
    assert Chains(start)._side_by_side(unary, pair) is None


def test_impossible_states_side_by_side() -> None:
    """What is forbidden has no probability; what leaves too little of a message is done one after another."""
    start, unary, pair = random_chains([3, 1, 4, 2], 3, True, 1.0, 1)
    pair[0, 1, 2] = pair[0, 0, 0] = -np.inf
    unary[4, 1] = unary[0, 0] = -np.inf
    together, alone = Chains(start)._side_by_side(unary, pair), Chains(start).marginals(unary, pair)
    assert together is not None and together.single[4, 1] == 0.0 and together.double[0, 1, 2] == 0.0
    np.testing.assert_allclose(together.log_z, alone.log_z, rtol=1e-12)
    np.testing.assert_allclose(together.single, alone.single, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(together.double, alone.double, rtol=1e-9, atol=1e-12)
    # State 2 is reached from 2 alone, which 250 nats hardly leave alive at each token, and then it is the only one.
    unary, pair = np.zeros((5, 3)), np.zeros((1, 3, 3))
    unary[:3, 2], unary[4, :2] = -250.0, -np.inf
    pair[0, :2, 2] = -np.inf
    assert Chains(np.array([0, 5]))._side_by_side(unary, pair) is None
    assert Chains(np.array([0, 5])).marginals(unary, pair).log_z[0] == pytest.approx(-750.0)
