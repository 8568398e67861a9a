"""A barrier for the threads of one kernel: all wait until all have arrived.

In: a zeroed int64 array of length 2 that the threads share. Out: nothing. Kernels run without the interpreter's lock
on ordinary threads; between half-sweeps they meet here, which costs well under a microsecond.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from loopwise.compiled.decorators import fused_callee

COUNT, GENERATION = 0, 1


def _pointer(context, builder, array_type, array, index):
    data = make_array(array_type)(context, builder, array).data
    return cgutils.gep_inbounds(builder, data, index)


@intrinsic
def atomic_add(typing_context, array, index, value):
    """Adds to ``array[index]`` (int64) and returns what was there before, as one step."""
    if not isinstance(array, types.Array):
        return None

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def yield_thread(typing_context):
    """Lets another thread have the core: the one waited for may be without one."""

    def generate(context, builder, signature, arguments):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield")
        return context.cast(builder, builder.call(function, []), types.int32, types.int64)

    return types.int64(), generate


@fused_callee
def meet(barrier, parties):
    """Returns when ``parties`` threads have called it."""
    if parties == 1:
        return
    generation = atomic_add(barrier, GENERATION, 0)
    if atomic_add(barrier, COUNT, 1) == parties - 1:
        atomic_add(barrier, COUNT, -parties)
        atomic_add(barrier, GENERATION, 1)
        return
    spins = 0
    while atomic_add(barrier, GENERATION, 0) == generation:
        spins += 1
        if spins > 200:
            yield_thread()
