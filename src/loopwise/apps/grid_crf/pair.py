r"""Pair potentials of neighbouring pixels: which labels go together, and how that depends on the image between them.

In: images ``[images, channels, rows, columns]`` and their :class:`Lattice`. Out: log-potentials ``[*images, pairs or 1,
states, states]``. Stage: use. Any torch module with this signature serves; these two are known to saved files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from loopwise.apps.grid_crf.lattice import DIRECTIONS, Lattice


class TiedPair(nn.Module):
    r"""One table for all pairs, :math:`\theta(y_i, y_j) = a(y_i, y_j)` (Domke 2010, eq. 27), whatever the image.

    Pairs are ordered (left before right, upper before lower), so the table need not be symmetric. ``directions``: 1, or
    as many as the neighbourhood has (2 or 4) for a table each. All start at 0.
    """

    def __init__(self, states: int = 2, directions: int = 1) -> None:
        super().__init__()
        _check_directions(directions)
        self.states, self.directions = states, directions
        self.table = nn.Parameter(torch.zeros(directions, states, states, dtype=torch.float64))

    def forward(self, images: Tensor, lattice: Lattice) -> Tensor:
        if self.directions == 1:
            return self.table
        _check_lattice(self.directions, lattice)
        return self.table.index_select(0, lattice.direction)


class ContrastPair(nn.Module):
    r"""Tables that depend on the contrast across a pair, so that labels change where the image does:

    .. math:: \theta(y_i, y_j; x) = a(y_i, y_j) + w(y_i, y_j)\, e^{-\|x_i - x_j\|^2 / 2 s^2}

    ``scale`` is :math:`s`; None takes the root mean square difference of neighbours in the training images (times the
    channels). ``directions`` as for :class:`TiedPair`. All weights start at 0.
    """

    scale: Tensor

    def __init__(self, states: int = 2, directions: int = 1, scale: float | None = None) -> None:
        super().__init__()
        _check_directions(directions)
        if scale is not None and not 0 < scale < math.inf:
            raise ValueError(f"scale must be a positive number, not {scale}")
        self.states, self.directions, self.given_scale = states, directions, scale
        self.table = nn.Parameter(torch.zeros(directions, states, states, dtype=torch.float64))
        self.weight = nn.Parameter(torch.zeros(directions, states, states, dtype=torch.float64))
        first = math.nan if scale is None else scale
        self.register_buffer("scale", torch.tensor(first, dtype=torch.float64))

    def prepare(self, images: Iterable[tuple[Tensor, Lattice]]) -> None:
        """Measures the scale on training images, unless it was given."""
        if self.given_scale is not None:
            return
        total, count = 0.0, 0
        for pictures, lattice in images:
            squares = _squared_contrast(pictures, lattice)
            total, count = total + float(squares.sum()), count + squares.numel()
        self.scale.fill_(math.sqrt(total / count) if total > 0 else 1.0)

    def forward(self, images: Tensor, lattice: Lattice) -> Tensor:
        if not bool(self.scale > 0):
            raise ValueError("the scale of a ContrastPair is not known yet: fit the model, or give scale")
        near = torch.exp(-_squared_contrast(images, lattice) / (2 * self.scale**2))  # [images, pairs]
        base: Tensor = self.table
        weight: Tensor = self.weight
        if self.directions > 1:
            _check_lattice(self.directions, lattice)
            base, weight = base.index_select(0, lattice.direction), weight.index_select(0, lattice.direction)
        return base + weight * near[..., None, None]


def _squared_contrast(images: Tensor, lattice: Lattice) -> Tensor:
    """The squared distance between the pixels of each pair, ``[images, pairs]``."""
    pixels = images.flatten(2)
    ends = [pixels.index_select(2, lattice.ends[:, side]) for side in (0, 1)]
    return (ends[0] - ends[1]).square().sum(1)


def _check_directions(directions: int) -> None:
    if directions not in (1, 2, 4):
        raise ValueError(f"directions must be 1 (all alike), 2 (of 4 neighbours) or 4 (of 8), not {directions}")


def _check_lattice(directions: int, lattice: Lattice) -> None:
    has = 1 + int(lattice.direction.max()) if lattice.pairs else directions
    if has != directions and lattice.rows > 1 and lattice.columns > 1:
        names = ", ".join(DIRECTIONS[2 * has])
        raise ValueError(
            f"pair tables for {directions} directions, but the neighbourhood has {has}: {names}; let both agree"
        )
