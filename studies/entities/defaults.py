"""``python -m studies.entities.defaults``: the threshold without labels, chosen for each table on the other tables.

In: the data collection. Out: pairwise and B-cubed F1 at each threshold, and for each table those at the threshold with
the best mean on all others. Our default was set while looking at these tables; this tells what it would be, and reach,
where the table to be resolved had no say in it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe import Dedupe, DedupeReport
from loopwise.apps.dedupe.training import UNLABELLED, Method, Way
from studies.entities.data import PROBLEMS, EntityProblem

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "dedupe"
THRESHOLDS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)


def reached(problem: EntityProblem) -> NDArray[np.float64]:
    """Pairwise and B-cubed F1 of average linkage without labels, ``[thresholds, 2]``."""
    model = Dedupe().fit(problem.records)
    rows = []
    for threshold in THRESHOLDS:
        model.trained_ = replace(model.trained_, way=Way(Method.AVERAGE, threshold))
        report = DedupeReport.of(model.predict(problem.records).clusters, problem.truth, problem.side)
        rows.append((report.pairwise_f1, report.b_cubed))
    return np.array(rows)


def chosen_without(found: dict[str, NDArray[np.float64]], name: str) -> int:
    """The threshold with the best mean score on the other tables."""
    return int(np.mean([rows.mean(axis=1) for other, rows in found.items() if other != name], axis=0).argmax())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--problems", default="cora,patstat,chicago,febrl3")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {name: reached(PROBLEMS[name](told.data)) for name in told.problems.split(",")}
    for name, rows in found.items():
        ours, other = rows[THRESHOLDS.index(UNLABELLED)], chosen_without(found, name)
        scores = " ".join(f"{value:.3f}" for value in (*ours, *rows[other]))
        print(f"{name:9} default {UNLABELLED} and chosen on others {THRESHOLDS[other]}: {scores}", flush=True)
    print(json.dumps({name: np.round(rows, 4).tolist() for name, rows in found.items()}))


if __name__ == "__main__":
    main()
