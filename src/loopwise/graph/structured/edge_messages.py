"""Compiled messages of tree factors. In: log messages of edges. Out: messages, adjoints. Stage: structure.

All trees of a graph, sentences of any length, are one batch for the kernels that a single factor calls, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.compiled import CompiledMessages, Flags, Floats


class EdgeMessages(CompiledMessages):
    """Tree factors of one class; those of one root and those of several are two batches."""

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        from loopwise.graph.structured.kernels.edge_messages import Trees

        super().__init__(factors, slot_start, own_start)
        self.batches: list[tuple[Integers, Any, Integers]] = []  # places of factors, where edges stand, lengths
        for single_root in (False, True):
            places = np.array([k for k, factor in enumerate(factors) if factor.single_root == single_root])
            if not len(places):
                continue
            mine = [factors[place] for place in places]
            lengths = np.array([factor.tokens for factor in mine], dtype=np.int64)
            begin = starts_of((lengths + 1) ** 2)
            slots = [
                start + 2 * np.arange(factor.arity) for start, factor in zip(slot_start[places], mine, strict=True)
            ]
            cells = [start + factor.cells for start, factor in zip(begin[:-1], mine, strict=True)]
            edge_start = starts_of([factor.arity for factor in mine])
            trees = Trees(edge_start, np.concatenate(slots), np.concatenate(cells), int(begin[-1]))
            self.batches.append((places, trees, lengths))

    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> list[Any]:
        from loopwise.graph.structured.kernels.edge_messages import edge_messages, edge_scores

        runs = []
        for places, trees, lengths in self.batches:
            scores = np.empty(len(rows) * trees.cells)
            edge_scores(rows, trees, incoming, scores)
            run = self.factors[places[0]].run_trees(scores, np.tile(lengths, len(rows)))
            possible[np.ix_(rows, places)] = (run.log_partition > -np.inf).reshape(len(rows), -1)
            edge_messages(rows, trees, run.messages, outgoing)
            runs.append(run)
        return runs

    def pull_back(self, rows: Integers, incoming: Floats, own: Floats, kept: Any, *adjoints: Floats) -> None:
        from loopwise.graph.structured.kernels.edge_messages import edge_adjoints, edge_seeds

        of_outgoing, of_incoming, _ = adjoints
        for (_, trees, _), run in zip(self.batches, kept, strict=True):
            seeds = np.empty(len(rows) * trees.cells)
            edge_seeds(rows, trees, run.messages, of_outgoing, seeds)
            pulled = run.pull_back(np.zeros(len(seeds)), seeds)
            edge_adjoints(rows, trees, run.scores, pulled, seeds, of_incoming)


class ProjectiveTreeMessages(EdgeMessages):
    """Projective trees."""


class TreeMessages(EdgeMessages):
    """Trees that need not be projective."""
