"""The runs of Table 3: one training of one learner, with one setting and one seed, kept in a file each.

In: a :class:`NamesProtocol`, the folder of the corpora. Out: JSON files with time, F1 on development and test data and
the counts of every test sentence; an interrupted study goes on from them. Settings are chosen by the development data.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopwise.apps.chain import Tagger, Viterbi
from loopwise.apps.chain.features.text import Text, tag_numbers
from loopwise.apps.chain.report import SpanCounts, sentence_counts
from loopwise.formats.columns import TaggedText
from loopwise.learn.chain.problem import ChainProblem
from loopwise.learn.trainer import train
from loopwise.potentials.linear import Integers
from studies.harness.results import Deadline
from studies.harness.runs import file_name, read_run, write_run
from studies.harness.study import StudyOrder
from studies.samplerank.names.crfsuite import CrfSuite
from studies.samplerank.names.data import CONLL, OPEN, NamesCorpus, NamesTexts, find_names, part_of, read_corpus
from studies.samplerank.names.methods import SETS, FeatureSet, NamesMethod, NamesProtocol, Setting, label_of, methods

_WARM = 150  # sentences of the training that only compiles: enough for the kernels that take many at once

Decide = Callable[[ChainProblem], Integers]


@dataclass(frozen=True)
class NamesJob:
    """One training."""

    features: str
    corpus: str
    row: str
    size: Setting
    seed: int

    def path(self, runs: Path) -> Path:
        return runs / file_name(self.features, self.corpus, self.row, label_of(self.size), self.seed)


@dataclass(frozen=True)
class Ladder:
    """All runs of a row on a corpus: each setting once, those that refine the best of them, then the best of all with
    other seeds."""

    features: FeatureSet
    corpus: NamesCorpus
    method: NamesMethod
    seeds: int

    @property
    def total(self) -> int:
        tried = len(self.method.sizes) + len(self.method.refined(self.method.sizes[0]))
        return tried + (self.seeds - 1 if self.method.random else 0)

    def first(self) -> list[NamesJob]:
        return [self._job(size, 0) for size in self.method.sizes]

    def second(self, runs: Path) -> list[NamesJob]:
        """Those that refine the best of the first; none before all of these are tried."""
        best = self._best(self.first(), runs)
        return [] if best is None else [self._job(size, 0) for size in self.method.refined(best)]

    def chosen(self, runs: Path) -> Setting | None:
        """The setting with the best F1 on the development data; None before all are tried."""
        if self._best(self.first(), runs) is None:
            return None
        return self._best([*self.first(), *self.second(runs)], runs)

    def _best(self, jobs: list[NamesJob], runs: Path) -> Setting | None:
        tried = [read_run(job.path(runs)) for job in jobs]
        scores = [run["dev"] for run in tried if run is not None]
        return jobs[scores.index(max(scores))].size if len(scores) == len(tried) else None

    def jobs(self, runs: Path) -> Iterator[NamesJob]:
        """Those that can be begun or are finished."""
        yield from self.first()
        yield from self.second(runs)
        size = self.chosen(runs)
        if size is not None and self.method.random:
            yield from (self._job(size, seed) for seed in range(1, self.seeds))

    def final(self, runs: Path) -> list[dict[str, Any]]:
        """The finished runs with the chosen setting."""
        size = self.chosen(runs)
        if size is None:
            return []
        seeds = self.seeds if self.method.random else 1
        found = [read_run(self._job(size, seed).path(runs)) for seed in range(seeds)]
        return [run for run in found if run is not None]

    def _job(self, size: Setting, seed: int) -> NamesJob:
        return NamesJob(self.features.key, self.corpus.name, self.method.row, size, seed)


def corpora(protocol: NamesProtocol, top: Path | None) -> list[NamesCorpus]:
    """Those of the protocol, and the paper's own where somebody has it."""
    own = top is not None and CONLL.paths(top) is not None
    return [*(corpus for corpus in OPEN if corpus.name in protocol.corpora), *([CONLL] if own else [])]


def ladders(protocol: NamesProtocol, top: Path | None) -> list[Ladder]:
    """All rows, corpus after corpus, so that an interrupted study has whole corpora."""
    return [
        Ladder(features, corpus, method, protocol.seeds)
        for corpus in corpora(protocol, top)
        for features in SETS
        if features.key in protocol.sets
        for method in methods(protocol, features)
    ]


