"""The runs of Table 1: one learner on one fold, kept in a file each.

In: a :class:`CorefProtocol`. Out: JSON files with the scores of every test document, time and what the walk did; an
interrupted study goes on from them. Settings of a learner are chosen anew in each fold, on training documents that are
held out while they are tried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from loopwise.apps.coref import Coref, CorefReport, Variant, head_match, published_variants, singletons
from loopwise.apps.coref.features import Featuriser
from loopwise.formats.coref import CorefDocument
from loopwise.walk import CD, MIRA, PCD, AdaGrad, ConstantMargin, Cooling, Decaying, MentionDocument, Step, Sweeps, Unit
from studies.harness.results import FULL, QUICK
from studies.harness.runs import file_name, read_run, write_run
from studies.samplerank.coref.data import documents, find_gum, folds, held_out, split_documents

ALONE, HEADS = "all alone", "head match"
CUT, WHOLE = "Table 1", "Table 1, whole documents"
INNER = "Table 1, inner validation"  # of settings; no item of the page


@dataclass(frozen=True)
class CorefProtocol:
    """How much of the table to run. ``most``: mentions of a part of a document; the paper's have 40 to 100."""

    items: tuple[str, ...] = (WHOLE, CUT)  # whole documents are the main table
    count: int | None = None  # documents of GUM, None: all
    made: int = 60  # made-up ones where there is no GUM
    most: int = 100
    folds: int = 3
    rounds: int = 4
    steps: int = 4000
    decode_steps: int = 8000
    sweeps: int = 300  # steps a mention of the longer search
    whole_sweeps: int = 800  # the same for whole documents, which have more entities to choose from
    held: int = 4  # one in so many training documents is held out to choose settings by
    factors: tuple[float, ...] = (0.1, 1.0, 10.0)  # of rates and of MIRA's margin, each with all kinds of steps


PROTOCOLS = {
    FULL: CorefProtocol(),
    QUICK: CorefProtocol(items=(WHOLE,), count=15, made=18, rounds=2, steps=2000, factors=(1.0,)),
}


CONSTANT, DECAY, ADAGRAD, SMALLEST = "constant", "decaying", "AdaGrad", "MIRA"
STEPS: dict[str, Step] = {CONSTANT: Unit(), DECAY: Decaying(), ADAGRAD: AdaGrad(), SMALLEST: MIRA(cap=math.inf)}
MIRA_MARGIN = 10.0


@dataclass(frozen=True)
class StepSetting:
    """A kind of step, and what its rate (of MIRA: the margin) is multiplied by."""

    kind: str
    factor: float = 1.0

    def __str__(self) -> str:
        return f"{self.kind}, times {self.factor:g}"


def settings(way: Variant, factors: Sequence[float]) -> list[StepSetting]:
    """What a learner may choose from. The two rows of SampleRank differ in the kind of their step: one has MIRA, the
    other any but that; MIRA needs a margin, which contrastive divergence does not have."""
    if isinstance(way.step, MIRA):
        kinds = [SMALLEST]
    elif way.learner in (CD, PCD) or way.name == Variant().name:
        kinds = [CONSTANT, DECAY, ADAGRAD]
    else:
        kinds = [CONSTANT, DECAY, ADAGRAD, SMALLEST]
    return [StepSetting(kind, factor) for kind in kinds for factor in factors]


@dataclass(frozen=True)
class CorefJob:
    """One learner on one fold of one item; ``setting``: which one is tried, None for that which was chosen."""

    item: str
    fold: int
    way: str
    setting: StepSetting | None = None

    def path(self, runs: Path) -> Path:
        kind = {CUT: "cut", WHOLE: "whole", INNER: "inner"}[self.item]
        return runs / file_name(kind, self.fold, self.way, *([str(self.setting)] if self.setting else []))

    @property
    def name(self) -> str:
        tried = f", {self.setting}" if self.setting else ""
        return f"{self.item}, fold {self.fold + 1}: {self.way}{tried}"


def jobs(protocol: CorefProtocol) -> list[CorefJob]:
    """All runs: fold after fold, so that an interrupted study has whole folds; answers without training first.

    Settings are tried once a fold, on parts of documents, and serve whole documents too.
    """
    ways, found = [way.name for way in published_variants()], []
    tried = [(way.name, each) for way in published_variants() for each in settings(way, protocol.factors)]
    for item in protocol.items:
        for fold in range(protocol.folds):
            if item == protocol.items[0]:
                found += [CorefJob(INNER, fold, way, each) for way, each in tried]
            found += [CorefJob(item, fold, way) for way in (ALONE, HEADS, *ways)]
    return found


def chosen_setting(runs: Path, protocol: CorefProtocol, fold: int, way: Variant) -> StepSetting:
    """The setting with the best B-cubed F1 on held-out training documents of the fold; the first before any was."""
    every = settings(way, protocol.factors)
    tried = {each: read_run(CorefJob(INNER, fold, way.name, each).path(runs)) for each in every}
    scores = {each: run["mean"] for each, run in tried.items() if run is not None}
    return max(scores, key=lambda each: scores[each]) if scores else every[0]


