"""The tables and figures of the parsing study as cells, published beside ours.

In: a :class:`ParserRuns`. Out: cells of :class:`Results`; what is not finished has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loopwise.apps.parser.report import LENGTH_NAMES, length_name
from studies.harness.results import Cell
from studies.parser.finished import ParserRuns
from studies.parser.protocol import (
    ACCURACY,
    AR,
    BOTH,
    BUDGET,
    CALIBRATED,
    CALIBRATION,
    CLL,
    EXACT,
    FIGURE3,
    FIGURE4,
    GRAND,
    L2,
    L2_AR,
    LONGER,
    PRIOR,
    RATES,
    SIB,
    TABLE1,
    TABLE2,
    UNARY,
    ParserTraining,
    first_order,
    trainings,
)
from studies.parser.published import TABLE1 as PRINTED1
from studies.parser.published import printed, printed_average

LOSSES = (CLL, L2, L2_AR, AR)
MODELS = {UNARY: 1, GRAND: BUDGET, SIB: BUDGET, BOTH: BUDGET}  # of Figure 4, with their iterations
GAIN = ", gain over CLL"
ERRORS, CORRECTED = "Errors by length", "Second order against first"
TREEBANKS = "Treebanks"
AVERAGE = "average"
UNITS = {
    FIGURE3: "test UAS of English in percent against iterations of BP in training and test, grand.+sib.",
    FIGURE3 + GAIN: "percent, with the standard error of the paired bootstrap over sentences",
    FIGURE4: f"test UAS of English in percent, {BUDGET} iterations",
    FIGURE4 + GAIN: "percent, with the standard error of the paired bootstrap over sentences",
    TABLE1: "UAS of English in percent; published: Penn Treebank",
    TABLE2: "test UAS in percent of CLL, and L2 less CLL; published: CoNLL 2006 and 2007",
    RATES: f"UAS of English development data in percent, grand.+sib., {BUDGET} iterations; all other items: see above",
    PRIOR: f"test UAS of English in percent, grand.+sib., {BUDGET} iterations; strength times number of sentences",
    LONGER: f"test UAS of English in percent, grand.+sib., {BUDGET} iterations, after all of ten epochs, as "
    "published, none of them chosen on development data; strength of the prior times number of sentences, 10 as "
    "published",
    ACCURACY: "English with all training sentences, L2, test scores in percent: as CoNLL 2006 counts them, without "
    "punctuation, and as CoNLL 2018 does",
    CALIBRATION: "English test words, punctuation too: squares of belief less truth summed over a word's heads; mean "
    "gap of belief and frequency over all arcs that pruning left, and over those of the parse; mean belief and share "
    "of right ones among the latter",
    ERRORS: f"percent of English test words by the length of their arc, L2, second order with {BUDGET} iterations; "
    "punctuation left out",
    CORRECTED: "percent of English test words that only one of the two parsers gets right, by the length of the gold "
    "arc, L2; punctuation left out",
    TREEBANKS: "sentences for training, development and test; percent of test words whose gold arc the best tree of "
    "the arcs left has; heads left a word",
}


def items_of(part: str) -> tuple[str, ...]:
    """The items of the page that runs of a table, a figure or another item of the protocol give."""
    more = {FIGURE3: (FIGURE3 + GAIN,), FIGURE4: (FIGURE4 + GAIN,), ACCURACY: (ERRORS, CORRECTED), TABLE2: (TREEBANKS,)}
    return (part, *more.get(part, ()))


def cells(study: ParserRuns) -> list[Cell]:
    """All that can be said so far."""
    parts = (
        _figure3,
        _figure4,
        _table1,
        _table2,
        _rates,
        _prior,
        _longer,
        _accuracy,
        _calibration,
        _errors,
        _corrected,
        _treebanks,
    )
    return [cell for part in parts for cell in part(study)]


def second_order(study: ParserRuns, iterations: int, loss: str) -> ParserTraining:
    """English with all factors."""
    return ParserTraining(study.protocol.english, BOTH, iterations, loss)


def _score(study: ParserRuns, item: str, row: str, column: str, job: ParserTraining, **more: Any) -> Iterator[Cell]:
    found, run, gold = study.uas(job), study.run(job), study.treebank(job.treebank)
    if found is not None and run is not None and gold is not None:
        extra = {"dev": round(100 * run["uas_dev"], 4), "best_epoch": run["best"], **more}
        yield Cell(item, row, column, found[0], found[1], len(gold["scored"]), more=extra)


def _gain(
    study: ParserRuns, item: str, row: str, column: str, ours: ParserTraining, theirs: ParserTraining
) -> Iterator[Cell]:
    found = study.compare(ours, theirs)
    if found is not None:
        yield Cell(item, row, column, found.gap, found.error, found.sentences, more={"p": found.p})


def _figure3(study: ParserRuns) -> Iterator[Cell]:
    for loss in LOSSES:
        for count in study.protocol.iterations:
            yield from _score(study, FIGURE3, loss, str(count), second_order(study, count, loss))
    for loss in LOSSES[1:]:
        for count in study.protocol.iterations:
            ours, theirs = (second_order(study, count, which) for which in (loss, CLL))
            yield from _gain(study, FIGURE3 + GAIN, loss, str(count), ours, theirs)


def _figure4(study: ParserRuns) -> Iterator[Cell]:
    english = study.protocol.english
    for loss in (CLL, L2, L2_AR):
        for factors, count in MODELS.items():
            yield from _score(study, FIGURE4, loss, factors, ParserTraining(english, factors, count, loss))
    for loss in (L2, L2_AR):
        for factors, count in MODELS.items():
            ours, theirs = (ParserTraining(english, factors, count, which) for which in (loss, CLL))
            yield from _gain(study, FIGURE4 + GAIN, loss, factors, ours, theirs)


def _table1(study: ParserRuns) -> Iterator[Cell]:
    for loss in (CLL, L2):
        for count in (BUDGET, EXACT):
            job = ParserTraining(study.protocol.english, GRAND, count, loss)
            run, found, gold = study.run(job), study.uas(job), study.treebank(job.treebank)
            if run is None or found is None or gold is None:
                continue
            row = f"{loss}, {'exact' if count == EXACT else f'BP {BUDGET} iterations'}"
            known = PRINTED1[loss]["exact" if count == EXACT else "bp"]
            yield Cell(TABLE1, row, "dev", 100 * run["uas_dev"], None, gold["dev"], known["dev"])
            yield Cell(TABLE1, row, "test", found[0], found[1], len(gold["scored"]), known["test"])


def _table2(study: ParserRuns) -> Iterator[Cell]:
    for name in study.treebanks:
        for title, factors, count in study.models:
            ours, theirs = (ParserTraining(name, factors, count, loss) for loss in (L2, CLL))
            base, gap = study.uas(theirs), study.compare(ours, theirs)
            known = printed(name, title)
            if base is not None:
                yield Cell(TABLE2, name, f"{title}: CLL", *base, published=known and known[0])
            if gap is not None:
                yield Cell(
                    TABLE2, name, f"{title}: L2 - CLL", gap.gap, gap.error, gap.sentences, known and known[1],
                    {"p": gap.p},
                )  # fmt: skip
    yield from _averages(study)


def _averages(study: ParserRuns) -> Iterator[Cell]:
    for title, factors, count in study.models:
        base, gap = study.average_uas(factors, count, CLL), study.average(factors, count)
        if base is None or gap is None:
            continue
        known = [entry for entry in (printed(name, title) for name in study.finished) if entry is not None]
        means = [sum(entry[part] for entry in known) / len(known) if known else None for part in (0, 1)]
        whole = printed_average(title)
        more = {"published_all_19": whole and whole[0]}
        yield Cell(TABLE2, AVERAGE, f"{title}: CLL", base, None, gap.treebanks, means[0], more)
        more = {"p": gap.p, "wins": gap.wins, "published_all_19": whole and whole[1]}
        yield Cell(TABLE2, AVERAGE, f"{title}: L2 - CLL", gap.gap, gap.error, gap.treebanks, means[1], more)


def _rates(study: ParserRuns) -> Iterator[Cell]:
    for job in trainings(RATES, study.protocol, study.treebanks):
        run, found, gold = study.run(job), study.uas(job), study.treebank(job.treebank)
        rate = study.protocol.rate(job.loss) if job.rate is None else job.rate
        if run is not None and found is not None and gold is not None:
            title = "found by trials" if rate is None else f"{rate:g}"
            yield Cell(RATES, job.loss, title, 100 * run["uas_dev"], None, gold["dev"], more={"test": found[0]})


def _prior(study: ParserRuns) -> Iterator[Cell]:
    for loss in (CLL, L2):
        yield from _score(study, PRIOR, loss, "0", second_order(study, BUDGET, loss))
        for job in trainings(PRIOR, study.protocol, study.treebanks):
            if job.loss == loss:
                yield from _score(study, PRIOR, loss, f"{job.prior:g}", job)


def _longer(study: ParserRuns) -> Iterator[Cell]:
    for job in trainings(LONGER, study.protocol, study.treebanks):
        yield from _score(study, LONGER, job.loss, f"prior {job.prior:g}", job)


def _accuracy(study: ParserRuns) -> Iterator[Cell]:
    columns = {
        "UAS": "uas_no_punctuation",
        "LAS": "las_no_punctuation",
        "UAS, 2018": "uas",
        "LAS, 2018": "las",
    }
    for job in trainings(ACCURACY, study.protocol, study.treebanks):
        run, gold = study.run(job), study.treebank(job.treebank)
        if run is not None and gold is not None:
            row = "1st order" if job.factors == UNARY else f"{job.factors}, {job.iterations} iterations"
            more = {"train": gold["train"], "oracle": 100 * gold["oracle"], "best_epoch": run["best"]}
            for title, name in columns.items():
                yield Cell(ACCURACY, row, title, 100 * run["test"][name], None, gold["test"], more=more)


def analysed(study: ParserRuns) -> tuple[ParserTraining, ParserTraining]:
    """First and second order, L2, whose errors are looked at: trained on all sentences if such runs are there."""
    whole = trainings(ACCURACY, study.protocol, study.treebanks)
    if len(whole) == 2 and all(study.run(job) is not None for job in whole):
        return whole[0], whole[1]
    return first_order(study.protocol.english, L2), second_order(study, BUDGET, L2)


def _calibration(study: ParserRuns) -> Iterator[Cell]:
    columns = {
        "Brier score": "brier",
        "calibration error": "error",
        "that of the parse": "parse_error",
        "mean belief": "mean_confidence",
        "share right": "accuracy",
    }
    rows = [(f"{loss}, 1st order", first_order(study.protocol.english, loss)) for loss in (CLL, L2)]
    rows += [
        (f"{loss}, {count} iteration{'s' if count > 1 else ''}", second_order(study, count, loss))
        for count in CALIBRATED
        for loss in (CLL, L2)
    ]
    for row, job in rows:
        run = study.run(job)
        if run is not None:
            for title, name in columns.items():
                yield Cell(CALIBRATION, row, title, run["calibration"][name], None, len(run["heads"]))
            scaled = {"temperature, of development data": "temperature", "error of the parse at it": "parse_error"}
            for title, name in scaled.items() if "scaled" in run else ():
                yield Cell(CALIBRATION, row, title, run["scaled"][name], None, len(run["heads"]))


def _errors(study: ParserRuns) -> Iterator[Cell]:
    first, second = analysed(study)
    tables = {"1st order": study.run(first), "2nd order": study.run(second)}
    for title, run in tables.items():
        for row in [] if run is None else run["lengths"]:
            for what in ("recall", "precision"):
                count = row["gold" if what == "recall" else "system"]
                yield Cell(ERRORS, row["length"], f"{title}: {what}", 100 * row[what], None, count)


def _corrected(study: ParserRuns) -> Iterator[Cell]:
    """Words that one parser gets right and the other does not, by the length of the gold arc."""
    first, second = analysed(study)
    gold = study.treebank(first.treebank)
    runs = study.run(first), study.run(second)
    if gold is None or runs[0] is None or runs[1] is None:
        return
    counts = {name: [0, 0, 0] for name in LENGTH_NAMES}  # words, only first right, only second right
    words = zip(gold["heads"], gold["places"], gold["counted"], runs[0]["heads"], runs[1]["heads"], strict=True)
    for head, place, counted, one, two in words:
        if counted:
            row = counts[length_name(place, head)]
            row[0] += 1
            row[1] += one == head != two
            row[2] += two == head != one
    for name, (total, *alone) in counts.items():
        for title, value in zip(("only 1st order right", "only 2nd order right"), alone, strict=True):
            yield Cell(CORRECTED, name, title, 100 * value / max(1, total), None, total, more={"words": value})


def _treebanks(study: ParserRuns) -> Iterator[Cell]:
    for name in (*study.treebanks, study.protocol.whole):
        found = study.treebank(name)
        if found is not None:
            sizes = {part: found[part] for part in ("train", "dev", "test", "left_out", "train_words")}
            row = f"{name} ({found['train']} + {found['dev']} + {found['test']})"
            yield Cell(TREEBANKS, row, "oracle", 100 * found["oracle"], n=found["test"], more=sizes)
            yield Cell(TREEBANKS, row, "heads a word", found["arcs_per_word"], n=found["test"])
