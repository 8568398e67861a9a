r"""The model of images: a lattice of pixels, what an image says of each, and which labels of neighbours go together.

In: images ``[images, channels, rows, columns]``. Out: :class:`GridPotentials`, log-potentials for the graph of a size.
Stage: use. A unary part gives log-potentials ``[images, states, rows, columns]``; a pair part takes the
:class:`Lattice`, too, and gives ``[*images, pairs or 1, states, states]``. Any torch modules with these signatures
serve; the four here are known to saved files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.arguments import checked_whole
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


class AffineUnary(nn.Module):
    r"""An affine function of the intensities of a pixel (Domke 2010, eq. 27):

    .. math:: \theta(y_i; x_i) = \sum_{c,p} b_{cp}(y_i)\, x_{ic}^p + c(y_i)

    for channels c and powers p = 1 ... ``powers``. All weights start at 0.

    Parameters
    ----------
    states, channels: of labels, and of images.
    powers: of intensities that are looked at.

    >>> unary = AffineUnary(states=3, channels=2)
    >>> tuple(unary(torch.zeros(5, 2, 4, 6, dtype=torch.float64)).shape)
    (5, 3, 4, 6)
    """

    def __init__(self, states: int = 2, channels: int = 1, powers: int = 1) -> None:
        super().__init__()
        for name, number in {"states": states, "channels": channels, "powers": powers}.items():
            checked_whole(name, number)
        self.states, self.channels, self.powers = states, channels, powers
        self.weight = nn.Parameter(torch.zeros(states, channels * powers, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(states, dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        features = torch.cat([images**power for power in range(1, self.powers + 1)], 1)
        return torch.einsum("sc,bchw->bshw", self.weight, features) + self.bias[:, None, None]


class ConvUnary(nn.Module):
    """A small convolutional network: layers of ``hidden`` channels with ``kernel`` x ``kernel`` windows and ReLUs, then
    a linear layer to the states. It sees ``(kernel - 1) * len(hidden) + 1`` pixels across; edges are repeated outwards.

    Parameters
    ----------
    states, channels: of labels, and of images.
    hidden: channels of each layer.
    kernel: pixels across a window, an odd number.
    seed: of its first weights; the last layer starts at 0, so that the model starts indifferent.

    >>> sum(weight.numel() for weight in ConvUnary(states=2, hidden=(8,)).parameters())
    98
    """

    def __init__(
        self, states: int = 2, channels: int = 1, hidden: Sequence[int] = (16, 16), kernel: int = 3, seed: int = 0
    ) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel must be an odd number of pixels, not {kernel}")
        if not hidden or min(hidden) < 1:
            raise ValueError(f"hidden must name the channels of at least one layer, not {tuple(hidden)}")
        self.states, self.channels, self.hidden = states, channels, tuple(hidden)
        self.kernel, self.seed = kernel, seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[nn.Module] = []
            for inner, outer in zip((channels, *hidden), hidden, strict=False):
                convolution = nn.Conv2d(
                    inner, outer, kernel, padding=kernel // 2, padding_mode="replicate", dtype=torch.float64
                )
                layers += [convolution, nn.ReLU()]
            last = nn.Conv2d(hidden[-1], states, 1, dtype=torch.float64)
        nn.init.zeros_(last.weight)
        if last.bias is not None:
            nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*layers, last)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        return scores


class TiedPair(nn.Module):
    r"""One table for all pairs, :math:`\theta(y_i, y_j) = a(y_i, y_j)` (Domke 2010, eq. 27), whatever the image.

    Pairs are ordered (left before right, upper before lower), so the table need not be symmetric. All start at 0.

    Parameters
    ----------
    states: how many labels there are.
    directions: 1, or as many as the neighbourhood has (2 or 4) for a table each.

    >>> tuple(TiedPair(states=3)(torch.zeros(1, 1, 4, 4), Lattice.of(4, 4, 3, 4)).shape)
    (1, 3, 3)
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

    All weights start at 0.

    Parameters
    ----------
    states: how many labels there are.
    directions: as for :class:`TiedPair`.
    scale: :math:`s`; None takes the root mean square difference of neighbours in the training images (times the
        channels).

    >>> pair = ContrastPair(scale=0.5)
    >>> tuple(pair(torch.zeros(2, 1, 4, 4, dtype=torch.float64), Lattice.of(4, 4, 2, 4)).shape)  # of two images
    (2, 24, 2, 2)
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


class GridPotentials(nn.Module):
    """``unary(images)`` for pixels, ``pair(images, lattice)`` for neighbours, of images of any size."""

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
        copy = GridPotentials(self.states, self.neighbours, deepcopy(self.unary, memo), deepcopy(self.pair, memo))
        copy._lattices = self._lattices
        return copy.train(self.training)


def weights_of(potentials: nn.Module) -> list[Tensor]:
    """The parameters that training changes."""
    found: list[Tensor] = [weight for weight in potentials.parameters() if weight.requires_grad]
    if not found:
        raise ValueError("the model has no parameter to train; let at least one require a gradient")
    return found
