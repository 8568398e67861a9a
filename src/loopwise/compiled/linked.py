"""Compiling a callee as a part of its callers.

In: a function that only kernels call. Out: its code, linked into them. Numba optimises every function by itself, makes
it into machine code, and does both again inside each caller: half of the time of a first call. What only kernels call
needs neither: here it stays as the front end left it, and is optimised once, inside the kernels.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class LinkedLibrary(JITCodeLibrary):
    """Code to be linked into other code: not optimised, and never machine code by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class LinkedCompiler(Compiler):
    """Numba's compiler, up to the code that callers link in."""

    def compile_extra(self, func: Any) -> Any:
        state = self.state
        state.flags.no_compile = True
        state.library = LinkedLibrary(state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)

        # Callers find the code by its entry, which Numba wants to be a builtin; nothing calls it.
        entry = result.fndesc.__reduce_ex__
        state.targetctx.insert_user_function(entry, result.fndesc, [result.library])
        return result._replace(entry_point=entry)
