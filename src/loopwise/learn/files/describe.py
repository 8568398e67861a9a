"""Option objects as JSON, and back: dataclasses, modules, numbers, tensors, graphs.

In: an object made of known classes (:mod:`loopwise.learn.files.known`). Out: JSON, with tensors set aside under names;
and back. Stage: learning. Going back looks names up in the table of known classes; it imports nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.formats.numbers import bounded_product
from loopwise.graph.factor_graph import FactorGraph
from loopwise.learn.files.fields import DAMAGE, FieldError, check_counts, check_options, shown
from loopwise.learn.files.known import KNOWN, OLD_NAMES

_BY_KIND = {known.kind: known for known in KNOWN}
_BY_NAME = {known.name: known for known in KNOWN}
_BY_NAME |= {old: _BY_NAME[new] for old, new in OLD_NAMES.items()}
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.float64, torch.float32, torch.float16)}
_INFINITIES = ("inf", "-inf")  # the numbers that JSON does not have; NaN is nobody's option


class Describer:
    """Turns objects into JSON. ``names``: tensors that are saved anyway, by identity, under these names."""

    def __init__(self, graph: FactorGraph, names: Mapping[int, str]) -> None:
        self.graph = graph
        self.names = dict(names)
        self.tensors: dict[str, Tensor] = {}  # those to save besides

    def describe(self, value: Any, path: str) -> Any:
        """JSON for ``value``; ``path`` says in messages where it was found."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"number": str(float(value))}
        if isinstance(value, Tensor):
            return {"tensor": self._name(value), "trained": isinstance(value, nn.Parameter)}
        if isinstance(value, np.ndarray):
            return {"array": self._name(torch.from_numpy(np.array(value)))}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, FactorGraph):
            self._check_graph(value, path)
            return {"graph": 0}
        if isinstance(value, list | tuple | AbstractSet):
            return [self.describe(member, f"{path}[{place}]") for place, member in enumerate(value)]
        if isinstance(value, Mapping):
            return {
                "mapping": [[_key(key, path), self.describe(item, f"{path}[{key!r}]")] for key, item in value.items()]
            }
        return self._instance(value, path)

    def _instance(self, value: Any, path: str) -> Any:
        known = _BY_KIND.get(type(value))
        if known is None:
            saver = getattr(type(value), "saver", None)
            if saver is not None:
                raise ValueError(f"a system whose {path} is of class {type(value).__name__} is saved by {saver}")
            function = hasattr(value, "__qualname__")  # which has no telling class
            what = f"({value!r})" if function else f"of class {type(value).__name__}"
            raise ValueError(
                f"a system whose {path} is {what} cannot be saved, since loading would have to run code that is not "
                "loopwise's: save system.state_dict() instead, and load it into a system that you build"
            )
        options = known.options(value)
        if not known.sized:
            check_counts(known.kind, options, path)
        return {
            "class": known.name,
            "options": {name: self.describe(option, f"{path}.{name}") for name, option in options.items()},
        }

    def _name(self, tensor: Tensor) -> str:
        name = self.names.get(id(tensor))
        if name is None:
            name = f"constant.{len(self.tensors)}"
            self.tensors[name] = tensor
        return name

    def _check_graph(self, graph: FactorGraph, path: str) -> None:
        if graph is not self.graph and graph != self.graph:
            raise ValueError(
                f"the {path} of the system is {graph!r}, the system is over {self.graph!r}; "
                "make the parts for one graph"
            )


@dataclasses.dataclass
class Builder:
    """Makes objects from their JSON. A tensor that is named twice is one tensor."""

    graph: FactorGraph
    tensors: Mapping[str, Tensor]
    trained: dict[str, nn.Parameter] = dataclasses.field(default_factory=dict)

    def build(self, json: Any, path: str) -> Any:
        """The object; a ValueError that names the field under ``path`` where the JSON describes none."""
        if json is None or isinstance(json, bool | str | int | float):
            return json
        if isinstance(json, list):
            return tuple(self.build(member, f"{path}[{place}]") for place, member in enumerate(json))
        match json:
            case {"class": str(name), "options": dict(options)}:
                return self._instance(name, options, path)
            case {"tensor": str(name), "trained": True}:
                return self.trained.setdefault(name, nn.Parameter(self._tensor(name, path)))
            case {"tensor": str(name)}:
                return self._tensor(name, path)
            case {"array": str(name)}:
                return self._tensor(name, path).numpy()
            case {"mapping": list(items)}:
                return {_plain(key, path): self.build(item, f"{path}.{key}") for key, item in _pairs(items, path)}
            case {"number": str(text)} if text in _INFINITIES:
                return float(text)
            case {"dtype": str(name)} if name in _DTYPES:
                return _DTYPES[name]
            case {"graph": 0}:
                return self.graph
        raise FieldError(path, f"holds {shown(json)}, which describes nothing")

    def _instance(self, name: str, options: Mapping[str, Any], path: str) -> Any:
        if name not in _BY_NAME:
            raise FieldError(path, f"names a class {name!r} that this version of loopwise does not know")
        known = _BY_NAME[name]
        built = {str(key): self.build(option, f"{path}.{key}") for key, option in options.items()}
        graph = built.get("graph", self.graph)
        if graph is not self.graph and graph is not None:
            raise FieldError(f"{path}.graph", f"must be the graph of the system, not {shown(graph)}")
        if known.sized:
            self._check_sizes(built, path)
        else:
            check_options(known.kind, {key: value for key, value in built.items() if key != "graph"}, path)
        try:
            return known.make(**built)
        except DAMAGE as problem:
            raise FieldError(path, f"describes no {name}: {' '.join(str(problem).split())}") from None

    def _check_sizes(self, options: Mapping[str, Any], path: str) -> None:
        """Sizes of weights, which are at most the numbers that the file holds; cells that share a column are listed."""
        stored = sum(tensor.numel() for tensor in self.tensors.values())
        stored += len(options["columns"]) if isinstance(options.get("columns"), tuple) else 0
        for name, value in options.items():
            sizes = value if isinstance(value, tuple) else (value,)
            if value is None or isinstance(value, str):
                continue
            if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
                raise FieldError(f"{path}.{name}", f"must be whole numbers, not {shown(value)}")
            most = max(sizes, default=0) if name == "columns" else bounded_product(map(abs, sizes), stored)
            if most > stored:
                raise FieldError(f"{path}.{name}", f"is {shown(value)}, but the file holds {stored} numbers in all")

    def _tensor(self, name: str, path: str) -> Tensor:
        if name not in self.tensors:
            raise FieldError(path, f"names a tensor {name!r} that the file does not hold")
        return self.tensors[name].clone()


def _pairs(items: list[Any], path: str) -> list[Any]:
    if not all(isinstance(item, list) and len(item) == 2 for item in items):
        raise FieldError(path, f"must be a mapping, a list of pairs, not {shown(items)}")
    return items


def _key(key: Any, path: str) -> str | int:
    if not isinstance(key, str | int):
        raise ValueError(
            f"the {path} of the system cannot be saved: it has the key {key!r}, which is no name or number"
        )
    return key


def _plain(key: Any, path: str) -> str | int:
    if not isinstance(key, str | int):
        raise FieldError(path, f"has the key {shown(key)}, which is no name or number")
    return key
