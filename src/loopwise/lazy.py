"""Names that are imported when first used, so that the command line and ``import loopwise`` start at once.

In: where names live. Out: the thing that a name stands for. Stage: below all others.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

Home = Mapping[str, tuple[str | tuple[str, str], ...]]  # names by module; a pair where the name is another one there


def value_of(package: str, home: Home, name: str) -> Any:
    """What ``package`` calls ``name``; AttributeError if it does not know the name.

    >>> value_of("loopwise", {"math": ("pi", ("root", "sqrt"))}, "root")(9.0)
    3.0
    """
    for module, entries in home.items():
        for entry in entries:
            known, there = (entry, entry) if isinstance(entry, str) else entry
            if known == name:
                return getattr(importlib.import_module(module), there)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def lazily(
    package: str, home: Home, others: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package whose names are imported when first used; ``others``: what is
    asked for a name that is not among them.

    >>> import loopwise.plot
    >>> find, listed = lazily("loopwise.plot", {"math": ("pi",)})
    >>> find("pi"), "pi" in listed(), loopwise.plot.pi
    (3.141592653589793, True, 3.141592653589793)
    >>> del loopwise.plot.pi
    """
    names = {entry if isinstance(entry, str) else entry[0] for entries in home.values() for entry in entries}

    def find(name: str) -> Any:
        if others is not None and name not in names:
            return others(name)
        value = value_of(package, home, name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *names})


def renamed(old: str, new: str, value: Any, depth: int = 3) -> Any:
    """``value`` under the name it had, with a warning to the line that uses it: ``depth`` calls up.

    >>> with warnings.catch_warnings(record=True):
    ...     warnings.simplefilter("always")
    ...     renamed("lw.old", "lw.new", 3)
    3
    """
    text = f"{old} is now called {new}; the old name goes in version 0.2"
    warnings.warn(text, DeprecationWarning, stacklevel=depth)
    return value


def old_names(package: str, names: Mapping[str, str], depth: int = 3) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package in which some names are called otherwise now: old name to new. ``depth``: one
    more where another function calls it.

    >>> import loopwise.decode
    >>> with warnings.catch_warnings(record=True):
    ...     warnings.simplefilter("always")
    ...     loopwise.decode.Schedule.__name__
    'TemperatureSchedule'
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        shown, now = package.replace("loopwise", "lw", 1), names[name]
        return renamed(f"{shown}.{name}", f"{shown}.{now}", getattr(sys.modules[package], now), depth)

    return find


def moved_module(old: str, new: str) -> None:
    """Warns the line that imports the module ``old``, whose names are in ``new``; called while ``old`` is imported.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     moved_module("loopwise.old", "loopwise.new")
    >>> str(told[0].message)
    'loopwise.old has moved to loopwise.new; the old name goes in version 0.2'
    """
    warnings.warn(f"{old} has moved to {new}; the old name goes in version 0.2", DeprecationWarning, stacklevel=3)
