"""The runs of the parsing study: one parser on one treebank each, kept in a file of its own.

In: jobs. Out: JSON files with what each parser did on every test sentence. Arcs are pruned once for all runs of a
treebank; the models that do so are kept beside the runs. Everything runs on one thread where there are several
processes: parsers, not sentences, are spread over cores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.parser.arcs import oracle
from loopwise.apps.parser.estimator import Parser, ParseTree
from loopwise.apps.parser.objectives import CLL as LIKELIHOOD
from loopwise.apps.parser.objectives import AnnealedRisk, Objective
from loopwise.apps.parser.objectives import SquaredDistance as Squares
from loopwise.apps.parser.options import Templates
from loopwise.apps.parser.preparing import PreparedSentences
from loopwise.apps.parser.report import by_length, is_punctuation, score, sentence_counts
from loopwise.apps.parser.vocabulary import encode
from loopwise.formats.conllu import Sentence
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from loopwise.loss.calibration import reliability
from studies.harness.runs import write_run
from studies.parser.data import Treebank, find_treebanks, read_treebank
from studies.parser.protocol import (
    AR,
    CLL,
    EXACT,
    FACTORS,
    L2,
    L2_AR,
    ParserJob,
    ParserProtocol,
    ParserTraining,
    Preparation,
    first_order,
)


class ParserBench:
    """Runs jobs; what the jobs of one treebank share is kept until another comes."""

    def __init__(self, protocol: ParserProtocol, folder: Path, seed: int, treebanks: Mapping[str, Path]) -> None:
        self.protocol, self.folder, self.seed, self.treebanks = protocol, folder, seed, treebanks
        self._current: tuple[Treebank, PreparedSentences] | None = None

    def run(self, job: ParserJob) -> None:
        """Runs one job and writes its file."""
        treebank, prepared = self._of(job.treebank)
        if isinstance(job, Preparation):
            self._save(job, self._describe(treebank, prepared))
            return
        if job.loss != L2_AR:
            self._save(job, measured(self._train(job, prepared, job.loss), treebank))
            return
        first = self._train(job, prepared, L2)
        self._save(replace(job, loss=L2), measured(first, treebank))
        self._save(job, measured(self._train(job, prepared, AR, first), treebank))

    def _of(self, name: str) -> tuple[Treebank, PreparedSentences]:
        if self._current is None or self._current[0].name != name:
            treebank = self._read(name)
            checkpoint = self.folder / f"{name}.checkpoint"
            prepared = self._parser(first_order(name, CLL)).prepare(
                treebank.train, treebank.dev, seed=self.seed, checkpoint=checkpoint
            )
            self._current = treebank, prepared
        return self._current

    def _read(self, name: str) -> Treebank:
        protocol = self.protocol
        source = protocol.english if name == protocol.whole else name
        if source not in self.treebanks:
            raise ValueError(f"there is no treebank {source}; its folder must hold a training and a test set")
        train = {protocol.whole: None, protocol.english: protocol.english_train}.get(name, protocol.train)
        dev = None if name == protocol.whole else protocol.dev
        return replace(read_treebank(self.treebanks[source], train, dev, protocol.test, self.seed), name=name)

    def _parser(self, job: ParserTraining) -> Parser:
        inference = Exact() if job.iterations == EXACT else BP(iterations=job.iterations, tolerance=0.0)
        templates = Templates(size=self.protocol.size, cutoff=self.protocol.cutoff)
        return Parser(FACTORS[job.factors], inference, templates=templates, pruning=self.protocol.pruning)

    def _train(
        self, job: ParserTraining, prepared: PreparedSentences, loss: str, start: Parser | None = None
    ) -> Parser:
        objectives: dict[str, Objective] = {CLL: LIKELIHOOD(), L2: Squares(), AR: AnnealedRisk()}
        rate = self.protocol.rate(loss if start is None else L2_AR) if job.rate is None else job.rate
        parser, whole = self._parser(job), job.treebank == self.protocol.whole
        if job.epochs is not None:  # all of them count: with development data an early one would be kept
            prepared = replace(prepared, data=replace(prepared.data, dev=None), dev_arcs=None)
        parser.fit(
            prepared, loss=objectives[loss], rate=rate, l2=job.prior, seed=self.seed, start=start,
            epochs=job.epochs or (self.protocol.whole_epochs if whole else self.protocol.epochs), labels=whole,
        )  # fmt: skip
        return parser

    def _describe(self, treebank: Treebank, prepared: PreparedSentences) -> dict[str, Any]:
        """Sizes, what pruning leaves of the test trees, and the right heads of these."""
        vocabulary, structure = prepared.data.vocabulary, prepared.structure
        corpus = encode(treebank.test, vocabulary)
        left = oracle(corpus, prepared.pruner.arcs(corpus, structure, vocabulary.tags), structure)
        _, scored = sentence_counts(treebank.test, treebank.test)
        return {
            "train": len(treebank.train),
            "train_words": sum(map(len, treebank.train)),
            "dev": len(treebank.dev),
            "test": len(treebank.test),
            "left_out": treebank.left_out,
            **left,
            "scored": scored.tolist(),
            "heads": [head for sentence in treebank.test for head in sentence.heads],
            "places": [place for sentence in treebank.test for place in range(1, len(sentence) + 1)],
            "counted": [int(not is_punctuation(form)) for sentence in treebank.test for form in sentence.forms],
        }

    def _save(self, job: ParserJob, found: dict[str, Any]) -> None:
        write_run(job.path(self.folder), found)


@lru_cache(maxsize=1)
def bench_of(protocol: ParserProtocol, folder: Path, seed: int, data: Path | None) -> ParserBench:
    """The bench of a process: what the jobs of a treebank share is made once in each."""
    return ParserBench(protocol, folder, seed, find_treebanks(data))


def run_job(job: ParserJob, protocol: ParserProtocol, folder: Path, seed: int, data: Path | None) -> None:
    """Runs one job in whichever process this is. ``data``: the folder of treebanks."""
    bench_of(protocol, folder, seed, data).run(job)


def measured(parser: Parser, treebank: Treebank) -> dict[str, Any]:
    """What is kept of a trained parser: heads of the test words, scores, calibration."""
    trees, held = parser.parse(treebank.test), parser.parse(treebank.dev)
    parsed, history = [tree.sentence for tree in trees], parser.history
    dev, test = score(treebank.dev, [tree.sentence for tree in held]), score(treebank.test, parsed)
    return {
        "uas_dev": dev.uas_no_punctuation,
        "test": test.to_json(),
        "dev_by_epoch": history.dev,
        "best": history.best,
        "right": sentence_counts(treebank.test, parsed)[0].tolist(),
        "heads": [head for tree in trees for head in tree.heads],
        "lengths": by_length(treebank.test, parsed),
        "calibration": calibration(treebank.test, trees),
        "scaled": scaled_calibration(treebank.test, trees, best_temperature(treebank.dev, held)),
    }


def heads_at(marginals: np.ndarray, temperature: float) -> np.ndarray:
    """Beliefs of heads ``[heads, words]`` raised to one over the temperature, each word's adding up to 1 again."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.clip(marginals, 0.0, 1.0)) / temperature
    top = logs.max(axis=0, keepdims=True)
    mass = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    found: np.ndarray = mass / np.maximum(mass.sum(axis=0, keepdims=True), 1e-300)
    return found


