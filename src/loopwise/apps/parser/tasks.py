"""What is trained batch by batch: trees, and the relations of their arcs, behind one protocol.

In: a corpus and how it is read. Out: for some sentences, their parts with features, and the loss and adjoints of these.
Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.parser.arcs import Arcs, Small
from loopwise.apps.parser.objectives import Objective
from loopwise.apps.parser.options import Run, Structure, Templates
from loopwise.apps.parser.vocabulary import Corpus, Integers

Doubles = NDArray[np.float64]


class Task(Protocol):
    """Something linear in hashed features with a loss a sentence."""

    @property
    def corpus(self) -> Corpus:
        """The sentences."""

    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        """The parts of some sentences; the last two arrays: which weights each part reads, ``start`` and ``index``."""

    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Any, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        """``scale`` times the adjoints of the parts, and the loss of each sentence. ``share`` of the run is over."""


@dataclass(frozen=True, eq=False)
class TreeTask:
    """Trees under an objective and a run of inference. ``targets``: gold heads ``[columns]``."""

    corpus: Corpus
    arcs: Arcs
    targets: Small
    tags: int
    templates: Templates
    structure: Structure
    run: Run
    objective: Objective

    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        from loopwise.kernels.parser_parts import build_chunk

        parts: tuple[Any, ...] = build_chunk(
            self.corpus.tokens, self.corpus.start, chosen, self.arcs.start, self.arcs.heads, self.arcs.mods,
            self.structure.bits, self.templates.flags, size, self.tags,
        )  # fmt: skip
        return parts

    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Any, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        from loopwise.kernels.parser_step import EXACT, LIKELIHOOD, PERTURBED, UNROLLED, train_chunk

        adjoint, losses = np.empty(len(parts[-2]) - 1), np.empty(len(chosen))
        run, kind = self.run, self.objective.kind
        method = run.method
        if method == PERTURBED and kind == LIKELIHOOD:  # whose gradient goes through no inference
            method = UNROLLED
        train_chunk(
            self.corpus.start, chosen, self.arcs.start, self.arcs.heads, self.arcs.mods, self.targets, parts, position,
            weights, kind, self.objective.temperature(share), run.iterations, run.tolerance, self.structure.bits, scale,
            self.objective.clip, adjoint, losses,
            *(True if method == one else None for one in (UNROLLED, PERTURBED, EXACT)),
        )  # fmt: skip
        return adjoint, losses


@dataclass(frozen=True, eq=False)
class LabelTask:
    """Relations of gold arcs, by log loss. ``allowed``: the relations of each pair of coarse tags, in compressed
    form.
    """

    corpus: Corpus
    tags: int
    templates: Templates
    allowed_start: Integers
    allowed: Small

    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        from loopwise.kernels.parser_labels import build_labels

        corpus = self.corpus
        parts: tuple[Any, ...] = build_labels(
            corpus.tokens, corpus.start, chosen, corpus.heads, self.allowed_start, self.allowed, self.templates.flags,
            size, self.tags,
        )  # fmt: skip
        return parts

    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Any, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        from loopwise.kernels.parser_labels import train_labels

        corpus = self.corpus
        adjoint, losses = np.empty(len(parts[-2]) - 1), np.empty(len(chosen))
        train_labels(
            corpus.start, chosen, corpus.heads, corpus.relations, corpus.tokens, self.allowed_start, self.allowed,
            parts, position, weights, scale, adjoint, losses,
        )  # fmt: skip
        return adjoint, losses
