"""Callees are linked into their callers: right, and without machine code of their own."""

from __future__ import annotations

import gc
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof
from numba.core.datamodel.registry import default_manager
from numba.core.target_extension import CPU, jit_registry
from numba.core.types.functions import BaseFunction

from loopwise.compiled import linked
from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.linked import KernelFlags, LinkedLibrary
from loopwise.inference.messages.kernels.views import Message


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
    both.recompile()  # it may have come from the cache, which holds no callees
    assert both(np.array([1.0, 2.5])) == 9.0
    for function in (twice, total):
        assert function.overloads
        for made in function.overloads.values():
            assert isinstance(made.library, LinkedLibrary)
    assert not any(isinstance(made.library, LinkedLibrary) for made in both.overloads.values())


@callee
def later(values, start):
    return values[start:]


@callee
def halves(values):
    made = np.empty(len(values))
    for place in range(len(values)):
        made[place] = values[place] / 2
    return made


@callee
def checked(values):
    if len(values) > 2:
        raise ValueError("too many")
    return later(values, 1)[0]


@kernel
def several(values):
    return halves(later(values, 1)), checked(later(values, len(values) - 2)), later(values, 2)


def code_of(function: Any) -> str:
    return "".join(made.library.get_llvm_str() for made in function.overloads.values())


def test_arrays_live_as_long_as_they_are_referred_to() -> None:
    values = np.arange(5.0)
    before = sys.getrefcount(values)
    for _ in range(100):
        half, second, rest = several(values)
        np.testing.assert_array_equal(half, [0.5, 1, 1.5, 2])
        assert second == 4
        np.testing.assert_array_equal(rest, [2, 3, 4])
    assert sys.getrefcount(values) == before + 1  # of the last slice, a view of them
    del rest
    assert sys.getrefcount(values) == before
    kept = several(np.arange(6.0))[2]  # a view of an array that nobody else holds
    gc.collect()
    np.testing.assert_array_equal(kept, [2, 3, 4, 5])


def test_references_are_counted_where_memory_is_owned_only() -> None:
    several(np.arange(5.0))
    both(np.array([1.0]))
    several.recompile()
    both.recompile()
    assert "NRT_" not in code_of(total)
    for function in (later, halves, checked):
        assert "NRT_" in code_of(function)


def test_errors_of_callees_arrive() -> None:
    @kernel
    def strict(values):
        return checked(values)

    with pytest.raises(ValueError, match="too many"):
        strict(np.arange(3.0))


@callee
def moved(values, places, target):
    target[1:] = values[:-1]
    return values[places][0]


@kernel
def overlapping(values, places):
    return moved(values, places, values)


def test_copies_of_whole_arrays_are_allocated() -> None:
    values = np.arange(4.0)
    assert overlapping(values, np.array([2, 0])) == 1
    np.testing.assert_array_equal(values, [0, 0, 1, 2])


class Foreign(NamedTuple):
    data: Any
    start: Any


@callee
def entry_of(message, place):
    return message.data[message.start + place]


@kernel
def both_entries(ours, foreign):
    return entry_of(ours, 1), entry_of(foreign, 0)


def test_named_tuples_of_the_package_are_handed_on_as_one_value() -> None:
    data = np.arange(4.0)
    assert both_entries(Message(data, 1), Foreign(data, 3)) == (2.0, 3.0)
    ours, foreign = (default_manager.lookup(typeof(kind(data, 1))) for kind in (Message, Foreign))
    assert ours.get_argument_type() == ours.get_value_type()
    assert isinstance(foreign.get_argument_type(), tuple)


def test_options_are_equal_however_they_were_said() -> None:
    unsaid, said, other = KernelFlags(), KernelFlags(), KernelFlags()
    said.nrt, other.nrt = unsaid.nrt, not unsaid.nrt
    one, two, three = unsaid.copy(), said.copy(), other.copy()
    assert one == two and hash(one) == hash(two) and one != three and two != three
    assert two.is_set("nrt") and not one.is_set("nrt")  # so one does not stand for the other
    assert one == unsaid == two and one != other and unsaid.copy() is one


@pytest.mark.parametrize("collecting", [True, False])
def test_compiling_leaves_collector_and_numba_as_they_were(collecting: bool) -> None:
    usual, was = jit_registry[CPU], gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()

        @kernel
        def fresh(values):
            return max(values[0], 1.0)

        assert fresh(np.array([3.0])) == 3.0
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if was else gc.disable)()
    assert jit_registry[CPU] is usual


def test_memory_that_the_analysis_does_not_see_is_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwise.compiled.linked.owns_memory", lambda state: False)

    @callee
    def squares(values):
        made = np.empty(len(values))
        for place in range(len(values)):
            made[place] = values[place] ** 2
        return made

    @kernel
    def largest(values):
        return squares(values).max() + squares(values[1:])[0]

    before = np.arange(4.0)
    counted = sys.getrefcount(before)
    for _ in range(3):
        assert largest(before) == 10.0
    assert sys.getrefcount(before) == counted


def test_a_numba_that_was_not_tried_compiles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "FRONT_ENDS", {(0, 1)})
    usual = BaseFunction.get_call_type
    with linked.shorter_front_end():
        assert BaseFunction.get_call_type is usual

    @kernel
    def plain(values):
        return values[0] + 1

    assert plain(np.array([1.0])) == 2.0
