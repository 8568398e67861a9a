r"""Factor graphs as models of walks: any graph, with table, tied or sparse potentials.

In: potentials and documents over graphs. Out: worlds, features :math:`\phi_{(g,k,c)}(y) = \sum_\alpha f_{\alpha k}
[x_\alpha = c]`, one for each group g, feature k and table cell c. Stage: walking.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from loopwise.graph.builders import chain
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparsePotentials
from loopwise.potentials.tables import TablePotentials
from loopwise.potentials.tied import TiedTables
from loopwise.walk.labelling import Labelling
from loopwise.walk.models.model import Factor, Model
from loopwise.walk.randomness import Stream
from loopwise.walk.world import Move, Start, World

if TYPE_CHECKING:
    from loopwise.walk.corpus import Corpus
    from loopwise.walk.proposal import Proposal

Potentials = SparsePotentials | TablePotentials | TiedTables
RowLists = list[list[list[tuple[int, float]]]]  # group, row: features with values


@dataclass(frozen=True, eq=False)
class GraphDocument:
    """One example: a graph, the right values (-1 where a variable is not scored), features of its factors.

    ``features[group]`` has one row a factor, or a single row that all factors share; a group that is left out has the
    potentials' own (a table of its own, or the single feature of the group). ``free`` says which variables may change,
    bool ``[variables]``; the others keep their values, which must be given. By default all may.
    """

    graph: FactorGraph
    truth: Integers
    features: Mapping[str, Features] = field(default_factory=dict)
    free: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        truth = np.array(self.truth, dtype=np.int64)
        object.__setattr__(self, "truth", truth)
        sizes = self.graph.cardinalities
        if truth.shape != sizes.shape:
            raise ValueError(f"the truth has shape {truth.shape}; the graph has {len(sizes)} variables")
        bad = np.flatnonzero((truth < -1) | (truth >= sizes))
        if bad.size:
            place = int(bad[0])
            raise ValueError(
                f"variable {place} has the unknown label {truth[place]}; its labels are 0 to {sizes[place] - 1}"
            )
        if self.free is not None:
            if np.shape(self.free) != sizes.shape:
                raise ValueError(f"free has shape {np.shape(self.free)}; the graph has {len(sizes)} variables")
            lost = np.flatnonzero(~np.asarray(self.free) & (truth < 0))
            if lost.size:
                raise ValueError(f"variable {lost[0]} may not change and has no value; give it one in the truth")

    @property
    def free_variables(self) -> Integers:
        return np.arange(self.graph.variables) if self.free is None else np.flatnonzero(self.free)

    @staticmethod
    def of_chain(states: int, truth: ArrayLike, unary: Features, pair: Features | None = None) -> GraphDocument:
        """A sequence of tags: ``unary`` has a row a token, ``pair`` a row for each token but the last."""
        tags = np.asarray(truth)
        features = {"unary": unary} if pair is None else {"unary": unary, "pair": pair}
        return GraphDocument(chain(len(tags), states=states), tags, features)


@dataclass(frozen=True, eq=False)
class Incidence:
    """A factor of a variable: its group and row, its members and their strides, and which of them comes first."""

    group: int
    factor: int
    scope: tuple[int, ...]
    strides: tuple[int, ...]


class GraphLabelling(Labelling):
    """A labelling of a document's graph, with the rows of features at hand."""

    def __init__(self, values: Sequence[int], document: GraphDocument, rows: RowLists) -> None:
        super().__init__(values, document.graph.cardinalities.tolist(), document.free_variables.tolist())
        self.document, self.rows = document, rows

    def copy(self) -> GraphLabelling:
        return GraphLabelling(self.values, self.document, self.rows)


