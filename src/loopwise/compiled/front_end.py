"""Numba's front end, without what it does over and over: most of the time of a first call is spent there, not in LLVM.

In: nothing. Out: a context in which functions are compiled, to the same code, in less time. Numba's lock is held in it,
and Numba is as it was when it ends.

==============================  =======================================================================================
replaced meanwhile              what it does by itself
==============================  =======================================================================================
``get_call_type``               tries some ten templates, by exceptions, for the type of every ``a + b``
``resolve_getattr``             sorts and tries all templates of a type for each ``x.shape`` and ``x.field``
``PostProcessor.run``           works out which variables live where after each of thirty passes; few passes ask
``_rec_list_vars``              asks of each part of an instruction whether it is of an abstract class
``load_additional_registries``  imports forty modules whenever it looks for an implementation
``start_event``, ``end_event``  tell of each call of LLVM, mostly to nobody
``install_timer``               times each function inside of a kernel, which no one reads
==============================  =======================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from numba.core import event, ir, postproc, transforms
from numba.core.cpu import CPUContext
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import BaseContext

_get_call_type = BaseFunction.get_call_type
_resolve_getattr = BaseContext.resolve_getattr
_run = postproc.PostProcessor.run
_rec_list_vars = ir.Inst._rec_list_vars
_load_additional_registries = CPUContext.load_additional_registries
_start_event, _end_event = event.start_event, event.end_event

# What was found, by the number of a type; the type is kept beside it, so that no other one gets that number.
_signatures: dict[Any, Any] = {}
_attributes: dict[Any, Any] = {}
_imported: list[Any] = []


def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature found for the same argument types and options before."""
    if kws:
        return _get_call_type(self, context, args, kws)
    key = id(self), context, tuple(args), ConfigStack.top_or_none()
    if key not in _signatures:
        found: Any = _get_call_type(self, context, args, kws)
        _signatures[key] = self, found, self._impl_keys[found.args]
    _, signature, implementation = _signatures[key]
    self._impl_keys[signature.args] = implementation  # it may stand for the code of other options since
    return signature


def resolve_getattr(self: Any, typ: Any, attr: str) -> Any:
    """The attribute's type as found before; one that is not there yet may be declared later."""
    key = self, id(typ), attr
    if key in _attributes:
        return _attributes[key][1]
    found = _resolve_getattr(self, typ, attr)
    if found is not None:
        _attributes[key] = typ, found
    return found


def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Lifetimes are worked out when they are asked for."""
    if emit_dels or self.func_ir.is_generator:
        _run(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None


_WITHOUT_VARIABLES = frozenset({str, int, bool, type(None), ir.Loc})


def rec_list_vars(self: Any, val: Any) -> list[Any]:
    """The variables in a part of an instruction; most parts are none, or one."""
    kind = type(val)
    if kind is ir.Var:
        return [val]
    if kind in _WITHOUT_VARIABLES:
        return []
    if kind is dict:
        val = val.values()
    elif kind is not list and kind is not tuple:
        found: list[Any] = _rec_list_vars(self, val)
        return found
    return [variable for part in val for variable in rec_list_vars(self, part)]


def load_additional_registries(self: Any) -> None:
    """What was imported once need not be imported again: only what was declared since is looked for."""
    if not any(known is self._registries for known in _imported):
        _load_additional_registries(self)
        _imported.append(self._registries)
    for registry in list(self._registries):
        self.install_registry(registry)


def start_event(kind: str, data: Any = None) -> None:
    if event._registered[kind]:
        _start_event(kind, data)


def end_event(kind: str, data: Any = None, exc_details: Any = None) -> None:
    if event._registered[kind]:
        _end_event(kind, data, exc_details)


def install_timer(kind: str, callback: Callable[[float], None]) -> Any:
    return nullcontext()


_REPLACED: list[tuple[Any, str, Any]] = [
    (BaseFunction, "get_call_type", get_call_type),
    (BaseContext, "resolve_getattr", resolve_getattr),
    (postproc.PostProcessor, "run", run),
    (ir.Inst, "_rec_list_vars", rec_list_vars),
    (CPUContext, "load_additional_registries", load_additional_registries),
    (event, "start_event", start_event),
    (event, "end_event", end_event),
    (event, "install_timer", install_timer),
]


@contextmanager
def less_work() -> Iterator[None]:
    """Meanwhile the front end does not repeat itself."""
    usual = [(owner, name, vars(owner)[name]) for owner, name, _ in _REPLACED]
    for owner, name, function in _REPLACED:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in usual:
            setattr(owner, name, function)
