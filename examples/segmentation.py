"""Segmenting a very noisy photograph: a small network and a grid model, trained jointly.

The photograph is one that scikit-learn ships. Its smoothed colours are put into four classes, heavy noise is added, and
the task is to find the class of every pixel. The image is cut into tiles; a third of them are for testing. Compared are
a convolutional network alone, a grid model on top of that network as it is, and both trained on jointly from there: TRW
is the last layer, cut off after ten sweeps and differentiated as such. Run it: ``python examples/segmentation.py [--out
FOLDER]``; it takes a minute or two.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.apps.grid_crf import ConvUnary, GridCRF, Lattice, TiedPair

STATES, SWEEPS, SIDE = 4, 10, 40


@dataclass(frozen=True)
class Scene:
    """An image ``[rows, columns, 3]`` without and with noise, its classes, and which tiles are for testing."""

    clean: np.ndarray
    noisy: np.ndarray
    labels: np.ndarray

    def tiles(self, testing: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Every third tile along a diagonal, or the others."""
        rows, columns = (length // SIDE for length in self.labels.shape)
        places = [(row, column) for row in range(rows) for column in range(columns)]
        cuts = [
            (slice(row * SIDE, (row + 1) * SIDE), slice(column * SIDE, (column + 1) * SIDE))
            for row, column in places
            if ((row + column) % 3 == 0) == testing
        ]
        return [self.noisy[cut] for cut in cuts], [self.labels[cut] for cut in cuts]


def scene(noise: float, seed: int, shrink: int = 2) -> Scene:
    """The photograph of a flower, made smaller, with noise; colours are classed by k-means, dark to light."""
    from scipy.ndimage import gaussian_filter
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_sample_image

    photograph = load_sample_image("flower.jpg") / 255.0
    rows, columns = (length // (shrink * SIDE) * SIDE for length in photograph.shape[:2])
    cut = photograph[: rows * shrink, : columns * shrink].reshape(rows, shrink, columns, shrink, 3)
    clean = cut.mean((1, 3))
    smooth = gaussian_filter(clean, sigma=(2, 2, 0))
    classes = KMeans(STATES, n_init=3, random_state=seed).fit(smooth.reshape(-1, 3))
    order = np.argsort(np.argsort(classes.cluster_centers_.sum(1)))
    labels = order[classes.labels_].reshape(rows, columns)
    return Scene(clean, clean + np.random.default_rng(seed).normal(0, noise, clean.shape), labels)


class NoPair(nn.Module):
    """Neighbours that do not know each other: the network alone."""

    def forward(self, images: Tensor, lattice: Lattice) -> Tensor:
        return torch.zeros(1, STATES, STATES, dtype=images.dtype)


def freeze(network: nn.Module) -> nn.Module:
    """A copy that training leaves as it is."""
    frozen = copy.deepcopy(network)
    for weight in frozen.parameters():
        weight.requires_grad_(False)
    return frozen


def model(unary: nn.Module, pair: nn.Module, iterations: int) -> GridCRF:
    """The same inference, loss and optimiser for all."""
    return GridCRF(
        states=STATES,
        unary=unary,
        pair=pair,
        inference=lw.TRW(rho=0.5, iterations=SWEEPS, tolerance=0, schedule=lw.Sequential(), gradient=lw.Unroll()),
        loss=[lw.loss.UnivariateLikelihood()],  # a list: no other loss before it
        iterations=iterations,
    )


def run(iterations: int = 40, noise: float = 0.8, seed: int = 0, shrink: int = 2) -> tuple[Scene, dict[str, GridCRF]]:
    """The contenders, trained one from where the other ended."""
    picture = scene(noise, seed, shrink)
    train = picture.tiles(testing=False)
    network = ConvUnary(STATES, channels=3, hidden=(6,), seed=seed)
    alone = model(network, NoPair(), iterations).fit(*train)
    afterwards = model(freeze(alone.potentials_.unary), TiedPair(STATES), iterations).fit(*train)
    jointly = model(alone.potentials_.unary, afterwards.potentials_.pair, iterations).fit(*train)
    return picture, {"network alone": alone, "grid afterwards": afterwards, "trained jointly": jointly}


def measure(picture: Scene, contender: GridCRF) -> dict[str, float]:
    """Share of wrong pixels, and the loss that was trained, on the test tiles."""
    measures = {"error": lw.metric.HammingError(), "loss": lw.loss.UnivariateLikelihood()}
    return contender.evaluate(*picture.tiles(testing=True), measures)


def draw(picture: Scene, found: dict[str, GridCRF], path: Path) -> None:
    """The whole image; numbers are those of the test tiles."""
    from loopwise.plot import gallery, save

    panels = {"photograph": picture.clean, "classes": picture.labels, "with noise": picture.noisy}
    for name, contender in found.items():
        title = f"{name}: {measure(picture, contender)['error']:.1%} wrong"
        panels[title] = contender.predict([picture.noisy])[0]
    names = list(panels)
    rows = [{name: panels[name] for name in names[:3]}, {name: panels[name] for name in names[3:]}]
    save(gallery(rows, states=STATES, width=2.6, dpi=90, titles=True), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=40, help="of L-BFGS, for each contender")
    parser.add_argument("--noise", type=float, default=0.8, help="standard deviation added to colours of 0 to 1")
    parser.add_argument("--shrink", type=int, default=2, help="how many times smaller the photograph is made, 1 to 8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for a picture")
    options = parser.parse_args()
    picture, found = run(options.iterations, options.noise, options.seed, options.shrink)
    for name, contender in found.items():
        test = measure(picture, contender)
        print(f"{name:16} {test['error']:.1%} of the test pixels wrong, loss {test['loss']:.3f}", flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(picture, found, options.out / "segmentation.png")
        print(f"wrote {options.out / 'segmentation.png'}")


if __name__ == "__main__":
    main()
