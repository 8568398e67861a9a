"""Saving a system to one file, and loading it.

In: a system, a path. Out: weights, graph and vocabulary as tensors and JSON in one safetensors file. Stage: learning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.decode.threshold import PerCorpus
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.formats.table import Vocabulary
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.learn.files.card import kept_card
from loopwise.learn.files.checkpoint import identify
from loopwise.learn.files.container import CARD, read_container, refuse_kind, write_container
from loopwise.learn.files.describe import Builder, Describer
from loopwise.learn.files.fields import (
    DAMAGE,
    LARGEST,
    FieldError,
    Record,
    check_shapes,
    check_weights,
    damaged,
    shown,
)
from loopwise.learn.system import System
from loopwise.potentials.sparse import SparsePotentials
from loopwise.potentials.template import Template

PARTS = ("potentials", "inference", "decoder")
NO_GRAPH = FactorGraph([], {})  # of systems with a template: no part of them may be made for one graph
MOST_STATES = 100_000_000  # values of all variables together: a belief each takes 800 MB
_ARITIES = ("variables", "length", "tokens")  # options of structured factors that are at most their variables

logger = logging.getLogger(__name__)


def save(system: System, path: PathLike, card: Mapping[str, Any] | None = None) -> None:
    """Writes ``system`` with its graph, weights, options, vocabulary and card.

    ``card``: what else there is to say of it, or to say otherwise: see :class:`~loopwise.learn.files.card.ModelCard`.

    The file appears whole or not at all. Only classes that loopwise knows can be saved
    (:mod:`loopwise.learn.files.known`): for a module of your own, save its ``state_dict()``. Of a template of your own
    the weights are saved, the name of its class, and its ``options()``.
    """
    tensors, description = describe_system(system)
    told = {"budget": identify(system.inference), **system.card, **(card or {})}
    write_container(path, tensors, {**description, CARD: told})
    logger.debug("system saved to %s", path)


def load(path: PathLike, *, template: Template | type[Template] | None = None) -> System:
    """The system of a file, on the CPU. Nothing in the file is run: it can only name classes that loopwise knows.

    Parameters
    ----------
    template:
        For a system with a template: its class, which is called with the ``options()`` that were saved, or an object
        that is made like the saved one; it gets the saved weights.

    Raises
    ------
    ValueError
        Where the file is damaged, or the template is not the one that was saved.
    """
    tensors, description = read_container(path)
    if "template" in description:
        system = _load_template(path, Record(description, tensors), template)
        system.card = kept_card(description)
        return system
    if template is not None:
        raise FormatError(display_name(path), None, "the system in the file has no template; leave template out")
    if "graph" not in description and ("app" in description or "kind" in description):
        raise refuse_kind(path, description, "System")
    try:
        system = build_system(Record(description, tensors))
    except DAMAGE as problem:
        raise damaged(path, "system", problem) from None
    system.card = kept_card(description)
    return system


def _load_template(path: PathLike, told: Record, given: Template | type[Template] | None) -> System:
    """A system with the template that the user gives."""
    try:
        saved = told.record("template")
        name, options = saved.text("class"), saved.record("options").values
    except DAMAGE as problem:
        raise damaged(path, "system", problem) from None
    mine = given.__name__ if isinstance(given, type) else type(given).__name__
    if given is None or mine != name:
        found = "none is given" if given is None else f"{mine} is given"
        raise FormatError(
            display_name(path),
            None,
            f"the system in the file has the template {name}, and {found}: give its class, or an object of it, as "
            f"template={name}",
        )
    try:
        template = given(**options) if isinstance(given, type) else given
    except (TypeError, ValueError) as problem:
        raise FormatError(
            display_name(path), None, f"{name} cannot be made of the options that were saved with it: {problem}"
        ) from None
    try:
        return build_template_system(told, template)
    except DAMAGE as problem:
        raise damaged(path, "system", problem) from None


def describe_system(system: System) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A system as named tensors and JSON."""
    state = system.state_dict(keep_vars=True)
    names: dict[int, str] = {}
    for name, tensor in state.items():
        names.setdefault(id(tensor), name)
    if isinstance(system.potentials, Template):
        return _describe_template_system(system, system.potentials, state, names)
    describer = Describer(system.graph, names)
    parts = {name: describer.describe(getattr(system, name), name) for name in PARTS}
    structure, graph = _describe_graph(system.graph, describer)
    description: dict[str, Any] = {"graph": graph, "system": parts, "state": list(state)}
    if system.vocabulary is not None:
        vocabulary = system.vocabulary
        description["vocabulary"] = {"names": vocabulary.names, "labels": vocabulary.labels}
    if system.roles is not None:
        description["roles"] = system.roles.tolist()
    return {**structure, **describer.tensors, **state}, description


