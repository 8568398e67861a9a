"""What is finished of the parsing study: scores, paired comparisons, averages over treebanks.

In: files of runs. Out: numbers, all in percent; None where runs are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.parser.significance import ParserComparison, bootstrap_p, paired_bootstrap, resampled_gaps
from studies.harness.runs import read_run
from studies.parser.protocol import BOTH, CLL, L2, UNARY, ParserJob, ParserProtocol, ParserTraining, Preparation


@dataclass(frozen=True)
class Average:
    """Of differences over treebanks: ``gap`` with the standard error and p of the bootstrap, ``wins`` above 0."""

    gap: float
    error: float
    p: float
    wins: int
    treebanks: int


class ParserRuns:
    """Reads each file and resamples each score once."""

    def __init__(self, folder: Path, protocol: ParserProtocol, treebanks: Sequence[str]) -> None:
        self.folder, self.protocol, self.treebanks = folder, protocol, list(treebanks)
        self._files: dict[ParserJob, dict[str, Any] | None] = {}
        self._scores: dict[ParserTraining, tuple[float, float]] = {}
        self._compared: dict[tuple[ParserTraining, ParserTraining], ParserComparison] = {}
        self._averages: dict[tuple[str, int], Average] = {}

    def run(self, job: ParserJob) -> dict[str, Any] | None:
        """What a job left."""
        if job not in self._files:
            self._files[job] = read_run(job.path(self.folder))
        return self._files[job]

    def treebank(self, name: str) -> dict[str, Any] | None:
        """Sizes and gold heads of a treebank."""
        return self.run(Preparation(name))

    def uas(self, job: ParserTraining) -> tuple[float, float] | None:
        """Test UAS without punctuation, and its standard error over sentences."""
        run, gold = self.run(job), self.treebank(job.treebank)
        if run is None or gold is None:
            return None
        if job not in self._scores:
            alone = paired_bootstrap(run["right"], np.zeros(len(run["right"])), gold["scored"])
            self._scores[job] = 100 * alone.gap, 100 * alone.error
        return self._scores[job]

    def compare(self, ours: ParserTraining, theirs: ParserTraining) -> ParserComparison | None:
        """Our test UAS less theirs, by the paired bootstrap over sentences."""
        mine, other, gold = self.run(ours), self.run(theirs), self.treebank(ours.treebank)
        if mine is None or other is None or gold is None:
            return None
        if (ours, theirs) not in self._compared:
            found = paired_bootstrap(mine["right"], other["right"], gold["scored"])
            percent = ParserComparison(100 * found.gap, 100 * found.error, found.p, found.sentences)
            self._compared[ours, theirs] = percent
        return self._compared[ours, theirs]

    @property
    def finished(self) -> list[str]:
        """Treebanks on which all parsers of Table 2 have been trained: its columns are averages over the same ones."""
        return [
            name
            for name in self.treebanks
            if all(
                self.run(ParserTraining(name, factors, iterations, loss)) is not None
                for _, factors, iterations in self.models
                for loss in (L2, CLL)
            )
        ]

    def average_uas(self, factors: str, iterations: int, loss: str) -> float | None:
        """Of the treebanks that are finished."""
        scores = [self.uas(ParserTraining(name, factors, iterations, loss)) for name in self.finished]
        known = [score[0] for score in scores if score is not None]
        return float(np.mean(known)) if known else None

    def average(self, factors: str, iterations: int) -> Average | None:
        """L2 less CLL, the mean over treebanks that are finished; sentences of each are drawn anew by themselves."""
        names = self.finished
        if not names:
            return None
        if (factors, iterations) not in self._averages:
            self._averages[factors, iterations] = self._average(names, factors, iterations)
        return self._averages[factors, iterations]

    def _average(self, names: list[str], factors: str, iterations: int) -> Average:
        gaps, draws = [], []
        for place, name in enumerate(names):
            mine, other = (self.run(ParserTraining(name, factors, iterations, loss)) for loss in (L2, CLL))
            gold = self.treebank(name)
            assert mine is not None and other is not None and gold is not None
            counts = mine["right"], other["right"], gold["scored"]
            gaps.append(100 * (sum(counts[0]) - sum(counts[1])) / max(1, sum(counts[2])))
            draws.append(100 * resampled_gaps(*counts, seed=place))
        means = np.mean(draws, axis=0)
        gap = float(np.mean(gaps))
        return Average(gap, float(means.std(ddof=1)), bootstrap_p(gap, means), sum(g > 0 for g in gaps), len(names))

    @property
    def models(self) -> list[tuple[str, str, int]]:
        """The columns of Table 2: their names, factors and iterations."""
        counts = self.protocol.table_iterations
        return [
            ("1st order", UNARY, 1),
            *((f"{count} iteration{'s' if count > 1 else ''}", BOTH, count) for count in counts),
        ]
