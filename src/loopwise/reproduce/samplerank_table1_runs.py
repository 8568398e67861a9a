"""The runs of Table 1: one learner on one fold, kept in a file each.

In: a :class:`Protocol`. Out: JSON files with the scores of every test document, time and what the walk did; an
interrupted study goes on from them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loopwise.apps.coref import Coref, Report, Way, head_match, published_ways, singletons
from loopwise.apps.coref.features import Featuriser
from loopwise.formats import atomic_write
from loopwise.formats.coref import CorefDocument
from loopwise.reproduce.results import Deadline
from loopwise.reproduce.samplerank_study import Tell
from loopwise.reproduce.samplerank_table1_data import documents, find_gum, folds, split_documents
from loopwise.walk import MentionDocument, Sweeps

ALONE, HEADS = "all alone", "head match"
CUT, WHOLE = "Table 1", "Table 1, whole documents"


@dataclass(frozen=True)
class Protocol:
    """How much of the table to run. ``most``: mentions of a part of a document; the paper's have 40 to 100."""

    items: tuple[str, ...] = (CUT, WHOLE)
    count: int | None = None  # documents of GUM, None: all
    made: int = 60  # made-up ones where there is no GUM
    most: int = 100
    folds: int = 3
    rounds: int = 4
    steps: int = 4000
    decode_steps: int = 8000
    sweeps: int = 300  # steps a mention of the longer search
    whole_sweeps: int = 800  # the same for whole documents, which have more entities to choose from


PUBLISHED = Protocol()
SHORTENED = Protocol(items=(CUT,), count=15, made=18, rounds=2, steps=2000)


@dataclass(frozen=True)
class Job:
    """One learner on one fold of one item."""

    item: str
    fold: int
    way: str

    def path(self, runs: Path) -> Path:
        kind = "cut" if self.item == CUT else "whole"
        name = "".join(letter if letter.isalnum() else "-" for letter in self.way.lower())
        return runs / f"{kind}-{self.fold}-{name}.json"


def jobs(protocol: Protocol) -> list[Job]:
    """All runs: fold after fold, so that an interrupted study has whole folds; answers without training first."""
    ways = [ALONE, HEADS, *(way.name for way in published_ways())]
    return [Job(item, fold, way) for item in protocol.items for fold in range(protocol.folds) for way in ways]


def work_off(
    protocol: Protocol, runs: Path, seed: int, data: Path | None, deadline: Deadline, tell: Tell
) -> tuple[int, int]:
    """Runs what is not there yet, until time is up; how many of how many are finished."""
    check_runs(runs, protocol, seed, data)
    todo = jobs(protocol)
    done = sum(job.path(runs).exists() for job in todo)
    sides: _Fold | None = None
    for job in todo:
        if job.path(runs).exists():
            continue
        if deadline.passed:
            break
        tell(f"{job.item}, fold {job.fold + 1}: {job.way}", done)
        if sides is None or (sides.item, sides.number) != (job.item, job.fold):
            sides = _Fold(job.item, job.fold, protocol, seed, data)
        found = sides.run(job.way, protocol, seed)
        with atomic_write(job.path(runs)) as stream:
            json.dump(found, stream)
        done += 1
        tell(f"{job.item}, fold {job.fold + 1}: {job.way}, {found['seconds']:.0f} s", done)
    return done, len(todo)


def check_runs(runs: Path, protocol: Protocol, seed: int, data: Path | None) -> None:
    """Runs of another protocol, seed or data are deleted: they must not mix with these, and take minutes only."""
    runs.mkdir(parents=True, exist_ok=True)
    source = "GUM" if find_gum(data) is not None else "made"
    path, wanted = (
        runs / "protocol.json",
        json.dumps({**asdict(protocol), "seed": seed, "data": source}, sort_keys=True),
    )
    if path.exists() and path.read_text(encoding="utf-8") != wanted:
        for old in runs.glob("*.json"):
            old.unlink()
    with atomic_write(path) as stream:
        stream.write(wanted)


class _Fold:
    """Documents of a fold and their features, which all learners share."""

    def __init__(self, item: str, number: int, protocol: Protocol, seed: int, data: Path | None) -> None:
        self.item, self.number = item, number
        whole = documents(find_gum(data), protocol.count, seed, protocol.made)
        tested = folds(len(whole), protocol.folds, seed)[number]
        self.train, self.test = split_documents(whole, tested, protocol.most if item == CUT else None)
        self._features: tuple[Featuriser, list[MentionDocument], list[MentionDocument]] | None = None

    def features(self) -> tuple[Featuriser, list[MentionDocument], list[MentionDocument]]:
        if self._features is None:
            featuriser = Featuriser.of(self.train)
            sides = [[featuriser(document) for document in side] for side in (self.train, self.test)]
            self._features = featuriser, sides[0], sides[1]
        return self._features

    def run(self, name: str, protocol: Protocol, seed: int) -> dict[str, Any]:
        """Scores of every test document, for both searches; time; what the walk did."""
        if name in (ALONE, HEADS):
            simple: Callable[[CorefDocument], Any] = singletons if name == ALONE else head_match
            scores = _scores(self.test, [simple(document) for document in self.test])
            return {"seconds": 0.0, "scores": scores, "longer": scores, "sizes": self._sizes()}
        way = _way(name)
        featuriser, train, test = self.features()
        coref = Coref(way, rounds=protocol.rounds, steps=protocol.steps, seed=seed + self.number)
        _compile(way, featuriser, train)
        longer = protocol.sweeps if self.item == CUT else protocol.whole_sweeps
        began = time.process_time()  # of the processor: others may use the machine too
        coref.fit_prepared(featuriser, train, progress=False)
        seconds = time.process_time() - began
        tally = coref.training_.tally
        return {
            "seconds": seconds,
            "active": tally.active_per_update,
            "updates": tally.updates,
            "ranked": tally.ranked,
            "violated": tally.violated,
            "steps": tally.steps,
            "weights": len(coref.weights_),
            "scores": _scores(self.test, coref.predict_prepared(test, protocol.decode_steps)),
            "longer": _scores(self.test, coref.predict_prepared(test, Sweeps(longer))),
            "sizes": self._sizes(),
        }

    def _sizes(self) -> dict[str, int]:
        mentions = sum(len(document.mentions) for document in self.test)
        return {"train": len(self.train), "test": len(self.test), "test_mentions": mentions}


def _compile(way: Way, featuriser: Featuriser, train: Sequence[MentionDocument]) -> None:
    """A walk of one step, so that times are without the compiler's."""
    Coref(way, rounds=1, steps=1).fit_prepared(featuriser, train[:1], progress=False)


def _way(name: str) -> Way:
    return next(way for way in published_ways() if way.name == name)


def _scores(known: Sequence[CorefDocument], answers: Sequence[Any]) -> dict[str, list[float]]:
    report = Report.of(known, answers)
    return {name: [mine.b_cubed, mine.precision, mine.recall, mine.pairwise_f1] for name, mine in report.documents}


def finished(runs: Path, protocol: Protocol, item: str, way: str) -> Iterator[dict[str, Any]]:
    """The finished runs of a row, fold after fold."""
    for fold in range(protocol.folds):
        path = Job(item, fold, way).path(runs)
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            yield found
