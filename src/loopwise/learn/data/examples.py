"""Examples: joint assignments of the variables, and what each variable is in each of them.

In: values and roles, samples or a table of data. Out: :class:`Examples`, which inference, losses and training read.
Stage: learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder
from loopwise.formats.coding import BINS
from loopwise.formats.errors import quoted
from loopwise.formats.frames import read_frame
from loopwise.formats.table import DataTable, Vocabulary
from loopwise.graph.evidence import FREE, Evidence, Role
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision, Distributions
from loopwise.learn.data.batching import BatchSize, InBatches, batch_indices, pattern_groups
from loopwise.loss.targets import Targets, TargetsLike
from loopwise.potentials.features import Features
from loopwise.potentials.template import graph_size

Index = int | slice | Sequence[int] | np.ndarray | Tensor

STEP = 32  # examples a step of training
CHUNK = 512  # examples at once where no gradient is kept: lanes are full, and memory stays small


@dataclass(frozen=True, eq=False)
class Examples(InBatches):
    """A number of examples over one graph.

    Make them by :meth:`of`, which checks once; parts (``examples[3:7]``) are not
    checked again.

    Parameters
    ----------
    graph: that all examples have.
    values: int64 ``[count, variables]``, :data:`~loopwise.graph.FREE` (-1) where a value is missing; those of hidden
        variables are never looked at.
    roles: ``[count, variables]`` of :class:`~loopwise.Role`, as declared: an output whose value is missing is
        predicted, but not scored.
    inputs: what the potentials' ``forward`` takes by name, each with one row an example.
    given_targets: answers that are distributions or sets, in place of values.

    >>> from loopwise import Role, chain
    >>> examples = Examples.of(chain(3), [[0, 1, 1], [1, -1, 0]], [Role.INPUT, Role.OUTPUT, Role.HIDDEN])
    >>> len(examples), examples.clamped.tolist(), examples.targets.scored.tolist()
    (2, [[0, 1, -1], [1, -1, -1]], [[False, True, False], [False, False, False]])
    """

    graph: FactorGraph
    values: Integers
    roles: Integers
    inputs: Mapping[str, Any] = field(default_factory=dict)
    given_targets: Targets | None = None  # right answers other than the values of the outputs
    weights: NDArray[np.float64] | None = None  # what each counts in training, 1 on average; None: all alike

    @staticmethod
    def of(
        graph: FactorGraph,
        values: Tensor | ArrayLike,
        roles: ArrayLike,
        *,
        targets: TargetsLike | None = None,
        **inputs: Any,
    ) -> Examples:
        """Checked examples; ``values`` and ``roles`` are copied.

        ``roles``: ``[variables]`` for all examples alike, or ``[count, variables]``. ``targets``: right answers, where
        they are not simply the values of the outputs (sets of answers, say). ``inputs``: per-example arguments of the
        potentials' ``forward`` by name, each with one row an example: tensors, arrays, lists,
        :class:`~loopwise.potentials.Features`, or mappings of these.
        """
        array = _checked_values(graph, values)
        checked = np.broadcast_to(checked_roles(graph, roles, len(array)), array.shape)
        for name, rows in inputs.items():
            _check_rows(name, rows, len(array))
        known = None if targets is None else Targets.of(graph, targets)
        if known is not None and tuple(known.batch_shape) != (len(array),):
            raise ValueError(
                f"targets for {tuple(known.batch_shape)} examples do not fit {len(array)} examples; "
                "give one row for each"
            )
        return Examples(graph, array, checked, inputs, known)

    @staticmethod
    def from_table(
        graph: FactorGraph, table: DataTable, *, outputs: Iterable[str], hidden: Iterable[str] = (), **inputs: Any
    ) -> Examples:
        """The rows of a table whose variables are those of ``graph``, in order; all but ``outputs`` and ``hidden``,
        given by name, are inputs."""
        vocabulary = table.vocabulary
        sizes = vocabulary.cardinalities
        if len(sizes) != graph.variables:
            raise ValueError(
                f"the table has {len(sizes)} variables, the graph has {graph.variables}; "
                "build the graph for as many columns"
            )
        for place, size in enumerate(sizes):
            if size > graph.cardinalities[place]:
                raise ValueError(
                    f"variable {quoted(vocabulary.names[place])} has {size} labels in the table and "
                    f"{graph.cardinalities[place]} values in the graph; "
                    "both must be the same"
                )
        return Examples.of(graph, table.values, _roles_by_name(vocabulary, outputs, hidden), **inputs)

    @staticmethod
    def from_frame(
        frame: Any,
        *,
        outputs: Iterable[str],
        hidden: Iterable[str] = (),
        graph: FactorGraph | None = None,
        bins: int = BINS,
        **inputs: Any,
    ) -> Examples:
        """The rows of a data frame of pandas, polars or another library that narwhals knows; a column is a variable.

        All columns but ``outputs`` and ``hidden``, given by name, are inputs; a hidden variable without a column has
        two values. NaN and None are missing values. Numbers with more than ``bins`` different values are cut into
        intervals and rare labels pooled, but not those of outputs. ``graph``: one whose vocabulary names the columns;
        without one, each column gets a factor, and so does each pair of columns of which not both are inputs.

        Raises
        ------
        ValueError
            If a column has no value at all, an output is not there, or the columns do not fit the graph.

        >>> import pandas, loopwise as lw                                        # doctest: +SKIP
        >>> frame = pandas.DataFrame({"smoker": ["yes", "no"], "flu": ["no", "yes"]})    # doctest: +SKIP
        >>> lw.Examples.from_frame(frame, outputs=["flu"])                       # doctest: +SKIP
        Examples(2 over FactorGraph(2 variables, 3 factors: 2 2, 2x2 1); variables an example: 1 input, 1 output)
        """
        predicted, unseen = list(outputs), list(hidden)
        known = None if graph is None else graph.vocabulary
        if graph is not None and known is None:
            raise ValueError("the graph does not say what its variables are called; give it a vocabulary, or no graph")
        table = read_frame(frame, vocabulary=known, bins=bins, whole=predicted, may_be_empty=unseen)
        if graph is None:
            graph = _joined(table.vocabulary, _roles_by_name(table.vocabulary, predicted, unseen))
        return Examples.from_table(graph, table, outputs=predicted, hidden=unseen, **inputs)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{count / max(1, len(self)):.4g} {role.name.lower()}"
            for role in Role
            for count in [int((self.known_roles == role).sum())]
            if count
        )
        return f"Examples({len(self)} over {self.graph!r}; variables an example: {shares})"

    def __getitem__(self, index: Index) -> Examples:
        """Some of the examples; one number gives examples that are only one."""
        rows = example_rows(index, len(self))
        targets = _part_of_targets(self.targets, rows) if self.scored else None
        inputs = {name: _part(value, rows) for name, value in self.inputs.items()}
        weights = None if self.weights is None else self.weights[rows]
        return Examples(self.graph, self.values[rows], self.roles[rows], inputs, targets, weights)

    def weighted(self, weights: ArrayLike) -> Examples:
        """The same examples, of which training counts each by its weight: as if it were there so many times.

        >>> from loopwise import Role, chain
        >>> Examples.of(chain(2), [[0, 1], [1, 1]], [Role.INPUT, Role.OUTPUT]).weighted([1, 3]).weights.tolist()
        [0.5, 1.5]
        """
        array = np.asarray(weights, dtype=np.float64)
        if array.shape != (len(self),) or not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise ValueError(
                f"weights must be {len(self)} numbers, one for each example, finite, none negative and not all 0"
            )
        return replace(self, weights=array / array.mean())

    def batch_indices(
        self,
        size: BatchSize,
        generator: torch.Generator | None = None,
        *,
        by_pattern: bool | None = False,
        clamped: Iterable[Role] = (Role.INPUT,),
    ) -> list[Integers]:
        """The numbers of the examples of each of :meth:`batches`."""
        count = size if isinstance(size, int) else max(1, size.numbers // max(1, graph_size(self.graph)))
        if by_pattern is None:
            by_pattern = self.count_patterns(clamped) * count <= max(count, len(self))
        patterns = np.isin(self.known_roles, list(clamped)) if by_pattern else None
        return batch_indices(len(self), count, generator, patterns)

    def count_patterns(self, clamped: Iterable[Role] = (Role.INPUT,)) -> int:
        """How many different sets of variables are observed, over all examples: what ``by_pattern`` keeps apart."""
        return len(pattern_groups(np.isin(self.known_roles, list(clamped)))) if len(self) else 0

    # --- What systems and training ask of examples of one graph and of many alike ------------------------------------

    @property
    def usual_step(self) -> BatchSize:
        """The batch of a training step, unless another is asked for."""
        return STEP

    @property
    def usual_chunk(self) -> BatchSize:
        """What is answered at once, unless another is asked for."""
        return CHUNK

    def tables(self, potentials: nn.Module) -> dict[str, Any]:
        """Their log-potentials."""
        tables: dict[str, Any] = potentials(**self.inputs)
        return tables

    def decide(self, decoder: BeliefDecoder, beliefs: Beliefs) -> Decision:
        """The decision on their outputs."""
        return decoder(beliefs, self.outputs)

    def by_example(self, prediction: Distributions) -> Distributions:
        """A prediction as measures take it beside :attr:`targets`: one row an example."""
        return prediction

    def assignment(self, decision: Decision) -> Tensor:
        """The decided values of each example."""
        return decision.assignment

    def marginals(self, beliefs: Beliefs) -> Tensor:
        """The beliefs about the variables of each example."""
        return beliefs.variables

    def in_order(self, pieces: Sequence[Tensor], rows: Sequence[Integers]) -> Tensor:
        """Answers about ``rows`` of the examples, joined in the order of the examples."""
        joined = torch.cat(list(pieces))
        back = torch.from_numpy(np.argsort(np.concatenate(rows), kind="stable")).to(joined.device)
        return joined.index_select(0, back)

    def having(self, roles: Iterable[Role]) -> NDArray[np.bool_]:
        """Which examples have a variable of one of ``roles``, ``[count]``."""
        return np.asarray(np.isin(self.known_roles, list(roles)).any(-1))

    @property
    def scored_examples(self) -> NDArray[np.bool_]:
        """In which examples a right answer is known, ``[count]``."""
        return self.targets.scored.any(-1).numpy() if self.scored else np.zeros(len(self), dtype=np.bool_)

    def arrays(self) -> Iterator[np.ndarray]:
        """What tells these examples from others."""
        yield from (self.values, self.roles) if self.weights is None else (self.values, self.roles, self.weights)

    @cached_property
    def known_roles(self) -> Integers:
        """Roles ``[count, variables]`` with MISSING for inputs and outputs that have no value."""
        lost = (self.values == FREE) & (self.roles != Role.HIDDEN)
        return np.where(lost, np.int64(Role.MISSING), self.roles)

    @cached_property
    def evidence(self) -> Evidence:
        """What inference takes (it clamps the inputs) and likelihoods too (they look at the outputs besides)."""
        return Evidence(self.values, self.known_roles)

    @cached_property
    def clamped(self) -> Integers:
        """The values of inputs and outputs, :data:`~loopwise.graph.FREE` for all else: evidence with answers."""
        return self.evidence.clamp((Role.INPUT, Role.OUTPUT))

    @cached_property
    def outputs(self) -> Tensor:
        """Which variables are to be predicted, bool ``[count, variables]``, their values known or not."""
        return torch.from_numpy(self.roles == Role.OUTPUT)

    @cached_property
    def scored(self) -> bool:
        """Whether any right answer is known."""
        if self.given_targets is not None:
            return bool(self.given_targets.scored.any())
        return bool((self.known_roles == Role.OUTPUT).any())

    @cached_property
    def targets(self) -> Targets:
        """What losses score: built once, then cut like the examples."""
        if self.given_targets is not None:
            return self.given_targets
        return Targets.from_evidence(self.graph, self.evidence)


def _roles_by_name(vocabulary: Vocabulary, outputs: Iterable[str], hidden: Iterable[str]) -> Integers:
    """Roles of outputs and hidden variables, given by name; all others are inputs."""
    predicted, unseen = list(outputs), list(hidden)
    for what, names in (("outputs", predicted), ("hidden", unseen)):
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise ValueError(f"{what} lists {quoted(twice)} twice; name it once")
    for name in predicted:
        if name in unseen:
            raise ValueError(f"{quoted(name)} is listed both as an output and as hidden; it can be only one of them")
    if not predicted:
        raise ValueError("no output is named, so there is nothing to predict; name at least one variable")
    roles = np.full(len(vocabulary.names), Role.INPUT, dtype=np.int64)
    roles[[vocabulary.variable(name) for name in predicted]] = Role.OUTPUT
    roles[[vocabulary.variable(name) for name in unseen]] = Role.HIDDEN
    return roles


def _joined(vocabulary: Vocabulary, roles: Integers) -> FactorGraph:
    """A factor for each variable and for each pair of which not both are inputs."""
    first, second = np.triu_indices(len(roles), 1)
    kept = (roles[first] != Role.INPUT) | (roles[second] != Role.INPUT)
    pairs = np.stack([first[kept], second[kept]], axis=1).tolist()
    scopes = [*([place] for place in range(len(roles))), *pairs]
    return FactorGraph.from_scopes(vocabulary.cardinalities, scopes).named(vocabulary)


def _checked_values(graph: FactorGraph, values: Tensor | ArrayLike) -> Integers:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"values of examples must be integers, not {array.dtype}")
    if array.ndim != 2 or array.shape[1] != graph.variables:
        raise ValueError(f"values of shape {array.shape} must be [examples, variables], of {graph.variables} variables")
    array = array.astype(np.int64)
    bad = np.argwhere((array < FREE) | (array >= graph.cardinalities))
    if bad.size:
        example, variable = bad[0].tolist()
        raise ValueError(
            f"example {example} gives variable {variable} the value {array[example, variable]}; it has values 0 to "
            f"{graph.cardinalities[variable] - 1}, and -1 if it is missing"
        )
    return array


def checked_roles(graph: FactorGraph, roles: ArrayLike, count: int | None = None) -> Integers:
    """Roles ``[variables]``, or a row for each of ``count`` examples, as integers."""
    array = np.asarray(roles)
    allowed = "[variables]" if count is None else "[variables] or [examples, variables]"
    if array.shape not in ((graph.variables,), (count, graph.variables)):
        raise ValueError(
            f"roles of shape {array.shape} must be {allowed}, of {graph.variables} variables"
            + ("" if count is None else f" and {count} examples")
        )
    bad = np.argwhere(~np.isin(array, list(Role)))
    if bad.size:
        place = bad[0].tolist()
        example = f" in example {place[0]}" if len(place) == 2 else ""
        raise ValueError(
            f"the role of variable {place[-1]}{example} is {array[tuple(place)]}; roles are "
            f"{', '.join(f'{role.name} ({role.value})' for role in Role)}"
        )
    return array.astype(np.int64)


def example_rows(index: Index, count: int) -> slice | Integers:
    """An index that keeps the axis of examples; slices stay slices, so that parts are views, if torch takes them."""
    if isinstance(index, slice):
        return index if index.step is None or index.step > 0 else np.arange(count)[index].copy()
    array = index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
    if array.ndim > 1 or not (np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_ or not array.size):
        raise ValueError(f"examples are chosen by integers, a slice or a mask, not {index!r}")
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise ValueError(
                f"a mask of shape {array.shape} does not fit {count} examples; give one truth value for each"
            )
        return np.flatnonzero(array)
    numbers = np.atleast_1d(array).astype(np.int64)
    bad = numbers[(numbers < -count) | (numbers >= count)]
    if bad.size:
        raise IndexError(f"there is no example {bad[0]}; there are {count}, counted from 0")
    return numbers % count if numbers.size else numbers


def _taken(tensor: Tensor, rows: slice | Integers) -> Tensor:
    """Rows of a tensor. Not ``tensor[index]``: that starts threads even for a few numbers, and waits for them."""
    if isinstance(rows, slice):
        return tensor[rows]
    return tensor.index_select(0, torch.from_numpy(rows).to(tensor.device))


def _part_of_targets(targets: Targets, rows: slice | Integers) -> Targets:
    if isinstance(rows, slice):
        return targets[rows]
    values = None if targets.values is None else _taken(targets.values, rows)
    return Targets(targets.graph, _taken(targets.allowed, rows), _taken(targets.scored, rows), values)


def count_rows(value: Any) -> int:
    """How many examples an input has rows for."""
    if isinstance(value, Mapping):
        return count_rows(next(iter(value.values()), ()))
    if isinstance(value, Features):
        return value.batch[0] if value.batch else 0
    return int(value.shape[0]) if hasattr(value, "shape") and len(value.shape) else len(value)


def _check_rows(name: str, value: Any, count: int) -> None:
    """Refuses an input that has not one row for each example."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_rows(f"{name}[{key!r}]", part, count)
        return
    try:
        rows = count_rows(value)
    except TypeError:
        raise ValueError(f"input {name} is {value!r}, which has no rows; give one for each example") from None
    if rows != count:
        raise ValueError(f"input {name} has {rows} rows for {count} examples; give one each")


def _part(value: Any, rows: slice | Integers) -> Any:
    """The rows of one input: of tensors, sparse features, lists, or whatever else takes NumPy indices."""
    if isinstance(value, Mapping):
        return {key: _part(member, rows) for key, member in value.items()}
    if isinstance(value, Features):
        return value.take(np.arange(value.batch[0])[rows])
    if isinstance(value, Tensor):
        return _taken(value, rows)
    if isinstance(value, list | tuple) and not isinstance(rows, slice):
        return [value[row] for row in rows.tolist()]
    return value[rows]
