"""A hashed table of weights with what its optimiser remembers.

In: a size. Out: :class:`Table`, changed in place by training; and its entries that are not 0 as tensors, for files.
Stage: use. The update is that of :class:`~loopwise.learn.optim.AdaGradCOMID`, by its kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
DELTA = 1e-9


@dataclass(eq=False)
class Table:
    """Weights, sums of squared gradients, the step at which each row was last regularised, and a mark for finding rows.

    The four stand side by side in memory, ``cells[size, 4]``: a row that is touched costs one cache line, not four.
    """

    size: int
    steps: int = 0
    cells: Floats = field(init=False)
    started: bool = field(default=False, init=False)  # at trained weights that a prior is to spare

    def __post_init__(self) -> None:
        self.cells = np.zeros((self.size, 4), dtype=np.float32)

    @property
    def weights(self) -> Floats:
        """A view ``[size, 1]``, as kernels of optimisers want it."""
        return self.cells[:, 0:1]

    @property
    def squares(self) -> Floats:
        """A view ``[size, 1]``."""
        return self.cells[:, 1:2]

    @property
    def last(self) -> NDArray[np.int32]:
        """A view ``[size]``."""
        return self.cells.view(np.int32)[:, 2]

    @property
    def marks(self) -> NDArray[np.int32]:
        """A view ``[size]``."""
        return self.cells.view(np.int32)[:, 3]

    def copy_weights(self) -> Floats:
        """The weights by themselves, ``[size]``."""
        return self.cells[:, 0].copy()

    def set_weights(self, weights: Floats) -> None:
        """Other weights; what the optimiser remembers stays."""
        self.cells[:, 0] = weights

    def start_from(self, weights: Floats, regularised: bool) -> None:
        """Begins at trained weights. A prior would send those without any gradient yet to 0 at once: an unknown scale
        counts as 1, with which they also move less than without a prior."""
        self.set_weights(weights)
        self.started = regularised
        self.forget()

    def forget(self) -> None:
        """A fresh optimiser; the weights stay."""
        self.cells[:, 1:] = 0.0
        if self.started:
            self.cells[:, 1] = self.cells[:, 0] != 0
        self.steps = 0

    def flush(self, rate: float, l2: float) -> None:
        """Pays the regularisation that untouched rows owe: before weights are used, saved, or the rate changes."""
        if l2 == 0:
            return  # nothing is ever owed
        from loopwise.kernels.comid import catch_up

        catch_up(self.weights, self.squares, self.last, self.steps, rate, DELTA, 0.0, l2)

    def state(self) -> dict[str, Tensor | int]:
        """Weights and what the optimiser remembers, rows that were ever touched only; after :meth:`flush`."""
        rows = np.flatnonzero((self.cells[:, 1] != 0) | (self.cells[:, 0] != 0))
        return {
            "rows": torch.from_numpy(rows.astype(np.int32)),
            "weights": torch.from_numpy(self.cells[rows, 0]),
            "squares": torch.from_numpy(self.cells[rows, 1]),
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Tensor | int]) -> None:
        """As it was when :meth:`state` was asked for."""
        rows, weights, squares = (np.asarray(state[name]) for name in ("rows", "weights", "squares"))
        self.cells[:] = 0.0
        self.cells[rows, 0], self.cells[rows, 1] = weights, squares
        self.steps = int(state["steps"])
        self.last[:] = self.steps


def pack(weights: Floats) -> dict[str, Tensor]:
    """The entries that are not 0, or all of them where that is shorter."""
    rows = np.flatnonzero(weights)
    if 2 * len(rows) > len(weights):
        return {"all": torch.from_numpy(np.ascontiguousarray(weights))}
    return {"rows": torch.from_numpy(rows.astype(np.int32)), "values": torch.from_numpy(weights[rows])}


def unpack(tensors: Mapping[str, Tensor], size: int) -> Floats:
    """The weights that :func:`pack` was given."""
    if "all" in tensors:
        whole: Floats = tensors["all"].numpy().astype(np.float32, copy=True)
        if whole.shape != (size,):
            raise ValueError(f"there are {whole.size} weights where there should be {size}")
        return whole
    rows, values = tensors["rows"].numpy(), tensors["values"].numpy()
    if rows.shape != values.shape or (rows.size and (rows.min() < 0 or rows.max() >= size)):
        raise ValueError(f"weights do not fit a table of {size}")
    weights = np.zeros(size, dtype=np.float32)
    weights[rows] = values
    return weights
