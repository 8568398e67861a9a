r"""Unary potentials of pixels: what an image says of the label of each pixel by itself.

In: images ``[images, channels, rows, columns]``. Out: log-potentials ``[images, states, rows, columns]``. Stage: use.
Any torch module with this signature serves; these two are known to saved files.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class AffineUnary(nn.Module):
    r"""An affine function of the intensities of a pixel (Domke 2010, eq. 27):

    .. math:: \theta(y_i; x_i) = \sum_{c,p} b_{cp}(y_i)\, x_{ic}^p + c(y_i)

    for channels c and powers p = 1 ... ``powers``. All weights start at 0.

    >>> unary = AffineUnary(states=3, channels=2)
    >>> tuple(unary(torch.zeros(5, 2, 4, 6, dtype=torch.float64)).shape)
    (5, 3, 4, 6)
    """

    def __init__(self, states: int = 2, channels: int = 1, powers: int = 1) -> None:
        super().__init__()
        for name, number in {"states": states, "channels": channels, "powers": powers}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        self.states, self.channels, self.powers = states, channels, powers
        self.weight = nn.Parameter(torch.zeros(states, channels * powers, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(states, dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        features = torch.cat([images**power for power in range(1, self.powers + 1)], 1)
        return torch.einsum("sc,bchw->bshw", self.weight, features) + self.bias[:, None, None]


class ConvUnary(nn.Module):
    """A small convolutional network: layers of ``hidden`` channels with ``kernel`` x ``kernel`` windows and ReLUs, then
    a linear layer to the states. It sees ``(kernel - 1) * len(hidden) + 1`` pixels across; edges are repeated outwards.

    ``seed``: of its first weights; the last layer starts at 0, so that the model starts indifferent.

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