class GraphModel(Model):
    """The model of ``potentials``; weights are numbered through their parameters in order.

    ``write(weights)`` puts trained weights into the potentials, which then serve any inference method.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> model = GraphModel(lw.TablePotentials(graph))
    >>> model.size
    14
    """

    def __init__(self, potentials: Potentials) -> None:
        if not isinstance(potentials, SparsePotentials | TablePotentials | TiedTables):
            raise ValueError(
                f"walks learn log-linear weights: give SparsePotentials, TablePotentials or TiedTables, not "
                f"{type(potentials).__name__}"
            )
        self.potentials = potentials
        starts: dict[int, int] = {}
        self.size = 0
        for parameter in potentials.parameters():
            starts[id(parameter)] = self.size
            self.size += parameter.numel()
        self.groups = _groups(potentials, starts)
        self.number = {group.name: place for place, group in enumerate(self.groups)}
        self._incidences: dict[FactorGraph, list[list[Incidence]]] = {}
        self._rows: dict[int, tuple[GraphDocument, RowLists]] = {}

    # ------------------------------------------------------------------------------------------ the contract

    def world(self, document: Any, start: Start, random: Stream) -> World:
        checked = self.checked(document)
        values = np.maximum(checked.truth, 0).tolist()  # not scored: any value will do for a start
        if start is Start.RANDOM:
            for variable in checked.free_variables.tolist():
                values[variable] = random.below(int(checked.graph.cardinalities[variable]))
        elif start is not Start.TRUTH:
            raise ValueError(f"a labelling has no start {start.name}; use TRUTH, RANDOM, PREVIOUS or MIXED")
        return self.world_of(checked, values)

    def world_of(self, document: Any, labels: Sequence[int]) -> GraphLabelling:
        return GraphLabelling(labels, document, self._feature_rows(document))

    def answer(self, document: Any, labels: Sequence[int]) -> Integers:
        return np.array(labels, dtype=np.int64)

    def gold(self, document: Any) -> list[int]:
        values: list[int] = document.truth.tolist()
        return values

    def items(self, document: Any) -> int:
        return len(document.free_variables)

    def complete(self, document: Any) -> bool:
        return bool((document.truth >= 0).all())

    def cells(self, document: Any) -> int:
        return int(document.graph.variables * document.graph.cardinalities.max(initial=1))

    def events(self, document: Any, labels: Sequence[int]) -> list[int]:
        width = int(document.graph.cardinalities.max(initial=1))
        return [variable * width + value for variable, value in enumerate(labels)]

    def marginals(self, document: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """``[variables, largest cardinality]``."""
        return probabilities.reshape(document.graph.variables, -1)

    def factors(self, world: World) -> Iterator[Factor]:
        assert isinstance(world, GraphLabelling)
        for variable, incidences in enumerate(self.incidences(world.document.graph)):
            yield from self._of(world, [entry for entry in incidences if entry.scope[0] == variable])

    def touched(self, world: World, move: Move) -> Iterator[Factor]:
        assert isinstance(world, GraphLabelling)
        table = self.incidences(world.document.graph)
        for item in move.touched:
            yield from self._of(world, table[item])

    def compiled(self, documents: Sequence[Any], proposal: Proposal, metric: Any) -> Corpus | None:
        from loopwise.walk.models.graph_arrays import graph_corpus

        return graph_corpus(self, [self.checked(document) for document in documents], proposal, metric)

    def _of(self, world: GraphLabelling, incidences: Iterable[Incidence]) -> Iterator[Factor]:
        values = world.values
        for entry in incidences:
            group = self.groups[entry.group]
            cell = 0
            for variable, stride in zip(entry.scope, entry.strides, strict=True):
                cell += stride * values[variable]
            column = cell if group.columns is None else group.columns[cell]
            if column >= 0:
                rows = world.rows[entry.group]
                row = rows[entry.factor if len(rows) > 1 else 0]
                first, width = group.base + column, group.width
                yield (entry.group, entry.factor), [(first + index * width, value) for index, value in row]

    # ------------------------------------------------------------------------------- weights and potentials

    def write(self, weights: ArrayLike) -> None:
        """Puts ``weights`` into the parameters of the potentials."""
        flat = torch.as_tensor(np.asarray(weights, dtype=np.float64))
        if flat.shape != (self.size,):
            raise ValueError(
                f"{tuple(flat.shape)} weights do not fit a model of {self.size}; give one for each feature"
            )
        first = 0
        with torch.no_grad():
            for parameter in self.potentials.parameters():
                parameter.copy_(flat[first : first + parameter.numel()].reshape(parameter.shape))
                first += parameter.numel()

    def read(self) -> NDArray[np.float64]:
        """The parameters of the potentials as one vector."""
        pieces = [parameter.detach().double().reshape(-1).numpy() for parameter in self.potentials.parameters()]
        return np.concatenate([np.zeros(0), *pieces])

    def tables(self, document: GraphDocument) -> dict[str, torch.Tensor]:
        """Log-potentials of a document under the potentials' present weights, for exact and other inference."""
        found: dict[str, torch.Tensor]
        with torch.no_grad():
            if isinstance(self.potentials, SparsePotentials):
                found = self.potentials(document.features)
            else:
                found = self.potentials()
        return {name: found[name].expand(document.graph.group(name).count, *found[name].shape[1:]) for name in found}

    # ---------------------------------------------------------------------------------- structure, prepared

    def checked(self, document: Any) -> GraphDocument:
        """The document, if it fits the model."""
        if not isinstance(document, GraphDocument):
            raise ValueError(f"a GraphModel walks over GraphDocuments, not {type(document).__name__}")
        for group in document.graph.groups:
            if group.name not in self.number:
                raise ValueError(f"the model knows no factor group {group.name!r}; it has {list(self.number)}")
            mine = self.groups[self.number[group.name]]
            if group.count and mine.cells != group.cells:
                raise ValueError(
                    f"factors of group {group.name!r} have {group.cells} cells in the document, {mine.cells} in the "
                    "model"
                )
        return document

    def features_of(self, document: GraphDocument, group: Group) -> Features:
        """The rows of a group: the document's, or the potentials' own."""
        mine = self.groups[self.number[group.name]]
        rows = document.features.get(group.name, mine.rows) if group.count else Features.of_rows([[]])
        if rows is None:
            raise ValueError(f"no features for group {group.name!r}; only a group with a single feature can do without")
        if rows.rows not in (1, group.count):
            raise ValueError(
                f"group {group.name!r} has {rows.rows} rows of features for {group.count} factors; give one row each, "
                "or one for all"
            )
        lowest, highest = rows.bounds
        if lowest < 0 or highest >= mine.features:
            raise ValueError(
                f"feature {lowest if lowest < 0 else highest} of group {group.name!r} is out of range: it has features "
                f"0 to {mine.features - 1}"
            )
        return rows

    def incidences(self, graph: FactorGraph) -> list[list[Incidence]]:
        """The factors of each variable, group by group."""
        if graph not in self._incidences:
            table: list[list[Incidence]] = [[] for _ in range(graph.variables)]
            for group in graph.groups:
                strides = tuple(math.prod(group.shape[axis + 1 :]) for axis in range(group.arity))
                for row, scope in enumerate(group.scopes.tolist()):
                    entry = Incidence(self.number[group.name], row, tuple(scope), strides)
                    for variable in scope:
                        table[variable].append(entry)
            self._incidences[graph] = table
        return self._incidences[graph]

    def _feature_rows(self, document: GraphDocument) -> RowLists:
        """For each group of the model its rows as lists of (feature, value); the last document's are kept."""
        kept = self._rows.get(id(document))
        if kept is None or kept[0] is not document:
            rows: RowLists = [[] for _ in self.groups]
            for group in document.graph.groups:
                rows[self.number[group.name]] = _listed(self.features_of(document, group))
            kept = document, rows
            self._rows = {id(document): kept}
        return kept[1]


@dataclass(frozen=True, eq=False)
class GroupWeights:
    """Where the weights of a group are: of feature k and column c number ``base + k * width + c``."""

    name: str
    cells: int
    base: int
    width: int
    features: int
    columns: tuple[int, ...] | None  # of each cell, -1 none; None: cell c reads column c
    rows: Features | None  # where documents give none


def _groups(potentials: Potentials, starts: Mapping[int, int]) -> list[GroupWeights]:
    found = []
    if isinstance(potentials, SparsePotentials):
        for name, spec in potentials.groups.items():
            weight = potentials.weight(name)
            plain = spec.cell_columns == tuple(range(len(spec.cell_columns)))
            shared = Features.of_rows([[0]]) if spec.features == 1 else None
            columns = None if plain else spec.cell_columns
            found.append(
                GroupWeights(
                    name, math.prod(spec.shape), starts[id(weight)], weight.shape[1], spec.features, columns, shared
                )
            )
        return found
    for place, (group, table) in enumerate(zip(potentials.graph.groups, potentials.tables, strict=True)):
        rows = np.arange(group.count)
        if isinstance(potentials, TiedTables):
            rows = potentials.get_buffer(f"classes_{place}").cpu().numpy()
        own = Features.of_table(rows[:, None])
        found.append(GroupWeights(group.name, group.cells, starts[id(table)], group.cells, len(table), None, own))
    return found


def _listed(rows: Features) -> list[list[tuple[int, float]]]:
    values = [1.0] * len(rows.index) if rows.value is None else rows.value.tolist()
    entries = list(zip(rows.index.tolist(), map(float, values), strict=True))
    return [entries[first:end] for first, end in zip(rows.start[:-1].tolist(), rows.start[1:].tolist(), strict=True)]
