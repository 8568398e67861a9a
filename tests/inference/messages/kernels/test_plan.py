"""What kernels share: room that is large enough, work that is split without gaps, an edge's factor."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.plan import Share, new_scratch, new_undo_scratch, of_share, told_by
from oracles.kernel_cases import KernelCase


@kernel
def rooms(plan, like, lane_tag):
    return new_scratch(plan, like, lane_tag), new_undo_scratch(plan, like, lane_tag)


@kernel
def split(count, share):
    return of_share(count, share)


@kernel
def factor_of(plan, at):
    return told_by(plan, at, U(3))


@pytest.mark.parametrize("lane_tag", [(), (0,), (0, 0)])
def test_room_for_the_largest_factor_and_variable(lane_tag: tuple[int, ...]) -> None:
    case, lanes = KernelCase(), (1, 8, 32)[len(lane_tag)]
    forth, back = rooms(case.kernel_run().plan, np.zeros(0), lane_tag)
    assert (len(forth.fresh), len(forth.partial), len(forth.total)) == (7 * lanes, 5 * lanes, 3 * lanes)
    assert (len(back.rates), len(back.partial), len(back.total)) == (7 * lanes, 4 * lanes, 3 * lanes)
    assert (forth.lowest == np.inf).all() and (forth.spent == 1).all() and len(forth.change) == lanes


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_shares_are_all_of_it_once(count: int, parts: int) -> None:
    found = []
    for part in range(parts):
        span = split(U(count), Share(U(0), U(part), U(parts), None))
        found += list(range(span.first, span.last))
    assert found == list(range(count))


def test_the_factor_of_an_edge() -> None:
    case = KernelCase()
    plan = case.kernel_run().plan
    for place, number in enumerate(case.layout.variable_edges):
        edge = case.edges[number]
        assert factor_of(plan, place) == (edge.group, 3, edge.factor, edge.position, edge.position + 1)
        assert plan.edge_base[place] == edge.place.start