def varied(way: Variant, setting: StepSetting) -> Variant:
    """The way with a kind of step: of MIRA the margin is set, which is not capped, of others the rate."""
    step = STEPS[setting.kind]
    if isinstance(step, MIRA):
        return replace(way, step=step, margin=ConstantMargin(setting.factor * MIRA_MARGIN))
    assert isinstance(step, Unit | Decaying | AdaGrad)
    return replace(way, step=replace(step, rate=setting.factor * step.rate))


class CorefBench:
    """Runs jobs; the documents of one fold are kept until another comes."""

    def __init__(self, protocol: CorefProtocol, runs: Path, seed: int, data: Path | None) -> None:
        self.protocol, self.runs, self.seed, self.data = protocol, runs, seed, data
        self._fold: _Fold | None = None

    def run(self, job: CorefJob) -> None:
        """Runs one job and writes its file."""
        fold = self._fold
        if fold is None or (fold.item, fold.number) != (job.item, job.fold):
            fold = self._fold = _Fold(job.item, job.fold, self.protocol, self.seed, self.data)
        way, setting = next((way for way in published_variants() if way.name == job.way), None), job.setting
        if way is not None and setting is None:
            setting = chosen_setting(self.runs, self.protocol, job.fold, way)
        write_run(job.path(self.runs), fold.run(job.way, setting, self.protocol, self.seed))


class _Fold:
    """Documents of a fold and their features, which all learners share."""

    def __init__(self, item: str, number: int, protocol: CorefProtocol, seed: int, data: Path | None) -> None:
        self.item, self.number = item, number
        whole = documents(find_gum(data), protocol.count, seed, protocol.made)
        tested = folds(len(whole), protocol.folds, seed)[number]
        if item == INNER:  # those of the fold's test are not looked at
            whole = [document for place, document in enumerate(whole) if place not in set(tested)]
            tested = held_out(len(whole), protocol.held, seed, number)
        self.train, self.test = split_documents(whole, tested, protocol.most if item != WHOLE else None)
        self._features: tuple[Featuriser, list[MentionDocument], list[MentionDocument]] | None = None

    def features(self) -> tuple[Featuriser, list[MentionDocument], list[MentionDocument]]:
        if self._features is None:
            featuriser = Featuriser.of(self.train, links=False)
            sides = [[featuriser(document) for document in side] for side in (self.train, self.test)]
            self._features = featuriser, sides[0], sides[1]
        return self._features

    def run(self, name: str, setting: StepSetting | None, protocol: CorefProtocol, seed: int) -> dict[str, Any]:
        """Scores of every test document, for both searches; time; what the walk did."""
        if name in (ALONE, HEADS):
            simple: Callable[[CorefDocument], Any] = singletons if name == ALONE else head_match
            scores = _scores(self.test, [simple(document) for document in self.test])
            return {"seconds": 0.0, "scores": scores, "longer": scores, "sizes": self._sizes()}
        assert setting is not None
        way = varied(next(way for way in published_variants() if way.name == name), setting)
        featuriser, train, test = self.features()
        coref = Coref(way, rounds=protocol.rounds, steps=protocol.steps, cooling=Cooling(), seed=seed + self.number)
        _compile(way, featuriser, train)
        began = time.process_time()  # of the processor: others may use the machine too
        coref.fit_prepared(featuriser, train, progress=False)
        seconds = time.process_time() - began
        scores = _scores(self.test, coref.predict_prepared(test, protocol.decode_steps))
        if self.item == INNER:
            return {"seconds": seconds, "mean": fmean(row[0] for row in scores.values()), "sizes": self._sizes()}
        longer, tally = protocol.sweeps if self.item == CUT else protocol.whole_sweeps, coref.training_.tally
        return {
            "seconds": seconds,
            "setting": str(setting),
            "active": tally.active_per_update,
            "updates": tally.updates,
            "ranked": tally.ranked,
            "violated": tally.violated,
            "steps": tally.steps,
            "weights": len(coref.weights_),
            "scores": scores,
            "longer": _scores(self.test, coref.predict_prepared(test, Sweeps(longer))),
            "sizes": self._sizes(),
        }

    def _sizes(self) -> dict[str, int]:
        mentions = sum(len(document.mentions) for document in self.test)
        return {"train": len(self.train), "test": len(self.test), "test_mentions": mentions}


def _compile(way: Variant, featuriser: Featuriser, train: Sequence[MentionDocument]) -> None:
    """A walk of one step, so that times are without the compiler's."""
    Coref(way, rounds=1, steps=1).fit_prepared(featuriser, train[:1], progress=False)


def _scores(known: Sequence[CorefDocument], answers: Sequence[Any]) -> dict[str, list[float]]:
    report = CorefReport.of(known, answers)
    return {name: [mine.b_cubed, mine.precision, mine.recall, mine.pairwise_f1] for name, mine in report.documents}


def finished(runs: Path, protocol: CorefProtocol, item: str, way: str) -> Iterator[dict[str, Any]]:
    """The finished runs of a row, fold after fold."""
    for fold in range(protocol.folds):
        found = read_run(CorefJob(item, fold, way).path(runs))
        if found is not None:
            yield found
