"""Running the parts of one kernel call on threads of their own.

In: a function of the part's number. Out: the parts' results. Stage: kernels. They release the interpreter's lock, so
ordinary threads suffice; all parts run at once, as parts that meet at a barrier must. Numba's own loops over threads
are not used: they change the number of threads that torch has.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


def available_threads() -> int:
    """Cores this process may use (the environment variable LOOPWISE_THREADS sets another number)."""
    wish = os.environ.get("LOOPWISE_THREADS")
    if wish:
        if not wish.isdigit() or int(wish) < 1:
            raise ValueError(f"LOOPWISE_THREADS must be a positive number, not {wish!r}")
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(parts: int, function: Callable[[int], Any]) -> list[Any]:
    """``[function(0), ..., function(parts - 1)]``, the last on this thread; the first error is raised again here."""
    if parts == 1:
        return [function(0)]
    results: list[Any] = [None] * parts
    errors: list[BaseException] = []

    def work(part: int) -> None:
        try:
            results[part] = function(part)
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=work, args=(part,), daemon=True) for part in range(parts - 1)]
    for thread in others:
        thread.start()
    work(parts - 1)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return results
