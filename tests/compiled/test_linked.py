"""Callees are linked into their callers: right, and without machine code of their own."""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.linked import LinkedLibrary


@callee
def twice(value):
    return 2.0 * value


@callee
def total(values):
    result = 0.0
    for place in range(len(values)):
        result += twice(values[place])
    return result


@kernel
def both(values):
    return total(values) + twice(1.0)


def test_callees_of_callees_work_and_stay_unfinished() -> None:
    assert both(np.array([1.0, 2.5])) == 9.0
    for function in (twice, total):
        assert function.overloads
        for made in function.overloads.values():
            assert isinstance(made.library, LinkedLibrary)
    assert not any(isinstance(made.library, LinkedLibrary) for made in both.overloads.values())
