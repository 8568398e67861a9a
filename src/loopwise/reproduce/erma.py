"""Stoyanov, Ropson & Eisner 2011, *Empirical Risk Minimization of Graphical Model Parameters*: the whole study.

In: a mode, tables or the figure, a folder. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in that
folder; data and runs beside them, from which a study that was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from loopwise.kernels.threads import available_threads
from loopwise.reproduce import erma_figure1 as figure1
from loopwise.reproduce import erma_practice as practical
from loopwise.reproduce.erma_claims import claims
from loopwise.reproduce.erma_models import Sampling, Size, load_model
from loopwise.reproduce.erma_picture import CAPTION as TABLES_CAPTION
from loopwise.reproduce.erma_picture import PICTURE as TABLES_PICTURE
from loopwise.reproduce.erma_picture import draw_tables
from loopwise.reproduce.erma_runs import TRUE, TRUTH, Job, Protocol, run_job
from loopwise.reproduce.erma_settings import BEST, FIRST_GAINS, GAINS, IDEAL, SGD, SGD_GAINS, TABLE3, Condition
from loopwise.reproduce.erma_tables import ITEMS, SGD_ITEM, SWEEPS_ITEM, TABLES, TRUE_ITEM, WINS, P, Study
from loopwise.reproduce.page import Page, write_pages
from loopwise.reproduce.queue import Tell, count_done, work_off
from loopwise.reproduce.results import FULL, Deadline, Results
from loopwise.reproduce.runs import check_runs

PAPER = "erma"
TITLE = "Stoyanov, Ropson & Eisner 2011, Empirical Risk Minimization of Graphical Model Parameters"
RUNS = "runs"
FIGURE = 1
UNIT = "likelihood training by SMD"
EVERYTHING: tuple[int, ...] = tuple(TABLES)

PUBLISHED = Protocol()
SHORTENED = Protocol(
    sizes=(Size(50, 100), Size(50, 200), Size(100, 461)),
    sampling=Sampling(train=480, test=500, burn_in=500),
    epochs=15,
    restarts=2,
    mismatches=(0.2, 0.4),
    sweeps=(100, 10),
    points=21,
)
SHORT_PRACTICE = practical.Practice(
    size=Size(20, 40), sampling=Sampling(train=320, test=500, burn_in=500), draws=2, epochs=12, iterations=15
)


def jobs_of(protocol: Protocol, tables: Sequence[int] = EVERYTHING, figure: bool = True) -> list[Job]:
    """All runs that the tables and the figure need, each once: small models first, Table 3 before the others."""
    return list(dict.fromkeys(_jobs(protocol, tables, figure)))


def _jobs(protocol: Protocol, tables: Sequence[int], figure: bool) -> Iterator[Job]:
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
        yield from (Job(size, TRUTH, TRUE) for size in protocol.sizes)
    if figure:
        yield from figure1.jobs(protocol)
    for condition, trains in wanted:
        yield from (Job(size, train, condition) for size in protocol.sizes for train in trains)


def reproduce(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    tell: Tell = lambda what, done: None,
    tables: Sequence[int] = EVERYTHING,
    figure: bool = True,
    protocol: Protocol | None = None,
    runs: Path | None = None,
    workers: int | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of the study, at most for ``minutes``, and writes everything; whether it is complete.

    ``runs``: where data and finished runs are, by default in a subfolder.
    """
    if protocol is None:
        protocol = PUBLISHED if mode == FULL else SHORTENED
    results, deadline, runs = Results.open(folder, PAPER, mode, seed), Deadline(minutes), runs or folder / RUNS
    check_runs(runs, _identity(protocol, seed), keep=mode == FULL)
    jobs, run = jobs_of(protocol, tables, figure), partial(run_job, protocol=protocol, folder=runs, seed=seed)
    _draw_data(jobs, protocol, runs, seed, deadline, tell)
    workers = workers or available_threads()
    done = work_off(jobs, runs, run, deadline, tell, cost=lambda job: job.cost(protocol), workers=workers)
    study = Study(runs, protocol, seed)
    for table in sorted(TABLES):
        _put(results, study, table, anew=table in tables)
    curves = figure1.curves(runs, protocol, seed) if figure and not deadline.passed else None
    if curves is not None:
        results.clear(figure1.ITEM)
        for cell in figure1.cells(curves):
            results.put(cell)
        figure1.draw(curves, folder / figure1.PICTURE)
    results.claim(*claims(results))
    _write(results, study, jobs_of(protocol))
    return results, done == len(jobs) and (curves is not None or not figure)


