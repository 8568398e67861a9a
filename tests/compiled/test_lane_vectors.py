"""Rows of lanes as values: arithmetic, conditions and elementary functions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import kernel
from loopwise.compiled.lane_vectors import (
    at_most,
    below,
    equal,
    exp_of,
    least,
    load,
    log_of,
    most,
    size,
    spread,
    store,
    total,
    turned,
    where,
)


@kernel
def every_operation(x, y, out, words, lane_tag):
    a, b = load(x, U(0), lane_tag), load(y, U(0), lane_tag)
    zero, lanes = spread(0.0, x, lane_tag), U(x.shape[0])
    found = (a + b, a - b, a * b, a / b, least(a, b), most(a, b), size(a), where(below(a, zero), b, a))
    for place, one in enumerate(found):
        store(out, U(place) * lanes, one)
    store(out, U(8) * lanes, where(equal(a, b), zero - a, a))
    store(out, U(9) * lanes, exp_of(zero - size(a)))
    store(out, U(10) * lanes, log_of(size(a)))
    store(out, U(11) * lanes, turned(a, b))
    words[0], words[1], words[2] = below(a, b), at_most(a, b), equal(a, b)
    return total(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("lanes", "tag"), [(8, (0,)), (32, (0, 0))])
def test_operations(dtype: type, lanes: int, tag: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 60.0):
        x, y = (rng.normal(size=(2, lanes)) * scale).astype(dtype)
        y[::3] = x[::3]
        out, words = np.zeros((12, lanes), dtype), np.zeros(3, np.uint32)
        summed = every_operation(x, y, out.reshape(-1), words, tag)
        wide, other = x.astype(np.float64), y.astype(np.float64)
        wanted = [wide + other, wide - other, wide * other, wide / other, np.minimum(wide, other)]
        wanted += [np.maximum(wide, other), abs(wide), np.where(wide < 0, other, wide), np.where(x == y, -wide, wide)]
        wanted += [
            np.exp(-np.minimum(abs(wide), 87 if dtype == np.float32 else 700)),
            np.log(abs(wide)),
            np.where(other < 0, -wide, wide),
        ]
        rounding = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(out, np.array(wanted), rtol=rounding, atol=rounding * np.log(2) * 8)
        np.testing.assert_allclose(summed, wide.sum(), rtol=1e-5, atol=1e-5 * scale)
        for word, truth in zip(words, (x < y, x <= y, x == y), strict=True):
            assert int(word) == sum(int(one) << lane for lane, one in enumerate(truth))
