"""loopwise trains discrete graphical models for the loss you measure, under the inference you can afford.

Names are imported when first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from loopwise.graph import (
        Evidence,
        FactorGraph,
        Group,
        Role,
        Union,
        chain,
        complete,
        grid,
        random_mrf,
        union,
    )
    from loopwise.inference.beliefs import Beliefs, ConvergenceWarning, ImpossibleError, LoopwiseWarning, Status
    from loopwise.potentials import TablePotentials

_HOME = {
    "loopwise.graph": (
        "Evidence", "FactorGraph", "Group", "Role", "Union", "chain", "complete", "grid", "random_mrf", "union",
    ),
    "loopwise.potentials": ("TablePotentials",),
    "loopwise.inference.beliefs": (
        "Beliefs", "ConvergenceWarning", "ImpossibleError", "LoopwiseWarning", "Status",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [  # noqa: RUF022 (the order of the stages)
    "Evidence", "FactorGraph", "Group", "Role", "Union", "chain", "complete", "grid", "random_mrf", "union",
    "TablePotentials",
    "Beliefs", "ConvergenceWarning", "ImpossibleError", "LoopwiseWarning", "Status",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'loopwise' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
