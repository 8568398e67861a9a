"""The system: potentials, inference and decoder as one thing, which is trained, evaluated, saved and used.

In: the three parts. Out: :class:`System`. Stage: learning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder
from loopwise.decode.configurations import Configurations, draw, k_best
from loopwise.decode.pointwise import Identity
from loopwise.formats.by_extension import write_model
from loopwise.formats.files import PathLike
from loopwise.formats.frames import is_frame, make_frame, read_frame
from loopwise.formats.model import TableModel
from loopwise.formats.table import Vocabulary
from loopwise.graph.evidence import FREE, Evidence, EvidenceLike, Role, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision
from loopwise.learn.data.batching import BatchSize
from loopwise.learn.data.examples import CHUNK as CHUNK
from loopwise.learn.data.examples import Examples, checked_roles, count_rows
from loopwise.learn.data.template_examples import Corpus, TemplateExamples
from loopwise.learn.settings import Settings
from loopwise.notices import ImpossibleError
from loopwise.potentials.template import Template

OneGraph = Examples | EvidenceLike
Many = TemplateExamples | Iterable[Any]  # examples of a template, each with a graph of its own
Given = OneGraph | Many
Inputs = Mapping[str, Any]


class PredictOptions(TypedDict, total=False):
    """How :meth:`System.predict` and :meth:`System.predict_marginals` are asked, beside what about."""

    inputs: Inputs | None
    batch: BatchSize | None
    by_pattern: bool


_MODES = threading.Lock()
_ANSWERING: dict[nn.Module, tuple[int, list[tuple[nn.Module, bool]]]] = {}  # how often at a time, and modes before


class System(nn.Module):
    """What is trained, saved, loaded and deployed: potentials, then inference, then a decoder.

    Parameters
    ----------
    potentials:
        A module whose ``forward(**inputs)`` gives log-potentials for its ``graph`` (or give the graph), or a
        :class:`~loopwise.Template`, whose examples each have a graph of their own.
    inference:
        How beliefs are computed, with its budget.
    decoder:
        How they become decisions, by default the beliefs themselves. Parameters in the options of inference and
        decoder (``lw.BP(damping=torch.nn.Parameter(...))``, a trained temperature) are parameters of the system.
    graph:
        Where the potentials do not know theirs.
    vocabulary:
        What variables and values are called, if they have names (by default those of the graph): evidence is then
        ``{"smoker": "yes"}`` too, and data frames are taken.
    roles:
        What each variable is, ``[variables]``, where evidence without roles is given (by default all that is not
        observed is an output); vocabulary and roles are saved with the system.

    Wherever ``given`` is asked for, give :class:`Examples` (with their inputs) or evidence as inference takes it; then
    ``inputs`` are the potentials' arguments by name. With a template, give a list of its examples, or
    :class:`TemplateExamples`: beliefs and decisions are those of the union of their graphs, predictions a list.

    >>> import loopwise as lw
    >>> system = System(lw.TablePotentials.random(lw.chain(3), seed=0), lw.BP(), lw.decode.Max())
    >>> system.predict({0: 1}).tolist()[0]
    1
    """

    potentials: nn.Module
    decoder: BeliefDecoder

    def __init__(
        self,
        potentials: nn.Module,
        inference: Inference,
        decoder: BeliefDecoder | None = None,
        *,
        graph: FactorGraph | None = None,
        vocabulary: Vocabulary | None = None,
        roles: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        _check_kind("potentials", potentials, nn.Module, "a torch module, such as lw.TablePotentials(graph)")
        _check_kind("inference", inference, Inference, "an inference method, such as lw.BP()")
        if isinstance(potentials, Template):
            _check_no_graph(potentials, graph=graph, vocabulary=vocabulary, roles=roles)
            self._graph = None
        else:
            plain = graph_of(potentials) if graph is None else graph
            self._graph = plain if vocabulary is None else plain.named(vocabulary)
        self.potentials = potentials
        self.inference = inference
        self.decoder = Identity() if decoder is None else decoder
        _check_kind("decoder", self.decoder, BeliefDecoder, "a decoder, such as lw.decode.Max()")
        self.vocabulary = None if self._graph is None else self._graph.vocabulary
        self.roles = None if roles is None else checked_roles(self.graph, roles)
        options: dict[str, object] = {"inference": inference}
        if not isinstance(self.decoder, nn.Module):  # a decoder that is a module has brought its parameters itself
            options["decoder"] = self.decoder
        self.settings = Settings(**options)
        self.card: dict[str, Any] = {}  # what saved files say of its training

    def extra_repr(self) -> str:
        graph = "" if self._graph is None else f"{self._graph!r}, "
        return f"{graph}inference={self.inference!r}"

    @property
    def graph(self) -> FactorGraph:
        """The graph that all examples have; a ValueError where they come from a template."""
        if self._graph is None:
            raise ValueError(
                f"examples of {type(self.potentials).__name__} have a graph each, and this needs one for all; make the "
                "system of potentials that have a graph"
            )
        return self._graph

    def graph_for(self, part: Corpus) -> FactorGraph:
        """The graph of ``part``: the system's, which has the names, or of examples of a template their union."""
        return part.graph if self._graph is None else self._graph

    def examples(self, given: Given) -> Corpus:
        """``given`` as training and evaluation take it: :class:`Examples`, or :class:`TemplateExamples` of a list."""
        part = self._corpus(given)
        if part is None:
            raise ValueError(
                f"examples are wanted, not {type(given).__name__}: lw.Examples.of(system.graph, values, roles) says "
                "which variables are inputs and which are to be predicted"
            )
        return part

    def tables(self, given: Given = None, *, inputs: Inputs | None = None) -> dict[str, Tensor]:
        """Log-potentials, ``{group: [*batch, factors, *shape]}``."""
        part = self._corpus(given)
        if part is not None:
            return part.tables(self.potentials)
        tables: dict[str, Tensor] = self.potentials(**(inputs or {}))
        return tables

    def beliefs(self, given: Given = None, *, inputs: Inputs | None = None) -> Beliefs:
        """Beliefs given the inputs of examples, or given evidence; differentiable."""
        part = self._corpus(given)
        if part is None:
            return self.inference(self.graph, self.tables(given, inputs=inputs), given)  # type: ignore[arg-type]
        with naming_the_example(part, self.beliefs):
            return self.inference(self.graph_for(part), self.tables(part), part.evidence)

    def forward(self, given: Given = None, *, inputs: Inputs | None = None, step: int | None = None) -> Decision:
        """The soft decision, for training; ``step`` is where schedules of temperatures stand."""
        decoder = self.decoder if step is None else self.decoder.at(step)
        return self._decided(decoder.soft(), given, inputs)

    def decide(self, given: Given = None, *, inputs: Inputs | None = None) -> Decision:
        """The hard decision, for testing: all at once, without gradients."""
        with answering(self):
            return self._decided(self.decoder.hard(), given, inputs)

    @overload
    def predict(self, given: OneGraph = ..., **asked: Unpack[PredictOptions]) -> Tensor: ...

    @overload
    def predict(self, given: Many, *, batch: BatchSize | None = ...) -> list[Tensor]: ...

    @overload
    def predict(self, given: Any, *, batch: BatchSize | None = ..., by_pattern: bool = ...) -> Any: ...

    def predict(
        self,
        given: Given = None,
        *,
        inputs: Inputs | None = None,
        batch: BatchSize | None = None,
        by_pattern: bool = True,
    ) -> Any:
        """Decided values, int64 ``[*batch, variables]``; observed variables keep theirs. Of examples of a template a
        list, ``[variables]`` each. Of a data frame a data frame with a column of labels for each output.

        Goes ``batch`` examples (or a :class:`~loopwise.learn.TotalSize` of them) at a time; ``by_pattern`` as for
        :meth:`Examples.batches`: an example's answer then does not depend on which others are asked for.
        """
        found: Tensor | list[Tensor] = self._in_chunks(
            given, inputs, batch, by_pattern, lambda part: part.assignment(self.decide(part))
        )
        return self._answer_frame(given, found) if is_frame(given) and isinstance(found, Tensor) else found

    @overload
    def predict_marginals(self, given: OneGraph = ..., **asked: Unpack[PredictOptions]) -> Tensor: ...

    @overload
    def predict_marginals(self, given: Many, *, batch: BatchSize | None = ...) -> list[Tensor]: ...

    def predict_marginals(
        self,
        given: Given = None,
        *,
        inputs: Inputs | None = None,
        batch: BatchSize | None = None,
        by_pattern: bool = True,
    ) -> Tensor | list[Tensor]:
        """Beliefs about each variable, ``[*batch, variables, largest cardinality]``, padded with zeros; of examples of
        a template a list, ``[variables, largest cardinality of the example]`` each."""
        found: Tensor | list[Tensor] = self._in_chunks(
            given, inputs, batch, by_pattern, lambda part: part.marginals(self.beliefs(part))
        )
        return found

    def k_best(self, count: int, evidence: EvidenceLike = None, *, inputs: Inputs | None = None) -> Configurations:
        """The ``count`` most probable configurations of one example with their probabilities, by exact inference
        whatever the system's own is; see :func:`loopwise.decode.k_best`.

        >>> import loopwise as lw
        >>> names = lw.formats.Vocabulary(("smoker", "flu"), (("no", "yes"), ("well", "ill")))
        >>> tables = lw.TablePotentials.random(lw.chain(2), seed=0)
        >>> System(tables, lw.BP(), vocabulary=names).k_best(2, {"smoker": "yes"}).named()
        [{'smoker': 'yes', 'flu': 'ill'}, {'smoker': 'yes', 'flu': 'well'}]
        """
        with answering(self):
            return k_best(self.graph, self.tables(inputs=inputs), count, evidence)

    def draw(
        self, count: int, evidence: EvidenceLike = None, *, inputs: Inputs | None = None, seed: int = 0
    ) -> Configurations:
        """Samples of the joint distribution of one example, likewise; see :func:`loopwise.decode.draw`."""
        with answering(self):
            return draw(self.graph, self.tables(inputs=inputs), count, evidence, seed=seed)

    def refresh(self, examples: Given, *, batch: BatchSize | None = None, by_pattern: bool = True) -> None:
        """Shows the decoder a corpus, once an epoch, if it needs to see one (a corpus threshold)."""
        if not self.decoder.needs_refresh:
            return
        corpus = self.examples(examples)
        parts = corpus.batches(corpus.usual_chunk if batch is None else batch, by_pattern=by_pattern)
        with answering(self):
            self.decoder.refresh((self.beliefs(part), part.outputs) for part in parts)

    def save(self, path: PathLike, card: Mapping[str, Any] | None = None) -> None:
        """Writes everything to one file, whole or not at all; see :func:`loopwise.learn.files.saving.save`.

        ``card``: what to say of it besides how it was trained, such as ``{"data": "reviews of 2025"}``; read by
        :func:`loopwise.learn.model_card`."""
        from loopwise.learn.files.saving import save

        save(self, path, card)

    @staticmethod
    def load(path: PathLike, *, template: Template | type[Template] | None = None) -> System:
        """The system that :meth:`save` wrote. Nothing in the file is run; a template of your own is given here, as its
        class or as an object: see :func:`loopwise.learn.files.saving.load`."""
        from loopwise.learn.files.saving import load

        return load(path, template=template)

    def to_model(self, *, inputs: Inputs | None = None) -> TableModel:
        """The tables of the system as model files hold them: potentials, not logarithms, with the system's names.

        ``inputs``: the potentials' arguments by name, of one example, if they take any.

        Raises
        ------
        ValueError
            For a template, structured factors, or a batch of examples, which such files cannot hold; and where a
            potential is too large for a number.
        """
        graph = self.graph
        if graph.structured:
            raise ValueError(
                f"model files hold tables, and {graph.structured[0].kinds()} is none; save the system by save()"
            )
        with answering(self):
            tables = {name: table.double().cpu().numpy() for name, table in self.tables(inputs=inputs).items()}
        whole = {group.name: _potentials(group, tables) for group in graph.groups}
        places = [graph.locate(number) for number in range(graph.factors)]
        factors = [(graph.group(name).scopes[row].tolist(), whole[name][row]) for name, row in places]
        names = self.vocabulary if self.vocabulary is not None and self._fully_named else None
        return TableModel.of(graph.cardinalities, factors, vocabulary=names)

    def export(self, path: PathLike, *, inputs: Inputs | None = None) -> None:
        """Writes the tables as ``.uai`` or ``.fg`` (with ``.gz`` if asked), for other programs; see :meth:`to_model`.

        >>> import tempfile, pathlib, loopwise as lw
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "chain.uai"
        >>> System(lw.TablePotentials.random(lw.chain(3), seed=0), lw.BP()).export(path)
        >>> lw.formats.read_model(path)
        TableModel(MARKOV, 3 variables, 5 factors)
        """
        write_model(path, self.to_model(inputs=inputs))

    @property
    def _fully_named(self) -> bool:
        known = self.vocabulary
        return known is not None and list(known.cardinalities) == self.graph.cardinalities.tolist()

    def _in_chunks(
        self,
        given: Given,
        inputs: Inputs | None,
        batch: BatchSize | None,
        by_pattern: bool,
        answer: Callable[[Any], Any],
    ) -> Any:
        examples, shape = self._corpus(given), None
        if examples is None:
            examples, shape = as_examples(self.graph, given, inputs or {}, self.roles)  # type: ignore[arg-type]
        rows = examples.batch_indices(examples.usual_chunk if batch is None else batch, by_pattern=by_pattern)
        with answering(self):
            pieces = [answer(examples[part]) for part in rows]
        if not pieces:
            raise ValueError("there are no examples to predict for; give at least one")
        found = examples.in_order(pieces, rows)
        return found.reshape(*shape, *found.shape[1:]) if shape is not None and isinstance(found, Tensor) else found

    def _decided(self, decoder: BeliefDecoder, given: Given, inputs: Inputs | None) -> Decision:
        part = self._corpus(given)
        if part is not None:
            return part.decide(decoder, self.beliefs(part))
        return decoder(self.beliefs(given, inputs=inputs), self._outputs(given))

    def _corpus(self, given: Given) -> Corpus | None:
        """The examples that ``given`` is, or is a list of; None if it is evidence."""
        if isinstance(self.potentials, Template):
            if not isinstance(given, TemplateExamples):
                return TemplateExamples.of(self.potentials, _listed(self.potentials, given))
            if given.template is not self.potentials:
                raise ValueError(
                    f"the examples were made for another template, {_which(given.template, self.potentials)}; make "
                    "them by lw.TemplateExamples.of(system.potentials, ...), or give the list itself"
                )
            return given
        if isinstance(given, TemplateExamples):
            raise ValueError(
                f"the examples are of the template {type(given.template).__name__}, and the system has none; give "
                "lw.Examples over its graph"
            )
        if is_frame(given):
            return self._from_frame(given)
        return self._checked(given) if isinstance(given, Examples) else None

    def _from_frame(self, frame: Any) -> Examples:
        """The rows of a data frame. Without roles, what a row does not say is predicted."""
        if self.vocabulary is None:
            raise ValueError(
                "the system does not say what its variables are called, so a data frame means nothing to it; give it a "
                "vocabulary, or make it of lw.Examples.from_frame(...).graph"
            )
        predicted = [] if self.roles is None else np.flatnonzero(self.roles == Role.OUTPUT).tolist()
        whole = [self.vocabulary.names[place] for place in predicted]
        values = read_frame(frame, vocabulary=self.vocabulary, whole=whole).values
        roles = np.where(values == FREE, Role.OUTPUT, Role.INPUT) if self.roles is None else self.roles
        return Examples.of(self.graph, values, roles)

    def _answer_frame(self, frame: Any, values: Tensor) -> Any:
        """Decided values as a data frame like the one asked about: of outputs by role, else of what was not given."""
        assert self.vocabulary is not None
        asked = (self._from_frame(frame).roles == Role.OUTPUT).any(axis=0)
        if not asked.any():
            raise ValueError(
                "the data frame gives every variable a value, so nothing is left to predict: leave out the columns "
                "that are asked for, or say once what is predicted, lw.System(..., roles=examples.roles[0])"
            )
        columns = {}
        for place in np.flatnonzero(asked).tolist():
            labels = self.vocabulary.labels[place]
            columns[self.vocabulary.names[place]] = [labels[value] for value in values[:, place].tolist()]
        return make_frame(columns, like=frame)

    def _outputs(self, given: Given) -> Tensor | Evidence | None:
        """Which variables are predicted, as decoders take it."""
        if isinstance(given, Examples):
            return given.outputs
        if isinstance(given, Evidence) or self.roles is None:
            return given if isinstance(given, Evidence) else None
        return torch.from_numpy(self.roles == Role.OUTPUT)

    def _checked(self, examples: Examples) -> Examples:
        if examples.graph is not self.graph and examples.graph != self.graph:
            raise ValueError(
                f"the examples are over {examples.graph!r}, the system is over {self.graph!r}; make both for one graph"
            )
        return examples


