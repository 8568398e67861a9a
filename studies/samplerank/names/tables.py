"""Table 3 of the SampleRank paper: names in text, time and F1 of SampleRank against learners with exact inference.

In: runs. Out: cells of :class:`Results`, claims, a picture. Open corpora stand in for CoNLL-2003. F1 is over all
entities of a test text, its error and all tests by resampling sentences; times are of the processor, one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.harness.published import published
from studies.harness.results import FULL, Cell, Deadline, Results
from studies.harness.runs import check_runs, read_run
from studies.harness.statistics import mean_and_error
from studies.harness.study import StudyOrder
from studies.samplerank.names.data import CONLL, find_names
from studies.samplerank.names.methods import (
    ALL10,
    CRFSUITE,
    LIKELIHOOD,
    PROTOCOLS,
    PUBLISHED_SET,
    RICHER_SET,
    ROWS,
    SETS,
    SR10,
    FeatureSet,
    WalkSetting,
    crfsuite_can,
    label_of,
)
from studies.samplerank.names.training import Ladder, climb, ladders
from studies.samplerank.table import PaperTable

PICTURE = "table3.png"
MEAN, SHARE = "mean", "share of likelihood's"
TEST_A, TEST_B, SECONDS_THERE = "CoNLL-2003 Test-A", CONLL.name, "CoNLL-2003"
ONE_FOR_ALL = "Table 3: one setting for all corpora"
PRINTED = published("samplerank")["table3"]
RESAMPLES = 2000
Floats = NDArray[np.float64]


def seconds_item(features: FeatureSet) -> str:
    """The item with the times."""
    return f"{features.item}: seconds"


@dataclass(frozen=True)
class NamesRuns:
    """What is finished of the table."""

    runs: Path
    ladders: Sequence[Ladder]

    def ladder(self, features: FeatureSet, corpus: str, row: str) -> Ladder | None:
        wanted = (features, corpus, row)
        return next((one for one in self.ladders if (one.features, one.corpus.name, one.method.row) == wanted), None)

    def final(self, features: FeatureSet, corpus: str, row: str) -> list[dict[str, Any]]:
        """The runs with the setting that the development data chose."""
        ladder = self.ladder(features, corpus, row)
        return [] if ladder is None else ladder.final(self.runs)

    def corpora(self, features: FeatureSet, *rows: str) -> list[str]:
        """The open corpora on which all ``rows`` have been run."""
        names = dict.fromkeys(one.corpus.name for one in self.ladders if one.features == features)
        return [name for name in names if name != CONLL.name and all(self.final(features, name, row) for row in rows)]

    def resampled(self, features: FeatureSet, corpus: str, row: str) -> Floats:
        """F1 in percent: of the test text, then of resampled ones, ``[1 + RESAMPLES]``; counts are means over seeds.

        All rows see the same resampled texts, so that differences are paired.
        """
        counts = np.mean([run["counts"] for run in self.final(features, corpus, row)], axis=0)  # [3, sentences]
        right, decided, gold = counts @ _draws(counts.shape[1], corpus)
        found: Floats = 200.0 * right / np.maximum(decided + gold, 1.0)
        return found

    def seconds(self, features: FeatureSet, corpus: str, row: str) -> float | None:
        """Of the processor, for one training with the chosen setting; at least a millisecond, as clocks have it."""
        found = [run["seconds"] for run in self.final(features, corpus, row)]
        return max(float(np.mean(found)), 1e-3) if found else None

    def tuning(self, features: FeatureSet, corpus: str, row: str) -> float:
        """Seconds of all settings that were tried."""
        ladder = self.ladder(features, corpus, row)
        jobs = [] if ladder is None else [*ladder.first(), *ladder.second(self.runs)]
        tried = [read_run(job.path(self.runs)) for job in jobs]
        return float(sum(run["seconds"] for run in tried if run is not None))


@lru_cache(maxsize=16)
def _draws(sentences: int, corpus: str) -> Floats:
    """How often each sentence is in a text: once in the first, then as it was drawn, ``[sentences, 1 + RESAMPLES]``."""
    random = np.random.default_rng([sentences, *corpus.encode()])
    times = random.multinomial(sentences, np.full(sentences, 1 / sentences), RESAMPLES)
    return np.concatenate([np.ones((1, sentences)), times]).T


@dataclass(frozen=True)
class Gap:
    """How much better one row is than another, in points of F1: on each corpus, and in the mean of them.

    ``p``: two-sided, by resampling the sentences of every test text.
    """

    each: dict[str, float]
    mean: float
    p: float

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {gap:+.2f}" for name, gap in self.each.items())
        return f"{self.mean:+.2f} in the mean (p = {self.p:.2g}; {listed})"


def compared(study: NamesRuns, features: FeatureSet, one: str, other: str) -> Gap | None:
    """``one`` less ``other`` on the corpora that have both; None if there is none."""
    names = study.corpora(features, one, other)
    if not names:
        return None
    gaps = [study.resampled(features, name, one) - study.resampled(features, name, other) for name in names]
    mean = np.mean(gaps, axis=0)
    beyond = min(float((mean[1:] <= 0).mean()), float((mean[1:] >= 0).mean()))
    each = {name: float(gap[0]) for name, gap in zip(names, gaps, strict=True)}
    return Gap(each, float(mean[0]), min(1.0, 2 * max(beyond, 1 / RESAMPLES)))


def share_of_likelihood(study: NamesRuns, features: FeatureSet, row: str) -> float | None:
    """The time of a row divided by likelihood's: the geometric mean over corpora."""
    logs = []
    for name in study.corpora(features, row, LIKELIHOOD):
        mine, theirs = (study.seconds(features, name, which) for which in (row, LIKELIHOOD))
        assert mine is not None and theirs is not None
        logs.append(np.log(mine / theirs))
    return float(np.exp(np.mean(logs))) if logs else None


