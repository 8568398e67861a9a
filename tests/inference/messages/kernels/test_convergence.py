"""Changes of log messages, against logarithms taken one by one."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import (
    StopRule,
    change_is_known,
    copy_messages,
    excess_change,
    expected_change,
    is_near,
    is_watched,
    message_change,
    sweep_residual,
)


@kernel
def changed(m, before, lane_tag, semiring, lanes):
    change = np.empty(lanes)
    message_change(m, U(0), U(m.shape[0] // lanes), before, U(0), change, lane_tag, semiring)
    return change


@kernel
def exceeded(m, before, rule, lane_tag, semiring, lanes):
    excess = np.empty(lanes)
    excess_change(m, U(0), U(m.shape[0] // lanes), before, U(0), rule, excess, lane_tag, semiring)
    return excess


@kernel
def judged(change, previous, judged, excess, rule):
    return (
        sweep_residual(change, previous, judged, excess, rule),
        is_near(change, rule),
        expected_change(change, previous),
    )


@kernel
def watched(sweep, first, rule):
    return is_watched(sweep, rule), change_is_known(sweep, first, rule)


@kernel
def copied(m, before):
    copy_messages(m, U(2), U(3), before, U(1))


@pytest.mark.parametrize("log", [False, True])
def test_the_largest_change_in_nats_of_each_lane(log: bool) -> None:
    random, semiring = np.random.default_rng(0), (0, 0) if log else ()
    new, old = random.random((5, 8)), random.random((5, 8))
    old[:, 3] = new[:, 3]
    new[1, 4], old[1, 4] = 0.0, 0.0  # forbidden before and after
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.nan_to_num(np.abs(np.log(new) - np.log(old)), nan=0.0).max(0)
        given = [np.log(x).reshape(-1) if log else x.reshape(-1) for x in (new, old)]
    np.testing.assert_allclose(changed(*given, (0,), semiring, 8), expected, atol=1e-13)
    for threshold in (0.1, 1.0, 3.0):
        rule = StopRule(10, threshold, threshold, 0.25)
        above = exceeded(*given, rule, (0,), semiring, 8) > 0
        np.testing.assert_array_equal(above, expected * 0.25 > threshold)
    assert (exceeded(*given, StopRule(10, 0.1, 0.1, 0.0), (0,), semiring, 8) < 0).all()


def test_rounding_is_no_change() -> None:
    m = np.random.default_rng(1).random(6)
    assert changed(m, m * (1 + 2e-16), (), (), 1)[0] == 0
    assert changed(np.log(m), np.log(m) * (1 + 2e-16), (), (0, 0), 1)[0] == 0


def test_the_residual_of_a_sweep() -> None:
    rule = StopRule(10, 1e-3, 1e-3, 0.25)
    assert judged(2e-4, 1e-3, True, -1.0, rule)[0] == 2e-4
    assert judged(2e-4, 1e-3, True, 0.5, rule)[0] == np.inf  # messages still move
    assert judged(2e-4, 4e-3, False, -1.0, rule)[0] == 4e-3  # not judged: never below the threshold
    assert judged(2e-3, 4e-3, False, -1.0, rule)[0] == 2e-3
    assert [judged(change, 1.0, True, 0.0, rule)[1] for change in (1.4e-3, 1.6e-3)] == [True, False]
    assert judged(0.2, 0.8, True, 0.0, rule)[2] == pytest.approx(0.05)
    assert judged(0.8, 0.2, True, 0.0, rule)[2] == 0.8  # it does not shrink


def test_what_is_watched_and_copied() -> None:
    always, at_last = StopRule(10, 1e-3, 1e-3, 0.25), StopRule(10, 0.0, 1e-15, 0.25)
    assert [watched(sweep, 0, always) for sweep in (0, 1)] == [(True, False), (True, True)]
    assert [watched(sweep, 0, at_last) for sweep in (7, 8, 9, 10)] == [
        (False, False),
        (True, False),
        *[(True, True)] * 2,
    ]
    before = np.zeros(5)
    copied(np.arange(8.0), before)
    assert before.tolist() == [0, 2, 3, 4, 0]