def _potentials(group: Group, tables: Mapping[str, Any]) -> Any:
    """Potentials of a group, a table for each factor."""
    table = tables[group.name]
    shape = (group.count, *group.shape)
    if table.ndim > len(shape) and table.shape[: -len(shape)] != (1,) * (table.ndim - len(shape)):
        raise ValueError(
            f"the tables of group {group.name!r} are of {table.shape[0]} examples; give the inputs of one example"
        )
    with np.errstate(over="ignore"):
        found = np.exp(np.broadcast_to(table.reshape(table.shape[-len(shape) :]), shape))
    if not np.isfinite(found).all():
        raise ValueError(
            f"group {group.name!r} has a log-potential of {float(table.max()):.6g}, whose exponential no file can "
            "hold; train with a prior, or scale the weights down"
        )
    return found


def graph_of(potentials: nn.Module) -> FactorGraph:
    """The graph that a module of potentials was made for."""
    graph = getattr(potentials, "graph", None)
    if not isinstance(graph, FactorGraph):
        raise ValueError(
            f"potentials of class {type(potentials).__name__} do not say what graph they are for; set their attribute "
            "graph"
        )
    return graph


def as_examples(
    graph: FactorGraph, given: OneGraph, inputs: Inputs, free_roles: Integers | None = None
) -> tuple[Examples, tuple[int, ...]]:
    """Evidence as examples, and the batch shape it had. What is free has its role of ``free_roles``, or is output."""
    if isinstance(given, Examples):
        return given, (len(given),)
    values = clamped_values(graph, given)
    if inputs and values.ndim == 1:  # one evidence for all examples that the inputs describe
        values = np.broadcast_to(values, (count_rows(next(iter(inputs.values()))), graph.variables))
    roles = np.where(values == FREE, Role.OUTPUT if free_roles is None else free_roles, Role.INPUT).astype(np.int64)
    if isinstance(given, Evidence):
        roles = np.broadcast_to(given.roles, values.shape)
    flat = (-1, graph.variables) if graph.variables else (max(1, int(np.prod(values.shape[:-1]))), 0)
    return Examples.of(graph, values.reshape(flat), roles.reshape(flat), **inputs), values.shape[:-1]