def cells(study: NamesRuns) -> list[Cell]:
    """The numbers of all rows that are finished on some corpus."""
    found = []
    for features in SETS:
        for row in ROWS:
            if any(study.final(features, one.corpus.name, row) for one in study.ladders):
                found += [*_scores(study, features, row), *_times(study, features, row)]
    return found


def _scores(study: NamesRuns, features: FeatureSet, row: str) -> list[Cell]:
    item, names, row_cells, all_f1 = features.item, study.corpora(features, row), [], []
    for name in names:
        f1 = study.resampled(features, name, row)
        all_f1.append(f1)
        ladder, runs = study.ladder(features, name, row), study.final(features, name, row)
        assert ladder is not None
        chosen = ladder.chosen(study.runs)
        setting = str(chosen) if isinstance(chosen, WalkSetting) else chosen
        more = {"setting": setting, "runs": [round(100 * run["test"], 4) for run in runs]}
        row_cells.append(Cell(item, row, name, float(f1[0]), float(f1[1:].std()), len(runs), more=more))
    if names and names == study.corpora(features):  # else means of different corpora would stand side by side
        mean = np.mean(all_f1, axis=0)
        row_cells.append(Cell(item, row, MEAN, float(mean[0]), float(mean[1:].std()), len(names)))
    if row in PRINTED and features is PUBLISHED_SET:
        row_cells.append(Cell(item, row, TEST_A, None, None, 0, PRINTED[row]["test_a"]))
        own = study.resampled(features, TEST_B, row) if study.final(features, TEST_B, row) else None
        there, error, count = (None, None, 0) if own is None else (float(own[0]), float(own[1:].std()), 1)
        row_cells.append(Cell(item, row, TEST_B, there, error, count, PRINTED[row]["test_b"]))
    return row_cells


def _times(study: NamesRuns, features: FeatureSet, row: str) -> list[Cell]:
    item, row_cells = seconds_item(features), []
    for name in study.corpora(features, row):
        more = {"tuning_seconds": study.tuning(features, name, row)}
        count = len(study.final(features, name, row))
        row_cells.append(Cell(item, row, name, study.seconds(features, name, row), None, count, more=more))
    printed = PRINTED.get(row) if features is PUBLISHED_SET else None
    share = share_of_likelihood(study, features, row)
    there = None if printed is None else printed["seconds"] / PRINTED[LIKELIHOOD]["seconds"]
    row_cells.append(Cell(item, row, SHARE, share, None, len(study.corpora(features, row, LIKELIHOOD)), there))
    if printed is not None:
        row_cells.append(Cell(item, row, SECONDS_THERE, None, None, 0, printed["seconds"]))
    return row_cells


