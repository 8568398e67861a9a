"""What is trained batch by batch: trees, and the relations of their arcs.

In: a corpus and how it is read. Out: for some sentences, their parts with features, and the loss and adjoints of these.
Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from loopwise.apps.parser.arcs import Arcs
from loopwise.apps.parser.objectives import CLL, Gold, Objective
from loopwise.apps.parser.options import ParserStructure, Templates, TreeInference
from loopwise.apps.parser.vocabulary import Integers, SentenceArrays
from loopwise.inference.families.tree_models import Perturbed, TreeModels
from loopwise.learn.hashed import Doubles, HashedModel, part_scores
from loopwise.learn.optim.hashed import Small
from loopwise.notices import GradientError

BARRED = 300.0  # nats off the score of an arc that known heads leave no place for: it is in no tree
UNSETTLED = 1e-4  # perturbation needs a fixed point: beliefs that still move by more have none


@dataclass(frozen=True, eq=False)
class SentenceTask(HashedModel):
    """Something linear in hashed features with a loss a sentence."""

    corpus: SentenceArrays

    def costs(self) -> Doubles:
        return self.corpus.lengths.astype(np.float64) ** 2


@dataclass(frozen=True, eq=False)
class TreeTask(SentenceTask):
    """Trees under an objective and a run of inference. ``targets``: gold heads ``[columns]``."""

    arcs: Arcs
    targets: Small
    tags: int
    templates: Templates
    structure: ParserStructure
    run: TreeInference
    objective: Objective

    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        from loopwise.apps.parser.features.parts import build_chunk

        parts: tuple[Any, ...] = build_chunk(
            self.corpus.tokens, self.corpus.start, chosen, self.arcs.start, self.arcs.heads, self.arcs.mods,
            self.structure.bits, self.templates.flags, size, self.tags,
        )  # fmt: skip
        return parts

    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Any, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        from loopwise.apps.parser.features.parts import split_parts, write_adjoints

        models = self.structure.models(self.corpus.lengths[chosen], *parts[:-2])
        unary, scores = split_parts(parts, part_scores(parts[-2], position, weights))
        losses, of_unary, of_scores = self.gradient(models, unary, scores, self._gold(chosen, models), share)
        return write_adjoints(parts, of_unary, of_scores, scale, self.objective.clip), losses

    def gradient(
        self, models: TreeModels, unary: Doubles, scores: Doubles, gold: Gold, share: float = 0.0
    ) -> tuple[Doubles, Doubles, Doubles]:
        """The loss of each sentence (NaN: it has no tree; inf: perturbation found no fixed point) and the adjoints of
        its scores of arcs and pairs."""
        goal, taped = self.objective, not (self.run.perturbed or isinstance(self.objective, CLL))
        run = self.run(models, unary, scores, taped=taped)
        if isinstance(goal, CLL) and gold.known is not None:
            held = self.run(models, np.where(gold.barred, unary - BARRED, unary), scores)
            losses, of_unary, of_scores = goal.of_partial(run, held)
        elif isinstance(goal, CLL):  # whose gradient goes through no inference
            losses, of_unary, of_scores = goal.of_scores(models, run, unary, scores, gold)
        else:
            losses, adjoint = goal.of_beliefs(models, run.beliefs, gold, share)
            if self.run.perturbed:
                losses = np.where(run.moved <= UNSETTLED, losses, np.inf)
                way_back = Perturbed(models, unary, scores, self.run.iterations, self.run.tolerance)
                of_unary, of_scores = way_back.pull_back(adjoint)
            else:
                of_unary, of_scores = run.pull_back(adjoint)
        return np.where(run.possible, losses, np.nan), of_unary, of_scores

    def refuse(self, example: int, loss: float) -> None:
        if loss == np.inf:
            raise GradientError(
                f"belief propagation of training sentence {example + 1} has not settled, so perturbation has no "
                "gradient to give; allow more iterations, or use Unroll"
            )
        raise ValueError(f"the arcs left of training sentence {example + 1} hold no tree; prune less")

    def _gold(self, chosen: Integers, models: TreeModels) -> Gold:
        arrays = models.arrays
        columns = models.per_edge(self.corpus.start[chosen] + 1) + arrays.mods
        right = (self.targets[columns] == arrays.heads).astype(np.float64)
        if self._all_known:
            return Gold(right, arrays.lengths - models.sums(right))
        known = self.corpus.known_words[chosen]
        return Gold(right, known - models.sums(right), self.targets[columns] >= 0)

    @cached_property
    def _all_known(self) -> bool:
        return bool((self.corpus.known_words == self.corpus.lengths).all())


@dataclass(frozen=True, eq=False)
class LabelTask(SentenceTask):
    """Relations of gold arcs, by log loss. ``allowed``: the relations of each pair of coarse tags, in compressed
    form.
    """

    tags: int
    templates: Templates
    allowed_start: Integers
    allowed: Small

    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        from loopwise.apps.parser.features.relations import build_labels

        corpus = self.corpus
        parts: tuple[Any, ...] = build_labels(
            corpus.tokens, corpus.start, chosen, corpus.heads, self.allowed_start, self.allowed, self.templates.flags,
            size, self.tags,
        )  # fmt: skip
        return parts

    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Any, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        arc_start, part_start, words, relations, start, _ = parts
        values, first, sizes = part_scores(start, position, weights), part_start[:-1], np.diff(part_start)
        top = np.maximum.reduceat(values, first)
        shares = np.exp(values - np.repeat(top, sizes))
        total = np.add.reduceat(shares, first)
        shares /= np.repeat(total, sizes)
        right = relations == np.repeat(self.corpus.relations[words], sizes)
        # An arc whose gold relation is not among those allowed teaches nothing.
        taught = np.logical_or.reduceat(right, first)
        adjoint = scale * np.where(np.repeat(taught, sizes), shares - right, 0.0)
        losses = np.where(taught, top + np.log(total) - np.add.reduceat(values * right, first), 0.0)
        sums = np.add.reduceat(np.append(losses, 0.0), arc_start[:-1])
        return adjoint, np.where(np.diff(arc_start) > 0, sums, 0.0)
