"""Reading back what an application saved: one check of what the file holds, one sentence for what is wrong with it.

In: a path, the name of the application, a function that builds from fields and tensors. Out: what it builds.
Stage: use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from loopwise.formats.files import PathLike
from loopwise.learn.container import read_container, refuse_kind
from loopwise.learn.fields import DAMAGE, Record, damaged

T = TypeVar("T")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
Build = Callable[[Record], T]


def written(thing: object) -> str:
    """How a file tells of an object that it does not hold: as Python shows it, without the place in memory that it has
    in this run, so that equal runs give equal files."""
    return _ADDRESS.sub("", repr(thing))


def read_saved(path: PathLike, app: str, build: Build[T]) -> T:
    """What ``build`` makes of the file at ``path``, if it is of ``app``; else a :class:`FormatError`."""
    tensors, description = read_container(path)
    if description.get("app") != app:
        raise refuse_kind(path, description, app)
    try:
        return build(Record(description, tensors))
    except DAMAGE as problem:
        raise damaged(path, app, problem) from None
