"""Structure of a discrete factor graph: integers only, no numbers.

In: cardinalities and the scopes of factors. Out: an immutable :class:`FactorGraph` whose factors are kept in
*groups* of one table shape, so that a group's numbers are one dense tensor. Stage: structure.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.formats.numbers import as_int64
from loopwise.notebook import Shown

if TYPE_CHECKING:
    from loopwise.formats.model import TableModel
    from loopwise.formats.vocabulary import Vocabulary
    from loopwise.graph.layout import Layout, StructuredMember
    from loopwise.graph.structured.base import StructuredFactor

Integers = NDArray[np.int64]

LARGEST_TOTAL = 2**53  # values of all variables: beyond any memory, and sums of sizes stay exact


@dataclass(frozen=True, eq=False)
class Group:
    """Factors of one table shape: row ``f`` of ``scopes`` lists the variables of factor ``f`` by axis."""

    name: str
    scopes: Integers  # [factors, arity]
    shape: tuple[int, ...]  # cardinalities along the table's axes

    @cached_property
    def count(self) -> int:
        return int(self.scopes.shape[0])

    @cached_property
    def arity(self) -> int:
        return int(self.scopes.shape[1])

    @cached_property
    def cells(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class StructuredGroup:
    """Structured factors of one name (trees of several sentences), each with its ordered scope."""

    name: str
    factors: tuple[StructuredFactor, ...]
    scopes: tuple[Integers, ...]

    @property
    def count(self) -> int:
        return len(self.factors)

    @property
    def members(self) -> tuple[tuple[StructuredFactor, Integers], ...]:
        """Each factor with its scope."""
        return tuple(zip(self.factors, self.scopes, strict=True))

    @property
    def weighted(self) -> bool:
        """Whether its factors have log-potentials of their own."""
        return any(factor.potentials_shape is not None for factor in self.factors)

    def kinds(self) -> str:
        """Class names, for messages."""
        return ", ".join(dict.fromkeys(type(factor).__name__ for factor in self.factors))


class FactorGraph(Shown):
    """A bipartite graph of variables and factor groups; immutable, compiled once to a :class:`Layout`.

    Parameters
    ----------
    cardinalities:
        Number of values of each variable, ``[variables]``.
    factors:
        For each group name the scopes of its factors, an integer array ``[factors, arity]``. All factors of a
        group must have one table shape (use :meth:`from_factors` or :meth:`from_scopes` for mixed ones).
    structured:
        For each name a structured factor and its scope, ``(factor, variables)``, or a list of such pairs: factors that
        are programs over many variables (trees, one-of-many) instead of tables.
    vocabulary:
        What variables and their values are called, a :class:`~loopwise.formats.Vocabulary`: evidence and beliefs then
        go by these names too. Graphs that differ in names only are equal.

    Several factors may share a scope; variables may have no factor; parts may be disconnected.

    >>> graph = FactorGraph([2, 2, 3], {"pair": [[0, 1]], "mixed": [[1, 2]]})
    >>> graph
    FactorGraph(3 variables, 2 factors: pair 1 of 2x2, mixed 1 of 2x3)
    """

    def __init__(
        self,
        cardinalities: ArrayLike,
        factors: Mapping[str, ArrayLike],
        structured: Mapping[str, Any] | None = None,
        *,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.cardinalities: Integers = _frozen(_checked_cardinalities(cardinalities))
        self.groups: tuple[Group, ...] = tuple(
            _checked_group(name, scopes, self.cardinalities) for name, scopes in factors.items()
        )
        self.structured: tuple[StructuredGroup, ...] = tuple(
            _checked_structured(name, given, self.cardinalities) for name, given in (structured or {}).items()
        )
        for name in factors.keys() & (structured or {}).keys():
            raise ValueError(
                f"the name {name!r} stands both for a group of tables and for structured factors; rename one of them"
            )
        self.vocabulary = _checked_vocabulary(vocabulary, self.cardinalities)
        # Position of factor k of the list a graph was built from: (group number, row). None: group by group.
        self._order: tuple[Integers, Integers] | None = None
        # The last few slicings of observed variables, by pattern of evidence: calls with the same pattern reuse them
        # (a likelihood alternates between two).
        self.conditioned: dict[Any, Any] = {}
        # Of a union of examples: where the variables of each begin, [parts + 1].
        self.part_start: Integers | None = None

    @classmethod
    def of_groups(
        cls, cardinalities: Integers, groups: tuple[Group, ...], structured: tuple[StructuredGroup, ...] = ()
    ) -> FactorGraph:
        """A graph of groups that have been checked, such as some of the factors of another one."""
        graph = cls(cardinalities, {})
        graph.groups, graph.structured = groups, structured
        return graph

    @classmethod
    def from_scopes(cls, cardinalities: ArrayLike, scopes: Sequence[Sequence[int]]) -> FactorGraph:
        """Groups a list of scopes of any shapes by table shape; :meth:`locate` remembers the list's order."""
        cards = _checked_cardinalities(cardinalities)
        rows: dict[tuple[int, ...], list[Sequence[int]]] = {}
        where: list[tuple[tuple[int, ...], int]] = []
        for number, scope in enumerate(scopes):
            shape = _shape_of_scope(number, scope, cards)
            members = rows.setdefault(shape, [])
            where.append((shape, len(members)))
            members.append(scope)
        graph = cls(
            cards,
            {
                shape_name(shape): np.asarray(members, dtype=np.int64).reshape(len(members), len(shape))
                for shape, members in rows.items()
            },
        )
        number_of_shape = {shape: number for number, shape in enumerate(rows)}
        graph._order = (
            _frozen(np.array([number_of_shape[shape] for shape, _ in where], dtype=np.int64)),
            _frozen(np.array([row for _, row in where], dtype=np.int64)),
        )
        return graph

    @classmethod
    def from_factors(
        cls, cardinalities: ArrayLike, factors: Sequence[tuple[Sequence[int], ArrayLike]]
    ) -> tuple[FactorGraph, dict[str, NDArray[np.float64]]]:
        """Graph and log-potentials of a list of ``(scope, log table)``; groups are named by shape
        (``"2x3"``).

        A Python loop over factors: give large models as arrays, to the constructor.
        """
        graph = cls.from_scopes(cardinalities, [scope for scope, _ in factors])
        tables = {group.name: np.empty((group.count, *group.shape), dtype=np.float64) for group in graph.groups}
        for number, (scope, values) in enumerate(factors):
            name, row = graph.locate(number)
            table = np.asarray(values, dtype=np.float64)
            expected = tables[name].shape[1:]
            if table.shape != expected:
                raise ValueError(
                    f"factor {number} over variables {list(scope)} has a table of shape {table.shape}; "
                    f"the variables' cardinalities ask for {expected}"
                )
            tables[name][row] = table
        return graph, tables

    @classmethod
    def from_model(cls, model: TableModel) -> tuple[FactorGraph, dict[str, NDArray[np.float64]]]:
        """Graph, with the names that the file gives, and log-potentials of a model that was read from a file.

        >>> import tempfile, pathlib, loopwise as lw
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "flu.bif"
        >>> _ = path.write_text('''
        ... variable flu { type discrete [ 2 ] { no, yes }; }
        ... variable fever { type discrete [ 2 ] { no, yes }; }
        ... probability ( flu ) { table 0.9, 0.1; }
        ... probability ( fever | flu ) { (no) 0.95, 0.05; (yes) 0.2, 0.8; }''')
        >>> graph, tables = lw.FactorGraph.from_model(lw.formats.read_model(path))
        >>> lw.Exact()(graph, tables, {"fever": "yes"})["flu"]
        flu: no 0.36, yes 0.64
        """
        graph, tables = cls.from_factors(model.cardinalities, model.log_factors())
        return (graph if model.vocabulary is None else graph.named(model.vocabulary)), tables

    @classmethod
    def from_networkx(cls, network: Any, cardinality: int = 2) -> FactorGraph:
        """The pairwise graph of a networkx graph; see :func:`loopwise.graph.networks.from_networkx`."""
        from loopwise.graph.networks import from_networkx

        return from_networkx(network, cardinality)

    def to_networkx(self, *, factors: bool = False) -> Any:
        """A networkx graph of the variables; see :func:`loopwise.graph.networks.to_networkx`."""
        from loopwise.graph.networks import to_networkx

        return to_networkx(self, factors=factors)

    def named(self, vocabulary: Vocabulary | None) -> FactorGraph:
        """The same graph with these names; what has been computed of this one is shared.

        >>> from loopwise.formats import Vocabulary
        >>> graph = FactorGraph([2], {"bias": [[0]]}).named(Vocabulary(("flu",), (("no", "yes"),)))
        >>> graph.vocabulary.names
        ('flu',)
        """
        twin = copy.copy(self)
        twin.vocabulary = _checked_vocabulary(vocabulary, self.cardinalities)
        return twin

    @property
    def variables(self) -> int:
        return int(self.cardinalities.shape[0])

    @property
    def factors(self) -> int:
        """Number of factors that are tables."""
        return sum(group.count for group in self.groups)

    def group(self, name: str) -> Group:
        """The group called ``name``."""
        for group in self.groups:
            if group.name == name:
                return group
        raise ValueError(f"no factor group {name!r}; the graph has {[group.name for group in self.groups]}")

    def structured_group(self, name: str) -> StructuredGroup | None:
        """The structured factors called ``name``, None if there are none."""
        return next((group for group in self.structured if group.name == name), None)

    def structured_scope(self, member: StructuredMember) -> Integers:
        """The variables of one structured factor of the layout."""
        return next(group.scopes[member.row] for group in self.structured if group.name == member.name)

    def locate(self, factor: int) -> tuple[str, int]:
        """Group name and row of factor ``factor`` of the list that the graph was built from."""
        if not 0 <= factor < self.factors:
            raise ValueError(f"factor {factor} is out of range: the graph has {self.factors} factors, counted from 0")
        if self._order is not None:
            return self.groups[int(self._order[0][factor])].name, int(self._order[1][factor])
        for group in self.groups:
            if factor < group.count:
                return group.name, factor
            factor -= group.count
        raise AssertionError("unreachable: factor counts add up")

    @cached_property
    def layout(self) -> Layout:
        """The compiled integer arrays that inference runs on (computed once)."""
        from loopwise.graph.layout import Layout

        return Layout.of(self)

    @cached_property
    def uniform_cardinality(self) -> int | None:
        """The one cardinality all variables share, or None."""
        if self.variables == 0 or (self.cardinalities != self.cardinalities[0]).any():
            return None
        return int(self.cardinalities[0])

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{group.name} {group.count}" + ("" if group.name == label else f" of {label}")
            for group in self.groups[:6]
            for label in [shape_name(group.shape)]
        )
        parts += f", and {len(self.groups) - 6} more groups" if len(self.groups) > 6 else ""
        parts = ", ".join(
            filter(None, [parts, *(f"{group.name} {group.count} {group.kinds()}" for group in self.structured)])
        )
        count = self.factors + sum(group.count for group in self.structured)
        head = f"{self.variables} variables, {count} factors"
        return f"FactorGraph({head}: {parts})" if parts else f"FactorGraph({head})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactorGraph):
            return NotImplemented
        return (
            np.array_equal(self.cardinalities, other.cardinalities)
            and [group.name for group in self.groups] == [group.name for group in other.groups]
            and all(
                np.array_equal(mine.scopes, theirs.scopes)
                for mine, theirs in zip(self.groups, other.groups, strict=True)
            )
            and _same_structured(self.structured, other.structured)
        )

    def __hash__(self) -> int:
        tables = tuple((group.name, group.count, group.shape) for group in self.groups)
        return hash((self.variables, tables, tuple((group.name, group.factors) for group in self.structured)))


