"""Compiled messages of chains. In: log messages, tables. Out: messages, adjoints. Stage: structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.compiled import CompiledMessages, Flags, Floats


class ChainMessages(CompiledMessages):
    """All :class:`~loopwise.graph.structured.chain.Chain` factors of a graph."""

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        from loopwise.graph.structured.kernels.chain_messages import ChainArrays

        super().__init__(factors, slot_start, own_start)
        length = np.array([factor.length for factor in factors], dtype=np.int64)
        self.chains = ChainArrays(slot_start, length, np.array([factor.states for factor in factors]), own_start)

    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> None:
        from loopwise.graph.structured.kernels.chain_messages import chains_send

        chains_send(rows, self.chains, own, incoming, outgoing, possible)

    def pull_back(
        self,
        rows: Integers,
        incoming: Floats,
        own: Floats,
        kept: Any,
        of_outgoing: Floats,
        of_incoming: Floats,
        of_own: Floats,
    ) -> None:
        from loopwise.graph.structured.kernels.chain_messages import chains_back

        chains_back(rows, self.chains, own, incoming, of_outgoing, of_incoming, of_own)
