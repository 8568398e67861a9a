"""The lattice and its potentials."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.grid_crf import ContrastPair, GridCRF, Lattice
from oracles.grid_cases import pictures, started


@pytest.mark.parametrize("neighbours", [4, 8])
def test_neighbourhoods_against_an_explicit_graph(neighbours: int) -> None:
    """Pairs written out one by one, each with the table of its direction and contrast."""
    rows, columns = 3, 4
    images, _ = pictures([(rows, columns)])
    model = started(
        GridCRF(
            neighbours=neighbours,
            pair=ContrastPair(2, directions=neighbours // 2, scale=0.7),
            inference=lw.BP(tolerance=1e-12, iterations=1000),
        ),
        channels=1,
    )
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    image, factors = images[0][..., 0], []
    pair = model.potentials_.pair
    for row in range(rows):
        for column in range(columns):
            scores = model.potentials_.unary.weight[:, 0] * image[row, column] + model.potentials_.unary.bias
            factors.append(((row * columns + column,), scores.detach().numpy()))
            for direction, (down, right) in enumerate(steps):
                low, high = row + down, column + right
                if low < rows and 0 <= high < columns:
                    near = np.exp(-((image[row, column] - image[low, high]) ** 2) / (2 * 0.7**2))
                    table = pair.table[direction] + pair.weight[direction] * near
                    factors.append(((row * columns + column, low * columns + high), table.detach().numpy()))
    graph, tables = lw.FactorGraph.from_factors([2] * (rows * columns), factors)
    expected = lw.BP(tolerance=1e-12, iterations=1000)(graph, tables).variables
    (found,) = model.predict_marginals(images)
    np.testing.assert_allclose(found.reshape(-1, 2), expected.numpy(), atol=1e-9)


def test_direction_of_each_pair() -> None:
    lattice = Lattice.of(3, 4, 2, 8)
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)]
    for (first, second), direction in zip(lattice.ends.tolist(), lattice.direction.tolist(), strict=True):
        assert (second // 4 - first // 4, second % 4 - first % 4) == steps[direction]
