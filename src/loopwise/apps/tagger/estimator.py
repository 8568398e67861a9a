"""The tagger as users have it: fit, predict, evaluate, save.

In: sentences as lists of words, their tags; or column files. Out: :class:`Tagger`. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from loopwise.apps.estimator import Estimator
from loopwise.apps.tagger.chains import Chains, Floats
from loopwise.apps.tagger.decoding import Decoder, Viterbi
from loopwise.apps.tagger.design import Design
from loopwise.apps.tagger.extraction import KeyRows, extract
from loopwise.apps.tagger.feature_index import FeatureIndex, Hashed, Indexed
from loopwise.apps.tagger.learners.base import Learner, Watch
from loopwise.apps.tagger.learners.likelihood import Likelihood
from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.apps.tagger.report import Report, compare
from loopwise.apps.tagger.templates import BIAS, NAMES, Template, parse_templates
from loopwise.apps.tagger.text import Integers, Sentences, Text, tag_lists, tag_numbers
from loopwise.formats.columns import TaggedText, read_tagged, read_words, write_tagged
from loopwise.formats.files import PathLike, check_apart
from loopwise.formats.iob import OUTSIDE, TagSet, find_spans
from loopwise.kernels.threads import available_threads
from loopwise.learn.checkpoint import checksum, identify
from loopwise.learn.history import History
from loopwise.learn.progress import progress_bar

Tags = Sequence[Sequence[str]]


class Tagger(Estimator):
    r"""A linear-chain conditional random field for tags of words: names, chunks, parts of speech.

    .. math:: p(y\mid x)\propto\exp\Big(\sum_t\theta_{y_t}\cdot f_t(x)+\sum_t\theta_{y_{t-1}y_t}\cdot g_t(x)\Big)

    (Lafferty, McCallum & Pereira 2001). Features :math:`f_t` are given by templates; :math:`g_t` is constant unless
    ``step_templates`` add to it. Sentences are lists of words, or a column file, or what
    :func:`loopwise.formats.columns.read_tagged` reads. The interface is scikit-learn's.

    Parameters
    ----------
    templates:
        What to look at (:mod:`loopwise.apps.tagger.templates`), such as ``"w[0] w[-1]|w[0] suffix3[0] bias"``.
    step_templates:
        The same for pairs of neighbouring tags: factors :math:`y_{t-1}\times y_t\times x_t`. Each feature has
        :math:`K^2` weights.
    learner:
        :class:`Likelihood` (the default), :class:`Perceptron`, :class:`SVM`, :class:`ERM` or your own.
    decoder:
        :class:`Viterbi` (the default) or :class:`Posterior`.
    minimum_count:
        Features that fewer tokens have are left out.
    hashing:
        A number of rows: features are hashed into a table of that size instead of being listed, so the model's size is
        known beforehand and unseen features at test have weights of others.
    warm_start:
        Whether :meth:`fit` goes on from the weights of the last fit, with its features and tags.
    threads:
        None: all cores.
    seed:
        For learners that draw at random.

    After fitting: ``labels_``, ``weights_``, ``history_``.

    >>> words = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann"], ["Bob", "ran"]]
    >>> tags = [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-PER"], ["B-PER", "O"]]
    >>> tagger = Tagger("w[0] is_title[0] bias", learner=Likelihood(l2=0.1)).fit(words, tags)
    >>> tagger.predict([["Zoe", "saw", "the", "dog"]])
    [['B-PER', 'O', 'O', 'O']]
    """

    labels_: tuple[str, ...]
    weights_: Weights
    history_: History
    unary_index_: FeatureIndex
    step_index_: FeatureIndex

    def __init__(
        self,
        templates: str = NAMES,
        step_templates: str = "",
        learner: Learner | None = None,
        decoder: Decoder | None = None,
        minimum_count: int = 1,
        hashing: int | None = None,
        warm_start: bool = False,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.templates, self.step_templates = templates, step_templates
        self.learner, self.decoder = learner, decoder
        self.minimum_count, self.hashing, self.warm_start = minimum_count, hashing, warm_start
        self.threads, self.seed = threads, seed

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        sentences: Sentences,
        tags: Tags | None = None,
        *,
        dev: Sentences | tuple[Sentences, Tags] | None = None,
        progress: bool = True,
        checkpoint: PathLike | None = None,
    ) -> Tagger:
        """Trains on ``sentences`` and their ``tags`` (None: a column file, or a text read from one, has them).

        ``dev``: development data in either form; learners that go in epochs keep the weights of the best one.
        ``checkpoint``: a file from which the same call goes on if the process was stopped; the final weights are then
        the same, bit for bit at the same number of threads. It is written after rounds of the learner, as often as
        takes a tenth of the time at most. A finished training is not repeated.
        """
        words, known = _with_tags(sentences, tags)
        text = Text.of(words)
        if not text.tokens:
            raise ValueError("there is nothing to learn from: the sentences have no words; give at least one")
        learner = Likelihood() if self.learner is None else self.learner
        problem = self.problem(text, known)
        start = self.weights_ if self._continues else problem.start()
        with progress_bar(progress, learner.rounds) as tell:
            watch = Watch(tell, None if dev is None else self._scorer(dev))
            if checkpoint is not None:
                watch.open(checkpoint, self._run(learner, problem, start, dev), start)
            self.weights_ = watch.train(lambda: learner.learn(problem, start, watch, self.seed), start)
        self.history_ = watch.history
        return self

    def problem(self, text: Text, tags: Tags | TaggedText) -> Problem:
        """What a learner is given: features, which are listed here unless training goes on, and gold tags."""
        keys = self._keys(text)
        if not self._continues:
            unary, steps = keys
            self.labels_ = _labels(tags)
            if self.hashing is not None:
                self.unary_index_, self.step_index_ = Hashed(self.hashing), Hashed(self.hashing)
            else:
                self.unary_index_ = Indexed.of(unary.key, unary.counts, self.minimum_count)
                self.step_index_ = Indexed.of(steps.key, steps.counts, self.minimum_count)
        return self._problem(text, keys, tag_numbers(tags, text, self.labels_))

    def _problem(self, text: Text, keys: tuple[KeyRows, KeyRows], gold: Integers | None = None) -> Problem:
        unary, steps = keys
        return Problem(
            Design.of(unary, self.unary_index_),
            Design.of(steps, self.step_index_) if len(self._parsed[1]) > 1 else None,
            Chains(text.start, available_threads() if self.threads is None else self.threads),
            self.labels_,
            np.zeros(0, dtype=np.int64) if gold is None else gold,
        )

    def _keys(self, text: Text) -> tuple[KeyRows, KeyRows]:
        unary, steps = self._parsed
        return extract(unary, text), extract(steps, text)

    @property
    def _parsed(self) -> tuple[tuple[Template, ...], tuple[Template, ...]]:
        """Templates of tags, and of steps, among which there always is the constant one."""
        bias = parse_templates(BIAS)
        given = parse_templates(self.step_templates)
        return parse_templates(self.templates), bias + tuple(template for template in given if template not in bias)

    @property
    def step_rows(self) -> int:
        """Step features that have weights: the constant one, and those of the step templates."""
        return self.step_index_.size if len(self._parsed[1]) > 1 else 1

    @property
    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "weights_")

    def _scorer(self, dev: Sentences | tuple[Sentences, Tags]) -> Any:
        text, gold, labels = self._held_out(dev)
        problem = self._problem(text, self._keys(text))
        return lambda weights: compare(gold, self._decide(problem, weights), text.start, labels).score

    def _held_out(self, dev: Sentences | tuple[Sentences, Tags]) -> tuple[Text, Integers, tuple[str, ...]]:
        """Development data: the text, its tags, and the labels that these number."""
        words, known = _with_tags(*dev) if isinstance(dev, tuple) else _with_tags(dev, None)
        text, labels = Text.of(words), self._with_others(known)
        return text, tag_numbers(known, text, labels), labels

    def _run(
        self, learner: Learner, problem: Problem, start: Weights, dev: Sentences | tuple[Sentences, Tags] | None
    ) -> dict[str, str]:
        """What tells a training from others."""
        arrays = [problem.chains.start, problem.gold, problem.unary.flat.start, problem.unary.flat.index]
        if problem.steps is not None:
            arrays += [problem.steps.flat.start, problem.steps.flat.index]
        run = {
            "templates": f"{self.templates} and {self.step_templates} for steps",
            "learner": identify(learner),
            "training data": f"{problem.sentences} sentences (checksum {checksum(*arrays)})",
            "tags": ", ".join(self.labels_),
            "start": f"{len(start.vector)} weights (checksum {checksum(start.vector)})",
            "seed": str(self.seed),
        }
        if dev is not None:
            text, gold, _ = self._held_out(dev)
            run["development data"] = f"{len(text)} sentences (checksum {checksum(text.word, text.start, gold)})"
            run["decoder"] = identify(Viterbi() if self.decoder is None else self.decoder)
        return run

    def _with_others(self, tags: Tags | TaggedText) -> tuple[str, ...]:
        """The labels, and after them those that only ``tags`` have: they are never said, but count as missed."""
        return (*self.labels_, *(label for label in _labels(tags) if label not in self.labels_))

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, sentences: Sentences) -> list[list[str]]:
        """The tags of each sentence."""
        text, problem = self.prepared(sentences)
        return tag_lists(self._decide(problem, self.weights_), text, self.labels_)

    def predict_marginals(self, sentences: Sentences) -> list[Floats]:
        """Of each sentence the probabilities ``[words, tags]``, tags in the order of ``labels_``."""
        text, problem = self.prepared(sentences)
        single = problem.chains.marginals(*problem.scores(self.weights_)).single
        return np.split(single, text.start[1:-1]) if len(text) else []

    predict_proba = predict_marginals  # as scikit-learn calls it

    def sample(self, sentences: Sentences, seed: int | None = None) -> list[list[str]]:
        """Tags drawn from the distribution of each sentence."""
        text, problem = self.prepared(sentences)
        generator = np.random.default_rng(self.seed if seed is None else seed)
        return tag_lists(problem.chains.sample(*problem.scores(self.weights_), generator), text, self.labels_)

    def entities(self, sentences: Sentences) -> list[list[tuple[int, int, str]]]:
        """Of each sentence the entities: first word, word after the last, type."""
        text, problem = self.prepared(sentences)
        spans = find_spans(self._decide(problem, self.weights_), TagSet.of(self.labels_), text.start)
        sentence = np.searchsorted(text.start, spans.start, side="right") - 1
        found: list[list[tuple[int, int, str]]] = [[] for _ in range(len(text))]
        for number, (begin, end, name) in zip(sentence.tolist(), spans.named(), strict=True):
            offset = int(text.start[number])
            found[number].append((begin - offset, end - offset, name))
        return found

    def log_likelihood(self, sentences: Sentences, tags: Tags | None = None) -> Floats:
        """The log-probability of the tags of each sentence, ``[sentences]``."""
        words, known = _with_tags(sentences, tags)
        text, problem = self.prepared(words)
        gold = tag_numbers(known, text, self.labels_)
        unary, pair = problem.scores(self.weights_)
        own = np.append(problem.chains.path_scores(unary, pair, gold), 0.0)
        sums: Floats = np.add.reduceat(own, text.start[:-1]) * (np.diff(text.start) > 0)
        return sums - problem.chains.marginals(unary, pair).log_z

    def evaluate(self, sentences: Sentences, tags: Tags | None = None) -> Report:
        """Precision, recall and F1 of entities, and the share of right tags."""
        words, known = _with_tags(sentences, tags)
        text, problem = self.prepared(words)
        labels = self._with_others(known)
        gold = tag_numbers(known, text, labels)
        return compare(gold, self._decide(problem, self.weights_), text.start, labels)

    def score(self, sentences: Sentences, tags: Tags | None = None) -> float:
        """Entity F1; the share of right tags where tags are no entities."""
        return self.evaluate(sentences, tags).score

    def tag_file(self, source: PathLike, target: PathLike) -> int:
        """Tags the words of a column file; writes words and tags; how many sentences."""
        check_apart([(f"the target {target}", target)], [source])
        text = read_words(source)
        write_tagged(target, text.sentences(), self.predict(text))
        return len(text)

    def _decide(self, problem: Problem, weights: Weights) -> Integers:
        decoder = Viterbi() if self.decoder is None else self.decoder
        return decoder.decide(problem.chains, *problem.scores(weights), self.labels_)

    def prepared(self, sentences: Sentences) -> tuple[Text, Problem]:
        """The sentences as numbers, and as the fitted model sees them."""
        if not hasattr(self, "weights_"):
            raise ValueError("this Tagger is not fitted yet: call fit(sentences, tags) first")
        text = Text.of(sentences)
        return text, self._problem(text, self._keys(text))

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Writes the fitted tagger to one file, which appears whole or not at all."""
        from loopwise.apps.tagger.saving import save

        if not hasattr(self, "weights_"):
            raise ValueError("this Tagger is not fitted yet: there is nothing to save")
        save(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Tagger:
        """The tagger that :meth:`save` wrote. Nothing in the file is run."""
        from loopwise.apps.tagger.saving import load

        return load(cls, path)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags as SklearnTags  # type: ignore[import-untyped]
        from sklearn.utils import TargetTags

        return SklearnTags(estimator_type=None, target_tags=TargetTags(required=True))


def _with_tags(sentences: Sentences, tags: Tags | None) -> tuple[Sentences, Tags | TaggedText]:
    if tags is not None:
        return sentences, tags
    if isinstance(sentences, str | os.PathLike):
        sentences = read_tagged(sentences)
    if isinstance(sentences, TaggedText) and sentences.tags is not None:
        return sentences, sentences
    raise ValueError("there are no tags: give them beside the sentences, or give a column file that has them")


def _labels(tags: Tags | TaggedText) -> tuple[str, ...]:
    """The distinct tags: O first, the others in order of the alphabet."""
    rows: Iterable[Sequence[str]] = tags.tagged() if isinstance(tags, TaggedText) else tags
    found = {tag for row in rows for tag in row}
    return tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag)))
