"""One file of tensors and a description: what saved systems and checkpoints are.

In: named tensors, a JSON object. Out: a safetensors file with the description in its metadata; and back. Stage:
learning. Reading runs no code, whatever the file holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from loopwise.formats.errors import FormatError, shortened
from loopwise.formats.files import PathLike, atomic_write_bytes, display_name, open_bytes

VERSION = 1  # of the description; a file of a later one is not guessed at
CARD = "card"  # the part of the description that is for people
_KEY = "description"  # the only key of the metadata: several would come in any order, and files would differ
_MARK = "loopwise"  # the description's own first key, with the version
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header, which is JSON


def write_container(path: PathLike, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Writes a file that appears whole or not at all; equal content gives equal bytes.

    Its card (:mod:`loopwise.learn.files.card`) says at least which loopwise wrote it.
    """
    card = {"version": import_module("loopwise").__version__, **description.get(CARD, {})}
    text = json.dumps({_MARK: VERSION, **description, CARD: card}, allow_nan=False)
    # Copies: the format refuses tensors that share memory, or that are views with gaps.
    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    data = safetensors.torch.save(plain, {_KEY: text})
    with atomic_write_bytes(path) as out:
        out.write(data)


def read_container(path: PathLike) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and description of a file; a :class:`FormatError` says what is wrong with it."""
    where = display_name(path)
    with open_bytes(path) as stream:
        data = stream.read()
    header = _header(where, data)
    description = _description(where, header)
    _check_version(where, description)
    try:
        return safetensors.torch.load(data), description
    except Exception as problem:  # the library has an error class of its own for each language it is written in
        raise FormatError(where, None, f"the tensors in the file are damaged ({problem}); save it again") from None


def kind_of(description: Mapping[str, Any]) -> str:
    """The name of the class that a file holds an object of."""
    kind = str(description.get("app") or description.get("kind") or "System")
    return kind[:1].upper() + kind[1:]


def refuse_kind(path: PathLike, description: Mapping[str, Any], wanted: str) -> FormatError:
    """The error of a file that holds something else than ``wanted``, both by the names of their classes."""
    kind = kind_of(description)
    loader = shortened(description.get("loader", f"{kind}.load"))
    problem = f"the file holds a {kind}, not a {wanted}; use {loader}, or the command that saved it"
    return FormatError(display_name(path), None, problem)


def _header(where: str, data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if len(data) < end or not data:
        # A header that begins as one is the first part of a file; anything else never was one.
        if not data or data[_LENGTH_BYTES : _LENGTH_BYTES + 1] == b"{" or 0 < len(data) <= _LENGTH_BYTES:
            raise FormatError(where, None, "the file is cut off; copy or save it again")
        raise _foreign(where)
    try:
        header = json.loads(data[_LENGTH_BYTES:end])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        missing = max(ends, default=0) - (len(data) - end)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise _foreign(where) from None
    if missing > 0:
        raise FormatError(where, None, f"the file is cut off, {missing} bytes are missing; copy or save it again")
    return dict(header)


def _description(where: str, header: Mapping[str, Any]) -> dict[str, Any]:
    metadata = header.get("__metadata__")
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    try:
        description = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or _MARK not in description:
        raise _foreign(where, " but some other safetensors file")
    place = _not_finite(description, "")
    if place is not None:
        raise FormatError(where, None, f"the field {place!r} holds Infinity or NaN; save the file again")
    return description


def _not_finite(json: Any, path: str) -> str | None:
    """Where the first number is that JSON does not have but Python reads (``NaN``, ``Infinity``, ``1e999``)."""
    if isinstance(json, float):
        return None if math.isfinite(json) else path
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(json, dict):
        items = ((f"{path}.{key}" if path else str(key), item) for key, item in json.items())
    elif isinstance(json, list):
        items = ((f"{path}[{place}]", item) for place, item in enumerate(json) if not isinstance(item, str))
    return next((found for name, item in items if (found := _not_finite(item, name)) is not None), None)


def _check_version(where: str, description: Mapping[str, Any]) -> None:
    version = description[_MARK]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise FormatError(
            where, None, f"the file says that it is of version {version!r}, which there never was; save it again"
        )
    if version > VERSION:
        raise FormatError(
            where,
            None,
            f"the file was written by a newer loopwise (file version {version}, this one reads up to {VERSION}); "
            "upgrade loopwise",
        )


def _foreign(where: str, rather: str = "") -> FormatError:
    return FormatError(where, None, f"this is no file that loopwise saved{rather}; give one that save() wrote")
