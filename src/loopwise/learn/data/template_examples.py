"""Examples of a template: each with a graph of its own, a batch of them their union.

In: a template and a list of whatever it takes. Out: :class:`TemplateExamples`, which systems, losses and training read
like :class:`~loopwise.Examples`. Stage: learning. What is said of one example alone (graph, values, roles, features) is
asked for once, when they are made; a batch only joins arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder
from loopwise.graph.evidence import FREE, Evidence, Role
from loopwise.graph.factor_graph import FactorGraph, Integers, shape_name
from loopwise.graph.union import Union
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision, Distributions
from loopwise.inference.rows import RowDecision, beliefs_in_rows, in_rows
from loopwise.learn.data.batching import BatchSize, InBatches, TotalSize, batch_indices
from loopwise.learn.data.examples import STEP, Examples, Index, checked_roles, example_rows
from loopwise.loss.targets import Targets
from loopwise.potentials.template import Template, TemplateBatch, graph_size

CHUNK = TotalSize(2**16)  # answered at once: arrays of half a megabyte each stay in the caches of a core


@dataclass(frozen=True, eq=False)
class TemplateExamples(InBatches):
    """A number of examples of one template. Wherever a list of examples is taken, these are too, and nothing of them is
    computed again; make them by :meth:`of`, once, of data that are used several times.

    Parameters
    ----------
    template: of which they are.
    examples, graphs, values, roles, prepared: of each example.
    numbers: where each stood in what was given.

    >>> import loopwise as lw
    >>> class Coins(lw.Template):
    ...     def graph(self, coins):
    ...         return lw.FactorGraph([2] * len(coins), {"bias": np.arange(len(coins))[:, None]})
    ...     def values(self, coins):
    ...         return coins
    ...     def potentials(self, batch):
    ...         return {"bias": torch.tensor([0.0, 1.0])}
    >>> examples = TemplateExamples.of(Coins(), [[0, 1], [1, -1, 1]])
    >>> len(examples), examples.graph.variables, examples.targets.scored.tolist()
    (2, 5, [[True, True, False], [True, False, True]])
    """

    template: Template
    examples: tuple[Any, ...]
    graphs: tuple[FactorGraph, ...]
    values: tuple[Integers, ...]  # of each example [variables], FREE where there is none
    roles: tuple[Integers, ...]  # of each example [variables], as declared
    prepared: tuple[Mapping[str, np.ndarray], ...]
    numbers: Integers  # the place of each in the list that they are of
    weights: ClassVar[None] = None  # all count alike

    @staticmethod
    def of(template: Template, examples: Iterable[Any]) -> TemplateExamples:
        """Asks ``template`` about each example, and checks what it says.

        Raises
        ------
        ValueError
            Where values or roles do not fit an example's graph, features differ in kind between examples, or one group
            has tables of two shapes; it names the example.
        """
        given = tuple(examples)
        graphs, values, roles, prepared = [], [], [], []
        for number, example in enumerate(given):
            graph = template.graph_of(example, f"example {number}")
            graphs.append(graph)
            values.append(_checked_values(number, graph, template.values(example)))
            roles.append(_checked_roles(number, graph, template.roles(example)))
            prepared.append(_arrays(number, template.prepare(example)))
        _check_groups(graphs)
        _check_alike(prepared)
        return TemplateExamples(
            template, given, tuple(graphs), tuple(values), tuple(roles), tuple(prepared), np.arange(len(given))
        )

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        variables = sum(graph.variables for graph in self.graphs)
        return f"TemplateExamples({len(self)} of {type(self.template).__name__}, {variables} variables)"

    def __getitem__(self, index: Index) -> TemplateExamples:
        """Some of the examples; one number gives examples that are only one."""
        chosen = example_rows(index, len(self))
        places: list[int] = np.arange(len(self))[chosen].tolist()
        return TemplateExamples(
            self.template,
            tuple(self.examples[place] for place in places),
            tuple(self.graphs[place] for place in places),
            tuple(self.values[place] for place in places),
            tuple(self.roles[place] for place in places),
            tuple(self.prepared[place] for place in places),
            self.numbers[chosen],
        )

    def batch_indices(
        self,
        size: BatchSize,
        generator: torch.Generator | None = None,
        *,
        by_pattern: bool | None = False,
        clamped: Iterable[Role] = (Role.INPUT,),
    ) -> list[Integers]:
        """The numbers of the examples of each of :meth:`batches`."""
        return batch_indices(len(self), size, generator, sizes=self.sizes)

    @cached_property
    def sizes(self) -> Integers:
        """The size of each example as :class:`~loopwise.learn.TotalSize` counts it, ``[count]``."""
        known = {id(graph): graph_size(graph) for graph in self.graphs}
        return np.array([known[id(graph)] for graph in self.graphs], dtype=np.int64)

    # --- What systems and training ask for, as of Examples -----------------------------------------------------------

    @property
    def usual_step(self) -> BatchSize:
        """As much as :data:`~loopwise.learn.data.examples.STEP` examples of average size."""
        return TotalSize(max(1, round(STEP * float(self.sizes.mean())))) if len(self) else STEP

    @property
    def usual_chunk(self) -> BatchSize:
        return CHUNK

    @cached_property
    def union(self) -> Union:
        """The union of their graphs."""
        if not len(self):
            raise ValueError("there are no examples; give at least one")
        return self.template.union_of(self.graphs)

    @property
    def graph(self) -> FactorGraph:
        """The graph of all of them together."""
        return self.union.graph

    @cached_property
    def batch(self) -> TemplateBatch:
        """What :meth:`~loopwise.Template.potentials` is given."""
        return TemplateBatch(self.examples, self.union, self.prepared)

    def tables(self, potentials: nn.Module) -> dict[str, Any]:
        """The log-potentials of their union."""
        tables: dict[str, Any] = potentials(self.batch)
        return tables

    def decide(self, decoder: BeliefDecoder, beliefs: Beliefs) -> Decision:
        """The decision on the outputs of each."""
        return decoder.decide_parts(beliefs, self.outputs.to(beliefs.states.device), self.union.side_by_side)

    def by_example(self, prediction: Distributions) -> Distributions:
        """A prediction for the union as measures take it beside :attr:`targets`: one row an example."""
        own = getattr(prediction, "in_rows", None)
        if own is not None:  # it knows more of each example
            mine: Distributions = own(self.union.side_by_side)
            return mine
        if isinstance(prediction, Decision):
            return RowDecision(self.union.side_by_side, prediction)
        assert isinstance(prediction, Beliefs)
        return beliefs_in_rows(self.union.side_by_side, prediction)

    def assignment(self, decision: Decision) -> list[Tensor]:
        """The decided values of each example."""
        return list(torch.split(decision.assignment, np.diff(self.union.variable_start).tolist()))

    def marginals(self, beliefs: Beliefs) -> list[Tensor]:
        """The beliefs about the variables of each example, ``[variables, largest cardinality]``."""
        pieces = torch.split(beliefs.variables, np.diff(self.union.variable_start).tolist())
        widths = [int(graph.cardinalities.max(initial=0)) for graph in self.graphs]
        return [piece[:, :width] for piece, width in zip(pieces, widths, strict=True)]

    def in_order(self, pieces: Sequence[list[Tensor]], rows: Sequence[Integers]) -> list[Tensor]:
        """Answers about ``rows`` of the examples, in the order of the examples."""
        flat = [answer for piece in pieces for answer in piece]
        return [flat[place] for place in np.argsort(np.concatenate(rows), kind="stable").tolist()]

    def having(self, roles: Iterable[Role]) -> NDArray[np.bool_]:
        """Which examples have a variable of one of ``roles``, ``[count]``."""
        part = np.repeat(np.arange(len(self)), [len(row) for row in self.values])
        found = np.isin(self.known_roles, list(roles))
        return np.asarray(np.bincount(part[found], minlength=len(self)) > 0)

    @property
    def scored_examples(self) -> NDArray[np.bool_]:
        """In which examples a right answer is known, ``[count]``."""
        return self.having((Role.OUTPUT,))

    @cached_property
    def scored(self) -> bool:
        """Whether any right answer is known."""
        return bool(self.scored_examples.any())

    @cached_property
    def known_roles(self) -> Integers:
        """Roles ``[variables of the union]`` with MISSING for inputs and outputs that have no value."""
        roles = _joined(self.roles)
        return np.where((_joined(self.values) == FREE) & (roles != Role.HIDDEN), np.int64(Role.MISSING), roles)

    @cached_property
    def evidence(self) -> Evidence:
        """What inference on the union takes, and likelihoods."""
        return Evidence(_joined(self.values), self.known_roles)

    @cached_property
    def outputs(self) -> Tensor:
        """Which variables are to be predicted, bool ``[variables of the union]``."""
        return torch.from_numpy(_joined(self.roles) == Role.OUTPUT)

    @cached_property
    def targets(self) -> Targets:
        """What measures score: a row an example, padding not scored."""
        rows = self.union.side_by_side
        values = torch.from_numpy(self.evidence.clamp((Role.OUTPUT,)))
        return Targets.from_values(rows.graph, in_rows(rows, values, FREE))

    def arrays(self) -> Iterator[np.ndarray]:
        """What tells these examples from others."""
        yield from self.values
        yield from self.roles
        for graph in self.graphs:
            yield graph.cardinalities
            yield from (group.scopes for group in graph.groups)
            yield from (scope for group in graph.structured for scope in group.scopes)
        for arrays in self.prepared:
            yield from arrays.values()


Corpus = Examples | TemplateExamples  # examples of one graph, or each with its own


def _joined(pieces: Sequence[Integers]) -> Integers:
    return np.concatenate(pieces) if len(pieces) else np.zeros(0, dtype=np.int64)


def _checked_values(number: int, graph: FactorGraph, given: ArrayLike | Tensor | None) -> Integers:
    if given is None:
        return np.full(graph.variables, FREE, dtype=np.int64)
    array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if array.shape != (graph.variables,):
        raise ValueError(
            f"the values of example {number} have shape {array.shape}, and its graph has {graph.variables} variables; "
            "give one value for each, -1 where it is missing"
        )
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"the values of example {number} must be integers, not {array.dtype}")
    array = array.astype(np.int64)
    bad = np.flatnonzero((array < FREE) | (array >= graph.cardinalities))
    if bad.size:
        variable = int(bad[0])
        raise ValueError(
            f"example {number} gives variable {variable} the value {array[variable]}; it has values 0 to "
            f"{graph.cardinalities[variable] - 1}, and -1 if it is missing"
        )
    return array


def _checked_roles(number: int, graph: FactorGraph, given: ArrayLike) -> Integers:
    if isinstance(given, Role):
        return np.full(graph.variables, int(given), dtype=np.int64)
    array = np.asarray(given)
    if array.ndim == 0:
        array = np.full(graph.variables, array)
    try:
        return checked_roles(graph, array)
    except ValueError as problem:
        raise ValueError(f"example {number}: {problem}") from None


def _arrays(number: int, given: object) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping):
        raise ValueError(f"prepare must map names to arrays, but for example {number} it gives {type(given).__name__}")
    arrays = {str(name): np.asarray(value) for name, value in given.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype == object:
            raise ValueError(
                f"prepare gives {name!r} of example {number} as {given[name]!r}; it must be an array of numbers whose "
                "first axis is joined with that of other examples"
            )
    return arrays


def _check_alike(prepared: Sequence[Mapping[str, np.ndarray]]) -> None:
    """That the arrays of all examples can be joined."""
    for number, arrays in enumerate(prepared):
        first = prepared[0]
        if arrays.keys() != first.keys():
            raise ValueError(
                f"prepare gives {list(arrays)} for example {number} and {list(first)} for example 0; give the same"
            )
        for name, array in arrays.items():
            if array.shape[1:] != first[name].shape[1:]:
                raise ValueError(
                    f"prepare gives {name!r} of shape {array.shape} for example {number} and {first[name].shape} for "
                    "example 0; all but the first axis must be the same"
                )


def _check_groups(graphs: Sequence[FactorGraph]) -> None:
    """That a name means one kind of factor in all graphs."""
    seen: dict[str, tuple[str, int]] = {}
    done: set[int] = set()
    for number, graph in enumerate(graphs):
        if id(graph) in done:
            continue
        done.add(id(graph))
        kinds = {group.name: f"tables of {shape_name(group.shape)}" for group in graph.groups if group.count}
        kinds.update((group.name, "structured factors") for group in graph.structured)
        for name, kind in kinds.items():
            known, first = seen.setdefault(name, (kind, number))
            if known != kind:
                raise ValueError(
                    f"group {name!r} is {kind} in the graph of example {number} and {known} in that of example "
                    f"{first}; give each a name of its own"
                )