@contextmanager
def naming_the_example(part: Corpus, run: Callable[[Any], object]) -> Iterator[None]:
    """Where the evidence of a union is impossible, says of which example: those of it ``run`` by itself."""
    try:
        yield
    except ImpossibleError:
        if not isinstance(part, TemplateExamples) or len(part) == 1:
            raise
        for single in part:
            try:
                with torch.no_grad():
                    run(single)
            except ImpossibleError as problem:
                raise ImpossibleError(f"example {single.numbers[0]}: {problem}") from None
        raise


def _listed(template: Template, given: Any) -> Iterable[Any]:
    """Anything that gives examples; those of one graph, evidence and a text or record do not."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | Examples):
        return given
    raise ValueError(
        f"a list of examples of {type(template).__name__} is wanted, not {type(given).__name__}: give one, [example]"
    )


def _which(theirs: Template, mine: Template) -> str:
    if type(theirs) is type(mine):
        return f"an object of {type(mine).__name__} that is not the system's"
    return f"{type(theirs).__name__} instead of {type(mine).__name__}"


def _check_no_graph(template: Template, **options: object) -> None:
    """Refuses what is said of one graph beside a template."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"{name} is about one graph, and examples of {type(template).__name__} have one each; leave it out"
            )


@contextmanager
def answering(system: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) without gradients; afterwards every module is in the mode it was in.

    Threads may answer at the same time: the first sets the mode, the last sets it back.
    """
    with _MODES:
        count, modes = _ANSWERING.pop(system, (0, []))
        if not count:
            modes = [(module, module.training) for module in system.modules()]
            system.eval()
        _ANSWERING[system] = count + 1, modes
    try:
        with torch.no_grad():
            yield
    finally:
        with _MODES:
            count, modes = _ANSWERING.pop(system)
            if count > 1:
                _ANSWERING[system] = count - 1, modes
            else:
                for module, mode in modes:
                    module.training = mode


def _check_kind(name: str, part: object, kind: type, wanted: str) -> None:
    if not isinstance(part, kind):
        raise ValueError(f"the {name} of a system must be {wanted}, not {type(part).__name__}")
