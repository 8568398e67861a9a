"""Tables with missing cells: accuracy and log-loss of ours and of what users have today.

In: an order. Out: results, pictures; runs beside them, a file for each table, fold and way of training.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from studies.harness.page import Page
from studies.harness.queue import run_jobs
from studies.harness.results import FULL, QUICK, Deadline, Results
from studies.harness.runs import check_runs, file_name, read_run, write_run
from studies.harness.study import Study, StudyOrder
from studies.tables.claims import RULES, TableRun, cells_of, claims_of
from studies.tables.data import DESIGN, FOLDS, NAMES, SET_ASIDE, Cells, Data, folds_of, read_data, taken_away
from studies.tables.methods import (
    BOOSTING,
    FOREST_KNN,
    MAJORITY,
    METHODS,
    NAIVE,
    OURS,
    TableProblem,
    log_loss,
    ours_together,
    trained,
)

RATES = (0.0, 0.1, 0.3, 0.5, 0.7)
SEVERAL = ("bridges.version2", "breast.cancer", "hepatitis", "primary.tumor", "zoo", "dermatology")
SEVERAL_METHODS = (OURS, NAIVE, FOREST_KNN, BOOSTING)
PICTURE = "ranks.png"


@dataclass(frozen=True)
class TablesProtocol:
    """How much is run: tables, folds, rates of missing cells in training rows, test draws for a small table."""

    tables: tuple[str, ...]
    folds: int
    trained_with: tuple[float, ...]
    several: tuple[str, ...]
    draws: int
    test_rows: int = 600  # about so many rows are asked at each rate, by several draws where a table is small


PROTOCOLS = {
    QUICK: TablesProtocol(("zoo", "lymph", "heart.c"), 1, (0.0,), (), 2),
    FULL: TablesProtocol(NAMES, FOLDS, (0.0, 0.2), SEVERAL, 5),
}


@dataclass(frozen=True)
class TableJob:
    """One table, one fold, one way of training; all methods."""

    table: str
    fold: int
    trained_with: float
    outputs: int = 1

    @property
    def name(self) -> str:
        several = f", {self.outputs} outputs" if self.outputs > 1 else ""
        return f"{self.table}, fold {self.fold + 1}, trained with {self.trained_with:.0%} missing{several}"

    def path(self, folder: Path) -> Path:
        return folder / file_name(self.table, self.fold, int(100 * self.trained_with), self.outputs)


def jobs(protocol: TablesProtocol) -> list[TableJob]:
    """Fold after fold, tables that claims are about first, so that what is finished covers them alike."""
    found = []
    order = sorted(protocol.tables, key=lambda table: table not in SET_ASIDE)
    for fold in range(protocol.folds):
        found += [TableJob(table, fold, rate) for table in order for rate in protocol.trained_with]
        found += [TableJob(table, fold, 0.0, 3) for table in protocol.several]
    return found


def run_job(job: TableJob, protocol: TablesProtocol, data: Path, folder: Path, seed: int) -> None:
    """Trains all methods and asks them about the same cells."""
    table = read_data(data, job.table)
    fold = folds_of(table, seed)
    salt = f"{job.table} {job.fold}"
    train = taken_away(table.cells[fold != job.fold], job.outputs, job.trained_with, seed=seed, salt=f"{salt} train")
    test = table.cells[fold == job.fold]
    draws = int(np.clip(protocol.test_rows // len(test), 1, protocol.draws))
    asked = {
        rate: np.concatenate(
            [
                taken_away(test, job.outputs, rate, seed=seed, salt=f"{salt} {draw}")
                for draw in range(draws if rate else 1)
            ]
        )
        for rate in RATES
    }
    found: dict[str, object] = {"rows": len(test), "methods": {}}
    methods = (*METHODS, MAJORITY) if job.outputs == 1 else (*SEVERAL_METHODS, MAJORITY)
    for method in methods:
        began = time.process_time()
        scores = _scores(method, table, train, asked, job, seed)
        entry = {"scores": scores, "seconds": time.process_time() - began}
        found["methods"][method] = entry  # type: ignore[index]
    write_run(job.path(folder), found)


def _scores(
    method: str, table: Data, train: Cells, asked: dict[float, Cells], job: TableJob, seed: int
) -> dict[str, list[float]]:
    """Accuracy and log-loss at each rate, the mean over outputs."""
    count, outputs = table.cells.shape[1], job.outputs
    places = range(count - outputs, count)
    answers = {place: np.array([str(cell) for cell in table.cells[:, place]]) for place in places}
    together = ours_together(_texts(train, outputs), outputs, seed) if method == OURS and outputs > 1 else None
    models = {}
    for place in places if together is None else ():
        known = np.array([cell is not None for cell in train[:, place]])
        own = np.array([str(cell) for cell in train[known, place]])
        problem = TableProblem(train[known, :-outputs], own, np.unique(answers[place]), table.numeric[:-outputs], seed)
        models[place] = trained(method, problem)
    found: dict[str, list[float]] = {}
    for rate, rows in asked.items():
        shown = rows.copy()
        shown[:, -outputs:] = None
        joint = None if together is None else together(shown)
        right, losses = [], []
        for number, place in enumerate(places):
            classes = np.unique(answers[place])
            known = np.array([cell is not None for cell in rows[:, place]])
            codes = np.searchsorted(classes, [str(cell) for cell in rows[known, place]])
            if joint is None:
                shares = models[place](rows[:, :-outputs])[known]
            else:
                shares = np.zeros((len(rows), len(classes)))
                shares[:, np.searchsorted(classes, joint[number][0].astype(str))] = joint[number][1]
                shares = shares[known]
            right.append(float((shares.argmax(axis=1) == codes).mean()))
            losses.append(log_loss(shares, codes))
        found[f"{rate:g}"] = [float(np.mean(right)), float(np.mean(losses))]
    return found


def _texts(cells: Cells, outputs: int) -> Cells:
    """Outputs as texts, missing ones as None."""
    found = cells.copy()
    for place in range(cells.shape[1] - outputs, cells.shape[1]):
        found[:, place] = [None if cell is None else str(cell) for cell in cells[:, place]]
    return found


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """All tables, folds and ways of training."""
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    check_runs(runs, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    data = order.data or Path(os.environ.get("LOOPWISE_DATA", "../shared/data"))
    todo = jobs(protocol)
    one = partial(run_job, protocol=protocol, data=data, folder=runs, seed=order.seed)
    done = run_jobs(todo, runs, one, deadline, order.tell, workers=order.processes)
    found = [
        TableRun(job.table, job.fold, job.trained_with, job.outputs, read)
        for job in todo
        if (read := read_run(job.path(runs)))
    ]
    results.put_items(results.items(), cells_of(found))
    results.claim(*claims_of(found, protocol.trained_with))
    _draw(found, results.folder)
    results.note(*_notes(found, done, len(todo)))
    return done, len(todo)


def _notes(found: list[TableRun], done: int, of: int) -> tuple[str, ...]:
    """What is here, where something is missing."""
    if done == of:
        return ()
    folds = ", ".join(str(fold + 1) for fold in sorted({run.fold for run in found}))
    rates = " and ".join(f"{rate:.0%}" for rate in sorted({run.trained_with for run in found}))
    absent = [name for name in NAMES if name not in {run.table for run in found}]
    without = f"; no run yet: {', '.join(absent)}" if absent else ""
    return (
        f"Not finished: {done} of {of} runs are here, fold {folds}, training rows with {rates} of cells taken "
        f"away{without}. All numbers below are of these runs only.",
    )


def _draw(found: list[TableRun], folder: Path) -> None:
    shown = []
    for column, title in enumerate(("accuracy", "log-loss")):
        curves = []
        for method in METHODS:
            ranks = [TableRun.mean_rank(found, method, rate, column, SET_ASIDE) for rate in RATES]
            if any(rank is not None for rank in ranks):
                curves.append(Curve(method, [100 * rate for rate in RATES], ranks, dashed=method != OURS))
        shown.append(
            Panel(
                f"Mean rank by {title}, tables set aside",
                "% of input cells missing",
                "mean rank (1: best)",
                curves,
                log_x=0,
            )
        )
    if any(panel.curves for panel in shown):
        save(panels(shown, columns=2, one_legend=True), folder / PICTURE)


def steps(order: StudyOrder) -> int:
    """How many runs there are in all."""
    return len(jobs(PROTOCOLS[order.mode]))


def page(results: Results) -> Page:
    """What stands around the numbers."""
    introduction = [
        "Seventeen public tables (76 to 8,124 rows, 7 to 70 columns, some cells missing from the beginning), five "
        "folds. Test rows lose 0, 10, 30, 50 or 70 % of their input cells, at random, the same cells for all methods; "
        "training rows are as they are, or lose 20 % as well. Columns that name rows are left out. Each method has "
        "three settings, the best of which by log-loss on held-out training rows with cells taken away is used; "
        "`lw.apps.Table` runs with its defaults, which choose inside training. TAN is written for this study (tree of "
        "largest conditional mutual information, exact inference), not pgmpy's, which answers one row at a time. "
        "Probabilities are mixed with a thousandth of equal shares before logarithms are taken, for all methods alike.",
        f"Defaults were made while looking at {', '.join(DESIGN)}; claims are about the other {len(SET_ASIDE)} tables, "
        "by rules that were written before the study was run. " + " ".join(RULES.values()),
        "When the present learner was made, numbers of an earlier one on the first fold (training rows as they are) "
        "had been seen; what was changed was chosen on parts of the six tables only.",
    ]
    if results.mode != FULL:
        introduction.append("This is the quick version: three small tables, one fold. It shows what the study is.")
    pictures = {PICTURE: "Mean rank of each method over the tables set aside, both ways of training together."}
    units = {
        "accuracy": "share of right answers; mean over tables and folds, both ways of training",
        "log-loss": "nats",
        "rank by accuracy": "mean rank over the tables set aside, 1 is best",
        "rank by log-loss": "mean rank over the tables set aside, 1 is best",
        "several outputs, accuracy": "class and last two columns; mean over outputs, tables and folds",
        "accuracy by table": "of ours; each table with both ways of training",
        "seconds": "of processor time a fit with its choices and all answers, mean; on a busy machine",
    }
    return Page(STUDY.title, introduction, pictures, units, QUESTION)


QUESTION = (
    "Tables in use have empty cells. Does one model of all columns, trained while cells go missing, answer better than "
    "filling the cells first and classifying then, and than Bayesian networks?"
)

STUDY = Study("tables", "Tables with missing cells", run, steps, page, reads_data=lambda parts: True)
