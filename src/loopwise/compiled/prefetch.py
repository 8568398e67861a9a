"""Asking the processor for memory before it is needed: random reads of a large table then overlap, not queue.

In: an array and an index. Out: nothing but a hint. Stage: below numbers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

AHEAD = 16  # how many entries before its use a loop asks for one: a miss takes as long as some ten entries


@intrinsic
def prefetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Has the cache line of ``array[row]`` (of the first entry of that row) fetched; the index is not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        strides = cgutils.unpack_tuple(builder, view.strides, signature.args[0].ndim)
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte = ir.IntType(8)
        start = builder.bitcast(view.data, byte.as_pointer())
        where = builder.gep(start, [builder.mul(strides[0], place)])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), flag, flag, flag])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [where, flag(0), flag(3), flag(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, row), generate
