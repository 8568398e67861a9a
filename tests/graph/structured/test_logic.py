"""Logical factors: what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw


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
