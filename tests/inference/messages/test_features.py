"""Features a stopping policy looks at."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.inference.messages.features import STANDARD, Course, Feature, stacked
from oracles.stopping_cases import by_trace, policy_for, ring, tables_of

LIMIT = 7


@pytest.mark.parametrize("features", [STANDARD, (budget.Bias(), budget.Slowing(), budget.LargestChange(smooth=9.0))])
def test_all_features_in_batches(features: tuple[Feature, ...]) -> None:
    graph = ring(7, 3)
    tables = tables_of(graph, 70)
    for seed in range(4):
        stopping = budget.Stopping(lw.BP(iterations=LIMIT), policy_for(features, seed))
        states, sweeps = by_trace(stopping, graph, tables)
        beliefs = stopping(graph, tables)
        assert torch.equal(beliefs.status.sweeps, sweeps)
        torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-10)


def test_features_by_hand() -> None:
    graph = lw.FactorGraph([2, 3], {"pair": [[0, 1]]})
    trace = torch.tensor(
        [[[0.5, 0.5, 0.2, 0.3, 0.5]], [[0.95, 0.05, 0.6, 0.2, 0.2]], [[0.95, 0.05, 0.61, 0.2, 0.19]]],
        dtype=torch.float64,
    )
    course = Course(graph, trace, torch.tensor([True, True]), limit=4)
    found = dict(zip([type(each).__name__ for each in STANDARD], stacked(STANDARD, course).unbind(-1), strict=True))
    log10 = lambda x: float(np.log10(1e-8 + x))  # noqa: E731
    assert found["Bias"].flatten().tolist() == [1.0, 1.0]
    assert found["LargestChange"].flatten().tolist() == pytest.approx([log10(0.45), log10(0.01)])
    assert found["MeanChange"].flatten().tolist() == pytest.approx([log10(1.7 / 5), log10(0.02 / 5)])
    assert found["Slowing"].flatten().tolist() == pytest.approx([0.0, log10(0.01) - log10(0.45)])
    assert found["SweepShare"].flatten().tolist() == [0.25, 0.5]
    assert found["LogSweep"].flatten().tolist() == pytest.approx([0.0, np.log(2)])
    assert found["Confident"].flatten().tolist() == [0.5, 0.5]
    assert found["Undecided"].flatten().tolist() == [0.5, 0.0]
    entropy = -sum(p * np.log(p) for p in (0.95, 0.05)) / 2 - sum(p * np.log(p) for p in (0.6, 0.2, 0.2)) / 2
    assert float(found["Entropy"][0]) == pytest.approx(entropy)
    nothing = Course(graph, trace, torch.tensor([False, False]), limit=4)
    assert not bool(budget.Entropy()(nothing).any())


def test_features_of_the_last_rows_do_not_need_the_first_ones() -> None:
    graph = ring(5)
    trace = lw.BP(iterations=6, tolerance=0, trace=True)(graph, tables_of(graph, 4)).trace
    assert trace is not None
    watched = torch.ones(5, dtype=torch.bool)
    whole = stacked(STANDARD, Course(graph, trace, watched, 6))
    for sweep in range(2, 7):
        last = (trace[sweep - 1] - trace[sweep - 2]).abs().amax(-1)
        part = Course(graph, trace[sweep - 1 : sweep + 1], watched, 6, first=sweep, last=last)
        torch.testing.assert_close(stacked(STANDARD, part)[-1], whole[sweep - 1])
