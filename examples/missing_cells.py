"""A table with empty cells: what was joined, how well chances are calibrated, accuracy as cells go missing.

Four fifths of the rows train :class:`lw.apps.Table` with its defaults; the others lose cells and are asked for the last
column. With ``--arff`` any table of two classes, such as the heart disease table of the tutorial; without, a part of
the breast cancer table that scikit-learn brings. Run it: ``python examples/missing_cells.py --out table.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import loopwise as lw
from loopwise.formats.arff import read_arff
from loopwise.loss.calibration import reliability
from loopwise.plot.style import BLUE, FAINT, INK, ORANGE, bare, new_grid, plain

RATES = (0.0, 0.1, 0.3, 0.5, 0.7)
DRAWS = 5  # of missing cells
ASKED = 0.3  # the rate at which chances are compared with what happened


def table_of(path: Path | None) -> pd.DataFrame:
    """Rows in random order, the class last."""
    if path is None:
        known = load_breast_cancer(as_frame=True)
        frame = known.data.iloc[:, :8].assign(benign=known.target.map({0: "no", 1: "yes"}))[:300]
    else:
        read = read_arff(path)
        columns: dict[str, Any] = {}
        for place, attribute in enumerate(read.attributes):
            cells = pd.Series(read.data[:, place])
            labels = attribute.values
            columns[attribute.name] = cells if labels is None else cells.map(dict(enumerate(labels))).astype(object)
        frame = pd.DataFrame(columns)
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def with_holes(frame: pd.DataFrame, rate: float, rng: np.random.Generator) -> pd.DataFrame:
    return frame.mask(rng.random(frame.shape) < rate)


def mutual_information(belief: np.ndarray) -> float:
    """In nats, of two columns with these joint chances."""
    apart = belief.sum(axis=1, keepdims=True) * belief.sum(axis=0, keepdims=True)
    return float((belief * np.log(np.maximum(belief, 1e-300) / apart)).sum())


def draw_joined(axes: Any, model: lw.apps.Table, names: list[str]) -> None:
    """The class in the middle; the width of a line is the mutual information of a pair that has a factor."""
    bare(axes)
    turn = 2 * np.pi * np.arange(len(names) - 1) / (len(names) - 1)
    places = np.concatenate([np.stack([np.cos(turn), np.sin(turn)], axis=1), np.zeros((1, 2))])
    system = model.system_
    beliefs = system.inference(system.graph, system.potentials())
    pairs = [
        (scope, mutual_information(belief.detach().numpy()))
        for group in system.graph.groups
        if group.arity == 2
        for scope, belief in zip(group.scopes, beliefs.factor(group.name), strict=True)
    ]
    strongest = max((strength for _, strength in pairs), default=1.0)
    for scope, strength in pairs:
        colour = BLUE if len(names) - 1 in scope else ORANGE
        axes.plot(*places[scope].T, color=colour, linewidth=0.4 + 4 * strength / strongest, alpha=0.75, zorder=1)
    for name, (x, y) in zip(names, places, strict=True):
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": FAINT}
        axes.text(1.12 * x, 1.12 * y, name, ha="center", va="center", fontsize=8, color=INK, bbox=box, zorder=2)
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.3, 1.3), title="What was joined (width: mutual information)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arff", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("missing_cells.png"))
    options = parser.parse_args()

    frame = table_of(options.arff)
    inputs, answers = frame.iloc[:, :-1], frame.iloc[:, -1].astype(str)
    rows = len(frame) * 4 // 5
    model = lw.apps.Table().fit(inputs[:rows], answers[:rows], progress=False)
    test, truth = inputs[rows:], answers[rows:].to_numpy()
    rng = np.random.default_rng(0)
    accuracy, chances, happened = [], [], []
    for rate in RATES:
        right = []
        for _ in range(DRAWS if rate else 1):
            shares = model.predict_proba(with_holes(test, rate, rng))
            right.append(np.mean(model.classes_[shares.argmax(axis=1)] == truth))
            if rate == ASKED:
                chances.append(shares[:, 1])
                happened.append(truth == model.classes_[1])
        accuracy.append(float(np.mean(right)))
        print(f"{rate:4.0%} of the cells missing: accuracy {accuracy[-1]:.3f}")
    common = max(float(np.mean(truth == label)) for label in model.classes_)
    print(f"always the most common answer: {common:.3f}")
    print(model.explain(test.iloc[0], frame.columns[-1]))

    left, middle, right_axes = new_grid(1, 3, 12.0, 3.9)[0]
    draw_joined(left, model, [str(name) for name in frame.columns])
    shown = {"chances of the second class": reliability(np.concatenate(chances), np.concatenate(happened))}
    lw.plot.reliability(shown, axes=middle)
    middle.set_title(f"Calibration, {ASKED:.0%} of test cells missing")
    plain(right_axes)
    right_axes.plot([100 * rate for rate in RATES], accuracy, marker="o", color=BLUE, label="Table")
    right_axes.axhline(common, color=FAINT, linestyle="--", label="most common answer")
    right_axes.set(xlabel="% of input cells missing", ylabel="accuracy", ylim=(0.4, 1), title=f"{len(test)} test rows")
    right_axes.legend(frameon=False)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lw.plot.save(left, options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
