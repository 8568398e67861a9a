"""Compiling a kernel with all that it calls as one piece of code.

In: a function that Python calls, or one that only kernels call. Out: its code, linked into theirs. Numba optimises
every function by itself, makes it into machine code, and does both again inside each caller: half of the time of a
first call. What only kernels call needs neither: here it stays as the front end left it, and is optimised once, inside
the kernels. So are Numba's own functions that a kernel calls (``np.empty``, ``max``).

Four more things make a first call shorter: references to arrays are counted only in functions that own memory, named
tuples of ours are handed on as one value, Python does not look for cycles meanwhile, and Numba's front end does not
repeat itself (:mod:`loopwise.compiled.front_end`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import numba
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.datamodel.models import TupleModel
from numba.core.datamodel.registry import default_manager
from numba.core.target_extension import CPU, jit_registry
from numba.core.typed_passes import AnnotateTypes

PACKAGE = __name__.partition(".")[0]
# Numbas whose front end was read and tried with what replaces parts of it; others compile as they do by themselves.
FRONT_ENDS = {(0, 68)}

# What gives a reference to memory that somebody else owns.
BORROWING = {
    "getattr", "getitem", "static_getitem", "typed_getitem", "getiter", "iternext", "pair_first", "pair_second", "cast",
    "build_tuple", "exhaust_iter", "phi",
}  # fmt: skip
UNCOUNTED = "NRT required"  # what Numba says of an allocation where no references are counted


class KernelLibrary(JITCodeLibrary):
    """Code that Python calls."""

    def renewed(self) -> Any:
        """An empty one of the same kind."""
        fresh = type(self)(self._codegen, self.name)
        if self._object_caching_enabled:
            fresh.enable_object_caching()
        return fresh

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:  # Numba does so even for what is not there
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)


class LinkedLibrary(KernelLibrary):
    """Code to be linked into other code: not optimised as a whole, and never machine code by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def owns_memory(state: Any) -> bool:
    """Whether a typed function allocates memory, is handed some by what it calls, or hands some on to its caller.

    Its arguments belong to who calls it, and so does what it reads from them: slices, fields, items.
    """
    models = state.targetctx.data_model_manager

    def refers(kind: Any) -> bool:
        return bool(models.lookup(kind).contains_nrt_meminfo())

    def borrowed(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            parts: Any = kind
            return all(borrowed(part) or not refers(part) for part in parts)
        return isinstance(kind, (types.Array, types.ArrayIterator))

    def gives_memory(statement: Any) -> bool:
        if isinstance(statement, (ir.DynamicRaise, ir.DynamicTryRaise)):  # the exception is allocated
            return True
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):  # a whole array, which may overlap: it is copied
            return refers(state.typemap[statement.value.name])
        if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Expr):
            return False
        made = statement.value
        if made.op == "getitem" and refers(state.typemap[made.index.name]):  # by an array of places
            return True
        if made.op != "call":
            return made.op not in BORROWING and refers(state.typemap[statement.target.name])
        wraps = isinstance(state.typemap[made.func.name], types.NamedTupleClass)
        return not wraps and refers(state.calltypes[made].return_type)

    kinds = state.typemap.values()
    return (
        refers(state.return_type)
        or any(refers(kind) and not borrowed(kind) for kind in kinds)
        or any(gives_memory(statement) for block in state.func_ir.blocks.values() for statement in block.body)
    )


@register_pass(mutates_CFG=False, analysis_only=True)
class BorrowReferences(AnalysisPass):
    """References are counted only where a function owns memory; elsewhere its callers do."""

    _name = "loopwise_borrow_references"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if state.targetctx.enable_nrt and not state.pipeline.counting and not owns_memory(state):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return False


class SettledFlags(Flags):
    """Options that stay as they are: Numba looks functions up by them, and would write all of them out each time."""

    __slots__ = ("digest", "like")
    known: ClassVar[dict[Any, SettledFlags]] = {}  # one object for the same options, so that they are found at once
    distinct: ClassVar[list[SettledFlags]] = []  # the first of those that are equal, whichever options were said

    def __init__(self, options: Flags) -> None:
        super().__init__(options)
        self.digest = Flags.__hash__(self)
        self.like = next((first for first in self.distinct if Flags.__eq__(self, first)), self)
        if self.like is self:
            self.distinct.append(self)

    def __hash__(self) -> int:
        return int(self.digest)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SettledFlags):  # Numba compares all options, a twentieth of the time of a first call
            return self.like is other.like
        return bool(Flags.__eq__(self, other))

    def copy(self) -> Flags:
        return Flags(self)