def reproduce_practice(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    tell: Tell = lambda what, done: None,
    practice: practical.Practice | None = None,
    runs: Path | None = None,
    workers: int | None = None,
) -> tuple[Results, bool]:
    """What to use: other optimisers and other inference, on one kind of model; as :func:`reproduce`."""
    practice = practice or _practice(mode)
    results, runs = Results.open(folder, PAPER, mode, seed), runs or folder / RUNS
    runs.mkdir(parents=True, exist_ok=True)
    todo, run = practical.trials(practice), partial(practical.run_trial, practice=practice, folder=runs, seed=seed)
    done = work_off(todo, runs, run, Deadline(minutes), tell, workers=workers or available_threads())
    for item in (practical.OPTIMISERS_ITEM, practical.METHODS_ITEM):
        results.clear(item)
    for cell in practical.cells(runs, practice):
        results.put(cell)
    practical.draw(runs, practice, folder / practical.PICTURE)
    study = Study(runs, PUBLISHED if mode == FULL else SHORTENED, seed)
    _write(results, study, jobs_of(study.protocol))
    return results, done == len(todo)


def practice_steps(mode: str) -> int:
    """How many trainings :func:`reproduce_practice` has."""
    return len(practical.trials(_practice(mode)))


def _practice(mode: str) -> practical.Practice:
    return practical.Practice() if mode == FULL else SHORT_PRACTICE


def steps(mode: str, tables: Sequence[int] = EVERYTHING, figure: bool = True) -> int:
    """How many jobs there are in all."""
    return len(jobs_of(PUBLISHED if mode == FULL else SHORTENED, tables, figure))


def _put(results: Results, study: Study, table: int, anew: bool) -> None:
    """The cells of a table from the runs there are; one that was not asked for stays as it is."""
    if not anew:
        return
    for item in ITEMS[table]:
        results.clear(item)
    for cell in TABLES[table](study):
        results.put(cell)


def _draw_data(jobs: Sequence[Job], protocol: Protocol, runs: Path, seed: int, deadline: Deadline, tell: Tell) -> None:
    """Samples once for each model, before processes would do so at the same time."""
    sizes = dict.fromkeys(job.size for job in jobs if not job.path(runs).exists())
    for size in sizes:
        if not deadline.passed:
            tell(f"data of {size.name}", count_done(jobs, runs))
            load_model(runs, size, seed, protocol.sampling)


def _identity(protocol: Protocol, seed: int) -> dict[str, Any]:
    """What the runs depend on."""
    gains = {
        f"{kind}{name}": asdict(value)
        for kind, values in (("", GAINS), ("first ", FIRST_GAINS), ("SGD ", SGD_GAINS))
        for name, value in values.items()
    }
    return {"seed": seed, "protocol": asdict(protocol), "gains": gains}


def _write(results: Results, study: Study, jobs: Sequence[Job]) -> None:
    protocol, pictures = study.protocol, {}
    if draw_tables(results, results.folder / TABLES_PICTURE):
        pictures[TABLES_PICTURE] = TABLES_CAPTION
    if (results.folder / practical.PICTURE).exists():
        pictures[practical.PICTURE] = practical.CAPTION
    if (results.folder / figure1.PICTURE).exists():
        pictures[figure1.PICTURE] = (
            f"Figure 1: losses of the training examples along lines through the true parameters (model "
            f"{protocol.landscape.name})."
        )
    texts = _introduction(results.mode, protocol)
    done = [run for job in jobs if (run := study.run(job.size, job.train, job.condition)) is not None]
    if done:
        texts.append(
            f"The runs of tables and figure took {sum(run.seconds for run in done) / 3600:.1f} hours of a core."
        )
    if len(done) < len(jobs):
        texts.append(f"Not finished: {len(done)} of {len(jobs)} runs are done.")
    write_pages(Page(TITLE, texts, pictures, _units()), results)


def _introduction(mode: str, protocol: Protocol) -> list[str]:
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
    }
    for table in (3, 4, 5):
        units[f"Table {table}"] = "difference of loss to the true model; rows: tested on, trained by"
        units[f"Table {table}{WINS}"] = "models on which it beats likelihood training"
        units[f"Table {table}{P}"] = "p-value of the difference to likelihood training, over models"
    return units
