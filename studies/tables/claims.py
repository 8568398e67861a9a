"""What is claimed of tables, by rules that were written before the numbers were seen; and the cells behind it.

In: finished runs. Out: claims, cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.harness.claims import MISSING
from studies.harness.results import Cell, Claim
from studies.harness.statistics import mean_and_error
from studies.tables.data import NAMES, SET_ASIDE
from studies.tables.methods import MAJORITY, METHODS, OURS

RATES = ("0", "0.1", "0.3", "0.5", "0.7")
RULES = {
    "ranks": "Ranks: on the tables set aside, at each rate from 10 % up, our mean rank by accuracy over tables, folds "
    "and ways of training (ties share ranks) is smaller than that of each other method.",
    "loss": "Log-loss: the same by log-loss.",
    "majority": "Majority: on no table set aside, at no rate and in no way of training, is our accuracy below that of "
    "the most common class by more than two standard errors of a share over the test rows of the folds run.",
    "whole": "Nothing missing: on the tables set aside, at 0 %, the mean difference of our accuracy and that of the "
    "method with the best mean accuracy is at least minus two standard errors over tables.",
}


@dataclass(frozen=True)
class TableRun:
    """A finished run."""

    table: str
    fold: int
    trained_with: float
    outputs: int
    told: dict[str, Any]

    def score(self, method: str, rate: str, column: int) -> float | None:
        """Accuracy (column 0) or log-loss (1)."""
        known = self.told["methods"].get(method)
        return None if known is None else float(known["scores"][rate][column])

    def ranks(self, rate: str, column: int) -> dict[str, float]:
        """Of each method, ties shared."""
        sign = -1.0 if column == 0 else 1.0
        scores = {method: sign * score for method in METHODS if (score := self.score(method, rate, column)) is not None}
        values = np.array(list(scores.values()))
        return {
            method: float((values < score - 1e-12).sum() + ((np.abs(values - score) <= 1e-12).sum() + 1) / 2)
            for method, score in scores.items()
        }

    @staticmethod
    def mean_rank(
        found: Sequence[TableRun], method: str, rate: float, column: int, tables: Sequence[str]
    ) -> float | None:
        """Over the runs of ``tables`` with one output, each table weighing the same."""
        by_table: dict[str, list[float]] = {}
        for run in found:
            if run.outputs == 1 and run.table in tables:
                by_table.setdefault(run.table, []).append(run.ranks(f"{rate:g}", column)[method])
        return float(np.mean([np.mean(own) for own in by_table.values()])) if by_table else None


def _single(found: Sequence[TableRun], tables: Sequence[str]) -> list[TableRun]:
    return [run for run in found if run.outputs == 1 and run.table in tables]


def _by_table(runs: Sequence[TableRun], method: str, rate: str, column: int) -> list[float]:
    """The mean score of each table."""
    found: dict[str, list[float]] = {}
    for run in runs:
        score = run.score(method, rate, column)
        if score is not None:
            found.setdefault(run.table, []).append(score)
    return [float(np.mean(own)) for own in found.values()]


def cells_of(found: Sequence[TableRun]) -> Iterator[Cell]:
    """All numbers of the page."""
    runs = _single(found, NAMES)
    for column, item in enumerate(("accuracy", "log-loss")):
        for method in METHODS if column else (*METHODS, MAJORITY):
            for rate in RATES:
                scores = _by_table(runs, method, rate, column)
                if scores:
                    mean, error = mean_and_error(scores)
                    yield Cell(item, method, f"{float(rate):.0%} missing", mean, error, len(scores))
    for column, item in enumerate(("rank by accuracy", "rank by log-loss")):
        for method in METHODS:
            for rate in RATES:
                rank = TableRun.mean_rank(found, method, float(rate), column, SET_ASIDE)
                if rank is not None:
                    count = len({run.table for run in _single(found, SET_ASIDE)})
                    yield Cell(item, method, f"{float(rate):.0%} missing", rank, None, count)
    several = [run for run in found if run.outputs > 1]
    for method in (*METHODS, MAJORITY):
        for rate in RATES:
            scores = _by_table(several, method, rate, 0)
            if scores:
                mean, error = mean_and_error(scores)
                yield Cell("several outputs, accuracy", method, f"{float(rate):.0%} missing", mean, error, len(scores))
    for table in NAMES:
        for rate in RATES:
            own = [run.score(OURS, rate, 0) for run in runs if run.table == table]
            known = [score for score in own if score is not None]
            if known:
                mean, error = mean_and_error(known)
                yield Cell("accuracy by table", table, f"{float(rate):.0%} missing", mean, error, len(known))
    for method in METHODS:
        spent = [run.told["methods"][method]["seconds"] for run in runs if method in run.told["methods"]]
        if spent:
            yield Cell("seconds", method, "mean", float(np.mean(spent)), None, len(spent))


def claims_of(found: Sequence[TableRun], trained_with: Sequence[float]) -> list[Claim]:
    """The four claims; undecided until every table set aside has a fold in every way of training."""
    runs = _single(found, SET_ASIDE)
    wanted = {(table, rate) for table in SET_ASIDE for rate in trained_with}
    ready = wanted <= {(run.table, run.trained_with) for run in runs}
    if not ready:
        return [Claim(name, rule, None, MISSING) for name, rule in RULES.items()]
    return [
        _ranks("ranks", found, 0),
        _ranks("loss", found, 1),
        _majority(runs),
        _whole(runs),
    ]


def _ranks(name: str, found: Sequence[TableRun], column: int) -> Claim:
    holds, evidence = True, []
    for rate in RATES[1:]:
        ranks = {
            method: TableRun.mean_rank(found, method, float(rate), column, SET_ASIDE) or math.inf for method in METHODS
        }
        best = min((method for method in METHODS if method != OURS), key=ranks.__getitem__)
        holds = holds and ranks[OURS] < ranks[best]
        evidence.append(f"{float(rate):.0%}: {ranks[OURS]:.2f}, next {best} {ranks[best]:.2f}")
    return Claim(name, RULES[name], holds, "; ".join(evidence))


def _majority(runs: Sequence[TableRun]) -> Claim:
    worst, evidence = math.inf, ""
    for table in SET_ASIDE:
        for with_missing in sorted({run.trained_with for run in runs}):
            own = [run for run in runs if run.table == table and run.trained_with == with_missing]
            rows = sum(run.told["rows"] for run in own)
            for rate in RATES:
                ours, common = (
                    float(
                        np.average(
                            [run.score(method, rate, 0) or 0.0 for run in own],
                            weights=[run.told["rows"] for run in own],
                        )
                    )
                    for method in (OURS, MAJORITY)
                )
                error = math.sqrt(max(common * (1 - common), 1e-9) / rows)
                if (ours - common) / error < worst:
                    worst = (ours - common) / error
                    evidence = (
                        f"{table} at {float(rate):.0%}: {ours:.3f} against {common:.3f}, {worst:.1f} standard errors"
                    )
    return Claim("majority", RULES["majority"], worst >= -2, f"least: {evidence}")


def _whole(runs: Sequence[TableRun]) -> Claim:
    scores = {method: np.array(_by_table(runs, method, "0", 0)) for method in METHODS}
    best = max(METHODS, key=lambda method: scores[method].mean())
    gap = scores[OURS] - scores[best]
    mean, error = mean_and_error(gap.tolist())
    holds = best == OURS or mean >= -2 * (error or 0.0)
    evidence = f"ours {scores[OURS].mean():.3f}, best {best} {scores[best].mean():.3f}"
    evidence += f", difference {mean:.4f} ± {error or 0:.4f}"
    return Claim("whole", RULES["whole"], holds, evidence)
