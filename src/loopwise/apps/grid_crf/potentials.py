"""The potentials of a grid model for images of any size: a unary part, a pair part, a neighbourhood.

In: images of one size. Out: log-potentials for the graph of that size. Stage: use.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from loopwise.apps.grid_crf.lattice import Lattice


class GridPotentials(nn.Module):
    """``unary(images)`` for pixels, ``pair(images, lattice)`` for neighbours; see :mod:`~loopwise.apps.grid_crf.unary`
    and :mod:`~loopwise.apps.grid_crf.pair` for what they take and give."""

    def __init__(self, states: int, neighbours: int, unary: nn.Module, pair: nn.Module) -> None:
        super().__init__()
        self.states, self.neighbours = states, neighbours
        self.unary, self.pair = unary, pair
        self._lattices: dict[tuple[int, int], Lattice] = {}

    def lattice(self, rows: int, columns: int) -> Lattice:
        """The lattice of a size, made once."""
        known = self._lattices.get((rows, columns))
        if known is None:
            known = Lattice.of(rows, columns, self.states, self.neighbours)
            self._lattices = {**self._lattices, (rows, columns): known}  # replaced: another thread may be reading it
        return known

    def prepare(self, images: Iterable[Tensor]) -> None:
        """Lets a pair part that measures the training images do so."""
        measure = getattr(self.pair, "prepare", None)
        if measure is not None:
            measure((pictures, self.lattice(*pictures.shape[-2:])) for pictures in images)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """``unary`` ``[images, pixels, states]`` and ``pair`` ``[*images, pairs or 1, states, states]``."""
        lattice = self.lattice(*images.shape[-2:])
        unary: Tensor = self.unary(images)
        expected = (len(images), self.states, lattice.rows, lattice.columns)
        if tuple(unary.shape) != expected:
            raise ValueError(
                f"the unary part gave shape {tuple(unary.shape)} for images {tuple(images.shape)}; it must give "
                f"{expected}: images, states, rows, columns"
            )
        pair: Tensor = self.pair(images, lattice)
        states = (self.states, self.states)
        if tuple(pair.shape[-2:]) != states or pair.ndim < 3 or pair.shape[-3] not in (1, lattice.pairs):
            raise ValueError(
                f"the pair part gave shape {tuple(pair.shape)} for {lattice.pairs} pairs; it must end in "
                f"{(lattice.pairs, *states)}, or {(1, *states)} for all alike"
            )
        return {"unary": unary.flatten(2).transpose(1, 2), "pair": pair.to(unary.dtype)}

    def __deepcopy__(self, memo: dict[int, object]) -> GridPotentials:
        """A copy with weights of its own; lattices, which never change, are shared."""
        from copy import deepcopy

        copy = GridPotentials(self.states, self.neighbours, deepcopy(self.unary, memo), deepcopy(self.pair, memo))
        copy._lattices = self._lattices
        return copy.train(self.training)


def weights_of(potentials: nn.Module) -> list[Tensor]:
    """The parameters that training changes."""
    found: list[Tensor] = [weight for weight in potentials.parameters() if weight.requires_grad]
    if not found:
        raise ValueError("the model has no parameter to train; let at least one require a gradient")
    return found


def snapshot(potentials: nn.Module) -> dict[str, Tensor]:
    """A copy of all weights and buffers."""
    return {name: torch.clone(value.detach()) for name, value in potentials.state_dict().items()}