def _describe_template_system(
    system: System, template: Template, state: dict[str, Tensor], names: dict[int, str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The same of a system with a template, whose graphs are not saved: the template makes them again."""
    options = dict(template.options())
    try:
        kept = json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"the options() of {type(template).__name__} cannot be saved as JSON ({problem}); give texts, numbers, "
            "lists and mappings of these"
        ) from None
    describer = Describer(NO_GRAPH, names)
    parts = {name: describer.describe(getattr(system, name), name) for name in PARTS[1:]}
    described = {"class": type(template).__name__, "options": kept}
    return {**describer.tensors, **state}, {"template": described, "system": parts, "state": list(state)}


def build_template_system(told: Record, template: Template) -> System:
    """The system that a file describes, with this template, which gets its weights."""
    builder, given = Builder(NO_GRAPH, told.tensors), told.record("system")
    parts = {name: builder.build(given.raw(name), given.name(name)) for name in PARTS[1:]}
    return _with_weights(System(template, **parts), _state(told))


def build_system(told: Record) -> System:
    """The system that :func:`describe_system` described."""
    graph = _build_graph(told)
    given, state = told.record("system"), _state(told)
    builder = Builder(graph, told.tensors)
    _check_potentials(given, state, builder)
    parts = {name: builder.build(given.raw(name), given.name(name)) for name in PARTS}
    roles = told.items("roles", Record.whole) if "roles" in told else None
    system = System(**parts, graph=graph, vocabulary=_vocabulary(told), roles=roles)
    _check_positive(system)
    return _with_weights(system, state)


def _with_weights(system: System, state: dict[str, Tensor]) -> System:
    """``system`` with the weights of a file, checked."""
    wanted = system.state_dict()
    if set(state) != set(wanted):
        raise FieldError("state", f"lists {shown(sorted(state))}, but there are weights {shown(sorted(wanted))}")
    check_shapes({name: tensor.shape for name, tensor in wanted.items()}, state)
    unset = {f"{name}.kappa" for name, module in system.named_modules() if isinstance(module, PerCorpus)}
    whole = [name for name, tensor in wanted.items() if not tensor.is_floating_point()]  # buffers of a template
    for name in whole:
        if state[name].dtype != wanted[name].dtype:
            raise FieldError(name, f"must be a tensor of {wanted[name].dtype}, not of {state[name].dtype}")
    skipped = {*_tables(state), *whole}
    check_weights({name: tensor for name, tensor in state.items() if name not in skipped}, unset=unset)
    for name, tensor in system.state_dict(keep_vars=True).items():
        if tensor.dtype != state[name].dtype:  # a template in another precision than it is made in
            tensor.data = tensor.data.to(state[name].dtype)
    system.load_state_dict(state)
    return system


def _state(told: Record) -> dict[str, Tensor]:
    """The trained tensors; those of tables are finite but for logarithms of potentials that are 0."""
    missing = next((name for name in told.texts("state") if name not in told.tensors), None)
    if missing is not None:
        raise FieldError("state", f"names a tensor {missing!r} that the file does not hold")
    state = {name: told.tensors[name] for name in told.texts("state")}
    tables = _tables(state)
    check_weights({name: state[name] for name in tables}, logarithms=tables)
    return state


def _tables(state: Mapping[str, Tensor]) -> list[str]:
    """The tensors of TablePotentials and TiedTables."""
    return [name for name in state if name.startswith("potentials.tables.")]


def _check_potentials(given: Record, state: dict[str, Tensor], builder: Builder) -> None:
    """That the file holds the weights that graph and options ask for: seen on potentials without memory."""
    with torch.device("meta"):
        outline = Builder(builder.graph, builder.tensors).build(given.raw("potentials"), given.name("potentials"))
    if not isinstance(outline, nn.Module):
        raise FieldError(given.name("potentials"), f"describes no potentials but {shown(outline)}")
    check_shapes({f"potentials.{name}": tensor.shape for name, tensor in outline.state_dict().items()}, state)
    if isinstance(outline, SparsePotentials):
        mine = {group.name: group.shape for group in builder.graph.groups}
        theirs = {name: group.shape for name, group in outline.groups.items()}
        if mine != theirs:
            raise FieldError(given.name("potentials.groups"), f"are {shown(theirs)}, but the graph has {shown(mine)}")


def _vocabulary(told: Record) -> Vocabulary | None:
    if "vocabulary" not in told:
        return None
    given = told.record("vocabulary")
    names, labels = given.texts("names"), given.items("labels", Record.texts)
    try:
        return Vocabulary(names, labels)
    except ValueError as problem:
        raise FieldError("vocabulary", f"does not fit: {problem}") from None


def _check_positive(system: System) -> None:
    """Labels that a decoder counts, which it looks at only when it is used."""
    positive = getattr(system.decoder, "positive", None)
    labels = positive if isinstance(positive, tuple) else () if positive is None else (positive,)
    values = int(system.graph.cardinalities.max(initial=1))
    if positive is not None and not (labels and all(0 <= label < values for label in labels)):
        raise FieldError(
            "system.decoder.positive", f"must be values of variables, 0 to {values - 1}, not {shown(positive)}"
        )


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


def _build_graph(told: Record) -> FactorGraph:
    described = told.record("graph")
    cardinalities = told.integers("graph.cardinalities", (None,), 1, MOST_STATES)
    if cardinalities.sum() > MOST_STATES:
        raise ValueError(f"the tensor 'graph.cardinalities' adds up to more than {MOST_STATES} values")
    groups = described.texts("groups", distinct=True)
    scopes = {name: told.integers(f"graph.scopes.{number}", (None, None)) for number, name in enumerate(groups)}
    structured = described.items("structured", _structured_group) if "structured" in described else ()
    graph = FactorGraph(cardinalities, scopes, dict(structured))
    if "graph.order" in told.tensors:
        graph._order = _order(told, graph)
    return graph


def _order(told: Record, graph: FactorGraph) -> tuple[Integers, Integers]:
    """Group and row of each factor of the list that the graph was made from: each factor once."""
    group, row = told.integers("graph.order", (2, graph.factors))
    want = sorted((number, place) for number, known in enumerate(graph.groups) for place in range(known.count))
    if sorted(zip(group.tolist(), row.tolist(), strict=True)) != want:
        raise ValueError("the tensor 'graph.order' does not list each factor once")
    return group, row


def _structured_group(told: Record, name: str) -> tuple[str, list[tuple[Any, list[int]]]]:
    pair = told.raw(name)
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise FieldError(told.name(name), f"must be a name and a list of factors, not {shown(pair)}")
    inner = Record({name: pair[1]}, told.tensors, told.path)
    return pair[0], list(inner.items(name, _structured_factor))


def _structured_factor(told: Record, name: str) -> tuple[Any, list[int]]:
    """A factor and its variables; its sizes are compared with how many these are before it is made."""
    pair = told.raw(name)
    if not (isinstance(pair, list) and len(pair) == 2):
        raise FieldError(told.name(name), f"must be a factor and a list of variables, not {shown(pair)}")
    inner = Record({f"{name}[0]": pair[0], f"{name}[1]": pair[1]}, told.tensors, told.path)
    scope = inner.items(f"{name}[1]", lambda record, key: record.whole(key, 0, LARGEST))
    options = inner.record(f"{name}[0]").record("options")
    for size in _ARITIES:
        if size in options:
            options.whole(size, 0, len(scope))
    factor = Builder(FactorGraph([], {}), told.tensors).build(pair[0], inner.name(f"{name}[0]"))  # needs no graph
    return factor, list(scope)
