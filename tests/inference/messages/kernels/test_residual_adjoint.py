"""The residual schedule undone, against autograd through its updates, sent again as written out."""

from __future__ import annotations

import pytest
import torch

from loopwise.gradient.unroll import Store
from loopwise.inference.messages.backward import Backward, RunOutputs
from loopwise.inference.messages.kernel_run import TapeSpec
from loopwise.inference.messages.schedules import Residual
from oracles.kernel_cases import KernelCase, wanting


@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"log": True}, {"pairs": True}], ids=str)
def test_adjoints_of_all_that_was_given(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    run, settings, start = case.kernel_run(), case.options(2, Residual()), case.numbers(case.start)
    result = run.start(settings, start.copy(), TapeSpec(steps=True))
    weights = torch.randn(case.layout.states, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    spans = [case.of_variable(variable) for variable in range(case.graph.variables)]
    weights = torch.cat([weights[span] - weights[span].mean() for span in spans])
    of_m, of_n = case.balanced(1), case.balanced(2)
    results = RunOutputs(weights[None], of_n[None], of_m[None])
    found = Backward(run, settings, result, start, Store(), bool(case.damping)).pull_back(results)
    damping = torch.tensor(case.damping, dtype=torch.float64, requires_grad=True)
    case.damping = damping  # type: ignore[assignment]
    *theta, unary, first = wanting(*case.theta, case.unary, case.start)
    m = first
    for edge in result.updates[0, : int(result.made[0])]:
        m = case.renewed(case.edges[edge], theta, case.to_factors(unary, m), m)
    outputs = [case.beliefs(unary, m), m, case.to_factors(unary, m)]
    expected = torch.autograd.grad(outputs, [*theta, unary, first, damping], [weights, of_m, of_n])
    for mine, other in zip(found.tables, expected[:-3], strict=True):
        torch.testing.assert_close(mine.reshape(other.shape), other, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.unary.reshape(-1), expected[-3], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.initial[0], expected[-2], rtol=1e-10, atol=1e-12)
    if options.get("damping"):
        torch.testing.assert_close(found.damping, expected[-1], rtol=1e-10, atol=1e-12)
