"""How loops are compiled: one decorator for what Python calls, and one for each way in which kernels call each other.

=============  ===============================  =======================================================================
decorator      called from                      compiled
=============  ===============================  =======================================================================
``kernel``     Python; kernels, as ``callee``   by itself, and kept on disk (:mod:`loopwise.compiled.cache`)
``callee``     kernels                          as a part of its callers (:mod:`loopwise.compiled.linked`)
``leaf``       kernels                          as ``callee``; neither it nor what it calls allocates or returns arrays
``inlined``    kernels                          as ``leaf``, always copied into its callers by the back end
``spliced``    kernels                          copied into its callers before they are typed, with their literals
=============  ===============================  =======================================================================

All release the interpreter's lock, and division by zero gives infinity: a test for it would keep loops from
vectorising. ``fused_`` variants allow fused multiply-add, which changes rounding only; no other liberty is taken with
floating point unless ``fastmath`` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit

from loopwise.compiled.cache import SourceCache
from loopwise.compiled.linked import PART, WHOLE

_FUSED = {"contract"}
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_LINKED: dict[str, Any] = {**_PLAIN, **PART}


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A compiled loop that Python calls; ``options`` are Numba's.

    Example:
        >>> import numpy as np
        >>> @kernel
        ... def total(values):
        ...     result = 0.0
        ...     for place in range(len(values)):
        ...         result += values[place]
        ...     return result
        >>> float(total(np.array([1.0, 2.0])))
        3.0
    """
    if function is None:
        return partial(kernel, **options)
    dispatcher = njit(**_PLAIN, **WHOLE, **options)(function)
    SourceCache.attach(dispatcher, function)
    # To other kernels it is a callee: they neither wait for code of its own nor call it across a boundary.
    linked = callee(function, **options)
    dispatcher.get_call_template, dispatcher.get_overload = linked.get_call_template, linked.get_overload
    return dispatcher


def callee(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """What kernels call, compiled as a part of them; ``options`` are Numba's."""
    if function is None:
        return partial(callee, **options)
    return njit(**_LINKED, **options)(function)


# A leaf does not count references to arrays: it may neither allocate nor return one.
leaf = partial(callee, _nrt=False)
inlined = partial(leaf, forceinline=True)
spliced = njit(inline="always")
fused_kernel = partial(kernel, fastmath=_FUSED)
fused_callee = partial(callee, fastmath=_FUSED)
fused_inlined = partial(callee, fastmath=_FUSED, forceinline=True)
fused_leaf = partial(leaf, fastmath=_FUSED)

# The options of ``fused_callee`` and ``fused_inlined`` functions for what is chosen by type (numba.extending.overload).
LINKED: dict[str, Any] = {**_LINKED, "fastmath": _FUSED}
INLINED: dict[str, Any] = {**LINKED, "forceinline": True}
