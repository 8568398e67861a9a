"""Different graphs in one: a disjoint union with offsets and an exact inverse, never padding.

In: graphs (sentences, documents, images of different sizes). Out: a :class:`Union` whose ``graph`` holds them
all. Stage: structure. Numbers are joined and split along the factor axis with :meth:`Union.join` and
:meth:`Union.split`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import FactorGraph, Group, Integers, StructuredGroup, shape_name

if TYPE_CHECKING:
    from loopwise.graph.rows import Rows

Table = TypeVar("Table")


@dataclass(frozen=True, eq=False)
class Union:
    """A union graph; ``rows[k][name]`` says which group and rows of it hold group ``name`` of part ``k``."""

    graph: FactorGraph
    parts: tuple[FactorGraph, ...]
    variable_start: Integers  # [parts + 1]
    rows: tuple[dict[str, tuple[str, slice]], ...]

    @staticmethod
    def of(graphs: Sequence[FactorGraph]) -> Union:
        """Groups of one name and shape are concatenated; one name with two shapes becomes two groups; a group without
        factors goes with those of its name, whatever their shape. Structured factors of one name follow one another
        under that name."""
        if not graphs:
            raise ValueError("a union needs at least one graph; give one or more")
        starts = np.zeros(len(graphs) + 1, dtype=np.int64)
        np.cumsum([graph.variables for graph in graphs], out=starts[1:])
        names = _union_names(graphs)
        scopes: dict[str, list[Integers]] = {}
        owners: dict[str, list[int]] = {}  # the part of each of these pieces
        filled: dict[str, int] = {}
        rows: list[dict[str, tuple[str, slice]]] = []
        structured: dict[str, list[tuple[Any, Integers]]] = {}
        for number, graph in enumerate(graphs):
            for named in graph.structured:
                moved = [scope + starts[number] for scope in named.scopes]
                structured.setdefault(_apart(named.name, names), []).extend(zip(named.factors, moved, strict=True))
            places: dict[str, tuple[str, slice]] = {}
            for group in graph.groups:
                name = _name_in(names, group)
                begin, count = filled.get(name, 0), len(group.scopes)
                filled[name] = begin + count
                scopes.setdefault(name, []).append(group.scopes)
                owners.setdefault(name, []).append(number)
                places[group.name] = (name, slice(begin, begin + count))
            rows.append(places)
        cardinalities = np.concatenate([graph.cardinalities for graph in graphs])
        tables = {name: _shifted(pieces, starts[owners[name]]) for name, pieces in scopes.items()}
        joined = FactorGraph(cardinalities, tables, structured)
        joined.part_start = starts
        return Union(joined, tuple(graphs), starts, tuple(rows))

    def variables_of(self, part: int) -> slice:
        """Where the variables of part ``part`` stand in the union."""
        if not 0 <= part < len(self.parts):
            raise ValueError(f"part {part} is out of range: the union has {len(self.parts)} parts, counted from 0")
        return slice(int(self.variable_start[part]), int(self.variable_start[part + 1]))

    def join(self, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Concatenates the parts' tables ``[factors, *shape]`` group by group (arrays or tensors). Structured factors
        with log-potentials of their own have them one after another, if given: a list, None where one has none.

        >>> from loopwise import Chain, FactorGraph
        >>> graphs = [FactorGraph([2] * n, {}, {"tags": (Chain(n, 2), range(n))}) for n in (2, 3)]
        >>> joined = union(graphs).join([{"tags": np.zeros((n - 1, 2, 2))} for n in (2, 3)])
        >>> [each.shape for each in joined["tags"]]
        [(1, 2, 2), (2, 2, 2)]
        """
        if len(tables) != len(self.parts):
            raise ValueError(
                f"tables of {len(tables)} graphs for a union of {len(self.parts)}; give those of each graph"
            )
        pieces: dict[str, list[NDArray[np.floating]]] = {group.name: [] for group in self.graph.groups}
        weighted = {name for named in self._structured for name, (_, group) in named.items() if group.weighted}
        given_own = weighted & {name for given in tables for name in given}
        own: dict[str, list[Any]] = {}
        for part, (places, named, given) in enumerate(zip(self.rows, self._structured, tables, strict=True)):
            wanted = [*places, *(name for name in named if named[name][1].weighted and name in given_own)]
            if given.keys() != set(wanted):
                raise ValueError(
                    f"graph {part} has the groups {wanted}, but its tables are {list(given)}; "
                    "name the tables by the groups"
                )
            for name, (target, where) in places.items():
                table = given[name] if hasattr(given[name], "shape") else np.asarray(given[name])
                shape = (where.stop - where.start, *self.parts[part].group(name).shape)
                if tuple(table.shape) != shape and (shape[0] or tuple(table.shape[:1]) != (0,)):
                    raise ValueError(
                        f"group {name!r} of graph {part} has a table of shape {tuple(table.shape)}; it must be {shape}"
                    )
                joined = self.graph.group(target).shape
                pieces[target].append(table if shape[1:] == joined else table.reshape((0, *joined)))
            for name, (joint, group) in named.items():
                if name in given_own:
                    own.setdefault(joint, []).extend(_each_own(given.get(name), group, part))
        return {**{name: _concatenate(members) for name, members in pieces.items()}, **own}

    def split(self, tables: Mapping[str, Table]) -> list[dict[str, Table]]:
        """The exact inverse of :meth:`join` (arrays or tensors with the factor axis first); structured factors without
        log-potentials of their own, or of which ``tables`` has none, are left out."""
        found, at = [], dict.fromkeys((group.name for group in self.graph.structured), 0)
        for places, named, graph in zip(self.rows, self._structured, self.parts, strict=True):
            mine = {
                name: _rows_of(tables[target], where, graph.group(name)) for name, (target, where) in places.items()
            }
            for name, (joint, group) in named.items():
                if group.weighted and joint in tables:
                    mine[name] = tables[joint][at[joint] : at[joint] + group.count]  # type: ignore[index]
                at[joint] += group.count
            found.append(mine)
        return found

    @cached_property
    def _structured(self) -> tuple[dict[str, tuple[str, StructuredGroup]], ...]:
        """Of each part, by name: what its structured factors are called in the union, and they themselves."""
        if not self.graph.structured:
            return ({},) * len(self.parts)
        taken = _union_names(self.parts)
        return tuple(
            {group.name: (_apart(group.name, taken), group) for group in graph.structured} for graph in self.parts
        )

    @cached_property
    def variable_part(self) -> Integers:
        """The part that each variable is of, ``[variables]``."""
        return np.repeat(np.arange(len(self.parts)), np.diff(self.variable_start))

    def factor_start(self, name: str) -> Integers:
        """Where the factors of each part begin in group ``name`` of the union, ``[parts + 1]``; structured factors too.

        >>> from loopwise import chain
        >>> union([chain(3), chain(1), chain(4)]).factor_start("pair")
        array([0, 2, 2, 5])
        """
        starts = np.zeros(len(self.parts) + 1, dtype=np.int64)
        if self.graph.structured_group(name) is not None:
            named = (graph.structured_group(name) for graph in self.parts)
            np.cumsum([0 if group is None else group.count for group in named], out=starts[1:])
            return starts
        self.graph.group(name)  # raises for an unknown name
        counts = [
            sum(rows.stop - rows.start for target, rows in places.values() if target == name) for places in self.rows
        ]
        np.cumsum(counts, out=starts[1:])
        return starts

    def factor_part(self, name: str) -> Integers:
        """The part that each factor of group ``name`` of the union is of, ``[factors]``."""
        return np.repeat(np.arange(len(self.parts)), np.diff(self.factor_start(name)))

    @cached_property
    def side_by_side(self) -> Rows:
        """The parts as rows of equal length, for what looks at one part at a time."""
        from loopwise.graph.rows import Rows

        return Rows.of(self)


