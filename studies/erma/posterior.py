r"""A posterior over weights on the ERMA models: how sure predictions are, and how well calibrated, beside plain ERM.

In: a folder and a seed. Out: a run for each model, cells, claims with their rules. Likelihood with an L2 prior whose
strength held-out examples choose, a Laplace posterior around it, and training for the MSE, each under the same number
of sweeps. Intervals are of marginals under draws of the weights, and are judged by how often they hold the marginals of
the true model. The models are drawn anew, not those of the tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from loopwise.demo.workers import one_thread
from loopwise.graph.evidence import Role
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.posterior import Laplace
from loopwise.learn.system import System
from loopwise.loss.calibration import reliability
from loopwise.potentials.priors import L2
from loopwise.potentials.tables import TablePotentials
from studies.erma.budgets import BudgetProtocol, FinishedTraining, inference
from studies.erma.models import ErmaModel, SampleSizes, Size, as_tables, load_model, published_sizes
from studies.erma.protocol import LOGL_TEST, MSE_TEST
from studies.erma.training import truth_inference
from studies.harness.claims import MISSING, with_rules
from studies.harness.results import FULL, QUICK, Cell, Claim
from studies.harness.runs import read_run, write_run
from studies.harness.statistics import Floats, mean, mean_and_error, sign_flip_p

FRESH = 4000  # added to the seed: models of no other part, and not those on which 2000 was tried first
ITEM = "A posterior over weights"
POINT, POSTERIOR, PLAIN = "likelihood + L2", "Laplace around it", "MSE (plain ERM)"
ROWS = (POINT, POSTERIOR, PLAIN)
COLUMNS = {
    "log-loss": "log_loss",
    "Brier score": "brier",
    "calibration error": "calibration",
    "truth in the 90 % interval": "covered",
    "width of the interval": "width",
}
LEVEL = 0.9
UNIT = "of test outputs, mean and standard error over models; 90 % intervals of marginals against the true model's"

# Written on 2026-11-18, before any of these models was drawn.
_ERM = "mean over models lower, on at least five of six of them, exact sign-flip test over models p < .05"
RULES = {
    "posterior-covers": "share of test outputs whose marginal under the true model lies in the 90 % interval, mean "
    "over models: from .8 to .97",
    "posterior-log-loss": f"log-loss of the predictive marginals against that of plain ERM: {_ERM}",
    "posterior-calibration": f"calibration error of the predictive marginals against that of plain ERM: {_ERM}",
    "posterior-point": "log-loss of the predictive marginals at most that of the weights they are drawn around, in the "
    "mean over models",
}


@dataclass(frozen=True)
class PosteriorProtocol:
    """How much is run."""

    sizes: tuple[Size, ...] = field(default_factory=published_sizes)
    training: BudgetProtocol = field(default_factory=BudgetProtocol)
    sweeps: int = 20
    rank: int = 200  # directions of largest curvature
    samples: int = 50


POSTERIOR_PROTOCOLS = {
    FULL: PosteriorProtocol(),
    QUICK: PosteriorProtocol(
        sizes=(Size(50, 100), Size(50, 200)),
        training=BudgetProtocol(
            sampling=SampleSizes(train=200, test=300, burn_in=300), likelihood_epochs=12, risk_epochs=10,
            strengths=(0.03, 0.003), path_epochs=4,
        ),
        sweeps=10,
        rank=20,
        samples=20,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PosteriorJob:
    """All rows of one model."""

    size: Size

    @property
    def name(self) -> str:
        return f"{self.size.name}: posterior"

    def path(self, folder: Path) -> Path:
        return folder / f"posterior-{self.size.name}.json"


def jobs_of(protocol: PosteriorProtocol) -> list[PosteriorJob]:
    """Small models first."""
    return [PosteriorJob(size) for size in sorted(protocol.sizes, key=lambda size: size.edges)]


def run_job(job: PosteriorJob, protocol: PosteriorProtocol, folder: Path, seed: int) -> None:
    """Trains, draws weights, tests and saves."""
    began = time.perf_counter()
    model = load_model(folder, job.size, seed + FRESH, protocol.training.sampling, threads=1)
    with one_thread(), ignored_convergence():
        method = inference(protocol.sweeps)
        likelihood, plain = (FinishedTraining(model, protocol.training, method, seed) for _ in range(2))
        strength = likelihood.with_prior()["strength"]
        plain.risk()
        system = likelihood.system(LOGL_TEST)
        posterior = Laplace.of(system, model.train, LOGL_TEST.goal(), L2(strength), rank=protocol.rank)
        drawn = posterior.predict_marginals(model.test, samples=protocol.samples, seed=seed)
        lower, upper = (_outputs(model, end) for end in drawn.interval(LEVEL))
        rows = {
            POINT: _measured(model, _outputs(model, system.predict_marginals(model.test))),
            POSTERIOR: _measured(model, _outputs(model, drawn.mean)),
            PLAIN: _measured(model, _outputs(model, plain.system(MSE_TEST).predict_marginals(model.test))),
        }
        truth = System(TablePotentials(model.graph, as_tables(model.tables.numpy())), truth_inference())
        true = _outputs(model, truth.predict_marginals(model.test))
    rows[POSTERIOR] |= {
        "covered": float(((lower <= true) & (true <= upper)).mean()),
        "width": float((upper - lower).mean()),
        "negative": posterior.negative,
    }
    write_run(job.path(folder), {"rows": rows, "strength": strength, "seconds": time.perf_counter() - began})


def _outputs(model: ErmaModel, marginals: Any) -> Floats:
    """The probability of value 1 of each output of each test example, flat."""
    whole = torch.as_tensor(marginals).detach().double().numpy()
    found: Floats = whole[..., 1][model.test.roles == Role.OUTPUT]
    return found


def _measured(model: ErmaModel, probability: Floats) -> dict[str, Any]:
    happened = model.test.values[model.test.roles == Role.OUTPUT].astype(np.float64)
    safe = np.clip(np.where(happened == 1, probability, 1 - probability), 1e-12, None)
    return {
        "log_loss": float(-np.log(safe).mean()),
        "brier": float(((probability - happened) ** 2).mean()),
        "calibration": float(reliability(np.clip(probability, 0, 1), happened).error),
    }


@dataclass(frozen=True)
class PosteriorRuns:
    """What is finished."""

    folder: Path
    protocol: PosteriorProtocol

    def values(self, row: str, measure: str) -> list[float]:
        """A measure of all finished models, in order."""
        runs = [read_run(job.path(self.folder)) for job in jobs_of(self.protocol)]
        return [run["rows"][row][measure] for run in runs if run is not None and measure in run["rows"][row]]

    @property
    def complete(self) -> bool:
        return all(job.path(self.folder).exists() for job in jobs_of(self.protocol))


def cells(study: PosteriorRuns) -> Iterator[Cell]:
    """Means over models."""
    for row in ROWS:
        for column, measure in COLUMNS.items():
            values = study.values(row, measure)
            if values:
                average, error = mean_and_error(values)
                yield Cell(ITEM, row, column, average, error, len(values))


def claims(study: PosteriorRuns) -> list[Claim]:
    """All of them, undecided until every model is there."""
    found = [
        _covers(study),
        _below(study, "posterior-log-loss", "log_loss", "have a lower log-loss"),
        _below(study, "posterior-calibration", "calibration", "are better calibrated"),
        _point(study),
    ]
    return with_rules(found if study.complete else [Claim(c.id, c.text, None, MISSING) for c in found], RULES)


def _covers(study: PosteriorRuns) -> Claim:
    text = "Intervals of 90 % under the Laplace posterior hold the true model's marginals about that often (ours)."
    values = study.values(POSTERIOR, "covered")
    share = mean(values)
    return Claim("posterior-covers", text, 0.8 <= share <= 0.97, f"{share:.3f}, {_each(values)}")


def _below(study: PosteriorRuns, name: str, measure: str, said: str) -> Claim:
    text = f"Predictive marginals under the posterior {said} than those of plain ERM (ours)."
    ours, theirs = study.values(POSTERIOR, measure), study.values(PLAIN, measure)
    if not ours:
        return Claim(name, text, None, MISSING)
    gaps = [one - two for one, two in zip(ours, theirs, strict=True)]
    won, p = sum(gap < 0 for gap in gaps), sign_flip_p(gaps)
    holds = mean(gaps) < 0 and 6 * won >= 5 * len(gaps) and p < 0.05
    return Claim(name, text, holds, f"{mean(ours):.4f} against {mean(theirs):.4f}, {won} of {len(gaps)}, p = {p:.2g}")


def _point(study: PosteriorRuns) -> Claim:
    text = "Averaging over draws of the weights does not cost log-loss (ours)."
    ours, theirs = mean(study.values(POSTERIOR, "log_loss")), mean(study.values(POINT, "log_loss"))
    return Claim("posterior-point", text, ours <= theirs, f"{ours:.4f} against {theirs:.4f}")


def _each(values: Sequence[float]) -> str:
    return "by model " + ", ".join(f"{value:.2f}" for value in values)
