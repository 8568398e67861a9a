"""Models in whichever format the file's name says.

In: a path ending in ``.uai``, ``.fg`` or ``.bif``, each with an optional ``.gz``. Out: a :class:`TableModel`; and
back.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from loopwise.formats.bif import read_bif, write_bif
from loopwise.formats.fg import read_fg, write_fg
from loopwise.formats.files import PathLike
from loopwise.formats.model import TableModel
from loopwise.formats.uai import read_uai, write_uai

Reader = Callable[[PathLike], TableModel]
Writer = Callable[[PathLike, TableModel], None]


def read_model(path: PathLike) -> TableModel:
    """The model of a ``.uai``, ``.fg`` or ``.bif`` file, plain or ``.gz``."""
    return _format_of(path)[0](path)


def write_model(path: PathLike, model: TableModel) -> None:
    """Writes a model as ``.uai``, ``.fg`` or (Bayesian networks) ``.bif``, plain or ``.gz``."""
    _format_of(path)[1](path, model)


def _format_of(path: PathLike) -> tuple[Reader, Writer]:
    name = os.fspath(path).lower().removesuffix(".gz")
    if name.endswith(".uai"):
        return read_uai, write_uai
    if name.endswith(".fg"):
        return read_fg, write_fg
    if name.endswith(".bif"):
        return read_bif, write_bif
    raise ValueError(
        f"{os.fspath(path)!r} does not say what model format it is in; its name should end in .uai, .fg or .bif, "
        "each with or without .gz"
    )
