"""Reading back what an application saved: one check of what the file holds, one sentence for what is wrong with it.

In: a path, the name of the application, a function that builds from tensors and description. Out: what it builds.
Stage: use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.learn.container import read_container, refuse_kind

T = TypeVar("T")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
Build = Callable[[dict[str, Tensor], dict[str, Any]], T]


def written(thing: object) -> str:
    """How a file tells of an object that it does not hold: as Python shows it, without the place in memory that it has
    in this run, so that equal runs give equal files."""
    return _ADDRESS.sub("", repr(thing))


def read_saved(path: PathLike, app: str, build: Build[T]) -> T:
    """What ``build`` makes of the file at ``path``, if it is of ``app``; else a :class:`FormatError`."""
    tensors, description = read_container(path)
    where = display_name(path)
    if description.get("app") != app:
        raise refuse_kind(path, description, app)
    try:
        return build(tensors, description)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise FormatError(where, None, f"the description of the {app} in the file is damaged: {reason}") from None
