"""A convolutional network and a grid model, trained jointly: belief propagation is the last layer.

Noisy pictures of rectangles come in. A small network gives every pixel two unary log-potentials; the pairwise tables of
the grid, one for horizontal and one for vertical neighbours, are parameters too. Five sweeps of belief propagation turn
both into marginals, and the loss of these trains everything at once. Run it: ``python examples/conv_grid.py``.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import loopwise as lw


class ConvGrid(nn.Module):
    """Pictures ``[examples, rows, columns]`` in, the probability that a pixel is on out, in the same shape."""

    def __init__(self, rows: int, columns: int, sweeps: int = 5, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.graph = lw.grid(rows, columns)
        self.inference = lw.BP(iterations=sweeps, tolerance=0)
        self.network = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)
        )  # fmt: skip
        self.pair = nn.Parameter(torch.zeros(1, 2, 2))  # one table for all edges
        self.to(dtype)

    def forward(self, pictures: Tensor) -> Tensor:
        unary = self.network(pictures[:, None]).movedim(1, -1).flatten(1, 2)  # [examples, pixels, 2]
        beliefs = self.inference(self.graph, {"unary": unary, "pair": self.pair})
        return beliefs.variables[..., 1].reshape(pictures.shape)


def rectangles(count: int, size: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Clean pictures and noisy ones."""
    low = torch.randint(0, size // 2, (count, 2), generator=generator)
    high = low + torch.randint(size // 4, size // 2 + 1, (count, 2), generator=generator)
    place = torch.arange(size)
    inside = (place >= low[..., None]) & (place < high[..., None])
    clean = (inside[:, 0, :, None] & inside[:, 1, None, :]).float()
    return clean, clean + noise * torch.randn(clean.shape, generator=generator)


def error(model: ConvGrid, noisy: Tensor, clean: Tensor) -> float:
    """Share of wrong pixels."""
    with torch.no_grad():
        return float(((model(noisy) > 0.5) != (clean > 0.5)).float().mean())


def train(steps: int = 50, size: int = 12, noise: float = 1.0, seed: int = 0) -> tuple[float, float]:
    """Error on held-out pictures before and after."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = ConvGrid(size, size)
    test = rectangles(100, size, noise, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = error(model, test[1], test[0])
    for _ in range(steps):
        clean, noisy = rectangles(20, size, noise, generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(noisy), clean).backward()
        optimizer.step()
    return before, error(model, test[1], test[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=12, help="rows and columns of a picture")
    parser.add_argument("--noise", type=float, default=1.0, help="standard deviation added to pixels of 0 and 1")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before, after = train(options.steps, options.size, options.noise, options.seed)
    print(f"wrong pixels before training: {before:.1%}, after {options.steps} steps: {after:.1%}")


if __name__ == "__main__":
    main()
