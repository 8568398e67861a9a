"""Parsing a corpus: prune, score, infer, decode.

In: a corpus as arrays, weights. Out: heads, and beliefs of all arcs that were left. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.parser.arcs import Arcs, in_chunks
from loopwise.apps.parser.options import Run, Structure, Templates
from loopwise.apps.parser.table import Floats
from loopwise.apps.parser.vocabulary import Corpus, Integers


@dataclass(frozen=True, eq=False)
class Parses:
    """Of each sentence of a corpus: its arcs with their beliefs ``[arcs]``, the heads ``[columns]`` that were
    decoded.
    """

    arcs: Arcs
    beliefs: NDArray[np.float64]
    heads: Integers
    failed: NDArray[np.bool_]  # sentences whose arcs hold no tree

    def confidence(self, corpus: Corpus) -> NDArray[np.float64]:
        """The belief of the arc to each column from its decoded head, ``[columns]``."""
        chosen = np.zeros(len(self.heads))
        columns = self.arcs._columns(corpus)
        taken = self.heads[columns] == self.arcs.heads
        chosen[columns[taken]] = self.beliefs[taken]
        return chosen

    def marginals(self, corpus: Corpus, sentence: int) -> NDArray[np.float64]:
        """The beliefs of one sentence as a matrix ``[n + 1, n + 1]`` of heads and modifiers, 0 where arcs were
        pruned.
        """
        n = int(corpus.lengths[sentence])
        begin, end = self.arcs.start[sentence : sentence + 2]
        matrix = np.zeros((n + 1, n + 1))
        matrix[self.arcs.heads[begin:end], self.arcs.mods[begin:end]] = self.beliefs[begin:end]
        return matrix


@dataclass(frozen=True, eq=False)
class Model:
    """Scores of arcs and pairs, the inference they are used with, and the trees there are."""

    weights: Floats  # [size]
    templates: Templates
    structure: Structure
    run: Run

    def parse(self, corpus: Corpus, arcs: Arcs, tags: int, threads: int = 1, by_odds: bool = False) -> Parses:
        """Trees of all sentences, from the arcs that are left. ``by_odds``: decode by log-odds, for comparison."""
        from loopwise.kernels.parser_parse import parse_chunk

        beliefs, heads = np.zeros(len(arcs.heads)), np.full(len(corpus.heads), -1, np.int64)
        failed = np.zeros(len(corpus), np.bool_)
        run = self.run

        def parse(chosen: Integers) -> None:
            if len(chosen):
                begin, end = arcs.start[chosen[0]], arcs.start[chosen[-1] + 1]
                start = arcs.start[chosen[0] : chosen[-1] + 2] - begin
                parse_chunk(
                    corpus.tokens, corpus.start, chosen, start, arcs.heads[begin:end], arcs.mods[begin:end],
                    self.weights, self.templates.flags, tags, run.method, run.iterations, run.tolerance,
                    self.structure.bits, by_odds, beliefs[begin:end], heads, failed[chosen[0] : chosen[-1] + 1],
                )  # fmt: skip

        in_chunks(corpus, threads, parse)
        return Parses(arcs, beliefs, heads, failed)
