"""Kernels on disk: compiled once on a machine, and again when anything they are made of has changed.

In: a kernel. Out: its code, from Numba's cache or compiled now. Numba notices a change of a kernel's own file, and no
change of what the kernel calls: after an upgrade it would run the old code. Here the key of a cached kernel holds a
digest of its module's source and of every source that this imports from the same package, or from this one.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(r"^(?:from|import)[ \t]+([\w.]+)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?", re.MULTILINE)


def imported(source: str, package: str) -> Iterator[str]:
    """Names of modules of ``package`` that a module with this ``source`` may import at its top.

    Example:
        >>> list(imported("from a.b import (c,\\n  d)\\nimport numpy", "a"))
        ['a.b', 'a.b.c', 'a.b.d']
    """
    for module, names in _IMPORT.findall(source):
        if module.split(".")[0] == package:
            yield module
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


@cache
def _source(module: str) -> str | None:
    """The text of a module that is loaded and has a file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).read_text(encoding="utf-8") if file and file.endswith(".py") else None


@cache
def digest_of_sources(module: str) -> str:
    """A digest of the module's source and of all that it imports, directly or not, from its own package or from ours:
    kernels of others, and those that tests wrap around ours, are made of what they call here."""
    found: dict[str, str] = {}
    waiting, packages = [module], {module.partition(".")[0], PACKAGE}
    while waiting:
        name = waiting.pop()
        source = _source(name)
        if name in found or source is None:
            continue
        found[name] = source
        for package in packages:
            waiting.extend(imported(source, package))
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(found):
        digest.update(f"{name}\0{found[name]}\0".encode())
    return digest.hexdigest()


# Seconds of the processor that a first run takes in all, by the module of the first kernel that it compiles: rough, of
# benchmarks/cold.py. What else a run will need is not known when it begins.
_SECONDS = {"loopwise.apps.parser.": 25, "loopwise.apps.chain.": 7}
_USUAL_SECONDS = 10
_told: list[str] = []


def _say_compiling(module: str) -> None:
    """One line for those who wait at a terminal or in a notebook, once in a process; ``module``: of the kernel."""
    if not _told and sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        _told.append(module)
        seconds = next((number for name, number in _SECONDS.items() if module.startswith(name)), _USUAL_SECONDS)
        line = f"loopwise: compiling kernels, once on this machine: about {seconds} s"
        print(line, file=sys.stderr, flush=True)


class IndexFile(IndexDataCacheFile):
    """Numba's list of what was compiled; one that names types which are gone after an upgrade counts as empty."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}


class SourceCache(FunctionCache):
    """Numba's cache of one function, with the sources it is made of in the key."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file.__class__ = IndexFile

    @classmethod
    def attach(cls, dispatcher: Any, function: Callable[..., Any]) -> None:
        """Keep the dispatcher's code on disk, where there is a folder that can be written to."""
        try:
            dispatcher._cache = cls(function)
        except RuntimeError:  # no such folder: compiled in every process
            return

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except (ImportError, AttributeError):  # an earlier version had a class that this one has not
            self.flush()
            found = None
        if found is None:
            _say_compiling(self._py_func.__module__)
        return found

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return *super()._index_key(sig, codegen), digest_of_sources(self._py_func.__module__)
