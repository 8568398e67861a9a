"""The residual schedule: its updates, sent again one by one as written out, lead to the same messages."""

from __future__ import annotations

import pytest
import torch

from loopwise.inference.messages.kernel_run import TapeSpec
from loopwise.inference.messages.kernels.rounds import WIDE
from loopwise.inference.messages.schedules import Residual
from oracles.kernel_cases import KernelCase


@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"log": True}, {"pairs": True}], ids=str)
def test_updates_can_be_sent_again(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    result = case.kernel_run().start(case.options(2, Residual()), case.numbers(case.start), TapeSpec(steps=True))
    m, made = case.start, int(result.made[0])
    assert made == 2 * len(case.edges)
    width = result.replaced.shape[1] // result.updates.shape[1]
    for update in range(made):
        edge = case.edges[result.updates[0, update]]
        old = torch.from_numpy(result.replaced[0, update * width : update * width + edge.place.stop - edge.place.start])
        torch.testing.assert_close(old if case.log else old.log(), m[edge.place])
        m = case.renewed(edge, case.theta, case.to_factors(case.unary, m), m)
    torch.testing.assert_close(case.logs(result.m), m)
    torch.testing.assert_close(torch.from_numpy(result.beliefs), case.beliefs(case.unary, m).exp())


@pytest.mark.parametrize("pairs", [False, True])
def test_the_first_round_sends_what_grows_most(pairs: bool) -> None:
    """Keys begin as true growths; those within a factor of eight go in the first round, in order."""
    case = KernelCase(pairs=pairs)
    result = case.kernel_run().start(case.options(1, Residual()), case.numbers(case.start), TapeSpec(steps=True))
    n = case.to_factors(case.unary, case.start)
    growths = []
    for edge in case.edges:
        ratio = case.told(edge, case.theta, n) - case.start[edge.place]
        growths.append(float((ratio.max() - ratio.min()).expm1()))
    assert result.updates[0, 0] == next(edge for edge, growth in enumerate(growths) if growth > max(growths) * WIDE)


def test_nothing_is_sent_at_a_fixed_point() -> None:
    case = KernelCase()
    options = case.options(200, Residual(), tolerance=1e-10)
    result = case.kernel_run().start(options, case.numbers(case.start), TapeSpec())
    assert result.residual[0] < 1e-10 and 0 < result.made[0] < 200 * len(case.edges)
    rest = case.logs(result.m)
    torch.testing.assert_close(case.flooded(case.theta, case.unary, rest, 1), rest, rtol=0, atol=1e-8)
    again = case.kernel_run().start(options, result.m.copy(), TapeSpec())
    assert again.made[0] == 0
