"""Fair conditions as tables, claims with their rules, and a picture.

In: finished runs of :mod:`studies.erma.budgets`. Out: cells, claims, a PNG file. The rules were written on 2026-11-18,
before any of these models had been drawn; each is printed with its claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, new_grid, plain, save
from studies.erma.budgets import (
    BUDGETED,
    CONVERGED,
    F_LATER,
    L1_LATER,
    LIKELIHOOD,
    RISK,
    SHUFFLED,
    SHUFFLED_LIKELIHOOD,
    SHUFFLED_RISK,
    TRUE,
    WIDE,
    WIDE_STAGED,
    WITH_PRIOR,
    BudgetJob,
    BudgetProtocol,
    BudgetRun,
    jobs_of,
)
from studies.erma.models import Size
from studies.erma.tables import PRINTED
from studies.harness.results import Cell, Claim
from studies.harness.statistics import mean_and_error, record, sign_flip_p

LOSSES = ("MSE", "F", "L1")
MATCHED, USED, ORDER, STARTS, OWN = (
    "Fair: trained for each budget",
    "Fair: trained at 100 sweeps, used with fewer",
    "Fair: messages in random order",
    "Fair: starts and later losses",
    "Fair: how far each objective was brought",
)
ITEMS = (MATCHED, USED, ORDER, STARTS, OWN)
UNITS = {
    MATCHED: "difference of test loss to the true parameters with BP run to convergence; columns: sweeps in training "
    "and in use. The truth is judged under the same sweeps. LOGL is brought to its end, LOGL + L2 has a prior chosen "
    "on held-out training examples, MSE has none",
    USED: "the same; columns: sweeps in use. All were trained at 100",
    ORDER: "the same; each training and test with messages one after another, in an order drawn for each sweep (as "
    "libDAI may send them), beside all at once (above)",
    STARTS: "the same as above, at 100 sweeps; in the paper's units errors are averaged over inputs too, which are "
    "always right",
    OWN: "mean over models: the training objective at the end, what its last quarter of epochs still gained, the "
    "difference of the test NLL to the truth, and the prior's strength (median)",
}
PICTURE = "budgets.png"
CAPTION = (
    "Fair conditions: MSE above the true model at convergence against sweeps of BP, trained for each budget (left) and "
    "trained at 100 sweeps and used with fewer (right)."
)
COLOURS = {TRUE: BLACK, LIKELIHOOD: ORANGE, WITH_PRIOR: GREEN, RISK: BLUE}
SIGNIFICANT = 0.05
FEW = 10  # sweeps and fewer: where likelihood's inference is no longer the one it assumes


@dataclass(frozen=True)
class BudgetRuns:
    """The runs of one folder, over the models of which every run is there."""

    folder: Path
    protocol: BudgetProtocol

    @cached_property
    def runs(self) -> dict[BudgetJob, BudgetRun]:
        """All runs of the complete models."""
        jobs = jobs_of(self.protocol)
        missing = {job.size for job in jobs if not job.path(self.folder).exists()}
        return {job: BudgetRun.load(job.path(self.folder)) for job in jobs if job.size not in missing}

    @cached_property
    def sizes(self) -> list[Size]:
        return list(dict.fromkeys(job.size for job in self.runs))

    def run(self, size: Size, train: str, sweeps: int | None = None) -> BudgetRun:
        return self.runs[BudgetJob(size, train, self.protocol.largest if sweeps is None else sweeps)]

    def gaps(self, test: str, train: str, sweeps: int, used: int | None = None) -> list[float]:
        """By model: the loss less that of the truth at convergence. ``used``: sweeps at test time, if others."""
        trained = self.protocol.largest if train == TRUE else sweeps
        found = []
        for size in self.sizes:
            loss = self.run(size, train, trained).losses[test, sweeps if used is None else used]
            found.append(loss - self.run(size, TRUE).losses[test, CONVERGED])
        return found


def cells(runs: BudgetRuns) -> Iterator[Cell]:
    """All of them; none while no model is complete."""
    if not runs.sizes:
        return
    protocol, largest = runs.protocol, runs.protocol.largest
    for test in LOSSES:
        for train in (TRUE, *BUDGETED):
            for sweeps in protocol.budgets:
                yield _cell(runs, MATCHED, f"{test}: {train}", str(sweeps), runs.gaps(test, train, sweeps))
    for test in LOSSES:
        for train in BUDGETED:
            for sweeps in protocol.budgets:
                gaps = runs.gaps(test, train, largest, sweeps)
                yield _cell(runs, USED, f"{test}: {train}", str(sweeps), gaps)
    for train in SHUFFLED:
        printed = PRINTED["table5"]["MSE"]["likelihood"]["10"]["loss"] if train == SHUFFLED_LIKELIHOOD else None
        for test in LOSSES:
            gaps = runs.gaps(test, train, protocol.shuffled)
            yield _cell(
                runs, ORDER, f"{test}: {train}", str(protocol.shuffled), gaps, printed if test == "MSE" else None
            )
    for train in (*BUDGETED, WIDE, WIDE_STAGED, F_LATER, L1_LATER):
        for test in LOSSES:
            yield _cell(runs, STARTS, train, test, runs.gaps(test, train, largest))
        printed = PRINTED["table3"]["MSE"]["MSE-in"]["loss"] if train == RISK else None
        yield _cell(runs, STARTS, train, "MSE, the paper's units", _paper_units(runs, train), printed)
    for train in (*BUDGETED, WIDE, WIDE_STAGED):
        found = [runs.run(size, train) for size in runs.sizes]
        yield _cell(runs, OWN, train, "objective", [run.objective for run in found])
        yield _cell(runs, OWN, train, "last quarter", [run.left for run in found])
        printed = PRINTED["table3"]["LOGL"]["LOGL"]["loss"] if train == LIKELIHOOD else None
        yield _cell(runs, OWN, train, "Δ NLL", runs.gaps("LOGL", train, largest), printed)
        if train == WITH_PRIOR:
            yield Cell(OWN, train, "strength", float(np.median([run.strength for run in found])), None, len(found))


def _cell(
    runs: BudgetRuns, item: str, row: str, column: str, values: Sequence[float], printed: float | None = None
) -> Cell:
    mean, error = mean_and_error(values)
    models = {size.name: value for size, value in zip(runs.sizes, values, strict=True)}
    return Cell(item, row, column, mean, error, len(values), printed, {"models": models})


def _paper_units(runs: BudgetRuns, train: str) -> list[float]:
    """Errors are averaged over outputs here, over inputs and outputs there: a third of the variables each."""
    return [0.5 * gap for gap in runs.gaps("MSE", train, runs.protocol.largest)]


# --- Claims ----------------------------------------------------------------------------------------------------------


def claims(runs: BudgetRuns) -> list[Claim]:
    """All of them, undecided until every model is complete."""
    complete = len(runs.sizes) == len(runs.protocol.sizes)
    found = [maker(runs) for maker in MAKERS] if runs.sizes else []
    if complete:
        return found
    waiting = f"so far {len(runs.sizes)} of {len(runs.protocol.sizes)} models: "
    return [Claim(claim.id, claim.text, None, waiting + claim.evidence, claim.rule) for claim in found]


def _better(runs: BudgetRuns, ours: Sequence[float], theirs: Sequence[float]) -> tuple[bool, str]:
    """Whether the mean is lower with p at most :data:`SIGNIFICANT` over models, and the numbers."""
    p = sign_flip_p([a - b for a, b in zip(ours, theirs, strict=True)])
    mine, other = mean_and_error(ours)[0], mean_and_error(theirs)[0]
    said = f"{mine:.5f} against {other:.5f}, {record(ours, theirs)}, p {p:.3g}"
    return mine < other and p <= SIGNIFICANT, said


def _everywhere(
    runs: BudgetRuns, name: str, text: str, budgets: Sequence[int], other: str, rule: str, used: bool = False
) -> Claim:
    """MSE training against another training, at each of some budgets."""
    holds, evidence = [], []
    for sweeps in budgets:
        ours = runs.gaps("MSE", RISK, sweeps)
        theirs = runs.gaps("MSE", other, runs.protocol.largest if used else sweeps, sweeps)
        better, said = _better(runs, ours, theirs)
        holds.append(better)
        evidence.append(f"{sweeps}: {said}")
    return Claim(name, text, all(holds) if holds else None, "; ".join(evidence), rule)


def _few(runs: BudgetRuns) -> list[int]:
    return [sweeps for sweeps in runs.protocol.budgets if sweeps <= FEW]


PAIRED = f"mean over models lower, exact sign-flip p ≤ {SIGNIFICANT} two-sided,"


def _against_likelihood(runs: BudgetRuns) -> Claim:
    return _everywhere(
        runs, "fair-erm-better", "Training for the MSE beats likelihood that was brought to its end, at every budget.",
        runs.protocol.budgets, LIKELIHOOD, f"test MSE: {PAIRED} at each budget; both trained for that budget",
    )  # fmt: skip


def _against_prior(runs: BudgetRuns) -> Claim:
    return _everywhere(
        runs, "fair-erm-beats-prior",
        "Training for the MSE, with no prior, beats likelihood with an L2 prior chosen on held-out examples, at ten "
        "sweeps and fewer.",
        _few(runs), WITH_PRIOR, f"test MSE: {PAIRED} at each budget of at most {FEW} sweeps",
    )  # fmt: skip


def _against_truth(runs: BudgetRuns) -> Claim:
    text = "With two sweeps the true parameters lose at least twice as much MSE as parameters trained for two sweeps."
    rule = "mean Δ MSE at 2 sweeps: truth at least twice MSE training, which is better on at least 10 of 12 models"
    if 2 not in runs.protocol.budgets:
        return Claim("fair-truth-at-two", text, None, "two sweeps were not run", rule)
    ours, truth = runs.gaps("MSE", RISK, 2), runs.gaps("MSE", TRUE, 2)
    won = record(ours, truth)
    mine, other = mean_and_error(ours)[0], mean_and_error(truth)[0]
    holds = other >= 2 * mine and won.wins >= round(10 / 12 * len(ours))
    return Claim("fair-truth-at-two", text, holds, f"{mine:.5f} against {other:.5f}, {won}", rule)


def _matched(runs: BudgetRuns) -> Claim:
    return _everywhere(
        runs, "fair-matched", "At five sweeps and fewer, training for that budget beats training at 100 sweeps.",
        [sweeps for sweeps in runs.protocol.budgets if sweeps <= 5], RISK,
        f"test MSE of MSE training: {PAIRED} at each budget of at most 5 sweeps", used=True,
    )  # fmt: skip


def _tenfold(runs: BudgetRuns) -> Claim:
    text = (
        "At 10 sweeps finished likelihood loses at least 10 times as much MSE as training for it (published: over 30)."
    )
    rule = "ratio of the mean Δ MSE, both trained for 10 sweeps, at least 10"
    ours, theirs = (mean_and_error(runs.gaps("MSE", train, 10))[0] for train in (RISK, LIKELIHOOD))
    ratio = theirs / ours if ours > 0 else float("inf")
    said = f"{ratio:.1f} times" if ours > 0 else "training for it is as good as the truth"
    return Claim("fair-tenfold", text, theirs > 0 and ratio >= 10, f"{theirs:.5f} against {ours:.5f}: {said}", rule)


def _order(runs: BudgetRuns) -> Claim:
    text = (
        "The order of messages is a cause of the printed .02461: random order costs likelihood more than all at once."
    )
    sweeps = runs.protocol.shuffled
    rule = (
        f"test MSE at {sweeps} sweeps, finished likelihood: {PAIRED} all at once against random order, "
        "which loses at least .0123"
    )
    at_once, shuffled = runs.gaps("MSE", LIKELIHOOD, sweeps), runs.gaps("MSE", SHUFFLED_LIKELIHOOD, sweeps)
    better, said = _better(runs, at_once, shuffled)
    ours = mean_and_error(runs.gaps("MSE", SHUFFLED_RISK, sweeps))[0]
    holds = better and mean_and_error(shuffled)[0] >= 0.0123
    return Claim("fair-order", text, holds, f"{said}; MSE training in random order {ours:.5f}", rule)


def _own(runs: BudgetRuns) -> Claim:
    text = "Finished likelihood beats the truth on its own measure by at least half of the printed -.31618."
    rule = "mean difference of the test NLL to the truth, at 100 sweeps, at most -.158"
    gap = mean_and_error(runs.gaps("LOGL", LIKELIHOOD, runs.protocol.largest))[0]
    return Claim("fair-logl-own-measure", text, gap <= -0.158, f"{gap:+.4f}", rule)


def _published(runs: BudgetRuns) -> Claim:
    text = "In the paper's units, training for the MSE comes as close to the truth as printed (.00057)."
    rule = "mean Δ MSE over inputs and outputs, at 100 sweeps, at most .00057"
    gap = mean_and_error(_paper_units(runs, RISK))[0]
    return Claim("fair-published-reached", text, gap <= 0.00057, f"{gap:.5f}", rule)


def _starts(runs: BudgetRuns) -> Claim:
    text = "From N(0,1) starts, beginning with likelihood (staged) helps."
    largest = runs.protocol.largest
    better, said = _better(runs, runs.gaps("MSE", WIDE_STAGED, largest), runs.gaps("MSE", WIDE, largest))
    return Claim("fair-staged", text, better, said, f"test MSE at 100 sweeps: {PAIRED} staged against not")


def _later(runs: BudgetRuns) -> Claim:
    text = "Going on from a finished MSE model with F or L1 lowers that loss."
    holds, evidence = [], []
    for test, train in (("F", F_LATER), ("L1", L1_LATER)):
        largest = runs.protocol.largest
        better, said = _better(runs, runs.gaps(test, train, largest), runs.gaps(test, RISK, largest))
        holds.append(better)
        evidence.append(f"{test}: {said}")
    return Claim("fair-hybrid", text, all(holds), "; ".join(evidence), f"for F and for L1: {PAIRED} against MSE alone")


MAKERS = (
    _against_likelihood,
    _against_prior,
    _against_truth,
    _matched,
    _tenfold,
    _order,
    _own,
    _published,
    _starts,
    _later,
)  # fmt: skip


# --- The picture -----------------------------------------------------------------------------------------------------


def draw(runs: BudgetRuns, path: Path) -> bool:
    """Two panels; whether there is anything to draw."""
    if not runs.sizes:
        return False
    left, right = new_grid(1, 2, 10.0, 3.8)[0]
    largest = runs.protocol.largest
    _panel(left, runs, {train: [runs.gaps("MSE", train, s) for s in runs.protocol.budgets] for train in COLOURS})
    used = {train: [runs.gaps("MSE", train, largest, s) for s in runs.protocol.budgets] for train in COLOURS}
    _panel(right, runs, used)
    left.set_title("trained for the budget", loc="left", fontsize=10)
    right.set_title("trained at 100 sweeps, used with fewer", loc="left", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    save(left, path)
    return True


def _panel(axes: Axes, runs: BudgetRuns, curves: dict[str, list[list[float]]]) -> None:
    plain(axes)
    places = range(len(runs.protocol.budgets))
    for train, values in curves.items():
        means, errors = zip(*(mean_and_error(gaps) for gaps in values), strict=True)
        bars = [error or 0.0 for error in errors]
        axes.errorbar(places, means, yerr=bars, color=COLOURS[train], marker="o", capsize=2, linewidth=1.4, label=train)
    axes.axhline(0.0, color="#999999", linewidth=0.8)
    axes.set_xticks(list(places), [str(sweeps) for sweeps in runs.protocol.budgets])
    axes.set_xlabel("sweeps of BP")
    axes.set_ylabel("MSE above the true model")
