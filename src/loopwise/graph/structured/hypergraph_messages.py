"""Compiled messages of grammars. In: log messages, weights of hyperedges. Out: messages, adjoints. Stage: structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.compiled import KernelMessages


class HypergraphMessages(KernelMessages):
    """All :class:`~loopwise.graph.structured.hypergraph.Hypergraph` factors of a graph."""

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        from loopwise.graph.structured.kernels.hypergraph_messages import Grammars

        super().__init__(factors, slot_start, own_start)
        arrays = [factor.arrays for factor in factors]
        fired = [factor.fired for factor in factors]
        defaults = [factor.default_slots for factor in factors]

        def starts(pieces: list[Any]) -> Integers:
            return starts_of([len(piece) for piece in pieces])

        def joined(pieces: list[Any]) -> Integers:
            return np.concatenate([np.zeros(0, np.int64), *pieces]).astype(np.int64)

        weighted = [factor.weighted for factor in factors]
        self.arrays = Grammars(
            slot_start,
            np.where(weighted, own_start, -1).astype(np.int64),
            np.array([each.root for each in arrays], dtype=np.int64),
            starts([each.axiom for each in arrays]),
            starts([each.head for each in arrays]),
            starts([each.tails for each in arrays]),
            starts([edge for edge, _ in fired]),
            starts(defaults),
            np.concatenate([each.axiom for each in arrays]),
            joined([each.head for each in arrays]),
            joined([factor.order for factor in factors]),
            joined([each.tail_start for each in arrays]),
            joined([each.tails for each in arrays]),
            joined([edge for edge, _ in fired]),
            joined([slot for _, slot in fired]),
            joined(defaults),
            joined([factor.slot_start for factor in factors]),
        )

    @staticmethod
    def kernels() -> tuple[Callable[..., None], Callable[..., None]]:
        from loopwise.graph.structured.kernels.hypergraph_messages import grammars_back, grammars_send

        return grammars_send, grammars_back