def _checked_vocabulary(vocabulary: Vocabulary | None, cardinalities: Integers) -> Vocabulary | None:
    if vocabulary is not None:
        vocabulary.check_sizes(cardinalities.tolist())
    return vocabulary


def _same_structured(mine: tuple[StructuredGroup, ...], theirs: tuple[StructuredGroup, ...]) -> bool:
    return [(group.name, group.factors) for group in mine] == [(group.name, group.factors) for group in theirs] and all(
        np.array_equal(own, other)
        for group, match in zip(mine, theirs, strict=True)
        for own, other in zip(group.scopes, match.scopes, strict=True)
    )


def shape_name(shape: Sequence[int]) -> str:
    """The default name of a group of this table shape: ``(2, 3)`` is ``"2x3"``."""
    return "x".join(str(size) for size in shape) if len(shape) else "constant"


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _checked_cardinalities(cardinalities: ArrayLike) -> Integers:
    if isinstance(cardinalities, Mapping):
        raise ValueError(
            "cardinalities are numbers of values, one a variable, not a dict: names go beside them, "
            "vocabulary=lw.formats.Vocabulary(names, labels)"
        )
    array = np.array(cardinalities)
    if array.ndim != 1:
        raise ValueError(f"cardinalities must be one-dimensional, not of shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"cardinalities must be integers, not {array.dtype}")
    bad = np.flatnonzero(array < 1)
    if bad.size:
        raise ValueError(f"variable {bad[0]} has cardinality {array[bad[0]]}; it must be at least 1")
    most = int(array.max(initial=1))
    if most * max(1, array.size) >= LARGEST_TOTAL and sum(map(int, array.tolist())) >= LARGEST_TOTAL:
        raise ValueError(
            f"variable {int(array.argmax())} has cardinality {most}; all cardinalities together must be below "
            f"{LARGEST_TOTAL}"
        )
    return array.astype(np.int64)


def variable_range(variables: int) -> str:
    """How messages say which variables there are."""
    return f"the graph has variables 0 to {variables - 1}" if variables else "the graph has no variables"


def _shape_of_scope(number: int, scope: Sequence[int], cardinalities: Integers) -> tuple[int, ...]:
    try:
        members = [operator.index(variable) for variable in scope]
    except TypeError:
        raise ValueError(f"factor {number} must name its variables by integers, not {list(scope)}") from None
    for variable in members:
        if not 0 <= variable < len(cardinalities):
            raise ValueError(f"factor {number} names variable {variable}; {variable_range(len(cardinalities))}")
    if len(set(members)) < len(members):
        raise ValueError(f"factor {number} repeats a variable in its scope {members}; name each variable once")
    return tuple(int(cardinalities[variable]) for variable in members)


def _checked_group(name: str, scopes: ArrayLike, cardinalities: Integers) -> Group:
    try:
        array = np.array(scopes)
    except ValueError:
        raise ValueError(
            f"scopes of group {name!r} differ in arity; give each arity a group of its own, or use "
            "FactorGraph.from_scopes"
        ) from None
    if array.size == 0 and array.ndim < 2:
        raise ValueError(f"group {name!r} has no factors: leave it out, or give scopes of shape [0, arity]")
    if array.ndim != 2:
        raise ValueError(f"scopes of group {name!r} must be an array [factors, arity], not of shape {array.shape}")
    array = as_int64(f"scopes of group {name!r}", array)
    _check_range(name, array, len(cardinalities))
    _check_distinct(name, array)
    shapes = cardinalities[array]  # [factors, arity]
    if len(shapes) and (shapes != shapes[0]).any():
        row = int(np.flatnonzero((shapes != shapes[0]).any(axis=1))[0])
        raise ValueError(
            f"group {name!r} mixes table shapes: factor 0 is {shape_name(shapes[0])}, factor {row} is "
            f"{shape_name(shapes[row])}; give each shape a group of its own, or use FactorGraph.from_scopes"
        )
    shape = shapes[0] if len(shapes) else _shape_of_none(cardinalities, array.shape[1])
    return Group(name, _frozen(array), tuple(int(size) for size in shape))


def _checked_structured(name: str, given: Any, cardinalities: Integers) -> StructuredGroup:
    from loopwise.graph.structured.base import StructuredFactor

    pairs = (
        [given] if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], StructuredFactor) else given
    )
    factors, scopes = [], []
    for row, pair in enumerate(pairs):
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], StructuredFactor)):
            raise ValueError(f"structured factor {row} of {name!r} must be a pair (factor, variables), not {pair!r}")
        factor, scope = pair[0], np.array(pair[1])
        if scope.ndim != 1 or len(scope) != factor.arity or (scope.size and not np.issubdtype(scope.dtype, np.integer)):
            raise ValueError(
                f"structured factor {row} of {name!r} needs the numbers of {factor.arity} variables, not an array "
                f"{scope.dtype} {scope.shape}"
            )
        scope = as_int64(f"the scope of structured factor {row} of {name!r}", scope)
        _check_range(name, scope[None], len(cardinalities))
        _check_distinct(name, scope[None])
        wrong = np.flatnonzero(cardinalities[scope] != np.array(factor.cardinalities, dtype=np.int64))
        if wrong.size and set(factor.cardinalities) == {2}:
            raise ValueError(
                f"{type(factor).__name__} stands over binary variables; variable {scope[wrong[0]]} has "
                f"{cardinalities[scope[wrong[0]]]} values (member {wrong[0]} of structured factor {row} of {name!r})"
            )
        if wrong.size:
            raise ValueError(
                f"variable {scope[wrong[0]]} has {cardinalities[scope[wrong[0]]]} values, but as member {wrong[0]} of "
                f"structured factor {row} of {name!r} it must have {factor.cardinalities[wrong[0]]}"
            )
        factors.append(factor)
        scopes.append(_frozen(scope))
    return StructuredGroup(name, tuple(factors), tuple(scopes))


def _shape_of_none(cardinalities: Integers, arity: int) -> tuple[int, ...]:
    """Table shape of a group without factors: that of any factor where all variables are alike, else all 1.

    So a chain of one variable has pairs of K x K like any longer chain, and joins a union of chains.
    """
    alike = len(cardinalities) > 0 and bool((cardinalities == cardinalities[0]).all())
    return (int(cardinalities[0]) if alike else 1,) * arity


def _check_range(name: str, scopes: Integers, variables: int) -> None:
    bad = np.argwhere((scopes < 0) | (scopes >= variables))
    if bad.size:
        row, position = bad[0]
        raise ValueError(
            f"factor {row} of group {name!r} names variable {scopes[row, position]}; {variable_range(variables)}"
        )


def _check_distinct(name: str, scopes: Integers) -> None:
    ordered = np.sort(scopes, axis=1)
    bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if bad.size:
        scope = scopes[bad[0]].tolist()
        raise ValueError(
            f"factor {bad[0]} of group {name!r} repeats a variable in its scope {scope}; name each variable once"
        )
