"""exp and log of whole arrays against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.elementary import exp_all, log_all

SPECIAL = [-np.inf, np.inf, np.nan, -0.0, 0.0, 1.0, -1.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1.7e308]


@pytest.mark.parametrize("ours, theirs", [(exp_all, np.exp), (log_all, np.log)])
def test_special_values_are_those_of_numpy(ours, theirs):
    values = np.array([*SPECIAL, -745.2, -745.0, -744.0, -708.5, 709.7, 709.8, 710.0, -760.0, 800.0, -1e300])
    found = values.copy()
    ours(found)
    with np.errstate(all="ignore"):
        expected = theirs(values)
    np.testing.assert_allclose(found, expected, rtol=3e-16, atol=5e-324)


def test_exp_is_within_a_unit_in_the_last_place():
    values = np.concatenate([np.random.default_rng(1).normal(0, 80, 20000), np.linspace(-708, 709, 20001)])
    found = values.copy()
    exp_all(found)
    np.testing.assert_array_max_ulp(found, np.exp(values), maxulp=2)


def test_log_is_within_a_unit_in_the_last_place():
    generator = np.random.default_rng(2)
    values = np.concatenate([np.exp(generator.normal(0, 150, 20000)), 1 + generator.normal(0, 1e-3, 20000)])
    found = values.copy()
    log_all(found)
    np.testing.assert_array_max_ulp(found, np.log(values), maxulp=2)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33])
def test_every_length_is_covered(count):
    values = np.linspace(-3, 3, count)
    exps, logs = values.copy(), np.exp(values)
    exp_all(exps)
    log_all(logs)
    np.testing.assert_allclose(exps, np.exp(values), rtol=1e-15)
    np.testing.assert_allclose(logs, values, rtol=1e-15, atol=1e-15)
