"""Compiling with less work: the same answers, what is declared later is seen, and Numba is left as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import TypingError, types
from numba.core import event
from numba.core.compiler import run_frontend
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload, overload_attribute

from loopwise.compiled import front_end
from loopwise.compiled.decorators import callee, kernel


def replaced() -> list[Any]:
    return [vars(owner)[name] for owner, name, _ in front_end._REPLACED]


USUAL = replaced()


def test_numba_is_as_it_was_after_a_kernel_and_after_a_failure() -> None:
    @kernel
    def fine(values):
        return values[0] + 1

    @kernel
    def wrong(values):
        return values.nowhere

    assert fine(np.array([1.0])) == 2.0
    with pytest.raises(TypingError, match="nowhere"):
        wrong(np.array([1.0]))
    assert replaced() == USUAL
    with global_compiler_lock, front_end.less_work():
        assert all(now is ours for now, (_, _, ours) in zip(replaced(), front_end._REPLACED, strict=True))
    assert replaced() == USUAL


def test_the_same_variables_are_listed() -> None:
    def many(values, *others, flag=None):
        total = [each + 1 for each in others]
        for place in range(len(values)):
            values[place:] = {"a": (values[place], total)}[f"{flag}"][0]
        return total, values.shape, (lambda x: x + place)

    code = run_frontend(many)
    found = 0
    for block in code.blocks.values():
        for statement in block.body:
            usual = statement.list_vars()
            with global_compiler_lock, front_end.less_work():
                ours = statement.list_vars()
            assert [variable.name for variable in ours] == [variable.name for variable in usual]
            found += len(usual)
    assert found > 50


def doubled(value):
    """Declared for one type after another."""


def test_what_is_declared_later_is_found() -> None:
    @overload(doubled)
    def _of_integers(value):
        return (lambda value: value * 2) if isinstance(value, types.Integer) else None

    @kernel
    def one(values):
        return doubled(values[0])

    assert one(np.array([2])) == 4
    with pytest.raises(TypingError):
        one(np.array([2.0]))

    @overload(doubled)
    def _of_numbers(value):
        return (lambda value: value + value) if isinstance(value, types.Float) else None

    @kernel
    def two(values):
        return doubled(values[0])

    assert two(np.array([2.5])) == 5.0


def test_attributes_that_are_declared_later_are_found() -> None:
    @kernel
    def before(values):
        return values.twice_as_long

    with pytest.raises(TypingError, match="twice_as_long"):
        before(np.arange(3))

    @overload_attribute(types.Array, "twice_as_long")
    def _twice_as_long(values):
        return lambda values: 2 * len(values)

    @kernel
    def after(values):
        return values.twice_as_long

    assert after(np.arange(3)) == 6


@callee
def steps(count):
    for place in range(count):
        yield 2 * place


@kernel
def summed(values):
    """Loops, branches, a generator, an array of its own and one that lives on: lifetimes of all kinds."""
    total, kept = 0.0, values[:1]
    for step in steps(len(values)):
        if step % 4 == 0:
            part = np.empty(2)
            part[0], part[1] = values[step // 2], step
            total += part.sum()
        else:
            kept = values[step // 2 :]
    return total, kept


def test_lifetimes_of_all_kinds_are_right() -> None:
    values = np.arange(5.0)
    for _ in range(3):
        total, kept = summed(values)
    assert total == (0 + 0) + (2 + 4) + (4 + 8)
    np.testing.assert_array_equal(kept, [3, 4])


@kernel(fastmath=True)
def largest_freely(values):
    return max(values[0], values[1]) + values[2]


@kernel
def largest(values):
    return max(values[0], values[1]) + values[2]


def test_signatures_go_by_options() -> None:
    """``max`` of one kernel may take liberties, and that of another may not: neither gets the other's code."""

    @kernel
    def before(values):
        return max(values[0], values[1])

    assert before(np.array([1.0, 3.0])) == 3.0  # the plain one is known before the free one
    for function, free in ((largest_freely, True), (largest, False), (largest_freely, True)):
        assert function(np.array([1.0, 3.0, 2.0])) == 5.0
        function.recompile()  # it may have come from the cache, which holds no code to look at
        code = "".join(function.inspect_llvm().values())
        assert code
        assert (" fast " in code) == free


def test_listeners_hear_of_every_function() -> None:
    class Heard(event.Listener):
        names: list[str]

        def on_start(self, event: Any) -> None:
            self.names.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            pass

    @callee
    def inner(value):
        return value + 1

    @kernel
    def outer(values):
        return inner(values[0])

    assert outer(np.array([1.0])) == 2.0
    heard = Heard()
    heard.names = []
    with event.install_listener("numba:compile", heard):
        outer.recompile()  # it may have come from the cache
    assert heard.names[0] == "outer"
