"""The lattice of an image: its graph, and in which direction each pair of neighbours lies.

In: rows, columns. Out: :class:`Lattice`, made once a size. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.builders import grid
from loopwise.graph.factor_graph import FactorGraph

# Half of the neighbours of a pixel are partners of a pair that begins at it: right and down, then the two diagonals.
DIRECTIONS = {4: ("right", "down"), 8: ("right", "down", "down right", "down left")}


def check_neighbours(neighbours: int) -> None:
    """Refuses what is no neighbourhood."""
    if neighbours not in DIRECTIONS:
        raise ValueError(f"neighbours must be 4 or 8, not {neighbours}")


@dataclass(frozen=True, eq=False)
class Lattice:
    """Pixels of an image in the order of rows, and their neighbours; ``graph`` is that of :func:`loopwise.grid`."""

    rows: int
    columns: int
    graph: FactorGraph
    ends: Tensor  # int64 [pairs, 2]: the two pixels of each pair
    direction: Tensor  # int64 [pairs], into DIRECTIONS

    @staticmethod
    def of(rows: int, columns: int, states: int, neighbours: int) -> Lattice:
        graph = grid(rows, columns, states=states, neighbours=neighbours)
        counts = [rows * (columns - 1), (rows - 1) * columns, (rows - 1) * (columns - 1), (rows - 1) * (columns - 1)]
        direction = np.repeat(np.arange(neighbours // 2), counts[: neighbours // 2])
        ends = torch.tensor(graph.group("pair").scopes)
        return Lattice(rows, columns, graph, ends, torch.from_numpy(direction))

    @property
    def pairs(self) -> int:
        return len(self.ends)
