"""Tables 3 to 6: from the finished runs to cells, published beside ours.

In: a folder of runs. Out: cells of :class:`Results`. A number is the mean over models of the test loss less that of the
true parameters (their structure, BP to convergence, the same decoder), over the models for which all of it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from studies.erma.models import Size
from studies.erma.protocol import BEST, IDEAL, LOGL, SGD, TABLE3, TESTS, TRUE, TRUTH, Condition, ErmaJob, ErmaProtocol
from studies.erma.training import ErmaRun, finished
from studies.harness.published import published
from studies.harness.results import Cell
from studies.harness.statistics import example_flip_p, mean_and_error, record, sign_flip_p

PRINTED = published("erma")

DELTA, WINS, P = "", ", models won", ", p"  # the items of a table: differences, wins, p-values
TRUE_ITEM = "Losses of the true model"
SWEEPS_ITEM = "Sweeps to convergence"
SGD_ITEM = "SMD against SGD"


def row_name(test: str, train: str) -> str:
    """What a row is called: tested on, trained by."""
    return f"{test}: {train}"


@dataclass(frozen=True)
class ErmaRuns:
    """The runs of one folder. They are read once."""

    folder: Path
    protocol: ErmaProtocol
    seed: int

    @cached_property
    def _runs(self) -> dict[ErmaJob, ErmaRun | None]:
        return {}

    def run(self, size: Size, train: str, condition: Condition) -> ErmaRun | None:
        job = ErmaJob(size, train, condition)
        if self._runs.get(job) is None:
            self._runs[job] = finished(job, self.folder)
        return self._runs[job]

    def compared(self, train: str, condition: Condition) -> list[tuple[Size, ErmaRun, ErmaRun, ErmaRun]]:
        """Of each model for which all three are there: the run, that of LOGL, and the truth."""
        found = []
        for size in self.protocol.sizes:
            runs = self.run(size, train, condition), self.run(size, LOGL.name, condition), self.run(size, TRUTH, TRUE)
            if runs[0] is not None and runs[1] is not None and runs[2] is not None:
                found.append((size, runs[0], runs[1], runs[2]))
        return found

    def mean(self, values: str, train: str, condition: Condition) -> tuple[float, float | None, int] | None:
        """Mean, standard error and number over models of a fact of the runs."""
        runs = [self.run(size, train, condition) for size in self.protocol.sizes]
        numbers = [float(getattr(run, values)) for run in runs if run is not None]
        return (*mean_and_error(numbers), len(numbers)) if numbers else None


def table3(study: ErmaRuns) -> Iterator[Cell]:
    """Ideal conditions, every way of training."""
    for test in TABLE3:
        truths = [run.loss(test) for size in study.protocol.sizes if (run := study.run(size, TRUTH, TRUE))]
        if truths:
            ours, error = mean_and_error(truths)
            yield Cell(TRUE_ITEM, test, "loss", ours, error, len(truths), PRINTED["true_loss"].get(test))
    for test, trains in TABLE3.items():
        for train in trains:
            known = PRINTED["table3"][test].get(train, {})
            yield from _cells(study, "Table 3", test, train, "Δ loss", IDEAL, known)
    yield from _optimisers(study)


def table4(study: ErmaRuns) -> Iterator[Cell]:
    """Wrong edges."""
    for share in study.protocol.mismatches:
        yield from _column(study, "Table 4", f"{share:.0%}", Condition(mismatch=share), PRINTED["table4"])


def table5(study: ErmaRuns) -> Iterator[Cell]:
    """Few sweeps."""
    for sweeps in study.protocol.sweeps:
        condition = Condition(iterations=sweeps)
        yield from _column(study, "Table 5", str(sweeps), condition, PRINTED["table5"])
        for train in (LOGL.name, BEST["MSE"].name):
            needed = study.mean("sweeps", train, condition)
            settled = study.mean("converged", train, condition)
            if needed and settled:
                more = {"converged": settled[0]}
                yield Cell(SWEEPS_ITEM, train, str(sweeps), needed[0], needed[1], needed[2], more=more)


def table6(study: ErmaRuns) -> Iterator[Cell]:
    """Trained for one loss, tested on another."""
    for test in TESTS:
        for target, train in BEST.items():
            cell = _delta(study, "Table 6", test, test, train.name, target, IDEAL, PRINTED["table6"][test][target])
            if cell is not None:
                yield cell


def _column(
    study: ErmaRuns,
    item: str,
    column: str,
    condition: Condition,
    known: Mapping[str, Any],
) -> Iterator[Cell]:
    for test in TESTS:
        for train in dict.fromkeys((LOGL, BEST[test])):
            rows = known[test]["likelihood" if train is LOGL else "risk"]
            yield from _cells(study, item, test, train.name, column, condition, rows.get(column, {}))


def _cells(
    study: ErmaRuns,
    item: str,
    test: str,
    train: str,
    column: str,
    condition: Condition,
    known: Mapping[str, Any],
) -> Iterator[Cell]:
    """The difference of loss; and, except for LOGL itself, the models won and the p-value against it."""
    row = row_name(test, train)
    cell = _delta(study, item + DELTA, test, row, train, column, condition, known.get("loss"))
    if cell is None:
        return
    yield cell
    if train == LOGL.name:
        return
    triples = study.compared(train, condition)
    ours, theirs = [run.loss(test) for _, run, _, _ in triples], [logl.loss(test) for _, _, logl, _ in triples]
    score = record(ours, theirs)
    printed: str | None = known.get("record")
    won = None if printed is None else float(printed.split("-")[0])
    more = {"ties": score.ties, "losses": score.losses, "published_record": printed}
    yield Cell(item + WINS, row, column, float(score.wins), None, cell.n, won, more)
    over_models = sign_flip_p([a - b for a, b in zip(ours, theirs, strict=True)])
    over_examples = example_flip_p([run.losses[test] - logl.losses[test] for _, run, logl, _ in triples])
    yield Cell(item + P, row, column, over_models, None, cell.n, None, {"p_examples": over_examples})


def _delta(
    study: ErmaRuns,
    item: str,
    test: str,
    row: str,
    train: str,
    column: str,
    condition: Condition,
    known: float | None,
) -> Cell | None:
    triples = study.compared(train, condition)
    if not triples:
        return None
    gaps = {size.name: run.loss(test) - truth.loss(test) for size, run, _, truth in triples}
    ours, error = mean_and_error(list(gaps.values()))
    return Cell(item, row, column, ours, error, len(gaps), known, {"models": gaps})


def _optimisers(study: ErmaRuns) -> Iterator[Cell]:
    """The training loss that each optimiser reaches, and the test loss, on the models where both were run."""
    names = (BEST["MSE"].name, SGD.name)
    sizes = [size for size in study.protocol.sizes if all(study.run(size, name, IDEAL) for name in names)]
    for name in names:
        runs = [run for size in sizes if (run := study.run(size, name, IDEAL))]
        if runs:
            reached = {size.name: run.objective for size, run in zip(sizes, runs, strict=True)}
            for column, values in (
                ("training loss", list(reached.values())),
                ("test loss", [run.loss("MSE") for run in runs]),
            ):
                ours, error = mean_and_error(values)
                more = {"models": reached} if column == "training loss" else {}
                yield Cell(SGD_ITEM, name, column, ours, error, len(runs), more=more)


TABLES = {3: table3, 4: table4, 5: table5, 6: table6}
#: What the items of each table are called, so that a table can be made anew.
ITEMS = {
    3: ("Table 3", "Table 3" + WINS, "Table 3" + P, TRUE_ITEM, SGD_ITEM),
    4: ("Table 4", "Table 4" + WINS, "Table 4" + P),
    5: ("Table 5", "Table 5" + WINS, "Table 5" + P, SWEEPS_ITEM),
    6: ("Table 6",),
}
