"""Losses of beliefs: through inference, in batches, in any precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import decode, loss
from loopwise.graph import FactorGraph
from oracles.made_beliefs import beliefs_of, random_beliefs, random_values
from oracles.univariate_cases import LOSSES

MIXED = FactorGraph([2, 3, 1, 2], {})


@pytest.mark.parametrize("measure", LOSSES, ids=lambda measure: type(measure).__name__)
def test_through_inference(measure: loss.Loss) -> None:
    """The gradient of a truncated run, decoded and scored, against central differences."""
    graph = FactorGraph([2, 3, 2, 2], {"pair": [[0, 1]], "triple": [[0, 2, 3]], "other": [[2, 3]]})
    model = lw.TablePotentials.random(graph, seed=3)
    method = lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference())
    names = [group.name for group in graph.groups]

    def value(*tables: Tensor) -> Tensor:
        beliefs = method(graph, dict(zip(names, tables, strict=True)), {3: 1})
        return measure(decode.SoftArgmax(0.5)(beliefs), [1, 2, -1, -1])

    assert torch.autograd.gradcheck(value, tuple(table.detach().requires_grad_() for table in model().values()))


def test_batches_broadcast_and_float32() -> None:
    beliefs, values = random_beliefs(MIXED), random_values(MIXED, (5,))
    for measure in LOSSES:
        each = measure.per_example(beliefs, values)
        assert each.shape == (5,)
        for example in range(5):
            torch.testing.assert_close(each[example], measure.per_example(beliefs, values[example]))
        single = beliefs_of(MIXED, beliefs.states.float())
        assert measure(single, values).dtype == torch.float32
        torch.testing.assert_close(measure(single, values), measure(beliefs, values).float())
