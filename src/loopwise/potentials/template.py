"""Templates: from an example to its graph, and from a batch of examples to the log-potentials of their union.

In: examples of any kind (sentences, molecules, documents), each with a graph of its own. Out: graphs, and
log-potentials of disjoint unions of them, a tensor a group. Stage: numbers. Inference never pads: the graphs of a batch
stand one after another in one union.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.graph.union import Union

# How many numbers (see graph_size) of graphs and of unions a template remembers. Unions come again for development
# data, for full batches and for repeated questions; each brings its layout, and what engines keep on that.
KEPT_GRAPHS = 2**22
KEPT_UNIONS = 2**20

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TemplateBatch:
    """Examples whose graphs stand one after another in one ``union``: what :meth:`Template.potentials` is given.

    Variables of the union are those of the first example, then those of the second, and so on; so are the factors of
    each group. ``batch["word"]`` is what :meth:`Template.prepare` gave under that name, for all examples in a row.
    """

    def __init__(
        self, examples: Sequence[Any], union: Union, prepared: Sequence[Mapping[str, np.ndarray]] = ()
    ) -> None:
        self.examples = tuple(examples)
        self.union = union
        self._prepared = prepared
        self._joined: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        return f"TemplateBatch({len(self)} examples, {self.graph!r})"

    def over(self, union: Union) -> TemplateBatch:
        """The same examples with other graphs, those of ``union``."""
        return TemplateBatch(self.examples, union, self._prepared)

    @property
    def graph(self) -> FactorGraph:
        """The graph of all examples together."""
        return self.union.graph

    @property
    def variables(self) -> int:
        """How many variables all examples have together."""
        return self.graph.variables

    @property
    def variable_start(self) -> Integers:
        """The first variable of each example, ``[examples + 1]``."""
        return self.union.variable_start

    def factor_start(self, group: str) -> Integers:
        """The first factor of each example in ``group``, ``[examples + 1]``."""
        return self.union.factor_start(group)

    def factors(self, group: str) -> int:
        """How many factors (tables or structured ones) ``group`` has, 0 where no example has any."""
        named = self.graph.structured_group(group)
        if named is not None:
            return named.count
        return next((found.count for found in self.graph.groups if found.name == group), 0)

    def scopes(self, group: str) -> Tensor:
        """The variables of each factor of ``group``, numbered as in the union, int64 ``[factors, arity]``."""
        return torch.tensor(self.graph.group(group).scopes)

    def __getitem__(self, name: str) -> Tensor:
        """What :meth:`Template.prepare` gave as ``name``, of all examples in a row: ``[total length, ...]``."""
        if name not in self._joined:
            if not self._prepared or name not in self._prepared[0]:
                known = list(self._prepared[0]) if self._prepared else []
                raise ValueError(f"prepare gives no array {name!r}; it gives {known}")
            self._joined[name] = self.concatenate([arrays[name] for arrays in self._prepared])
        return self._joined[name]

    def shifted(self, name: str) -> Tensor:
        """The same of integers that number an example's variables: renumbered as in the union, -1 stays -1."""
        places = self[name]
        lengths = [len(arrays[name]) for arrays in self._prepared]
        start = torch.from_numpy(np.repeat(self.variable_start[:-1], lengths)).reshape(-1, *(1,) * (places.ndim - 1))
        return torch.where(places < 0, places, places + start)

    def concatenate(self, arrays: Iterable[ArrayLike | Tensor]) -> Tensor:
        """Arrays of the examples, one each, joined along their first axis."""
        given = list(arrays)
        if len(given) != len(self):
            raise ValueError(f"{len(given)} arrays for a batch of {len(self)} examples; give one for each")
        if any(isinstance(array, Tensor) for array in given):
            return torch.cat([torch.as_tensor(array) for array in given])
        return torch.from_numpy(np.concatenate([np.asarray(array) for array in given]))