def best_temperature(gold: Sequence[Sentence], trees: Sequence[ParseTree]) -> float:
    """The temperature under which the right heads of development words, as far as pruning left them, are most
    probable; words and heads alike have one (Guo et al. 2017)."""
    from scipy.optimize import minimize_scalar

    def surprise(log_temperature: float) -> float:
        total = 0.0
        for sentence, tree in zip(gold, trees, strict=True):
            belief = heads_at(tree.marginals[:, 1:], math.exp(log_temperature))
            right = belief[list(sentence.heads), range(len(sentence))]
            total -= float(np.log(right[right > 0]).sum())
        return total

    return math.exp(float(minimize_scalar(surprise, bounds=(-2.0, 2.0), method="bounded").x))


def scaled_calibration(gold: Sequence[Sentence], trees: Sequence[ParseTree], temperature: float) -> dict[str, float]:
    """Of the arcs of the parse, with beliefs at ``temperature``. Punctuation counts."""
    chosen, right = [], []
    for sentence, tree in zip(gold, trees, strict=True):
        belief = heads_at(tree.marginals[:, 1:], temperature)
        chosen.append(belief[list(tree.heads), range(len(sentence))])
        right.append(np.array(tree.heads) == np.array(sentence.heads))
    parse = reliability(np.clip(np.concatenate(chosen), 0, 1), np.concatenate(right))
    return {
        "temperature": temperature,
        "parse_error": parse.error,
        "parse_brier": parse.brier,
        "mean_confidence": float(np.concatenate(chosen).mean()),
    }


def calibration(gold: Sequence[Sentence], trees: Sequence[ParseTree]) -> dict[str, Any]:
    """Brier score a word, and bins of all arcs that pruning left and of those of the parse. Punctuation counts."""
    beliefs, happened, chosen, right = [], [], [], []
    brier = words = 0.0
    for sentence, tree in zip(gold, trees, strict=True):
        truth = np.zeros_like(tree.marginals)
        truth[list(sentence.heads), range(1, len(sentence) + 1)] = 1.0
        brier += float(((tree.marginals - truth) ** 2).sum())
        words += len(sentence)
        left = tree.marginals > 0
        beliefs.append(tree.marginals[left])
        happened.append(truth[left])
        chosen.append(np.array(tree.confidence))
        right.append(np.array(tree.heads) == np.array(sentence.heads))
    everything = reliability(np.clip(np.concatenate(beliefs), 0, 1), np.concatenate(happened))
    parse = reliability(np.clip(np.concatenate(chosen), 0, 1), np.concatenate(right))
    return {
        "brier": brier / words,
        "error": everything.error,
        "parse_error": parse.error,
        "parse_brier": parse.brier,
        "mean_confidence": float(np.concatenate(chosen).mean()),
        "accuracy": float(np.concatenate(right).mean()),
        "confidence": _numbers(everything.confidence),
        "frequency": _numbers(everything.frequency),
        "count": everything.count.tolist(),
    }


def _numbers(values: Any) -> list[float | None]:
    """As JSON has them: None for the NaN of empty bins."""
    return [None if np.isnan(value) else float(value) for value in values]
