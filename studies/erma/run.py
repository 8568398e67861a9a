"""Stoyanov, Ropson & Eisner 2011, *Empirical Risk Minimization of Graphical Model Parameters*: the whole study.

In: an order. Out: results, pictures; data and runs beside them, from which a study that was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from studies.erma import budget_tables, budgets, figure1, posterior
from studies.erma import practice as practical
from studies.erma.claims import CHANGED, claims
from studies.erma.models import load_model
from studies.erma.picture import CAPTION as TABLES_CAPTION
from studies.erma.picture import PICTURE as TABLES_PICTURE
from studies.erma.picture import draw_tables
from studies.erma.protocol import (
    BEST,
    FIRST_GAINS,
    GAINS,
    IDEAL,
    PROTOCOLS,
    SGD,
    SGD_GAINS,
    TABLE3,
    TRUE,
    TRUTH,
    Condition,
    ErmaJob,
    ErmaProtocol,
)
from studies.erma.tables import ITEMS, SGD_ITEM, SWEEPS_ITEM, TABLES, TRUE_ITEM, WINS, ErmaRuns, P
from studies.erma.training import run_job
from studies.harness.page import Page
from studies.harness.queue import Tell, count_done, run_jobs
from studies.harness.results import FULL, Deadline, Results
from studies.harness.runs import check_runs
from studies.harness.study import Study, StudyOrder, unfinished

QUESTION = (
    "Belief propagation is approximate and cut short. Is it better to train for the loss that is measured, "
    "through the inference that will be used, than by likelihood as if inference were exact?"
)

UNIT = "likelihood training by SMD"
EVERYTHING: tuple[int, ...] = tuple(TABLES)
TABLE_PARTS = {f"table {number}": number for number in TABLES}
FIGURE, PRACTICE, BUDGETS, POSTERIOR = "figure 1", "practice", "budgets", "posterior"
ALONE = {
    PRACTICE: "--practice has neither tables nor figures of the paper; leave --table and --figure out",
    BUDGETS: "--budgets has neither tables nor figures of the paper; leave --table and --figure out",
    POSTERIOR: "--posterior has neither tables nor figures of the paper; leave --table and --figure out",
}  # parts that are asked for by themselves


def jobs_of(protocol: ErmaProtocol, tables: Sequence[int] = EVERYTHING, figure: bool = True) -> list[ErmaJob]:
    """All runs that the tables and the figure need, each once: small models first, Table 3 before the others."""
    return list(dict.fromkeys(_jobs(protocol, tables, figure)))


def _jobs(protocol: ErmaProtocol, tables: Sequence[int], figure: bool) -> Iterator[ErmaJob]:
    best = list(dict.fromkeys(train.name for train in BEST.values()))
    wanted: list[tuple[Condition, list[str]]] = []
    if 3 in tables:
        rows = dict.fromkeys(train for trains in TABLE3.values() for train in trains)
        wanted.append((IDEAL, [*rows, SGD.name]))
    if 6 in tables or 4 in tables:
        wanted.append((IDEAL, best))
    if 5 in tables:
        wanted += [(Condition(iterations=sweeps), best) for sweeps in protocol.sweeps]
    if 4 in tables:
        wanted += [(Condition(mismatch=share), best) for share in protocol.mismatches]
    if wanted:
        yield from (ErmaJob(size, TRUTH, TRUE) for size in protocol.sizes)
    if figure:
        yield from figure1.jobs(protocol)
    for condition, trains in wanted:
        yield from (ErmaJob(size, train, condition) for size in protocol.sizes for train in trains)


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Tables and the figure; or what to use in practice, or fair conditions, which have neither."""
    for part, runner in ((PRACTICE, run_practice), (BUDGETS, run_budgets), (POSTERIOR, run_posterior)):
        if part in order.parts:
            if len(order.parts) > 1:
                raise ValueError(ALONE[part])
            return runner(results, order, deadline)
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    tables, figure = _tables(order), FIGURE in order.parts
    check_runs(runs, _identity(protocol, order.seed), keep=order.keep)
    jobs = jobs_of(protocol, tables, figure)
    _draw_data(jobs, protocol, runs, order.seed, deadline, order.tell)
    one = partial(run_job, protocol=protocol, folder=runs, seed=order.seed)
    cost = partial(ErmaJob.cost, protocol=protocol)
    done = run_jobs(jobs, runs, one, deadline, order.tell, cost=cost, workers=order.processes)
    found = ErmaRuns(runs, protocol, order.seed)
    for table in tables:
        results.put_items(ITEMS[table], TABLES[table](found))
    curves = figure1.curves(runs, protocol, order.seed) if figure and not deadline.passed else None
    if curves is not None:
        results.put_items([figure1.ITEM], figure1.cells(curves))
        figure1.draw(curves, results.folder / figure1.PICTURE)
    results.claim(*claims(results))
    _finish(results, found)
    waiting = figure and curves is None  # the curves are drawn last
    return done, len(jobs) + waiting


