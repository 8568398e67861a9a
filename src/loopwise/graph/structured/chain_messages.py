"""Compiled messages of chains. In: log messages, tables. Out: messages, adjoints. Stage: structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.compiled import KernelMessages


class ChainMessages(KernelMessages):
    """All :class:`~loopwise.graph.structured.chain.Chain` factors of a graph."""

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        from loopwise.graph.structured.kernels.chain_messages import ChainArrays

        super().__init__(factors, slot_start, own_start)
        length = np.array([factor.length for factor in factors], dtype=np.int64)
        self.arrays = ChainArrays(slot_start, length, np.array([factor.states for factor in factors]), own_start)

    @staticmethod
    def kernels() -> tuple[Callable[..., None], Callable[..., None]]:
        from loopwise.graph.structured.kernels.chain_messages import chains_back, chains_send

        return chains_send, chains_back