class Template(nn.Module):
    r"""A model of examples that each have a graph of their own; write :meth:`graph` and :meth:`potentials`.

    A batch of examples is the disjoint union of their graphs. Parameters are those of any torch module. What is known
    of an example is said by :meth:`values` (-1 where unknown) and :meth:`roles` (all outputs, unless said otherwise).
    Give it to :class:`~loopwise.System` as potentials; then ``fit``, ``evaluate`` and ``predict`` take lists of
    examples.

    >>> import loopwise as lw, numpy as np, torch
    >>> class Ising(lw.Template):  # an example: the field at each site of a ring, and its spins
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.coupling = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    ...     def graph(self, example):
    ...         sites = np.arange(len(example["field"]))
    ...         return lw.FactorGraph([2] * len(sites), {
    ...             "field": sites[:, None], "pair": np.stack([sites, np.roll(sites, -1)], 1)})
    ...     def values(self, example):
    ...         return example["spins"]
    ...     def prepare(self, example):
    ...         return {"field": np.array(example["field"])}
    ...     def potentials(self, batch):
    ...         field = batch["field"]
    ...         return {"field": torch.stack([-field, field], 1), "pair": self.coupling * torch.eye(2).double()}
    >>> rings = [{"field": [0.1, 2, -0.3], "spins": [1, 1, 0]}, {"field": [1, -0.1, 0.2, 0.4], "spins": [1, -1, 1, 0]}]
    >>> system = lw.System(Ising(), lw.BP(iterations=4, tolerance=0))
    >>> [answer.tolist() for answer in system.predict(rings)]
    [[1, 1, 1], [1, 1, 1, 1]]
    """

    def __init__(self) -> None:
        super().__init__()
        self._graphs: _Recent[Hashable, FactorGraph] = _Recent(KEPT_GRAPHS)
        self._unions: _Recent[tuple[int, ...], Union] = _Recent(KEPT_UNIONS)

    # --- What a model says -------------------------------------------------------------------------------------------

    def graph(self, example: Any) -> FactorGraph:
        """The graph of one example. Give every group in each graph, with scopes ``[0, arity]`` where it has no factor.

        A group has tables of one shape in all examples. Equal graphs are kept once.
        """
        raise NotImplementedError(f"{type(self).__name__} must say what graph an example has: write graph(example)")

    def potentials(self, batch: TemplateBatch) -> Mapping[str, Any]:
        """Log-potentials of the union of the batch, differentiable: ``{group: [factors of the union, *shape]}``.

        One table ``[1, *shape]`` or ``[*shape]`` serves all factors of a group. Structured factors that have potentials
        get a list, one tensor each, or one for all.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must say what potentials a batch has: write potentials(batch)"
        )

    def values(self, example: Any) -> ArrayLike | None:
        """The known value of each variable, -1 where there is none; None: nothing is known."""
        return None

    def roles(self, example: Any) -> ArrayLike | Role:
        """The :class:`~loopwise.Role` of each variable, or one for all."""
        return Role.OUTPUT

    def prepare(self, example: Any) -> Mapping[str, ArrayLike]:
        """Arrays of features, computed once an example: ``batch[name]`` gives them joined along their first axis."""
        return {}

    def shape(self, example: Any) -> Hashable | None:
        """Something that says all about the graph (a length, say): :meth:`graph` is then called once for each.

        None: it is called for each example.
        """
        return None

    def options(self) -> Mapping[str, Any]:
        """The arguments that make this template again, as JSON knows them: what is saved beside the weights."""
        return {}

    # --- What the library asks for -----------------------------------------------------------------------------------

    def graph_of(self, example: Any, where: str = "the example") -> FactorGraph:
        """The graph of an example, one object for all equal graphs."""
        shape = self.shape(example)
        key = ("shape", shape)
        known = None if shape is None else self._graphs.get(key)
        if known is not None:
            return known
        graph = self.graph(example)
        if not isinstance(graph, FactorGraph):
            raise ValueError(
                f"the graph of {where} that {type(self).__name__} gives is {type(graph).__name__}; it must be a "
                "lw.FactorGraph"
            )
        try:
            graph = self._graphs.keep(_integers_of(graph), graph, graph_size(graph))
        except TypeError:  # a structured factor of the user's that cannot be compared: each graph stands for itself
            return graph
        return graph if shape is None else self._graphs.keep(key, graph, 1)

    def union_of(self, graphs: Sequence[FactorGraph]) -> Union:
        """The union of graphs that :meth:`graph_of` gave."""
        key = tuple(map(id, graphs))  # a union keeps its parts alive, and with them their numbers
        known = self._unions.get(key)
        if known is not None:
            return known
        union = Union.of(graphs)
        return self._unions.keep(key, union, graph_size(union.graph))

    def forward(self, batch: TemplateBatch) -> dict[str, Any]:
        """The potentials of ``batch``, checked against its union."""
        given, graph, mine = self.potentials(batch), batch.graph, type(self).__name__
        if not isinstance(given, Mapping):
            raise ValueError(f"potentials of {mine} must map group names to tables, not be {type(given).__name__}")
        wanted = {group.name for group in graph.groups} | {group.name for group in graph.structured if group.weighted}
        for name in wanted:
            if name not in given:
                raise ValueError(
                    f"{mine} gives no potentials for group {name!r} of its graphs; given are {list(given)}"
                )
        for name, table in given.items():
            if name not in wanted and not _is_empty(table):
                raise ValueError(
                    f"{mine} gives potentials for group {name!r}, which no graph of the batch has: name the group in "
                    "every graph, with scopes of shape [0, arity] where it has no factor"
                )
        tables = {group.name: _checked_table(mine, group, given[group.name]) for group in graph.groups}
        return {**tables, **{group.name: given[group.name] for group in graph.structured if group.weighted}}


def _integers_of(graph: FactorGraph) -> Hashable:
    """What equal graphs have alike. Their own hash is of sizes only, and there may be thousands of one size."""
    tables = tuple((group.name, group.scopes.shape, group.scopes.tobytes()) for group in graph.groups)
    structured = tuple(
        (group.name, group.factors, tuple(scope.tobytes() for scope in group.scopes)) for group in graph.structured
    )
    return graph.cardinalities.tobytes(), tables, structured


def graph_size(graph: FactorGraph) -> int:
    """How many numbers inference keeps for a graph: one a value of each variable, one a value of each message."""
    messages = sum(group.count * sum(group.shape) for group in graph.groups if group.arity >= 2)
    structured = sum(factor.slots for group in graph.structured for factor in group.factors)
    return int(graph.cardinalities.sum()) + messages + structured


def _is_empty(table: object) -> bool:
    """Whether potentials are of no factor at all: what a group that a batch does not have comes to."""
    if isinstance(table, Tensor | np.ndarray):
        return table.ndim > 0 and len(table) == 0
    return isinstance(table, list | tuple) and not table


def _checked_table(template: str, group: Group, values: object) -> Tensor:
    try:
        table = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as reason:
        raise ValueError(
            f"potentials of group {group.name!r} of {template} are no array of numbers: {reason}"
        ) from None
    if group.count == 0:
        return table.new_zeros(0, *group.shape)
    if tuple(table.shape) not in ((group.count, *group.shape), (1, *group.shape), group.shape):
        raise ValueError(
            f"{template} gives potentials of shape {tuple(table.shape)} for group {group.name!r}; they must be "
            f"{(group.count, *group.shape)}: one table for each factor of the batch, or one for all"
        )
    return table


class _Recent(Generic[Key, Value]):
    """The values asked for last, by key, whose sizes add up to at most ``most`` (or one value). Copies begin empty."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.total = 0
        self.lock = Lock()

    def get(self, key: Key) -> Value | None:
        """The value of ``key``, if it is kept."""
        with self.lock:
            if key not in self.kept:
                return None
            self.kept.move_to_end(key)
            return self.kept[key][0]

    def keep(self, key: Key, value: Value, size: int) -> Value:
        """The value kept for ``key``, which is ``value`` if there was none."""
        with self.lock:
            if key not in self.kept:
                self.kept[key] = (value, size)
                self.total += size
            self.kept.move_to_end(key)
            while self.total > self.most and len(self.kept) > 1:
                self.total -= self.kept.popitem(last=False)[1][1]
            return self.kept[key][0]

    def __reduce__(self) -> tuple[type[_Recent[Key, Value]], tuple[int]]:
        return type(self), (self.most,)
