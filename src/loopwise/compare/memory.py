"""How much memory a call needs at its highest.

In: a function without arguments. Out: bytes, or None where the system cannot say. The figure is the rise of the whole
process's resident memory, so it holds what NumPy, torch and compiled kernels allocate alike; it comes in pages, and
memory that an allocator had kept for reuse is given back first so that it counts.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")  # writing 5 sets the high-water mark to the present (Linux 4.0)
KIB = 1024


def peak_rise(function: Callable[[], object]) -> int | None:
    """The highest resident memory during ``function()`` less that before it, in bytes; None except on Linux."""
    gc.collect(1)  # what the last calls left; the oldest generation would take a second
    _release()
    try:
        RESET.write_text("5")
        before = _resident("VmRSS")
    except (OSError, KeyError):
        return None
    function()
    return max(0, _resident("VmHWM") - before)


def _resident(name: str) -> int:
    lines = (line.split(":") for line in STATUS.read_text().splitlines() if ":" in line)
    values = {label: text.split() for label, text in lines}
    return int(values[name][0]) * KIB


def _release() -> None:
    """glibc keeps freed memory; other C libraries have no such function, and need none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
