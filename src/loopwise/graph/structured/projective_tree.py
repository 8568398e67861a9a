r"""Projective trees as one factor (PTREE of Smith & Eisner 2008; Gormley, Dredze & Eisner 2015, section 3).

In: log messages on edge variables. Out: messages, log-partition, marginals, best tree, samples. Stage: structure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.edge_messages import ProjectiveTreeMessages
from loopwise.graph.structured.edges import EdgeFactor, EdgeRun, Floats

LARGEST_CHARTS = 64 * 2**20  # bytes: charts of larger batches are filled again by the backward


class ProjectiveTree(EdgeFactor):
    r"""1 if the edges that are ON form a projective tree rooted at 0, else 0.

    .. math:: m_{T\to e}(\mathrm{ON})\propto\frac{p_e}{m_{e\to T}(\mathrm{ON})},\quad
              m_{T\to e}(\mathrm{OFF})\propto\frac{1-p_e}{m_{e\to T}(\mathrm{OFF})}

    with the edge marginals :math:`p_e` of inside-outside over Eisner's :math:`O(n^3)` items. A tree is projective if
    every token between a head and its modifier descends from that head.

    Parameters
    ----------
    tokens: words of the sentence, without the root.
    single_root: whether one token only hangs on the root.
    edges: pairs (head, modifier) that have a variable, ``[edges, 2]``; None: all.

    >>> import torch
    >>> tree = ProjectiveTree(4)
    >>> trees = tree.log_partition(torch.zeros(tree.slots, dtype=torch.float64)).exp()
    >>> round(float(trees))
    55
    """

    compiled = ProjectiveTreeMessages

    def run_trees(self, scores: Floats, lengths: Integers) -> EdgeRun:
        return _ProjectiveRun(scores, lengths, self.single_root)

    def best_heads(self, scores: Floats) -> tuple[Floats, Integers]:
        from loopwise.graph.structured.kernels.eisner import charts_size
        from loopwise.graph.structured.kernels.eisner_decode import best_projective

        heads, charts = np.zeros((len(scores), self.tokens + 1), dtype=np.int64), np.empty(charts_size(self.tokens))
        best = [
            best_projective(row, self.tokens, self.single_root, charts, found)
            for row, found in zip(scores, heads, strict=True)
        ]
        return np.array(best, dtype=np.float64), heads[:, 1:].copy()

    def drawn_heads(self, scores: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Integers]:
        from loopwise.graph.structured.kernels.eisner import charts_size
        from loopwise.graph.structured.kernels.eisner_decode import draw_projective

        heads = np.zeros((len(scores), count, self.tokens + 1), dtype=np.int64)
        uniforms, charts = (
            generator.random((len(scores), count, 2 * self.tokens + 1)),
            np.empty(charts_size(self.tokens)),
        )
        total = [
            draw_projective(row, self.tokens, self.single_root, draws, charts, found)
            for row, draws, found in zip(scores, uniforms, heads, strict=True)
        ]
        return np.array(total, dtype=np.float64), heads[:, :, 1:].swapaxes(0, 1).copy()


class _ProjectiveRun(EdgeRun):
    """Kernel results of sentences, with the charts that the backward needs if they are not too large."""

    def __init__(self, scores: Floats, lengths: Integers, single_root: bool) -> None:
        from loopwise.graph.structured.kernels.eisner import charts_size
        from loopwise.graph.structured.kernels.eisner_charts import MATRICES

        self.room = charts_size(int(lengths.max(initial=1)))
        self.kept = 8 * MATRICES * scores.size <= LARGEST_CHARTS
        self.charts = np.empty(MATRICES * scores.size if self.kept else 0)
        self.in_log = np.zeros(len(lengths), dtype=np.bool_)
        super().__init__(scores, lengths, single_root)

    def forward(self, gradient: Floats, found: Any, share: tuple[int, int]) -> None:
        from loopwise.graph.structured.kernels.eisner import forward_batch

        charts = self.charts if self.kept else np.empty(self.room)
        forward_batch(self.trees, charts, self.kept, self.in_log, gradient, found, share)

    def backward(self, given: Any, adjoint: Floats, share: tuple[int, int]) -> None:
        from loopwise.graph.structured.kernels.eisner import backward_batch

        charts, tangents = self.charts if self.kept else np.empty(self.room), np.empty(self.room)
        backward_batch(self.trees, charts, self.kept, self.in_log, given, tangents, adjoint, share)
