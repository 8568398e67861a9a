"""Parity checks in lanes: equal to lw.BP, to a dense oracle, and right about gradients and stopping."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.families.parity import LaneRoom, ParityChecks, Passing, decode, trace

BITS, CHECKS, SHOTS = 10, 6, 37  # shots that do not fill their lanes


def made_checks(seed: int = 0) -> ParityChecks:
    rng = np.random.default_rng(seed)
    dense = rng.random((CHECKS, BITS)) < 0.4
    dense[:, :2] |= dense.sum(1, keepdims=True) < 2
    start = np.concatenate([[0], np.cumsum(dense.sum(1))]).astype(np.int64)
    return ParityChecks(BITS, start, np.nonzero(dense)[1])


def made_passing(checks: ParityChecks, sweeps: int, memory: bool, min_sum: bool, layered: bool) -> Passing:
    rng = np.random.default_rng(1)
    return Passing(
        torch.tensor(rng.uniform(0.5, 1.5, (sweeps, checks.edges))),
        torch.tensor(rng.uniform(0, 0.2, (1, checks.edges))) * min_sum,
        torch.tensor(rng.uniform(-0.5, 0.5, (1 if memory else 0, BITS))),
        min_sum,
        layered,
    )


def oracle(checks: ParityChecks, passing: Passing, prior: np.ndarray, odd: np.ndarray, sweeps: int) -> np.ndarray:
    """One shot, edge by edge, from the equations: log-odds after each sweep."""
    weights, offsets, memory = (one.numpy() for one in passing[:3])
    m, belief, bias, found = np.zeros(checks.edges), prior.copy(), prior.copy(), []
    for t in range(sweeps):
        share = memory[0] if len(memory) else 0.0
        bias = prior + share * (belief - prior)
        total = bias.copy()
        np.add.at(total, checks.variable, m)
        for c in range(checks.count):
            edges = range(checks.start[c], checks.start[c + 1])
            x = {e: total[checks.variable[e]] - m[e] for e in edges}
            for e in edges:
                others = [x[k] for k in edges if k != e]
                sign = np.prod(np.sign(others)) * (-1.0 if odd[c] else 1.0)
                if passing.min_sum:
                    size = max(min(abs(v) for v in others) - offsets[0, e], 0.0)
                else:
                    size = 2 * np.arctanh(np.prod([np.tanh(abs(v) / 2) for v in others]))
                m[e] = weights[t, e] * sign * size
                if passing.layered:
                    total[checks.variable[e]] = x[e] + m[e]
        belief = bias.copy()
        np.add.at(belief, checks.variable, m)
        found.append(belief)
    return np.array(found)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("min_sum", [False, True])
@pytest.mark.parametrize("memory", [False, True])
def test_sweeps_follow_the_equations(min_sum: bool, memory: bool, layered: bool) -> None:
    checks, rng = made_checks(), np.random.default_rng(2)
    passing = made_passing(checks, 4, memory, min_sum, layered)
    prior, odd = rng.normal(size=(SHOTS, BITS)) * 2, (rng.random((SHOTS, CHECKS)) < 0.5).astype(np.uint8)
    found = trace(checks, passing, torch.tensor(prior), odd, np.array([1, 2, 4])).numpy()
    for shot in (0, 31, 32, SHOTS - 1):
        wanted = oracle(checks, passing, prior[shot], odd[shot], 4)[[0, 1, 3]]
        np.testing.assert_allclose(found[:, shot], wanted, atol=1e-10)
    single = trace(checks, passing, torch.tensor(prior).float(), odd, np.array([1, 2, 4])).numpy()
    np.testing.assert_allclose(single, found, atol=2e-4)


def test_values_and_gradients_are_those_of_bp() -> None:
    checks, rng, sweeps = made_checks(), np.random.default_rng(3), 4
    odd = (rng.random((SHOTS, CHECKS)) < 0.5).astype(np.uint8)
    scopes = [checks.variable[a:b] for a, b in zip(checks.start, checks.start[1:], strict=False)]
    graph = lw.FactorGraph(
        [2] * BITS,
        {"bit": np.arange(BITS)[:, None]},
        {"check": [(lw.Parity(len(scope), odd=None), scope) for scope in scopes]},
    )
    seeds = torch.tensor(rng.normal(size=(sweeps, SHOTS, BITS)))
    scale = torch.nn.Parameter(torch.tensor(rng.uniform(0.5, 1.5, (sweeps, checks.edges))))
    memory = torch.nn.Parameter(torch.tensor(rng.uniform(-0.5, 0.5, BITS)))
    prior = torch.tensor(rng.normal(size=(SHOTS, BITS)) * 2, requires_grad=True)
    weights = lw.MessageWeights(graph, messages=scale, memory=memory)
    given = {
        "bit": torch.stack([torch.zeros_like(prior), -prior], -1),
        "check": [lw.Parity.signs(bit, torch.float64) for bit in torch.tensor(odd).T],
    }
    beliefs = lw.BP(iterations=sweeps, tolerance=0, weights=weights, trace=True)(graph, given)
    states = beliefs.trace[1:].unflatten(-1, (BITS, 2)).log()
    wanted = states[..., 0] - states[..., 1]
    theirs = torch.autograd.grad((wanted * seeds).sum(), (scale, memory, prior))
    passing = Passing(scale, torch.zeros(1, checks.edges, dtype=torch.float64), memory[None])
    found = trace(checks, passing, prior, odd, np.arange(1, sweeps + 1))
    mine = torch.autograd.grad((found * seeds).sum(), (scale, memory, prior))
    torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("min_sum", [False, True])
@pytest.mark.parametrize("memory", [False, True])
def test_gradients_are_those_of_differences(min_sum: bool, memory: bool, layered: bool) -> None:
    checks, rng = made_checks(), np.random.default_rng(4)
    passing = made_passing(checks, 3, memory, min_sum, layered)
    odd = (rng.random((SHOTS, CHECKS)) < 0.5).astype(np.uint8)
    tensors = [one for one in passing[:3] if one.numel()]
    tensors = [tensors[0], *([tensors[1]] if min_sum else []), *([tensors[2]] if memory else [])]
    prior = torch.tensor(rng.normal(size=(1, BITS)) * 2)
    start = [torch.tensor(rng.normal(size=(SHOTS, BITS)))] if memory else []
    inputs = [one.clone().requires_grad_() for one in (*tensors, prior, *start)]

    def run(*given: torch.Tensor) -> torch.Tensor:
        rest = list(given)
        mine = passing._replace(weights=rest.pop(0))
        mine = mine._replace(offsets=rest.pop(0)) if min_sum else mine
        mine = mine._replace(memory=rest.pop(0)) if memory else mine
        return trace(checks, mine, rest[0], odd, np.array([1, 3]), rest[1] if memory else None)

    assert torch.autograd.gradcheck(run, inputs, atol=1e-6, fast_mode=True)


def test_shots_stop_where_their_syndrome_is_explained() -> None:
    """Whatever moves from lane to lane: the same answers as without a stop, cut at the first that explains."""
    checks, rng = made_checks(5), np.random.default_rng(5)
    passing = made_passing(checks, 30, True, True, False)
    count = 500
    prior = rng.normal(size=(count, BITS)) + 1
    odd = checks.syndromes((rng.random((count, BITS)) < 0.3).astype(np.uint8))
    whole = trace(checks, passing, torch.tensor(prior), odd, np.arange(1, 31)).numpy()
    hard = (whole <= 0).astype(np.uint8)
    right = np.array([(checks.syndromes(one) == odd).all(1) for one in hard])
    first = np.where(right.any(0), right.argmax(0), 29)
    for threads in (1, 2):
        found = decode(checks, passing, prior, odd, 30, soft=True, threads=threads)
        assert found.sweeps.tolist() == (first + 1).tolist()
        assert len(set(found.sweeps.tolist())) > 3
        assert found.explained.tolist() == right.any(0).tolist()
        np.testing.assert_array_equal(found.hard, hard[first, np.arange(count)])
        np.testing.assert_allclose(found.soft, whole[first, np.arange(count)], atol=1e-12)
    through = decode(checks, passing, prior, odd, 30, stops=False, soft=True)
    np.testing.assert_allclose(through.soft, whole[-1], atol=1e-12)


@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("min_sum", [False, True])
def test_a_shot_is_decoded_alike_alone_among_few_and_among_many(
    min_sum: bool, layered: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, in short and long rows of lanes, in memory that others left, and where a code counts as large; by
    rules for all sweeps, when lanes are given on at once, and for each."""
    checks, rng = made_checks(6), np.random.default_rng(6)
    passing = made_passing(checks, rows, True, min_sum, layered)
    prior = (rng.normal(size=(100, BITS)) + 1).astype(np.float32)
    odd = checks.syndromes((rng.random((100, BITS)) < 0.3).astype(np.uint8))
    whole, room = decode(checks, passing, prior, odd, 12, soft=True), LaneRoom()
    for size in (100, 1, 8, 16, 17, 40):
        found = decode(checks, passing, prior[-size:], odd[-size:], 12, soft=True, room=room)
        for mine, theirs in zip(found, whole, strict=True):
            np.testing.assert_array_equal(mine, theirs[-size:])
    monkeypatch.setattr("loopwise.inference.families.parity.CACHE", 0)
    for mine, theirs in zip(decode(checks, passing, prior, odd, 12, soft=True), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_lanes_given_on_at_once_change_nothing() -> None:
    checks, rng = made_checks(7), np.random.default_rng(7)
    same = made_passing(checks, 1, True, True, True)
    each = same._replace(weights=same.weights.expand(20, -1))  # so shots that share lanes stay at the same sweep
    prior, start = rng.normal(size=(1, BITS)) + 1, rng.normal(size=(300, BITS))
    odd = (rng.random((300, CHECKS)) < 0.5).astype(np.uint8)
    one, other = (decode(checks, passing, prior, odd, 20, start=start, soft=True) for passing in (same, each))
    assert len(set(one.sweeps.tolist())) > 3 and 0 < one.explained.sum() < 300
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_certain_bits_and_checks_of_one_bit_stay_finite() -> None:
    checks = ParityChecks(3, np.array([0, 1, 3]), np.array([0, 0, 1]))
    for min_sum in (False, True):
        passing = Passing(torch.ones(1, 3), torch.zeros(1, 3), torch.zeros(0, 3), min_sum)
        prior = np.array([[1e4, 0.0, -1e4]], dtype=np.float32)
        found = decode(checks, passing, prior, np.array([[1, 0]], dtype=np.uint8), 5, stops=False, soft=True)
        assert np.isfinite(found.soft).all()
        assert found.hard[0, 2] == 1


def test_too_few_rows_are_refused() -> None:
    checks = made_checks()
    passing = made_passing(checks, 3, False, False, False)
    with pytest.raises(ValueError, match="weights are given for 3 sweeps, fewer than 4; give a row for each sweep"):
        trace(checks, passing, torch.zeros(BITS).double(), np.zeros((1, CHECKS), np.uint8), np.array([4]))


def in_the_order_of_ldpc(matrix: np.ndarray, prior: float, odd: np.ndarray, sweeps: int) -> np.ndarray:
    """Min-sum as ldpc adds it up: what comes before a check in its column, then what comes after, from the end."""
    rows, columns = np.nonzero(matrix)
    messages, x = np.zeros(len(rows)), np.full(len(rows), prior)
    for _ in range(sweeps):
        for c in range(len(matrix)):
            mine = np.flatnonzero(rows == c)
            for e in mine:
                others = x[mine[mine != e]]
                minus = odd[c] + (others <= 0).sum()
                messages[e] = (-1.0) ** minus * abs(others).min()
        total = np.full(matrix.shape[1], prior)
        for e in range(len(rows)):
            x[e] = total[columns[e]]
            total[columns[e]] += messages[e]
        after = np.zeros(matrix.shape[1])
        for e in reversed(range(len(rows))):
            x[e] += after[columns[e]]
            after[columns[e]] += messages[e]
    return total


@pytest.mark.parametrize("sweeps", [2, 5, 9])
def test_sums_that_are_zero_but_for_rounding_are_rounded_as_ldpc_does(sweeps: int) -> None:
    """Equal priors, no scaling: most log-odds are small multiples of one number, and ties are many. To the last bit."""
    rng = np.random.default_rng(8)
    matrix = np.array([np.isin(np.arange(24), rng.choice(24, 6, replace=False)) for _ in range(12)]).astype(int)
    rows, columns = np.nonzero(matrix)
    checks = ParityChecks(24, np.searchsorted(rows, np.arange(13)), columns)
    passing = Passing(torch.ones(1, checks.edges), torch.zeros(1, checks.edges), torch.zeros(0, 24), True)
    odd = (rng.random((SHOTS, 12)) < 0.5).astype(np.uint8)
    ties = 0
    for prior in np.log(np.array([0.97 / 0.03, 0.98 / 0.02])):
        found = decode(checks, passing, np.full(24, prior), odd, sweeps, stops=False, soft=True)
        for shot in range(SHOTS):
            wanted = in_the_order_of_ldpc(matrix, prior, odd[shot], sweeps)
            np.testing.assert_array_equal(found.soft[shot], wanted)
            ties += (abs(wanted) < 1e-9).sum()
    assert ties > 20
