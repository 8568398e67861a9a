"""crfsuite as an outside anchor: trained on the very features of our tagger, by number.

In: a problem with gold tags. Out: a model in a file, its tags of other problems. python-crfsuite must be installed;
nothing else in the package needs it.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.learn.chain.problem import ChainProblem
from loopwise.potentials.linear import Integers


class CrfSuite:
    """A model that crfsuite trains by L-BFGS on the negative log-likelihood with ``l2`` / 2 times the squared weights.

    ``seen_only``: weights only for pairs that occur in training, and ``tolerance``: when to stop; both are crfsuite's
    defaults. ``path``: where it writes its model. After training: ``losses`` of the iterations, ``seconds`` of the
    processor in them, and ``elapsed``, what they took by the clock; copying features to it is not counted.
    """

    def __init__(
        self,
        problem: ChainProblem,
        l2: float,
        iterations: int,
        path: Path,
        *,
        seen_only: bool = True,
        tolerance: float = 1e-5,
    ) -> None:
        import pycrfsuite  # type: ignore[import-not-found,import-untyped,unused-ignore]

        if problem.steps is not None:
            raise ValueError("crfsuite has no features of two tags and a word; leave step templates out")
        self.labels, self.path = problem.labels, str(path)
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        gold = problem.gold.tolist()
        for begin, rows in feature_names(problem):
            trainer.append(rows, [self.labels[gold[begin + place]] for place in range(len(rows))])
        trainer.set_params(
            {
                "c1": 0.0,
                "c2": l2 / 2,
                "max_iterations": iterations,
                "num_memories": 6,
                "epsilon": tolerance,
                "delta": tolerance,
                "feature.possible_states": not seen_only,
                "feature.possible_transitions": not seen_only,
            }
        )
        begun, begun_processor = time.perf_counter(), time.process_time()
        trainer.train(self.path)
        elapsed, processor = time.perf_counter() - begun, time.process_time() - begun_processor
        log = trainer.logparser.iterations
        self.losses = [float(entry["loss"]) for entry in log]
        self.seconds = sum(float(entry["time"]) for entry in log)
        self.elapsed = self.seconds * elapsed / processor  # preparation left out alike
        self._tagger: Any = pycrfsuite.Tagger()
        self._tagger.open(self.path)

    @property
    def info(self) -> Any:
        """Its weights, by name."""
        return self._tagger.info()

    def tags(self, problem: ChainProblem) -> Integers:
        """The number of the tag of each token, by its own Viterbi."""
        place = {label: number for number, label in enumerate(self.labels)}
        found = [place[tag] for _, rows in feature_names(problem) for tag in self._tagger.tag(rows)]
        return np.array(found, dtype=np.int64)


def feature_names(problem: ChainProblem) -> list[tuple[int, list[list[str]]]]:
    """Of each sentence its first token and, token by token, the numbers of its features as text."""
    features = problem.unary.flat
    names, starts = list(map(str, features.index.tolist())), features.start.tolist()
    rows = [names[low:high] for low, high in itertools.pairwise(starts)]
    bounds = problem.chains.start.tolist()
    return [(begin, rows[begin:end]) for begin, end in itertools.pairwise(bounds)]
