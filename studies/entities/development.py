"""``python -m studies.entities.development``: what labels are worth on generated tables, where choices are made.

In: kinds of tables, a seed, draws. Out: for each table the mean of pairwise and B-cubed F1 without labels and with
pairs as the study draws them, and how far the worst draw is above that without labels; or (``--ids``) with the ids of
half of the entities, the other half resolved, of each draw.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np

from loopwise.apps.dedupe import DedupeReport
from studies.entities.data import EntityProblem, labelled_pairs
from studies.entities.generated import GENERATED
from studies.entities.protocol import IDS, OURS, EntityJob
from studies.entities.single import labels_of
from studies.entities.tools import PairLabels, resolved

COUNTS = (20, 100, 500)


def reached(problem: EntityProblem, count: int, draw: int) -> float:
    """The mean of both F1 with so many labelled pairs."""
    labels = PairLabels()
    if count:
        pairs = labelled_pairs(problem, count, draw)
        labels = PairLabels(pairs, problem.truth[pairs[:, 0]] == problem.truth[pairs[:, 1]])
    return _score(problem, labels, problem)


def reached_with_ids(problem: EntityProblem, draw: int, method: str | None = None) -> float:
    """The mean of both F1 on half of the entities, with the ids of the others; ``method``: not the one chosen."""
    return _score(*labels_of(problem, EntityJob(problem.name, IDS, OURS, draw)), method)


def _score(train: EntityProblem, labels: PairLabels, test: EntityProblem, method: str | None = None) -> float:
    report = DedupeReport.of(resolved(train, labels, test, method)[0], test.truth, test.side)
    return (report.pairwise_f1 + report.b_cubed) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kinds", default=",".join(GENERATED))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hard", type=float, default=1.0, help="from 0 to 1")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--ids", action="store_true", help="true ids of half of the entities")
    parser.add_argument("--method", help="with ids: a way that is taken, whichever is best")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in told.kinds.split(","):
        problem = GENERATED[kind](told.seed, told.hard)
        if told.ids:
            scores = [round(reached_with_ids(problem, draw, told.method), 4) for draw in range(told.draws)]
            print(json.dumps({"kind": kind, "ids": round(float(np.mean(scores)), 4), "draws": scores}), flush=True)
            continue
        alone = reached(problem, 0, 0)
        with_pairs = {count: [reached(problem, count, 10 + draw) for draw in range(told.draws)] for count in COUNTS}
        found = {str(count): round(float(np.mean(scores)), 4) for count, scores in with_pairs.items()}
        worst = round(min(min(scores) for scores in with_pairs.values()) - alone, 4)
        print(json.dumps({"kind": kind, "none": round(alone, 4), **found, "worst": worst}), flush=True)


if __name__ == "__main__":
    main()