def run_practice(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """What to use: other optimisers and other inference, on one kind of model."""
    practice, runs = practical.PRACTICES[order.mode], order.runs_folder
    runs.mkdir(parents=True, exist_ok=True)
    trials = practical.trials(practice)
    one = partial(practical.run_trial, practice=practice, folder=runs, seed=order.seed)
    done = run_jobs(trials, runs, one, deadline, order.tell, workers=order.processes)
    results.put_items((practical.OPTIMISERS_ITEM, practical.METHODS_ITEM), practical.cells(runs, practice))
    practical.draw(runs, practice, results.folder / practical.PICTURE)
    _finish(results, ErmaRuns(runs, PROTOCOLS[order.mode], order.seed))
    return done, len(trials)


def run_budgets(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Fair conditions: trainings brought to their end, under budgets down to one sweep, the truth beside them."""
    protocol, folder = budgets.BUDGET_PROTOCOLS[order.mode], order.runs_folder / BUDGETS
    check_runs(folder, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    jobs = budgets.jobs_of(protocol)
    for size in dict.fromkeys(job.size for job in jobs if not job.path(folder).exists()):
        if not deadline.passed:
            order.tell(f"data of {size.name}", count_done(jobs, folder))
            load_model(folder, size, order.seed + budgets.FRESH, protocol.sampling)
    one = partial(budgets.run_job, protocol=protocol, folder=folder, seed=order.seed)
    done = run_jobs(jobs, folder, one, deadline, order.tell, cost=budgets.BudgetJob.cost, workers=order.processes)
    found = budget_tables.BudgetRuns(folder, protocol)
    results.put_items(budget_tables.ITEMS, budget_tables.cells(found))
    results.claim(*budget_tables.claims(found))
    budget_tables.draw(found, results.folder / budget_tables.PICTURE)
    return done, len(jobs)


def run_posterior(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """How sure predictions are: a posterior over weights, its intervals and calibration, plain ERM beside it."""
    protocol, folder = posterior.POSTERIOR_PROTOCOLS[order.mode], order.runs_folder / POSTERIOR
    check_runs(folder, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    jobs = posterior.jobs_of(protocol)
    one = partial(posterior.run_job, protocol=protocol, folder=folder, seed=order.seed)
    done = run_jobs(jobs, folder, one, deadline, order.tell, workers=order.processes)
    found = posterior.PosteriorRuns(folder, protocol)
    results.put_items((posterior.ITEM,), posterior.cells(found))
    results.claim(*posterior.claims(found))
    return done, len(jobs)


def judge(results: Results) -> None:
    """Decides the claims about tables anew; those of fair conditions and of the posterior need their runs."""
    results.claim(*claims(results))


def steps(order: StudyOrder) -> int:
    """How many jobs there are in all."""
    if POSTERIOR in order.parts:
        return len(posterior.jobs_of(posterior.POSTERIOR_PROTOCOLS[order.mode]))
    if PRACTICE in order.parts:
        return len(practical.trials(practical.PRACTICES[order.mode]))
    if BUDGETS in order.parts:
        return len(budgets.jobs_of(budgets.BUDGET_PROTOCOLS[order.mode]))
    return len(jobs_of(PROTOCOLS[order.mode], _tables(order), FIGURE in order.parts))


def _tables(order: StudyOrder) -> list[int]:
    return sorted(TABLE_PARTS[part] for part in order.parts if part in TABLE_PARTS)


def _draw_data(
    jobs: Sequence[ErmaJob], protocol: ErmaProtocol, runs: Path, seed: int, deadline: Deadline, tell: Tell
) -> None:
    """Samples once for each model, before processes would do so at the same time."""
    sizes = dict.fromkeys(job.size for job in jobs if not job.path(runs).exists())
    for size in sizes:
        if not deadline.passed:
            tell(f"data of {size.name}", count_done(jobs, runs))
            load_model(runs, size, seed, protocol.sampling)


def _identity(protocol: ErmaProtocol, seed: int) -> dict[str, Any]:
    """What the runs depend on."""
    gains = {
        f"{kind}{name}": asdict(value)
        for kind, values in (("", GAINS), ("first ", FIRST_GAINS), ("SGD ", SGD_GAINS))
        for name, value in values.items()
    }
    return {"seed": seed, "protocol": asdict(protocol), "gains": gains}


def _finish(results: Results, found: ErmaRuns) -> None:
    """The picture of the tables, and what the runs of all tables and the figure took."""
    draw_tables(results, results.folder / TABLES_PICTURE)
    jobs = jobs_of(found.protocol)
    done = [run for job in jobs if (run := found.run(job.size, job.train, job.condition)) is not None]
    hours = sum(run.seconds for run in done) / 3600
    took = (f"The runs of tables and figure took {hours:.1f} hours of a core.",) if done else ()
    results.note(*took, *unfinished(len(done), len(jobs)))


def page(results: Results) -> Page:
    """What stands around the numbers."""
    landscape = PROTOCOLS[results.mode].landscape.name
    pictures = {
        TABLES_PICTURE: TABLES_CAPTION,
        budget_tables.PICTURE: budget_tables.CAPTION,
        practical.PICTURE: practical.CAPTION,
        figure1.PICTURE: "Figure 1: losses of the training examples along lines through the true parameters (model "
        f"{landscape}).",
    }
    texts, items = _introduction(results.mode), results.items()
    if budget_tables.MATCHED in items:
        texts.append(_of_budgets(budgets.BUDGET_PROTOCOLS[results.mode]))
    if posterior.ITEM in items:
        texts.append(_of_posterior(posterior.POSTERIOR_PROTOCOLS[results.mode]))
    return Page(STUDY.title, texts, pictures, _units(), QUESTION, changed=CHANGED)


def _of_budgets(protocol: budgets.BudgetProtocol) -> str:
    strengths = ", ".join(f"{strength:g}" for strength in protocol.strengths)
    return (
        "Fair conditions, on models drawn anew: Adam with a rate that falls to zero by a cosine, likelihood "
        f"{protocol.likelihood_epochs} epochs from {budgets.LIKELIHOOD_RATE:g}, MSE {protocol.risk_epochs} from "
        f"{budgets.RISK_RATE:g} after {protocol.warm_up} of likelihood, F and L1 {protocol.later_epochs} from "
        f"{budgets.LATER_RATE:g}; one start each. The prior's strength ({strengths}) is that of least MSE on the last "
        f"{protocol.held_out:.0%} of the training examples, along a path of {protocol.path_epochs} epochs each, "
        f"strongest first; then all examples for {protocol.likelihood_epochs // 2} epochs. Each is trained and tested "
        f"with at most {', '.join(map(str, protocol.budgets))} sweeps. Rules were written on 2026-11-18, before any of "
        "these models was drawn."
    )


def _of_posterior(protocol: posterior.PosteriorProtocol) -> str:
    return (
        "The posterior, on models drawn anew: likelihood with a prior as in fair conditions, at most "
        f"{protocol.sweeps} sweeps in training and in use; a Laplace approximation around its weights, exact along the "
        f"{protocol.rank} directions of largest curvature, of the rest weight by weight; {protocol.samples} "
        "draws, along whose deviations log-marginals are straight. Plain ERM is the MSE, trained as there."
    )


def _introduction(mode: str) -> list[str]:
    protocol = PROTOCOLS[mode]
    sampling = protocol.sampling
    texts = [
        "Numbers are differences of the mean test loss to that of the true parameters (true structure, BP to "
        "convergence, the same decoder), averaged over models, ± the standard error over models; published beside "
        "ours. Tested on MSE (beliefs), F (threshold at the median belief of the training corpus), L1 (most probable "
        "values) and the approximate negative log-likelihood (LOGL). Trained by likelihood (LOGL) or for the loss with "
        "soft decoders of temperature 0.5 (the threshold of F moves with the beliefs); -in: after some epochs of "
        "likelihood, -hyb: from the MSE in steps.",
        f"Models: {', '.join(size.name for size in protocol.sizes)} (variables-edges; n ln n is rounded, so that 196 "
        f"and 1060 edges stand where 195 and 1051 are printed). Data: {sampling.train} + {sampling.test} examples by "
        f"Gibbs sampling, {sampling.burn_in} sweeps each. {protocol.epochs} epochs of SMD with exact Hessian-vector "
        f"products, {protocol.warm_up} of them likelihood in staged runs; {protocol.restarts} restarts but for staged "
        f"runs; batches of {protocol.batch}. Gains come from a coarse search on extra models.",
        "p: exact sign-flip tests over models, two-sided; over examples in results.json. Losses that agree in five "
        "digits tie.",
    ]
    if mode != FULL:
        texts.append(
            "This is the quick version: few small models, few examples, epochs and restarts. It shows what the study "
            "is, and its numbers are not those of the paper."
        )
    return texts


def _units() -> dict[str, str]:
    units = {
        TRUE_ITEM: "mean test loss",
        SWEEPS_ITEM: "mean over test examples and models, 500 at most; columns: sweeps allowed in training",
        SGD_ITEM: "MSE; both after the same epochs of likelihood; the gain of SGD was searched less than those of SMD",
        practical.OPTIMISERS_ITEM: f"MSE, F, L1: difference of loss to the true model; time: in units of {UNIT}; BP "
        "with at most 100 sweeps; SMD as in the study, Adam with one rate for all, L-BFGS on full batches",
        practical.METHODS_ITEM: f"as above, all by Adam; time: in units of {UNIT}",
        figure1.ITEM: "α at which the curve is least: 0 is the truth, 1 the end of the line",
        "Table 6": "difference of loss to the true model; rows: tested on, columns: trained for",
        **budget_tables.UNITS,
        posterior.ITEM: posterior.UNIT,
    }
    for table in (3, 4, 5):
        units[f"Table {table}"] = "difference of loss to the true model; rows: tested on, trained by"
        units[f"Table {table}{WINS}"] = "models on which it beats likelihood training"
        units[f"Table {table}{P}"] = "p-value of the difference to likelihood training, over models"
    return units


STUDY = Study(
    "erma",
    "Stoyanov, Ropson & Eisner 2011, Empirical Risk Minimization of Graphical Model Parameters",
    run,
    steps,
    page,
    parts=(*TABLE_PARTS, FIGURE, PRACTICE, BUDGETS, POSTERIOR),
    usual=(*TABLE_PARTS, FIGURE),
    judge=judge,
)
