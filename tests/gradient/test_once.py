"""What differentiates once says so."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from oracles.gradient_cases import (
    calm,
    everything,
    normal,
    pair_graph,
)

# Converged so far that the unrolled run, whose gradient lags behind its beliefs, has arrived as well.
TIGHT = {"iterations": 3000, "tolerance": 1e-14}


@pytest.mark.parametrize("gradient", [lw.FixedPoint(), lw.gradient.OneStep()], ids=str)
@pytest.mark.parametrize("bent", [False, True], ids=["linear loss", "bent loss"])
def test_it_differentiates_once(engine, gradient, bent) -> None:
    graph = pair_graph()
    leaves = {name: table.requires_grad_() for name, table in calm(graph).items()}
    beliefs = lw.BP(engine=engine, gradient=gradient, **TIGHT)(graph, leaves)
    loss = everything(beliefs) if bent else (normal(beliefs.states.shape, 1) * beliefs.states).sum()
    first = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
    with pytest.raises(lw.notices.GradientError, match=r"differentiates once.*Unroll"):
        torch.autograd.grad(sum((part**2).sum() for part in first), list(leaves.values()))