def of_all_corpora(study: NamesRuns) -> list[Cell]:
    """Development F1 of every start and margin, one for all corpora: a default does not know which it meets."""
    found = []
    for features in SETS:
        for row in (ALL10, SR10):
            ladders = [one for one in study.ladders if (one.features, one.method.row) == (features, row)]
            open_ones = [ladder for ladder in ladders if ladder.corpus != CONLL]
            for place, setting in enumerate(open_ones[0].method.sizes if open_ones else ()):
                tried = [read_run(ladder.first()[place].path(study.runs)) for ladder in open_ones]
                scores = [100 * run["dev"] for run in tried if run is not None]
                if len(scores) == len(tried):
                    mean, error = mean_and_error(scores)
                    name = label_of(setting).removesuffix(", sweeps 1")
                    found.append(Cell(ONE_FOR_ALL, name, f"{features.key}, {row}", mean, error, len(scores)))
    return found


def run_table3(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """The runs, cells, claims and the picture; how many of how many runs are finished."""
    from studies.samplerank.names.claims import claims
    from studies.samplerank.names.picture import draw

    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    check_runs(runs, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    done, of = climb(protocol, runs, order, deadline)
    study = NamesRuns(runs, ladders(protocol, find_names(order.data)))
    items = [item for features in SETS for item in (features.item, seconds_item(features))]
    results.put_items([*items, ONE_FOR_ALL], [*cells(study), *of_all_corpora(study)])
    results.claim(*claims(study))
    draw(study, results.folder / PICTURE)
    return done, of


def _steps(order: StudyOrder) -> int:
    return sum(ladder.total for ladder in ladders(PROTOCOLS[order.mode], find_names(order.data)))


def _introduction(results: Results) -> list[str]:
    protocol = PROTOCOLS[results.mode]
    ran = any(cell.row == CRFSUITE for cell in results.of_item(RICHER_SET.item))
    anchor = (
        "crfsuite has our features by number and its own defaults, but for the penalty, which is chosen as ours is; it "
        "has no factors of two tags and a word, and so stands only beside the richer features."
        if ran or crfsuite_can(RICHER_SET)
        else "crfsuite is left out: python-crfsuite was not installed (pip install python-crfsuite)."
    )
    # Results of runs from before 2026-11-18, whose only setting was a number, say how they were made.
    grid = any(isinstance(cell.more.get("setting"), str) for cell in results.of_item(PUBLISHED_SET.item))
    walked = "one sweep a sentence and epoch from the truth"
    tuned, before = (
        "The cap of MIRA",
        " (which caps to choose from was changed once before these runs, with the test F1 of a trial on two corpora in "
        "view)",
    )
    if grid:
        walked = "sweeps over each sentence, epoch by epoch"
        tuned = (
            f"Where chains start ({', '.join(protocol.starts)}) with the margin's scale "
            f"({', '.join(f'{scale:g}' for scale in protocol.scales)}), then sweeps and the cap of MIRA"
        )
        before = ""
    text = (
        "Table 3: names in text, on open corpora in place of CoNLL-2003, which is licensed: WNUT-17 (6 types), "
        "wikigold (4 types; its sentences in order: three fifths, a fifth, a fifth), and the Portuguese, Danish and "
        "Swedish of Universal NER (3 types; Swedish has 23 names to choose settings by, so a fifth of its training "
        "sentences is used for that instead). Features as published (the word, its lower case, a capital, a sentence "
        "all in lower case, its first word, with one tag and with two) and our default ones with one tag. Walks: "
        f"Gibbs draws, {walked}, MIRA steps, signal the number of right tags, averaged weights; 'all values' ranks the "
        f"model's choice against the right one. Perceptron and SVM go {protocol.epochs} epochs, likelihood at most "
        f"{protocol.iterations} iterations. {tuned}, the penalty and the C of the SVM (five orders of magnitude) are "
        f"chosen on development data, corpus by corpus{before}; Viterbi decodes for all. Seconds are of one training "
        f"with the chosen setting, of the processor, one thread, without reading and features. {anchor} Means over "
        f"{protocol.seeds} seeds; errors and p by resampling test sentences."
    )
    return [text] if results.mode == FULL else [text, "This is the quick version: few sentences, two corpora."]


def _units(item: str) -> str:
    if item == ONE_FOR_ALL:
        return (
            "F1 of entities in development data in percent, mean and standard error over corpora, one sweep, no cap; "
            "columns: features, learner. The best one with richer features and all values is the tagger's default"
        )
    if item.endswith("seconds"):
        return f"seconds of the processor to train once; {SHARE}: geometric mean over corpora"
    return f"F1 of entities in percent; {MEAN}: of the corpora here; published: CoNLL-2003"


TABLE3 = PaperTable(
    3,
    run_table3,
    _steps,
    _introduction,
    _units,
    {PICTURE: "F1 of each learner, the mean over corpora, against what its training takes."},
)
