"""The parser's model: scores of arcs and pairs under a tree; parsing with it, and the same as a template.

In: a corpus as arrays, the arcs that are left of it, weights. Out: heads, and beliefs of all arcs; or a
:class:`~loopwise.Template`, which any inference method, decoder and loss takes. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.parser.arcs import Arcs, in_chunks, pieces_of
from loopwise.apps.parser.distribution import TreeDistribution
from loopwise.apps.parser.options import ParserStructure, Templates, TreeInference
from loopwise.apps.parser.vocabulary import Integers, SentenceArrays
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.offsets import starts_of
from loopwise.inference.families.tree_models import Propagated, TreeRun
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import Groups
from loopwise.learn.optim.hashed import Floats
from loopwise.learn.system import System
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.potentials.template import Template, TemplateBatch


@dataclass(frozen=True, eq=False)
class Parses:
    """Of each sentence of a corpus: its arcs with their beliefs ``[arcs]``, the heads ``[columns]`` that were
    decoded.
    """

    arcs: Arcs
    beliefs: NDArray[np.float64]
    heads: Integers
    failed: NDArray[np.bool_]  # sentences whose arcs hold no tree
    scores: NDArray[np.float64] | None = None  # [arcs], what trees heard last; None: inference tells nothing of trees

    def confidence(self, corpus: SentenceArrays) -> NDArray[np.float64]:
        """The belief of the arc to each column from its decoded head, ``[columns]``."""
        chosen = np.zeros(len(self.heads))
        columns = self.arcs._columns(corpus)
        taken = self.heads[columns] == self.arcs.heads
        chosen[columns[taken]] = self.beliefs[taken]
        return chosen

    def trees(self, corpus: SentenceArrays, structure: ParserStructure) -> list[TreeDistribution | None]:
        """The distribution of each sentence's trees; None for one without words."""
        if self.scores is None:
            raise ValueError(
                "exact inference with grandparents tells marginals of arcs, not which trees are next; list or draw "
                "trees with_inference(BP(...)), or of a parser without factors"
            )
        found: list[TreeDistribution | None] = []
        for sentence, n in enumerate(corpus.lengths.tolist()):
            mine = slice(*self.arcs.start[sentence : sentence + 2].tolist())
            arcs = self.arcs.heads[mine], self.arcs.mods[mine], self.scores[mine]
            found.append(TreeDistribution.of(structure, n, *arcs) if n else None)
        return found

    def marginals(self, corpus: SentenceArrays, sentence: int) -> NDArray[np.float64]:
        """The beliefs of one sentence as a matrix ``[n + 1, n + 1]`` of heads and modifiers, 0 where arcs were
        pruned.
        """
        n = int(corpus.lengths[sentence])
        begin, end = self.arcs.start[sentence : sentence + 2]
        matrix = np.zeros((n + 1, n + 1))
        matrix[self.arcs.heads[begin:end], self.arcs.mods[begin:end]] = self.beliefs[begin:end]
        return matrix


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Scores of arcs and pairs, the inference they are used with, and the trees there are."""

    weights: Floats  # [size]
    templates: Templates
    structure: ParserStructure
    run: TreeInference

    def parse(self, corpus: SentenceArrays, arcs: Arcs, tags: int, threads: int = 1, by_odds: bool = False) -> Parses:
        """Trees of all sentences, from the arcs that are left. ``by_odds``: decode by log-odds, for comparison."""
        beliefs, heads = np.zeros(len(arcs.heads)), np.full(len(corpus.heads), -1, np.int64)
        failed = np.zeros(len(corpus), np.bool_)
        trees = None if self.run.exact else np.zeros(len(arcs.heads))

        def parse(chosen: Integers) -> None:
            for piece in pieces_of(corpus, chosen):
                run, found, possible = self._parse(corpus, arcs, piece, tags, by_odds)
                mine = slice(arcs.start[piece[0]], arcs.start[piece[-1] + 1])
                beliefs[mine] = run.beliefs
                if trees is not None and isinstance(run, Propagated):
                    trees[mine] = run.tree_scores
                heads[corpus.columns_of(piece)] = found
                failed[piece] = ~possible

        in_chunks(corpus, threads, parse)
        return Parses(arcs, beliefs, heads, failed, trees)

    def _parse(
        self, corpus: SentenceArrays, arcs: Arcs, chosen: Integers, tags: int, by_odds: bool
    ) -> tuple[TreeRun, Integers, NDArray[np.bool_]]:
        """Beliefs of some sentences, the heads of their words, and which of them have a tree."""
        from loopwise.apps.parser.features.parts import score_chunk

        *edges, unary, scores = score_chunk(
            corpus.tokens, corpus.start, chosen, arcs.start, arcs.heads, arcs.mods, self.structure.bits,
            self.templates.flags, self.weights, tags,
        )  # fmt: skip
        models = self.structure.models(corpus.lengths[chosen], *edges)
        run = self.run(models, unary, scores)
        found, possible = models.best(run.log_odds if by_odds else run.beliefs)
        return run, found, possible & run.possible


@dataclass(frozen=True, eq=False)
class Example:
    """One sentence as arrays, with the arcs that are left of it."""

    corpus: SentenceArrays
    arcs: Arcs


class SentenceTemplate(Template):
    """Sentences as graphs: a variable for each arc, tables for arcs and pairs that are both there, and a tree factor.

    Scores are sums of hashed weights, float32; beliefs are those that :class:`~loopwise.apps.Parser` has.
    """

    def __init__(self, structure: ParserStructure, templates: Templates, tags: int) -> None:
        super().__init__()
        self.structure, self.templates, self.tags = structure, templates, tags
        groups = {
            "edge": SparseGroup((2,), templates.size, (-1, 0), "weights"),
            "pair": SparseGroup((2, 2), templates.size, (-1, -1, -1, 0), "weights"),
        }
        self.scores = SparsePotentials(groups, dtype=torch.float32, table_dtype=torch.float64)

    def graph(self, example: Example) -> FactorGraph:
        return self.structure.models(example.corpus.lengths, *self._parts(example)[:-2]).graph()

    def values(self, example: Example) -> NDArray[np.int64]:
        """Gold arcs, where every word has a head; else nothing is known."""
        heads = example.corpus.heads[example.corpus.word_columns]
        if (heads < 0).any():
            return np.full(len(example.arcs.heads), -1)
        gold: NDArray[np.int64] = (heads[example.arcs.mods - 1] == example.arcs.heads).astype(np.int64)
        return gold

    def prepare(self, example: Example) -> dict[str, NDArray[Any]]:
        *_, start, index = self._parts(example)
        edges = len(example.arcs.heads)
        counts, end = np.diff(start), start[edges]
        return {
            "edge": counts[:edges],
            "edge features": index[:end],
            "pair": counts[edges:],
            "pair features": index[end:],
        }

    def potentials(self, batch: TemplateBatch) -> dict[str, Tensor]:
        found: dict[str, Tensor] = self.scores({name: self._features(batch, name) for name in ("edge", "pair")})
        return found

    def _features(self, batch: TemplateBatch, name: str) -> Features:
        start = starts_of(batch[name].numpy())
        return Features(start, batch[f"{name} features"].numpy())

    def _parts(self, example: Example) -> tuple[Any, ...]:
        from loopwise.apps.parser.features.parts import build_chunk

        corpus, arcs = example.corpus, example.arcs
        parts: tuple[Any, ...] = build_chunk(
            corpus.tokens, corpus.start, np.zeros(1, np.int64), arcs.start, arcs.heads, arcs.mods, self.structure.bits,
            self.templates.flags, self.templates.size, self.tags,
        )  # fmt: skip
        return parts


def system_of(model: TreeModel, tags: int) -> System:
    """The model with its inference, as any other system; all iterations are made, whether or not beliefs move."""
    if model.run.exact:
        raise ValueError(
            "exact inference with grandparents is no method of graphs; ask for the system of with_inference(BP(...))"
        )
    template = SentenceTemplate(model.structure, model.templates, tags)
    with torch.no_grad():
        template.scores.weight("edge").copy_(torch.from_numpy(model.weights)[:, None])
    order = Groups(("pair", "tree"), uniform_start=True)
    return System(template, BP(iterations=model.run.iterations, tolerance=0, schedule=order))
