"""Saving a system to one file, and loading it.

In: a system, a path. Out: weights, graph and vocabulary as tensors and JSON in one safetensors file. Stage: learning.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.formats.table import Vocabulary
from loopwise.graph.factor_graph import FactorGraph
from loopwise.learn.container import read_container, refuse_kind, write_container
from loopwise.learn.describe import Builder, Describer
from loopwise.learn.system import System

logger = logging.getLogger(__name__)


def save(system: System, path: PathLike) -> None:
    """Writes ``system`` with its graph, weights, options and vocabulary.

    The file appears whole or not at all. Only classes that loopwise knows can be saved (:mod:`loopwise.learn.known`):
    for a module of your own, save its ``state_dict()``.
    """
    tensors, description = describe_system(system)
    write_container(path, tensors, description)
    logger.debug("system saved to %s", path)


def load(path: PathLike) -> System:
    """The system of a file, on the CPU. Nothing in the file is run: it can only name classes that loopwise knows."""
    tensors, description = read_container(path)
    if "graph" not in description and ("app" in description or "kind" in description):
        raise refuse_kind(path, description, "System")
    try:
        return build_system(tensors, description)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, RecursionError) as problem:
        raise FormatError(
            display_name(path), None, f"the description of the system in the file is damaged: {_one_line(problem)}"
        ) from None


def describe_system(system: System) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A system as named tensors and JSON."""
    state = system.state_dict(keep_vars=True)
    names: dict[int, str] = {}
    for name, tensor in state.items():
        names.setdefault(id(tensor), name)
    describer = Describer(system.graph, names)
    parts = {
        "potentials": describer.describe(system.potentials, "potentials"),
        "inference": describer.describe(system.inference, "inference"),
        "decoder": describer.describe(system.decoder, "decoder"),
    }
    structure, graph = _describe_graph(system.graph, describer)
    description: dict[str, Any] = {"graph": graph, "system": parts, "state": list(state)}
    if system.vocabulary is not None:
        vocabulary = system.vocabulary
        description["vocabulary"] = {"names": vocabulary.names, "labels": vocabulary.labels}
    if system.roles is not None:
        description["roles"] = system.roles.tolist()
    return {**structure, **describer.tensors, **state}, description


def build_system(tensors: dict[str, Tensor], description: dict[str, Any]) -> System:
    """The system that :func:`describe_system` described."""
    graph = _build_graph(tensors, description["graph"])
    builder = Builder(graph, tensors)
    parts = {name: builder.build(description["system"][name]) for name in ("potentials", "inference", "decoder")}
    vocabulary = None
    if "vocabulary" in description:
        given = description["vocabulary"]
        vocabulary = Vocabulary(tuple(given["names"]), tuple(tuple(labels) for labels in given["labels"]))
    system = System(**parts, graph=graph, vocabulary=vocabulary, roles=description.get("roles"))
    system.load_state_dict({name: tensors[name] for name in description["state"]})
    return system


def _describe_graph(graph: FactorGraph, describer: Describer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Integers as tensors, since graphs may be large; names as JSON."""
    if type(graph) is not FactorGraph:
        raise ValueError(
            f"a graph of class {type(graph).__name__} cannot be saved, only a FactorGraph; copy its structure into one"
        )
    tensors = {"graph.cardinalities": torch.tensor(graph.cardinalities)}
    for number, group in enumerate(graph.groups):
        tensors[f"graph.scopes.{number}"] = torch.tensor(group.scopes)
    if graph._order is not None:  # so that `locate` goes on to number factors as in the list they came from
        tensors["graph.order"] = torch.tensor(np.stack(graph._order))
    described: dict[str, Any] = {"groups": [group.name for group in graph.groups]}
    if graph.structured:
        described["structured"] = [
            [group.name, [[describer.describe(factor, group.name), scope.tolist()] for factor, scope in group.members]]
            for group in graph.structured
        ]
    return tensors, described


def _build_graph(tensors: dict[str, Tensor], description: dict[str, Any]) -> FactorGraph:
    scopes = {name: tensors[f"graph.scopes.{number}"].numpy() for number, name in enumerate(description["groups"])}
    make = Builder(FactorGraph([], {}), tensors).build  # structured factors need no graph
    structured = {
        name: [(make(factor), scope) for factor, scope in members]
        for name, members in description.get("structured", [])
    }
    graph = FactorGraph(tensors["graph.cardinalities"].numpy(), scopes, structured)
    if "graph.order" in tensors:
        group, row = tensors["graph.order"].numpy()
        graph._order = (group, row)
    return graph


def _one_line(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"there is no {problem.args[0]!r}"
    return " ".join(str(problem).split())
