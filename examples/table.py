"""A Markov random field on a real table: missing cells, two outputs, and the loss that is measured.

The wine table of scikit-learn: chemical measurements of 178 wines of three growers, cut into low, middle and high. A
tenth of the cells is removed, as in tables of real life. Outputs are the grower and the colour; every pair of columns
is joined. Two systems that differ only in what they were trained for are compared after a few sweeps of inference. Run
it: ``python examples/table.py`` (the command line does the same: ``loopwise fit wine.csv --outputs grower,colour``).
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sklearn.datasets import load_wine

import loopwise as lw
from loopwise.formats.table import DataTable, Vocabulary

COLUMNS = ("alcohol", "malic_acid", "flavanoids", "proline", "hue")
LEVELS = ("low", "middle", "high")


def wine_table(missing: float, seed: int) -> DataTable:
    """Levels of the measurements, the colour's level and the grower; some cells of the measurements are missing."""
    wine = load_wine()
    places = [wine.feature_names.index(name) for name in (*COLUMNS, "color_intensity")]
    measured = wine.data[:, places]
    cuts = np.quantile(measured, [1 / 3, 2 / 3], axis=0)
    levels = (measured > cuts[0]).astype(np.int64) + (measured > cuts[1])
    rng = np.random.default_rng(seed)
    levels[:, : len(COLUMNS)][rng.random((len(levels), len(COLUMNS))) < missing] = -1
    values = np.concatenate([levels, wine.target[:, None]], axis=1)[rng.permutation(len(levels))]
    names = (*COLUMNS, "colour", "grower")
    growers = tuple(f"grower {number}" for number in range(3))
    return DataTable(Vocabulary(names, (LEVELS,) * 6 + (growers,)), values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    table = wine_table(missing=0.1, seed=options.seed)
    graph = lw.graph.complete(len(table.vocabulary.names), states=3)
    examples = lw.Examples.from_table(graph, table, outputs=["grower", "colour"])
    train, test = examples[:120], examples[120:]
    print(f"{len(train)} wines to train on, {len(test)} to test; {train.count_patterns()} patterns of missing cells")
    goals: dict[str, lw.loss.SurrogateLikelihood | lw.loss.MSE] = {
        "likelihood": lw.loss.SurrogateLikelihood(),
        "MSE of the beliefs": lw.loss.MSE(),
    }
    print(f"{'trained for':20} {'MSE':>8} {'accuracy':>9}   after {options.sweeps} sweeps of BP")
    for name, goal in goals.items():
        system = lw.System(
            lw.TablePotentials(graph),
            lw.BP(iterations=options.sweeps, tolerance=0),
            vocabulary=table.vocabulary,
            roles=examples.roles[0],
        )
        lw.fit(
            system,
            train,
            goal,
            optimizer=lambda params: torch.optim.Adam(params, lr=0.05),
            epochs=options.epochs,
            prior=lw.prior.L2(1e-3),
            seed=options.seed,
        )
        mse, accuracy = lw.evaluate(system, test, [lw.loss.MSE(), lw.metric.Accuracy()])
        print(f"{name:20} {mse:8.4f} {accuracy:9.3f}")


if __name__ == "__main__":
    main()
