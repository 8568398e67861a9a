"""Gormley, Dredze & Eisner 2015, *Approximation-Aware Dependency Parsing by Belief Propagation*: its study run again.

In: an order, the treebanks. Out: results, pictures; runs beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from loopwise.apps.parser.options import Templates
from studies.harness.page import Page
from studies.harness.queue import run_jobs
from studies.harness.results import FULL, Deadline, Results
from studies.harness.runs import check_runs
from studies.harness.study import Study, StudyOrder, unfinished
from studies.parser.claims import CHANGED, RULES, about, claims, judged_again
from studies.parser.data import find_treebanks
from studies.parser.finished import ParserRuns
from studies.parser.picture import CAPTIONS, draw
from studies.parser.protocol import (
    ACCURACY,
    CALIBRATION,
    FIGURE3,
    FIGURE4,
    ITEMS,
    LONGER,
    PRIOR,
    PROTOCOLS,
    RATES,
    TABLE1,
    TABLE2,
    ParserJob,
    chosen_treebanks,
    in_stages,
    jobs,
)
from studies.parser.tables import TREEBANKS, UNITS, cells, items_of
from studies.parser.training import run_job

QUESTION = (
    "A dependency parser with few iterations of belief propagation answers before it has converged. Does "
    "training it for exactly these iterations make it a better parser?"
)

PARTS = {
    **{name.lower(): name for name in (FIGURE3, FIGURE4, TABLE1, TABLE2)},
    "item epochs": LONGER,
    "item calibration": CALIBRATION,
    "item prior": PRIOR,
    "item rates": RATES,
    "item accuracy": ACCURACY,
}


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Some tables, figures and other items, while numbers and claims of the rest are left as they are; or all."""
    protocol, runs, found = PROTOCOLS[order.mode], order.runs_folder, find_treebanks(order.data)
    if protocol.english not in found:
        raise ValueError(f"there is no folder UD_{protocol.english} with a training set among the treebanks")
    identity = {"seed": order.seed, "protocol": asdict(protocol), "templates": Templates().version}
    check_runs(runs, identity, keep=order.keep)
    todo = _jobs(order)
    one = partial(run_job, protocol=protocol, folder=runs, seed=order.seed, data=order.data)
    for some in in_stages(todo):
        done = run_jobs(some, runs, one, deadline, order.tell, cost=lambda job: job.cost, workers=order.processes)
    finished = ParserRuns(runs, protocol, chosen_treebanks(protocol, list(found)))
    _put(results, finished, _asked(order))
    results.note(*unfinished(done, len(todo)))
    return done, len(todo)


def _put(results: Results, finished: ParserRuns, asked: Sequence[str]) -> None:
    """Cells, claims and pictures of what was asked for, and of what nothing was known of."""
    found, made = cells(finished), claims(finished)
    wanted = {item for part in asked for item in items_of(part)} | {cell.item for cell in found} - set(results.items())
    known = {claim.id for claim in results.claims}
    results.put_items(wanted, (cell for cell in found if cell.item in wanted))
    results.claim(*(claim for claim in made if about(claim.id) in asked or claim.id not in known))
    draw(finished, results.folder, asked)
    _arrange(results)


def _arrange(results: Results) -> None:
    """The order of a run of everything, whichever was run last."""
    results.arrange(list(UNITS).index, list(RULES).index)


def judge(results: Results) -> None:
    """Decides claims anew from the differences they print."""
    results.claim(*judged_again(results.claims, PROTOCOLS[results.mode]))
    _arrange(results)


def steps(order: StudyOrder) -> int:
    """How many runs there are."""
    return len(_jobs(order))


def _jobs(order: StudyOrder) -> list[ParserJob]:
    return jobs(PROTOCOLS[order.mode], _asked(order), list(find_treebanks(order.data)))


def _asked(order: StudyOrder) -> Sequence[str]:
    return [PARTS[part] for part in order.parts] or ITEMS


def page(results: Results) -> Page:
    """What stands around the numbers."""
    return Page(STUDY.title, _introduction(results), CAPTIONS, UNITS, QUESTION, changed=CHANGED)


def _introduction(results: Results) -> list[str]:
    protocol = PROTOCOLS[results.mode]
    rows = {cell.row for cell in results.of_item(TREEBANKS)}
    treebanks = sum(not row.startswith(f"{protocol.whole} (") for row in rows)
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
        f"Treebank, {treebanks} treebanks with a training set for the 19 of CoNLL 2006 and 2007 (languages "
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
    ]
    if not any(claim.rule for claim in results.claims):  # of runs from before 2026-11-18
        texts.append(
            "A claim holds here if differences have the sign that it says, significant or not (p tells); that of doing "
            "as well holds if the difference is not significantly below 0 (p < .05)."
        )
    if results.mode != FULL:
        texts.append(
            "This is the quick version: few sentences, treebanks and epochs. It shows what the study is; its numbers "
            "are those of small data, where most gaps are within noise."
        )
    return texts


STUDY = Study(
    "parser",
    "Gormley, Dredze & Eisner 2015, Approximation-Aware Dependency Parsing by Belief Propagation",
    run,
    steps,
    page,
    parts=tuple(PARTS),
    reads_data=lambda parts: True,
    judge=judge,
)
