"""Checkpoints: everything a run needs to go on as if it had never stopped.

In: the state of a run as tensors, numbers and nested lists and mappings of these. Out: one file, written whole or not
at all; and back, if the file is of the same run. Stage: learning. Like saved systems, checkpoints run no code.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.graph.factor_graph import FactorGraph
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.files.container import read_container, write_container
from loopwise.learn.files.fields import DAMAGE
from loopwise.potentials.template import Template

KIND = "checkpoint"


@contextmanager
def restoring(path: PathLike) -> Iterator[None]:
    """Errors of going to a state that was read from ``path`` say so, in one sentence."""
    try:
        yield
    except DAMAGE as problem:
        reason = f"there is no {problem}" if isinstance(problem, KeyError) else str(problem) or type(problem).__name__
        raise FormatError(
            display_name(path),
            None,
            f"the state in the checkpoint is damaged ({reason}); remove the file to start anew",
        ) from None


_DEEP = 8  # levels of options within options that tell runs apart

Run = Mapping[str, str]  # what tells a run from another: a name for each thing and how it is written


def write_checkpoint(path: PathLike, run: Run, state: Any) -> None:
    """Writes ``state`` of the run ``run``; a file that was there is replaced at once or not at all."""
    tensors: dict[str, Tensor] = {}
    packed = _pack(state, "state", tensors)
    described = {"kind": KIND, "run": dict(run), "state": packed}
    write_container(path, tensors, {**described, "checksum": _checksum(packed, tensors)})


def read_checkpoint(path: PathLike, run: Run) -> Any:
    """The state in the file at ``path``, None if there is no file; of another run it is an error."""
    if not os.path.exists(path):
        return None
    where = display_name(path)
    tensors, description = read_container(path)
    if description.get("kind") != KIND:
        raise FormatError(
            where,
            None,
            "this is no checkpoint of a training run but another file of loopwise; "
            "give another path, or remove the file to start anew",
        )
    theirs = description.get("run")
    if not isinstance(theirs, dict):
        raise FormatError(where, None, "the description in the checkpoint is damaged; remove the file to start anew")
    for name, mine in run.items():
        if theirs.get(name) != mine:
            raise FormatError(
                where,
                None,
                f"this checkpoint is of another run: its {name} was {_short(theirs.get(name))}, now it is "
                f"{_short(mine)}; give another path, or remove the file to start anew",
            )
    try:
        # Written since checkpoints have one: what a run goes on from, it does not look at again.
        if "checksum" in description and description["checksum"] != _checksum(description["state"], tensors):
            raise ValueError
        return _unpack(description["state"], tensors)
    except (KeyError, ValueError, TypeError, IndexError, RecursionError):
        raise FormatError(
            where, None, "the state in the checkpoint is damaged; remove the file to start anew"
        ) from None


def _checksum(packed: Any, tensors: Mapping[str, Tensor]) -> str:
    """Of all that a state is."""
    total = zlib.crc32(json.dumps(packed, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        if tensor.numel():  # bytes, since NumPy does not have every type of torch
            flat = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
            total = zlib.crc32(flat.view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def identify(value: object, depth: int = _DEEP) -> str:
    """How an option object is written for comparison: its class and options, never an address or a trained number."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, torch.dtype | torch.device | type | Enum):
        return str(value)
    if isinstance(value, Tensor):
        return "trained" if value.requires_grad else identify(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray):
        return f"array({value.shape}, {checksum(value)})"
    if isinstance(value, FactorGraph):
        return describe_graph(value)
    if depth == 0:
        return type(value).__name__
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {identify(item, depth - 1)}' for key, item in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(identify(item, depth - 1) for item in value)}]"
    if hasattr(value, "__qualname__"):  # a function
        return str(value.__qualname__)
    options = _options(value)
    inside = ", ".join(f"{name}={identify(option, depth - 1)}" for name, option in options.items())
    return f"{type(value).__name__}({inside})"


def describe_graph(graph: FactorGraph) -> str:
    """A graph for comparison: its sizes and a checksum of all its integers."""
    arrays = [graph.cardinalities, *(group.scopes for group in graph.groups)]
    arrays += [scope for group in graph.structured for scope in group.scopes]
    return f"{graph!r} (checksum {checksum(*arrays)})"


def describe_template(template: Template) -> str:
    """A template for comparison: its class, and the options that it says."""
    options = np.frombuffer(identify(template.options()).encode(), dtype=np.uint8)  # vocabularies may be long
    return f"{type(template).__name__} (checksum of its options {checksum(options)})"


def describe_examples(examples: Corpus | None) -> str:
    """Examples for comparison: how many, and a checksum of their values and roles (and of graphs of their own)."""
    if examples is None:
        return "none"
    return f"{len(examples)} examples (checksum {checksum(*examples.arrays())})"


def checksum(*arrays: np.ndarray) -> str:
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return f"{total:08x}"


def _options(value: object) -> dict[str, object]:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    public = {name: option for name, option in getattr(value, "__dict__", {}).items() if not name.startswith("_")}
    public.pop("training", None)  # the mode a module happens to be in
    modules = getattr(value, "_modules", {})
    return {**public, **modules}


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for ``value``, with its tensors set aside under ``name`` and what follows it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, Mapping):
        items = [[key, _pack(item, f"{name}/{key}", tensors)] for key, item in value.items()]
        return {"mapping": items}
    if isinstance(value, tuple):
        return {"tuple": [_pack(item, f"{name}/{place}", tensors) for place, item in enumerate(value)]}
    if isinstance(value, list):
        return [_pack(item, f"{name}/{place}", tensors) for place, item in enumerate(value)]
    raise ValueError(
        f"a checkpoint cannot hold {name.removeprefix('state/')}, which is of class {type(value).__name__}; train "
        "without a checkpoint, or with another optimiser"
    )


def _unpack(json: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(json, list):
        return [_unpack(item, tensors) for item in json]
    if not isinstance(json, dict):
        return json
    match json:
        case {"tensor": str(name)}:
            return tensors[name]
        case {"mapping": list(items)}:
            return {key: _unpack(item, tensors) for key, item in items}
        case {"tuple": list(items)}:
            return tuple(_unpack(item, tensors) for item in items)
        case {"number": str(text)}:
            return float(text)
    raise ValueError("unknown entry")


def _short(text: object) -> str:
    """A value for a message, on one line and not too long."""
    words = "unknown" if text is None else " ".join(str(text).split())
    return words if len(words) <= 120 else f"{words[:117]}..."
