"""The four arithmetics of messages, chosen by tags."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled import arithmetic
from loopwise.compiled.arithmetic import (
    FEW_LANES,
    LANES,
    add_mass,
    collect,
    combine,
    lane_tag,
    lanes_of,
    log_add,
)
from loopwise.compiled.decorators import kernel


@kernel
def both(a, b, semiring):
    return combine(a, b, semiring), collect(a, b, semiring), add_mass(a, b, semiring)


@kernel
def logs(a, b):
    return log_add(a, b)


@kernel
def width(tag):
    return lanes_of(tag)


def test_combining_and_collecting() -> None:
    p, q = 0.3, 0.5
    for semiring, largest in ((arithmetic.PROBABILITY_SUM, False), (arithmetic.PROBABILITY_MAX, True)):
        assert both(p, q, semiring) == pytest.approx((p * q, max(p, q) if largest else p + q, p + q))
    for semiring, largest in ((arithmetic.LOG_SUM, False), (arithmetic.LOG_MAX, True)):
        expected = np.log([p * q, max(p, q) if largest else p + q, p + q])
        assert both(np.log(p), np.log(q), semiring) == pytest.approx(tuple(expected))


def test_sums_of_logarithms_at_the_ends() -> None:
    assert logs(-np.inf, -np.inf) == -np.inf
    assert logs(-np.inf, 2.0) == logs(2.0, -np.inf) == 2.0
    assert logs(1000.0, 1000.0) == pytest.approx(1000.0 + np.log(2.0))


def test_tags_of_lanes() -> None:
    for lanes in (1, FEW_LANES, LANES):
        assert width(lane_tag(lanes)) == lanes
