"""Kernels and their callees: results, literals, errors from Python."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.decorators import callee, fused_callee, inlined, kernel, leaf, spliced


@callee
def square(value):
    return value * value


@inlined
def twice(value):
    return value + value


@leaf
def first(values):
    return values[0]


@fused_callee
def made(count):
    return np.ones(count)


@spliced
def size(tag):
    return len(tag)


@kernel
def all_together(values, tag):
    extra = made(size(tag))
    return square(twice(first(values))) + extra.sum()


def test_a_kernel_calls_every_kind_of_callee() -> None:
    assert all_together(np.array([3.0, 1.0]), (0, 0)) == 38.0


def test_a_callee_called_from_python_is_an_error_not_a_crash() -> None:
    with pytest.raises(TypeError):
        square(3.0)


def test_a_kernel_that_kernels_call_is_compiled_within_them() -> None:
    @kernel
    def inner(value):
        return value / 3

    @kernel
    def outer(value):
        return inner(inner(value))

    assert outer(18.0) == 2.0
    assert not inner.overloads  # nothing of its own, until Python calls it
    assert inner(6.0) == 2.0 and len(inner.overloads) == 1
    assert outer(9.0) == 1.0


def test_callees_are_machine_code_only_within_their_kernels() -> None:
    @callee
    def inner(value):
        return value / 3

    @kernel
    def outer(value):
        return inner(inner(value))

    assert outer(18.0) == 2.0
    (result,) = inner.overloads.values()
    assert not hasattr(result.library, "_compiled_object") or not result.library._compiled


def test_an_error_inside_a_callee_reaches_python() -> None:
    @callee
    def checked(value):
        if value < 0:
            raise ValueError("negative")
        return value

    @kernel
    def outer(value):
        return checked(value) + 1

    assert outer(1) == 2
    with pytest.raises(ValueError, match="negative"):
        outer(-1)