def climb(protocol: NamesProtocol, runs: Path, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Runs what is not there yet, until time is up; how many of how many are finished."""
    top, tell = find_names(order.data), order.tell
    todo = ladders(protocol, top)
    done, of = sum(_finished(ladder, runs) for ladder in todo), sum(ladder.total for ladder in todo)
    task: NamesTask | None = None
    warm: set[tuple[str, str]] = set()
    for ladder in todo:
        for job in ladder.jobs(runs):
            if job.path(runs).exists():
                continue
            if deadline.passed:
                return done, of
            what = f"{ladder.features.item}, {job.corpus}: {job.row}, {label_of(job.size)}"
            tell(what, done)
            if task is None or (task.features, task.corpus) != (ladder.features, ladder.corpus):
                task = NamesTask(ladder.features, ladder.corpus, read_corpus(top, ladder.corpus, protocol.sentences))
            if (job.features, job.row) not in warm:
                task.warm(job.row, protocol)
                warm.add((job.features, job.row))
            found = task.run(ladder.method, job.size, 1000 * order.seed + job.seed, protocol)
            write_run(job.path(runs), found)
            done += 1
            tell(f"{what}: {found['seconds']:.1f} s, development F1 {found['dev']:.4f}", done)
    return done, of


def _finished(ladder: Ladder, runs: Path) -> int:
    return sum(job.path(runs).exists() for job in ladder.jobs(runs))


class NamesTask:
    """A corpus with a set of features, as all learners see it. One thread: times are of the processor."""

    def __init__(self, features: FeatureSet, corpus: NamesCorpus, texts: NamesTexts) -> None:
        self.features, self.corpus, self.texts = features, corpus, texts
        # Trained without the rules of IOB2, as crfsuite and the paper do; decisions are valid for all.
        decoder = Viterbi(valid=False)
        self.tagger = Tagger(features.templates, features.step_templates, decoder=decoder, threads=1)
        self.train = self.tagger.problem(Text.of(texts.train), texts.train)
        _ = self.train.step_features(), self.train.unary.flat  # made once, and counted for no learner
        self.tagger.weights_ = self.train.start()
        self.dev, self.test = (_Held.of(self.tagger, text) for text in (texts.dev, texts.test))

    def warm(self, row: str, protocol: NamesProtocol) -> None:
        """A short training that only compiles."""
        short = replace(protocol, epochs=1, iterations=2)
        texts = self.texts
        small = NamesTexts(*(part_of(text, 0, _WARM) for text in (texts.train, texts.dev, texts.test)))
        method = next(method for method in methods(short, self.features) if method.row == row)
        NamesTask(self.features, self.corpus, small).run(method, method.sizes[0], 0, short)

    def run(self, method: NamesMethod, size: Setting, seed: int, protocol: NamesProtocol) -> dict[str, Any]:
        """Trains, and scores on development and test data."""
        if method.make is None:
            with tempfile.TemporaryDirectory() as scratch:
                assert isinstance(size, float)  # a penalty
                peer = CrfSuite(self.train, size, protocol.iterations, Path(scratch) / "model")
                return self._scored(peer.seconds, len(peer.losses), peer.tags)
        learner, start = method.make(size), self.train.start()
        began = time.process_time()  # of the processor: others may use the machine too
        objective = learner.objective(self.train, start, seed)
        history = train(objective, learner.limits)
        seconds = time.process_time() - began
        weights = start.like(objective.answer)

        def decide(problem: ChainProblem) -> Integers:
            return Viterbi().decide(problem.chains, *problem.scores(weights), self.tagger.labels_)

        return self._scored(seconds, len(history), decide)

    def _scored(self, seconds: float, rounds: int, decide: Decide) -> dict[str, Any]:
        dev, test = (held.counts(decide) for held in (self.dev, self.test))
        return {
            "seconds": seconds,
            "rounds": rounds,
            "dev": f1_of(dev),
            "test": f1_of(test),
            "counts": test.T.tolist(),
            "sizes": {"sentences": self.train.sentences, "tokens": self.train.tokens, "tags": self.train.states},
        }


def f1_of(counts: Integers) -> float:
    """F1 of entities from counts of sentences."""
    return SpanCounts(*counts.sum(axis=0).tolist()).f1


@dataclass(frozen=True, eq=False)
class _Held:
    """A text that is not trained on; tags that training does not have count as missed."""

    problem: ChainProblem
    gold: Integers
    labels: tuple[str, ...]

    @staticmethod
    def of(tagger: Tagger, known: TaggedText) -> _Held:
        text, problem = tagger.prepared(known)
        others = sorted({tag for row in known.tagged() for tag in row} - set(tagger.labels_))
        labels = (*tagger.labels_, *others)
        return _Held(problem, tag_numbers(known, text, labels), labels)

    def counts(self, decide: Decide) -> Integers:
        return sentence_counts(self.gold, decide(self.problem), self.problem.chains.start, self.labels)
