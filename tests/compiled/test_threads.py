"""Parts of a call on threads: all run at once, results in order, errors come through."""

from __future__ import annotations

import threading

import pytest

from loopwise.compiled.threads import available_threads, in_threads


def test_all_parts_run_at_once_and_results_are_in_order() -> None:
    meeting = threading.Barrier(3, timeout=30)

    def part(number: int) -> int:
        meeting.wait()  # would not return if one came after another
        return 10 * number

    assert in_threads(3, part) == [0, 10, 20]
    assert in_threads(1, lambda number: number) == [0]


def test_an_error_of_any_part_is_raised() -> None:
    def part(number: int) -> None:
        if number == 0:
            raise ZeroDivisionError("part 0")

    with pytest.raises(ZeroDivisionError, match="part 0"):
        in_threads(2, part)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWISE_THREADS", "3")
    assert available_threads() == 3
    monkeypatch.setenv("LOOPWISE_THREADS", "many")
    with pytest.raises(ValueError, match="LOOPWISE_THREADS must be a positive number, not 'many'"):
        available_threads()
    monkeypatch.delenv("LOOPWISE_THREADS")
    assert available_threads() >= 1
