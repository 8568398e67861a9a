"""What the demo found, in words and tables; for the page, the terminal and ``results.json`` alike.

In: :class:`~loopwise.demo.findings.Findings`. Out: sentences that say what this run showed, not what such runs
usually show; rows of text; cells and claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from loopwise.demo.findings import Findings
from loopwise.demo.results import Cell, Claim
from loopwise.demo.trials import LIKELIHOOD, LOSS, TRUTH

LOSSES_ITEM, WRONG_ITEM, IMAGE_ITEM = "squared error", "wrong outputs", "image"
HEADINGS = ("sweeps", "likelihood", "for the loss", "less by", "better on", "cut in use")
TRUE_MODEL = "true model"
TIE = 5e-6  # losses that agree in the digits printed


def loss_table(findings: Findings) -> list[list[str]]:
    """Headings, a line for each number of sweeps, and the true model; empty where nothing is finished yet."""
    lines = [list(HEADINGS)]
    for budget in findings.amounts.budgets:
        means = [_number(findings.mean(goal, budget)) for goal in (LIKELIHOOD, LOSS)]
        patient = _number(findings.after(LIKELIHOOD, max(findings.amounts.budgets), budget))
        lines.append([str(budget), *means, saving(findings, budget), wins(findings, budget), patient])
    truth = _number(findings.mean(TRUTH))
    return [*lines, [TRUE_MODEL, truth, truth, "", "", truth]]


def saving(findings: Findings, budget: int) -> str:
    """By how much training for the loss lowers what training by likelihood leaves."""
    likely, lossy, _ = _three(findings, budget)
    return "" if math.isnan(likely + lossy) else f"{100 * (likely - lossy) / likely:.1f} %"


def wins(findings: Findings, budget: int) -> str:
    """On how many models training for the loss is better, once all are finished."""
    likely, lossy = findings.losses(LIKELIHOOD, budget), findings.losses(LOSS, budget)
    if not len(likely) == len(lossy) == findings.amounts.models:
        return ""
    return f"{int((lossy < likely - TIE).sum())} of {len(likely)}"


def headline(findings: Findings) -> str:
    """The least budget, in numbers."""
    budget = min(findings.amounts.budgets)
    likely, lossy, true = _three(findings, budget)
    return (
        f"With {budget} sweeps, training by likelihood leaves a squared error of {likely:.4f}, training for the loss "
        f"{lossy:.4f} (better on {wins(findings, budget)} models). The true model, with all the sweeps it wants, has "
        f"{true:.4f}."
    )


def course_sentence(findings: Findings) -> str:
    """Where the watched trainings are best, and where they end."""
    budget = findings.amounts.watched
    said = []
    for goal, name in ((LIKELIHOOD, "Training by likelihood"), (LOSS, "Training for the loss")):
        course = findings.course(goal, budget)
        best = int(course.argmin())
        said.append(f"{name} is best after epoch {best + 1}, with {course[best]:.4f}, and ends at {course[-1]:.4f}.")
    return " ".join(said)


def reliability_sentence(findings: Findings) -> str:
    """Calibration errors under the budget that is watched."""
    budget = findings.amounts.watched
    likely, lossy = (findings.reliability(goal, budget).error for goal in (LIKELIHOOD, LOSS))
    return (
        f"With {budget} sweeps the beliefs are off by {likely:.3f} on average after training by likelihood, and by "
        f"{lossy:.3f} after training for the loss."
    )


def sweeps_sentence(findings: Findings) -> str:
    """Whether the watched beliefs would settle if they were not cut."""
    likely, lossy = (movement(findings, goal) for goal in (LIKELIHOOD, LOSS))
    found = (
        f"After the cut these beliefs would still move by {likely:.3f} a sweep after training by likelihood, and by "
        f"{lossy:.3f} after training for the loss."
    )
    if lossy < likely:
        found += " Training for the loss has found parameters with which a few sweeps go most of the way."
    return found


def movement(findings: Findings, goal: str) -> float:
    """By how much a watched belief changes in a sweep after the cut, on average over the models' first examples."""
    amounts = findings.amounts
    steps = [np.abs(np.diff(each.paths[amounts.watched :], axis=0)) for each in findings.of(goal, amounts.watched)]
    return float(np.mean(steps))


def image_sentence(findings: Findings) -> str:
    """Wrong pixels and squared error of both, over all test images."""
    likely, lossy = findings.image_of(LIKELIHOOD), findings.image_of(LOSS)
    return (
        f"Image, {findings.image.sweeps} sweeps: {100 * likely.wrong:.1f} % of pixels wrong after training by "
        f"likelihood, {100 * lossy.wrong:.1f} % after training for the loss (squared error {likely.loss:.3f} and "
        f"{lossy.loss:.3f})."
    )


def cells(findings: Findings) -> Iterator[Cell]:
    """Every number, for ``results.json``."""
    wanted = [(TRUE_MODEL, TRUTH, 0)]
    wanted += [(f"{budget} sweeps", goal, budget) for budget in findings.amounts.budgets for goal in (LIKELIHOOD, LOSS)]
    for row, goal, budget in wanted:
        found = findings.of(goal, budget)
        each = [outcome.loss for outcome in found]
        mean = float(np.mean(each))
        error = float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else None
        seconds = sum(outcome.seconds for outcome in found)
        yield Cell(LOSSES_ITEM, row, goal, mean, error, len(found), more={"each": each, "seconds": round(seconds, 1)})
        yield Cell(WRONG_ITEM, row, goal, findings.wrong(goal, budget), None, len(found))
    for restored in findings.restored:
        yield Cell(IMAGE_ITEM, "squared error", restored.goal, restored.loss)
        yield Cell(IMAGE_ITEM, "wrong pixels", restored.goal, restored.wrong)


def claims(findings: Findings) -> Iterator[Claim]:
    """What the page is about, and whether it held here."""
    for budget in findings.amounts.budgets:
        likely, lossy, _ = _three(findings, budget)
        evidence = f"squared error {lossy:.4f} against {likely:.4f}, better on {wins(findings, budget)} models"
        text = f"with {budget} sweeps, training for the loss leaves less loss than training by likelihood"
        yield Claim(f"{budget}-sweeps", text, lossy < likely, evidence)
    likely_image, lossy_image = findings.image_of(LIKELIHOOD), findings.image_of(LOSS)
    text = "the same holds for the squared error of restored images"
    evidence = f"{lossy_image.loss:.4f} against {likely_image.loss:.4f}"
    yield Claim("image", text, lossy_image.loss < likely_image.loss, evidence)


def _three(findings: Findings, budget: int) -> tuple[float, float, float]:
    """Mean losses: likelihood, loss, truth."""
    return findings.mean(LIKELIHOOD, budget), findings.mean(LOSS, budget), findings.mean(TRUTH)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"