def union(graphs: Sequence[FactorGraph]) -> Union:
    """Disjoint union of graphs, for batching graphs of different structure."""
    return Union.of(graphs)


def _union_names(graphs: Sequence[FactorGraph]) -> dict[tuple[str, tuple[int, ...]], str]:
    groups = [group for graph in graphs for group in graph.groups]
    keys = list(dict.fromkeys((group.name, group.shape) for group in groups if group.count))
    named = {(name, len(shape)) for name, shape in keys}
    for group in groups:
        if (group.name, group.arity) not in named:  # no graph has a factor of it
            named.add((group.name, group.arity))
            keys.append((group.name, group.shape))
    shapes_of: dict[str, int] = {}
    for name, _ in keys:
        shapes_of[name] = shapes_of.get(name, 0) + 1
    names = {(name, shape): name for name, shape in keys if shapes_of[name] == 1}
    taken = set(names.values())
    for name, shape in keys:
        if shapes_of[name] > 1:
            new = f"{name}[{shape_name(shape)}]"
            while new in taken:  # a name the user gave
                new += "'"
            taken.add(new)
            names[name, shape] = new
    return names


def _name_in(names: dict[tuple[str, tuple[int, ...]], str], group: Group) -> str:
    """The name of ``group`` in the union; one without factors may go with those of any shape."""
    if (group.name, group.shape) in names:
        return names[group.name, group.shape]
    return next(new for (name, shape), new in names.items() if name == group.name and len(shape) == group.arity)


def _rows_of(table: Any, where: slice, group: Group) -> Any:
    rows = table[where]
    return rows if group.count else rows.reshape((0, *group.shape))


def _shifted(scopes: Sequence[Integers], starts: Integers) -> Integers:
    """Scopes of the parts one after another, each with its start added."""
    shifted: Integers = np.concatenate(scopes)
    shifted += np.repeat(starts, [len(piece) for piece in scopes])[:, None]
    return shifted


def _apart(name: str, names: dict[tuple[str, tuple[int, ...]], str]) -> str:
    """The name of structured factors, primed where tables of another part of the union have it."""
    taken = set(names.values())
    while name in taken:
        name += "'"
    return name


def _each_own(given: Any, group: StructuredGroup, part: int) -> list[Any]:
    """The log-potentials of each structured factor of a group: a list, or one for all."""
    if not group.weighted:
        return [None] * group.count
    each = list(given) if isinstance(given, list | tuple) else [given] * group.count
    if len(each) != group.count:
        raise ValueError(
            f"{len(each)} tensors of potentials for the {group.count} structured factors {group.name!r} of graph "
            f"{part}; give one for each, or one for all"
        )
    return each


def _concatenate(tables: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
    if all(isinstance(table, np.ndarray) for table in tables):
        return np.concatenate(tables)
    import torch

    return torch.cat([torch.as_tensor(table) for table in tables])  # type: ignore[return-value]
