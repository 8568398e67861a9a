"""The system: potentials, inference and decoder as one thing, which is trained, evaluated, saved and used.

In: the three parts. Out: :class:`System`. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.decode.base import Decoder
from loopwise.decode.pointwise import Identity
from loopwise.formats.files import PathLike
from loopwise.formats.table import Vocabulary
from loopwise.graph.evidence import FREE, Evidence, EvidenceLike, Role, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision
from loopwise.learn.examples import Examples, checked_roles, count_rows
from loopwise.learn.settings import Settings

CHUNK = 512  # examples at once where no gradient is kept: lanes are full, and memory stays small

Given = Examples | EvidenceLike
Inputs = Mapping[str, Any]


class System(nn.Module):
    """What is trained, saved, loaded and deployed: potentials, then inference, then a decoder.

    ``potentials``: a module whose ``forward(**inputs)`` gives log-potentials for its ``graph`` (or give the graph).
    ``inference``: how beliefs are computed, with its budget. ``decoder``: how they become decisions, by default the
    beliefs themselves. Parameters in the options of the last two (``lw.BP(damping=torch.nn.Parameter(...))``, a trained
    temperature) are parameters of the system. ``vocabulary``: what variables and values are called, if they have names.
    ``roles``: what each variable is, ``[variables]``, where evidence without roles is given (by default all that is not
    observed is an output); both are saved with the system.

    Wherever ``given`` is asked for, give :class:`Examples` (with their inputs) or evidence as inference takes it; then
    ``inputs`` are the potentials' arguments by name.

    >>> import loopwise as lw
    >>> system = System(lw.TablePotentials.random(lw.chain(3), seed=0), lw.BP(), lw.decode.Max())
    >>> system.predict({0: 1}).tolist()[0]
    1
    """

    potentials: nn.Module
    decoder: Decoder

    def __init__(
        self,
        potentials: nn.Module,
        inference: Inference,
        decoder: Decoder | None = None,
        *,
        graph: FactorGraph | None = None,
        vocabulary: Vocabulary | None = None,
        roles: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        _check_kind("potentials", potentials, nn.Module, "a torch module, such as lw.TablePotentials(graph)")
        _check_kind("inference", inference, Inference, "an inference method, such as lw.BP()")
        self.graph = graph_of(potentials) if graph is None else graph
        self.potentials = potentials
        self.inference = inference
        self.decoder = Identity() if decoder is None else decoder
        _check_kind("decoder", self.decoder, Decoder, "a decoder, such as lw.decode.Max()")
        self.vocabulary = _checked_vocabulary(vocabulary, self.graph)
        self.roles = None if roles is None else checked_roles(self.graph, roles)
        options: dict[str, object] = {"inference": inference}
        if not isinstance(self.decoder, nn.Module):  # a decoder that is a module has brought its parameters itself
            options["decoder"] = self.decoder
        self.settings = Settings(**options)

    def extra_repr(self) -> str:
        return f"{self.graph!r}, inference={self.inference!r}"

    def tables(self, given: Given = None, *, inputs: Inputs | None = None) -> dict[str, Tensor]:
        """Log-potentials, ``{group: [*batch, factors, *shape]}``."""
        arguments = given.inputs if isinstance(given, Examples) else inputs or {}
        tables: dict[str, Tensor] = self.potentials(**arguments)
        return tables

    def beliefs(self, given: Given = None, *, inputs: Inputs | None = None) -> Beliefs:
        """Beliefs given the inputs of examples, or given evidence; differentiable."""
        evidence = self._checked(given).evidence if isinstance(given, Examples) else given
        return self.inference(self.graph, self.tables(given, inputs=inputs), evidence)

    def forward(self, given: Given = None, *, inputs: Inputs | None = None, step: int | None = None) -> Decision:
        """The soft decision, for training; ``step`` is where schedules of temperatures stand."""
        decoder = self.decoder if step is None else self.decoder.at(step)
        return decoder.soft()(self.beliefs(given, inputs=inputs), self._outputs(given))

    def decide(self, given: Given = None, *, inputs: Inputs | None = None) -> Decision:
        """The hard decision, for testing: all at once, without gradients."""
        with answering(self):
            return self.decoder.hard()(self.beliefs(given, inputs=inputs), self._outputs(given))

    def predict(
        self, given: Given = None, *, inputs: Inputs | None = None, batch: int = CHUNK, by_pattern: bool = True
    ) -> Tensor:
        """Decided values, int64 ``[*batch, variables]``; observed variables keep theirs.

        Goes ``batch`` examples at a time; ``by_pattern`` as for :meth:`Examples.batches`: an example's answer then does
        not depend on which others are asked for.
        """
        return self._in_chunks(given, inputs, batch, by_pattern, lambda part: self.decide(part).assignment)

    def predict_marginals(
        self, given: Given = None, *, inputs: Inputs | None = None, batch: int = CHUNK, by_pattern: bool = True
    ) -> Tensor:
        """Beliefs about each variable, ``[*batch, variables, largest cardinality]``, padded with zeros."""
        return self._in_chunks(given, inputs, batch, by_pattern, lambda part: self.beliefs(part).variables)

    def refresh(self, examples: Examples, *, batch: int = CHUNK, by_pattern: bool = True) -> None:
        """Shows the decoder a corpus, once an epoch, if it needs to see one (a corpus threshold)."""
        if not self.decoder.needs_refresh:
            return
        parts = self._checked(examples).batches(batch, by_pattern=by_pattern)
        with answering(self):
            self.decoder.refresh((self.beliefs(part), part.outputs) for part in parts)

    def save(self, path: PathLike) -> None:
        """Writes everything to one file, which appears whole or not at all; see :func:`loopwise.learn.saving.save`."""
        from loopwise.learn.saving import save

        save(self, path)

    @staticmethod
    def load(path: PathLike) -> System:
        """The system that :meth:`save` wrote. Nothing in the file is run; see :func:`loopwise.learn.saving.load`."""
        from loopwise.learn.saving import load

        return load(path)

    def _in_chunks(
        self, given: Given, inputs: Inputs | None, batch: int, by_pattern: bool, answer: Callable[[Examples], Tensor]
    ) -> Tensor:
        examples, shape = as_examples(self.graph, given, inputs or {}, self.roles)
        rows = self._checked(examples).batch_indices(batch, by_pattern=by_pattern)
        with answering(self):
            pieces = [answer(examples[part]) for part in rows]
        if not pieces:
            raise ValueError("there are no examples to predict for; give at least one")
        joined = torch.cat(pieces)
        back = torch.from_numpy(np.argsort(np.concatenate(rows), kind="stable")).to(joined.device)
        return joined.index_select(0, back).reshape(*shape, *joined.shape[1:])

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
    graph: FactorGraph, given: Given, inputs: Inputs, free_roles: Integers | None = None
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
def answering(system: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) without gradients; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in system.modules()]
    system.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _check_kind(name: str, part: object, kind: type, wanted: str) -> None:
    if not isinstance(part, kind):
        raise ValueError(f"the {name} of a system must be {wanted}, not {type(part).__name__}")


def _checked_vocabulary(vocabulary: Vocabulary | None, graph: FactorGraph) -> Vocabulary | None:
    if vocabulary is None:
        return None
    if len(vocabulary.names) != graph.variables:
        raise ValueError(
            f"a vocabulary of {len(vocabulary.names)} variables does not fit {graph.variables} variables; "
            "name each variable"
        )
    for name, size, values in zip(vocabulary.names, vocabulary.cardinalities, graph.cardinalities, strict=True):
        if size > values:
            raise ValueError(
                f"variable {name!r} has {size} labels, but {values} values in the graph; "
                "give the variable as many values in the graph"
            )
    return vocabulary
