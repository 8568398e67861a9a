r"""Trees that need not be projective, as one factor (TREE of Smith & Eisner 2008).

In: log messages on edge variables. Out: messages, log-partition, marginals, best tree, samples. Stage: structure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.edge_messages import TreeMessages
from loopwise.graph.structured.edges import EdgeFactor, EdgeRun, Floats


class Tree(EdgeFactor):
    r"""1 if the edges that are ON form a tree rooted at 0, else 0.

    :math:`Z=\det\mathcal L` with :math:`\mathcal L_{mm}=\sum_h w_{hm}`, :math:`\mathcal L_{hm}=-w_{hm}` (matrix-tree
    theorem: Koo et al., McDonald & Satta, Smith & Smith 2007), computed without a subtraction, so that peaked scores
    lose nothing. :math:`O(n^3)`; samples :math:`O(n^4)`; the best tree by Chu, Liu & Edmonds.

    Parameters
    ----------
    tokens: words of the sentence, without the root.
    single_root: whether one token only hangs on the root.
    edges: pairs (head, modifier) that have a variable, ``[edges, 2]``; None: all.

    >>> import torch
    >>> tree = Tree(4, single_root=True)
    >>> round(float(tree.log_partition(torch.zeros(tree.slots, dtype=torch.float64)).exp()))
    64
    """

    compiled = TreeMessages

    def run_trees(self, scores: Floats, lengths: Integers) -> EdgeRun:
        return _TreeRun(scores, lengths, self.single_root)

    def best_heads(self, scores: Floats) -> tuple[Floats, Integers]:
        from loopwise.graph.structured.kernels.spanning_decode import best_spanning

        heads = np.zeros((len(scores), self.tokens + 1), dtype=np.int64)
        best = [
            best_spanning(row, self.tokens, self.single_root, found) for row, found in zip(scores, heads, strict=True)
        ]
        return np.array(best, dtype=np.float64), heads[:, 1:].copy()

    def drawn_heads(self, scores: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Integers]:
        from loopwise.graph.structured.kernels.matrix_tree import draw_spanning

        heads = np.zeros((len(scores), count, self.tokens + 1), dtype=np.int64)
        uniforms = generator.random((len(scores), count, self.tokens))
        total = [
            draw_spanning(row, self.tokens, self.single_root, draws, found)
            for row, draws, found in zip(scores, uniforms, heads, strict=True)
        ]
        return np.array(total, dtype=np.float64), heads[:, :, 1:].swapaxes(0, 1).copy()


class _TreeRun(EdgeRun):
    """Kernel results of sentences."""

    def __init__(self, scores: Floats, lengths: Integers, single_root: bool) -> None:
        self.weights, self.penalties = np.empty(scores.size), np.zeros(len(lengths))
        super().__init__(scores, lengths, single_root)

    def forward(self, gradient: Floats, found: Any, share: tuple[int, int]) -> None:
        from loopwise.graph.structured.kernels.matrix_tree import spanning_forward_batch

        spanning_forward_batch(self.trees, self.weights, self.penalties, gradient, found, share)

    def backward(self, given: Any, adjoint: Floats, share: tuple[int, int]) -> None:
        from loopwise.graph.structured.kernels.matrix_tree import spanning_backward_batch

        spanning_backward_batch(self.trees, self.weights, self.penalties, given, adjoint, share)
