"""``python -m studies.entities.single``: one run in a process of its own, so that its peak of memory is its own.

In: the folder of the data, a table, a setting, a tool, a draw, minutes of processor time and gigabytes of memory that
it may take. Out: one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.dedupe import DedupeReport
from studies.entities.data import PROBLEMS, EntityProblem, labelled_pairs
from studies.entities.protocol import ALL_IDS, DEDUPE, IDS, EntityJob
from studies.entities.tools import TOOLS, PairLabels


def labels_of(problem: EntityProblem, job: EntityJob) -> tuple[EntityProblem, PairLabels, EntityProblem]:
    """What is trained on, with what labels, and what is resolved: with ids another half of the entities."""
    train, test = problem, problem
    if job.setting == IDS:
        half = np.random.default_rng(job.draw).permutation(problem.truth.max() + 1) % 2 == 0
        train, test = (problem.part(np.flatnonzero(half[problem.truth] == side)) for side in (True, False))
        if job.tool != DEDUPE:
            return train, PairLabels(ids=True), test
    if job.setting.isdigit() or job.setting == IDS:
        pairs = labelled_pairs(train, int(job.setting) if job.setting.isdigit() else ALL_IDS, job.draw)
        return train, PairLabels(pairs, train.truth[pairs[:, 0]] == train.truth[pairs[:, 1]]), test
    return train, PairLabels(), test


def measured(data: Path, job: EntityJob) -> dict[str, Any]:
    """Scores of one run, its seconds of processor time, its peak of memory."""
    train, labels, test = labels_of(PROBLEMS[job.problem](data / "dedupe"), job)
    began = time.process_time()
    answer = TOOLS[job.tool](train, labels, test)
    scores = {name: DedupeReport.of(found, test.truth, test.side).to_json() for name, found in answer.items()}
    return {
        "scores": scores,
        "matches": None if labels.match is None else int(labels.match.sum()),
        "seconds": round(time.process_time() - began, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    data, problem, setting, tool, draw, minutes, gigabytes = sys.argv[1:]
    for what, most in ((resource.RLIMIT_CPU, 60 * float(minutes)), (resource.RLIMIT_DATA, 2**30 * float(gigabytes))):
        resource.setrlimit(what, (max(1, round(most)), max(1, round(most))))
    print(json.dumps(measured(Path(data), EntityJob(problem, setting, tool, int(draw)))))


if __name__ == "__main__":
    main()
