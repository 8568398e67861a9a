"""Between the messages of a graph and the score matrices of its tree factors.

In: log messages ``[examples, slots]`` of edge variables. Out: dense matrices of log-odds, and back; adjoints likewise.
Stage: below inference. Matrices stand one after another, tree by tree, for each of ``rows`` in turn.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_kernel


class Trees(NamedTuple):
    """Several tree factors: where each edge variable stands."""

    edge_start: Any  # [trees + 1], into the two below
    slot: Any  # [edges] of OFF; ON is the next
    cell: Any  # [edges] in the matrices of one example
    cells: Any  # of one example


@fused_kernel
def edge_scores(rows, trees, incoming, scores):
    """Log-odds of ON; -inf where there is no edge, +inf for one that must be there."""
    scores[:] = -np.inf
    for place in range(rows.shape[0]):
        given, base = incoming[rows[place]], place * trees.cells
        for edge in range(trees.slot.shape[0]):
            off, on = given[trees.slot[edge]], given[trees.slot[edge] + 1]
            odds = on - off
            if off == -np.inf:
                odds = np.inf if on > -np.inf else -np.inf
            scores[base + trees.cell[edge]] = odds


@fused_kernel
def edge_messages(rows, trees, messages, outgoing):
    """Normalised log messages of log-odds, which may be infinite."""
    for place in range(rows.shape[0]):
        sent, base = outgoing[rows[place]], place * trees.cells
        for edge in range(trees.slot.shape[0]):
            odds, slot = messages[base + trees.cell[edge]], trees.slot[edge]
            less = math.log1p(math.exp(-abs(odds)))
            sent[slot] = -max(odds, 0.0) - less
            sent[slot + 1] = min(odds, 0.0) - less


@fused_kernel
def edge_seeds(rows, trees, messages, of_outgoing, seeds):
    """Adjoints of the log-odds of messages; 0 where they are infinite."""
    seeds[:] = 0.0
    for place in range(rows.shape[0]):
        back, base = of_outgoing[rows[place]], place * trees.cells
        for edge in range(trees.slot.shape[0]):
            odds, slot = messages[base + trees.cell[edge]], trees.slot[edge]
            if math.isinf(odds):
                continue
            small = math.exp(-abs(odds))
            on = (1.0 if odds >= 0.0 else small) / (1.0 + small)
            off = (small if odds >= 0.0 else 1.0) / (1.0 + small)
            seeds[base + trees.cell[edge]] = off * back[slot + 1] - on * back[slot]


@fused_kernel
def edge_adjoints(rows, trees, scores, pulled, seeds, of_incoming):
    """Adds the adjoints of the messages that came in: messages are logit p less the score, so the seed is taken off."""
    for place in range(rows.shape[0]):
        back, base = of_incoming[rows[place]], place * trees.cells
        for edge in range(trees.slot.shape[0]):
            cell, slot = base + trees.cell[edge], trees.slot[edge]
            if not math.isinf(scores[cell]):
                value = pulled[cell] - seeds[cell]
                back[slot] -= value
                back[slot + 1] += value
