"""Legs run one after another until one explains."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.apps import Decoder
from loopwise.apps.decoder import Code, Flips, Leg, SumProduct, relay
from loopwise.inference.families.parity import trace
from oracles.codes import toric


def test_legs_run_until_one_explains() -> None:
    code = toric(p=0.08)
    shots = Flips(code).draw(600, np.random.default_rng(1))
    first = Decoder(code, sweeps=8)
    both = Decoder(code, legs=relay(code, 3, 8, first_memory=0.0, seed=1))
    one, more = first.run(shots.syndromes), both.run(shots.syndromes)
    assert more.explained.sum() > one.explained.sum()
    done = more.leg == 0
    np.testing.assert_array_equal(done, one.explained)
    np.testing.assert_array_equal(more.corrections[done], one.corrections[done])
    assert (more.sweeps[~more.explained] == 32).all() and set(more.leg.tolist()) > {-1, 0, 1}
    several = Decoder(code, legs=both.legs, solutions=3).run(shots.syndromes)
    np.testing.assert_array_equal(several.explained, more.explained)
    cost = lambda answer: answer.corrections.sum(1)[more.explained]  # noqa: E731
    assert (cost(several) <= cost(more)).all() and (several.sweeps >= more.sweeps).all()


def test_checks_in_another_order() -> None:
    """As the code with its rows in that order has it: log-odds, weights of edges and gradients."""
    code, random = toric(p=0.08), np.random.default_rng(0)
    order = random.permutation(code.checks.count)
    other = Code.of(code.checks.matrix.toarray()[order], 0.08, observables=code.observables.toarray())
    leg, plain = Leg(code, 5, memory=0.1, order=order), Leg(other, 5, memory=0.1)
    edges = code.checks.ordered(order)[1]
    for one in (leg, plain):
        one.open(edges=True)
    with torch.no_grad():
        leg.edge.copy_(torch.from_numpy(0.1 * random.normal(size=code.checks.edges)))
        plain.edge.copy_(leg.edge[edges])
    shots = Flips(code).draw(200, random)
    found, same = (
        Decoder(one, rule=SumProduct(), layered=True, legs=[it], double=True).run(bits, soft=True)
        for one, it, bits in ((code, leg, shots.syndromes), (other, plain, shots.syndromes[:, order]))
    )
    np.testing.assert_allclose(found.log_odds, same.log_odds, atol=1e-12)
    as_they_stand = Decoder(code, rule=SumProduct(), layered=True, legs=[Leg(code, 5, memory=0.1)], double=True)
    assert abs(as_they_stand.run(shots.syndromes, soft=True).log_odds - found.log_odds).max() > 1e-3
    prior = torch.from_numpy(code.log_odds)
    for one, checks, bits in ((leg, code.checks, shots.syndromes), (plain, other.checks, shots.syndromes[:, order])):
        mine, passing, seen = one.arranged(checks, one.passing(SumProduct(), True), bits)
        trace(mine, passing, prior, seen, np.array([2, 5])).square().sum().backward()
    assert float(leg.edge.grad.abs().max()) > 1
    torch.testing.assert_close(plain.edge.grad, leg.edge.grad[edges])


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="order must be the numbers from 0 to 15, each once"):
        Leg(toric(), 3, order=[0, 1])
