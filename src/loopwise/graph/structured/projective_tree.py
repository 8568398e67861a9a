r"""Projective trees as one factor (PTREE of Smith & Eisner 2008; Gormley, Dredze & Eisner 2015, section 3).

In: log messages on edge variables. Out: messages, log-partition, marginals, best tree, samples. Stage: structure.
"""

from __future__ import annotations

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.edges import EdgeFactor, EdgeRun, Floats, in_chunks

LARGEST_CHARTS = 64 * 2**20  # bytes: charts of larger batches are filled again by the backward


class ProjectiveTree(EdgeFactor):
    r"""1 if the edges that are ON form a projective tree rooted at 0, else 0.

    .. math:: m_{T\to e}(\mathrm{ON})\propto\frac{p_e}{m_{e\to T}(\mathrm{ON})},\quad
              m_{T\to e}(\mathrm{OFF})\propto\frac{1-p_e}{m_{e\to T}(\mathrm{OFF})}

    with the edge marginals :math:`p_e` of inside-outside over Eisner's :math:`O(n^3)` items. A tree is projective if
    every token between a head and its modifier descends from that head.

    >>> import torch
    >>> tree = ProjectiveTree(4)
    >>> trees = tree.log_partition(torch.zeros(tree.slots, dtype=torch.float64)).exp()
    >>> round(float(trees))
    55
    """

    def run_kernel(self, scores: Floats) -> EdgeRun:
        return _ProjectiveRun(self, scores)

    def best_heads(self, scores: Floats) -> tuple[Floats, Integers]:
        from loopwise.kernels.eisner import charts_size
        from loopwise.kernels.eisner_decode import best_projective

        heads, charts = np.zeros((len(scores), self.tokens + 1), dtype=np.int64), np.empty(charts_size(self.tokens))
        best = [
            best_projective(row, self.tokens, self.single_root, charts, found)
            for row, found in zip(scores, heads, strict=True)
        ]
        return np.array(best, dtype=np.float64), heads[:, 1:].copy()

    def drawn_heads(self, scores: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Integers]:
        from loopwise.kernels.eisner import charts_size
        from loopwise.kernels.eisner_decode import draw_projective

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


class _ProjectiveRun:
    """Kernel results of a batch, with the charts that the backward needs if they are not too large."""

    def __init__(self, factor: ProjectiveTree, scores: Floats) -> None:
        from loopwise.kernels.eisner import charts_size, forward_batch
        from loopwise.kernels.eisner_charts import MATRICES

        examples, size = scores.shape
        self.scores, self.single_root, self.room = scores, factor.single_root, charts_size(factor.tokens)
        self.start, self.lengths = np.arange(examples + 1) * size, np.full(examples, factor.tokens)
        self.kept = 8 * MATRICES * scores.size <= LARGEST_CHARTS
        self.charts = np.empty(MATRICES * scores.size if self.kept else 0)
        self.log_partition, self.in_log = np.empty(examples), np.zeros(examples, dtype=np.bool_)
        self.log_on, self.log_off = np.full(scores.shape, -np.inf), np.zeros(scores.shape)
        self.messages, gradient = np.zeros(scores.shape), np.empty(scores.size)

        def run(chunk: int, chunks: int) -> None:
            charts = self.charts if self.kept else np.empty(self.room)
            forward_batch(
                scores.reshape(-1), self.start, self.lengths, self.single_root, chunk, chunks, charts, self.kept,
                self.log_partition, self.in_log, gradient, self.log_on.reshape(-1), self.log_off.reshape(-1),
                self.messages.reshape(-1),
            )  # fmt: skip

        in_chunks(run, examples)

    def pull_back(self, marginal_adjoint: Floats, logit_adjoint: Floats) -> Floats:
        from loopwise.kernels.eisner import backward_batch

        adjoint = np.zeros(self.scores.shape)

        def run(chunk: int, chunks: int) -> None:
            charts = self.charts if self.kept else np.empty(self.room)
            backward_batch(
                self.scores.reshape(-1), self.start, self.lengths, self.single_root, chunk, chunks, charts, self.kept,
                self.in_log, self.log_on.reshape(-1), self.log_off.reshape(-1), marginal_adjoint.reshape(-1),
                logit_adjoint.reshape(-1), np.empty(self.room), adjoint.reshape(-1),
            )  # fmt: skip

        in_chunks(run, len(self.scores))
        return adjoint
