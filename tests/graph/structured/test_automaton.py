"""Parity, counts and logic against their tables, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.graph.structured.automaton import Automaton
from loopwise.testing import check_factor


def assignments(variables: int) -> np.ndarray:
    """All of them, last variable fastest, bool ``[2^variables, variables]``."""
    return np.indices((2,) * variables).reshape(variables, -1).T == 1


def hard(allowed: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.where(allowed, 0.0, -np.inf))


def on(variables: int) -> np.ndarray:
    return assignments(variables).sum(1)


def output(values: np.ndarray) -> np.ndarray:
    return values[:, -1]


FIVE, FOUR = assignments(5), assignments(4)
FLIPPED = FOUR ^ np.array([False, True, False, True])
CASES: list[tuple[Automaton, np.ndarray]] = [
    (lw.Parity(1), on(1) == 0),
    (lw.Parity(5), on(5) % 2 == 0),
    (lw.Parity(4, odd=True), on(4) % 2 == 1),
    (lw.Count.at_least(5, 2), on(5) >= 2),
    (lw.Count.at_most(5, 2), on(5) <= 2),
    (lw.Count.exactly(5, 3), on(5) == 3),
    (lw.Count(4, 1, 3), (on(4) >= 1) & (on(4) <= 3)),
    (lw.Count(3), on(3) >= 0),
    (lw.Or(4), FOUR.any(1)),
    (lw.Or(4, (1, 3)), FLIPPED.any(1)),
    (lw.Or(4, output=True), FOUR[:, :-1].any(1) == output(FOUR)),
    (lw.Or(4, (1, 3), output=True), FLIPPED[:, :-1].any(1) == output(FLIPPED)),
    (lw.And(4, (1, 3)), FLIPPED.all(1)),
    (lw.And(5, output=True), FIVE[:, :-1].all(1) == output(FIVE)),
    (lw.And(4, (1, 3), output=True), FLIPPED[:, :-1].all(1) == output(FLIPPED)),
    (lw.Implies(4), ~FOUR[:, :-1].all(1) | output(FOUR)),
    (lw.Implies(4, (1, 3)), ~FLIPPED[:, :-1].all(1) | output(FLIPPED)),
    (lw.Implies(1), assignments(1)[:, 0]),
]


@pytest.mark.parametrize(("factor", "allowed"), CASES, ids=lambda case: repr(case) if hasattr(case, "arity") else "")
def test_the_shipped_contract(factor: Automaton, allowed: np.ndarray) -> None:
    check_factor(factor, table=hard(allowed))


def test_numbers_of_their_own() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(6, generator=generator, dtype=torch.float64)
    weights[2] = -torch.inf
    check_factor(lw.Count(5, weighted=True), potentials=weights, table=weights[on(5)])
    soft = torch.tensor([0.3, -1.2], dtype=torch.float64)  # a check that was measured with noise
    check_factor(lw.Parity(4, odd=None), potentials=soft, table=soft[on(4) % 2])


def test_numbers_and_messages_are_differentiable_to_any_order() -> None:
    incoming = torch.randn(8, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lw.Count(4, weighted=True).messages, (incoming, weights))
    assert torch.autograd.gradgradcheck(lw.Parity(4).log_partition, incoming)


@pytest.mark.parametrize(("factor", "allowed"), CASES, ids=lambda case: repr(case) if hasattr(case, "arity") else "")
def test_max_product_messages(factor: Automaton, allowed: np.ndarray) -> None:
    check_max_messages(factor, hard(allowed))


@pytest.mark.parametrize("kind", [lw.ExactlyOne, lw.AtMostOne])
def test_max_product_messages_of_one_of(kind: type[lw.ExactlyOne]) -> None:
    check_max_messages(kind(4), hard(on(4) == 1 if kind is lw.ExactlyOne else on(4) <= 1))


def test_max_product_messages_of_a_chain() -> None:
    steps = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    values = assignments(3).astype(int)
    table = steps[0][values[:, 0], values[:, 1]] + steps[1][values[:, 1], values[:, 2]]
    check_max_messages(lw.Chain(3, 2), table, steps)


def check_max_messages(
    factor: lw.StructuredFactor, table: torch.Tensor, potentials: torch.Tensor | None = None
) -> None:
    incoming = torch.randn(3, factor.slots, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = factor.max_messages(incoming, potentials)
    values = assignments(factor.arity).astype(int)
    for variable in range(factor.arity):
        scores = table.expand(3, -1).clone()
        for other in range(factor.arity):
            if other != variable:
                scores += incoming[:, 2 * other + values[:, other]]
        best = torch.stack([scores[:, values[:, variable] == value].amax(1) for value in (0, 1)], -1)
        mine = found[:, 2 * variable : 2 * variable + 2]
        finite = torch.isfinite(best)
        assert torch.equal(torch.isfinite(mine), finite)
        expected = best - best.logsumexp(-1, keepdim=True)
        assert mine[finite].numpy() == pytest.approx(expected[finite].numpy(), abs=1e-12)


def test_max_product_finds_the_best_assignment() -> None:
    """One factor: exact. In a loop, the assignment keeps the constraint, and the bound is not below it."""
    unary = torch.randn(2, 6, 2, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    graph = lw.FactorGraph(np.full(6, 2), {"unary": np.arange(6)[:, None]}, {"check": (lw.Parity(6), range(6))})
    found = lw.BP(temperature=0)(graph, {"unary": unary})
    truth = lw.Exact(temperature=0)(graph, {"unary": unary})
    assert torch.equal(found.assignment, truth.assignment)
    maximum = found.status.maximum
    assert maximum is not None and bool((maximum.bound >= maximum.score).all())
    assert maximum.bound.numpy() == pytest.approx(unary.amax(-1).sum(-1).numpy())  # every bit by itself
    assert torch.equal(maximum.optimal, unary.argmax(-1).sum(-1) % 2 == 0)
    loop = lw.FactorGraph(
        np.full(6, 2),
        {"unary": np.arange(6)[:, None], "pair": [[0, 1], [2, 3]]},
        {"check": (lw.Parity(6), range(6)), "some": (lw.Or(3), [0, 2, 4])},
    )
    pair = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    best = lw.BP(temperature=0, iterations=50, tolerance=0)(loop, {"unary": unary, "pair": pair})
    assert bool(torch.isfinite(best.log_partition).all())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lw.Parity(0), "Parity needs at least one variable"),
        (lambda: lw.Count(3, 2, 1), "at least 2 and at most 1"),
        (lambda: lw.Count.exactly(3, 4), "0 <= least <= most <= 3"),
        (lambda: lw.Count(3, 1, weighted=True), "rule numbers out by -inf"),
        (lambda: lw.Or(3, (3,)), "no variable 3 to negate"),
        (
            lambda: lw.FactorGraph([2, 2, 2, 4], {}, {"check": (lw.Parity(3), [0, 1, 3])}),
            "Parity stands over binary variables; variable 3 has 4 values",
        ),
        (lambda: lw.Parity(2, odd=None).messages(torch.zeros(4)), r"needs log-potentials of shape \(2,\)"),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