class KernelFlags(Flags):
    """Options of a function that is being compiled; a copy is what Numba keeps for the functions that it calls."""

    __slots__ = ()

    def copy(self) -> Flags:
        options = frozenset((name, repr(value)) for name, value in self._values.items())
        if options not in SettledFlags.known:
            SettledFlags.known[options] = SettledFlags(self)
        return SettledFlags.known[options]


class BorrowingCompiler(Compiler):
    """Numba's compiler, with references counted where that is needed."""

    counting = False  # whether references are counted everywhere

    def compile_extra(self, func: Any) -> Any:
        state = self.state
        state.flags = KernelFlags(state.flags)
        given = state.typingctx, state.targetctx, None, state.args, state.return_type, state.flags, state.locals
        try:
            return super().compile_extra(func)
        except Exception as problem:
            if self.counting or UNCOUNTED not in str(problem):
                raise
        again = type(self)(*given)  # it owns memory after all: Numba found an allocation that the analysis did not
        again.counting, again.state.library = True, state.library.renewed()
        return Compiler.compile_extra(again, func)

    def define_pipelines(self) -> list[Any]:
        pipelines: list[Any] = super().define_pipelines()
        for passes in pipelines:
            passes.add_pass_after(BorrowReferences, AnnotateTypes)
            passes.finalize()
        return pipelines


class LinkedCompiler(BorrowingCompiler):
    """Up to the code that callers link in."""

    def compile_extra(self, func: Any) -> Any:
        state = self.state
        state.flags.no_compile = True
        state.library = LinkedLibrary(state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)

        # Callers find the code by its entry, which Numba wants to be a builtin; nothing calls it.
        entry = result.fndesc.__reduce_ex__
        state.targetctx.insert_user_function(entry, result.fndesc, [result.library])
        return result._replace(entry_point=entry)


def shorter_front_end() -> AbstractContextManager[None]:
    """Numba's front end without what it repeats, where that is known."""
    if numba.version_info.short not in FRONT_ENDS:
        return nullcontext()
    from loopwise.compiled.front_end import less_work

    return less_work()


class KernelCompiler(BorrowingCompiler):
    """All the way to what Python calls."""

    def compile_extra(self, func: Any) -> Any:
        state = self.state
        state.library = KernelLibrary(state.targetctx.codegen(), func.__qualname__)
        state.library.enable_object_caching()
        with linking_all(), no_collection(), shorter_front_end():
            return super().compile_extra(func)


# Options of what is compiled as a part of its callers, and of what Python calls.
PART: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": LinkedCompiler}
WHOLE: dict[str, Any] = {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}


@contextmanager
def linking_all() -> Iterator[None]:
    """Meanwhile Numba's own functions are compiled as parts of their callers, too. Numba's lock is held."""
    usual = jit_registry[CPU]

    def linked(**options: Any) -> Any:
        return usual(**{**PART, **options})

    dict.__setitem__(jit_registry, CPU, linked)  # the registry itself takes each key but once
    try:
        yield
    finally:
        dict.__setitem__(jit_registry, CPU, usual)


@contextmanager
def no_collection() -> Iterator[None]:
    """Compiling makes many objects that stay: to look for cycles among them takes a sixth of its time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class WholeTuple(TupleModel):
    """A named tuple of this package is handed to a function as one value; Numba hands on every number of each array."""

    @property
    def is_ours(self) -> bool:
        kind = self.fe_type
        return len(kind) > 0 and str(kind.instance_class.__module__).partition(".")[0] == PACKAGE

    def get_argument_type(self) -> Any:
        return self.get_value_type() if self.is_ours else super().get_argument_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value if self.is_ours else super().as_argument(builder, value)

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value if self.is_ours else super().from_argument(builder, value)


default_manager.register(types.NamedTuple, WholeTuple)
