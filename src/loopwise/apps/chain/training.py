"""Training of a tagger: from sentences and tags to a problem of chains, and a learner's way through it.

In: sentences and tags as users have them, the options of a tagger. Out: :class:`TrainedTagger`, what
:class:`~loopwise.apps.Tagger` is built on. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

from loopwise.apps.chain.estimator import ChainEstimator, ScoredSequences
from loopwise.apps.chain.features.extraction import KeyRows, design_of, extract, extract_items
from loopwise.apps.chain.features.index import FeatureIndex, Hashed, Indexed
from loopwise.apps.chain.features.templates import BIAS, NAMES, FeatureTemplate, columns_wanted, parse_templates
from loopwise.apps.chain.features.text import (
    Known,
    Sentences,
    Text,
    check_file,
    known_tags,
    labels_of,
    mended,
    tag_lists,
    tag_numbers,
)
from loopwise.apps.chain.incremental import IncrementalTagger, weighed, weighted_descent
from loopwise.apps.chain.model import ChainERM, ChainLearner, ChainLikelihood, check_order
from loopwise.apps.chain.report import compare
from loopwise.apps.chain.skip import check_skip, text_links
from loopwise.decode.rules import Forbid, Rules
from loopwise.formats.columns import TaggedText, read_tagged
from loopwise.formats.files import PathLike
from loopwise.learn.callbacks import as_callbacks
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.skip import SkipChain
from loopwise.learn.files.card import training_card
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import SPARING, Ledger
from loopwise.learn.history import History
from loopwise.learn.objective import Callback
from loopwise.learn.progress import progress_bar
from loopwise.learn.trainer import train
from loopwise.learn.vector import VectorObjective
from loopwise.potentials.linear import Floats, Integers

Tags = Sequence[Sequence[Any]]


class TrainedTagger(IncrementalTagger, ChainEstimator):
    """The half of a :class:`~loopwise.apps.Tagger` that learns; the other half answers."""

    templates: str | None
    step_templates: str
    learner: ChainLearner | None
    minimum_count: int
    hashing: int | None
    warm_start: bool
    constraints: Forbid | None

    labels_: tuple[str, ...]
    history_: History
    unary_index_: FeatureIndex
    step_index_: FeatureIndex
    items_: bool  # tokens are features as they are
    iob_: bool  # the rules have those of IOB2

    def fit(
        self,
        sentences: Sentences,
        tags: Tags | None = None,
        *,
        sample_weight: Any = None,
        dev: Sentences | tuple[Sentences, Tags] | None = None,
        progress: bool = True,
        checkpoint: PathLike | None = None,
        callback: Callback | Sequence[Callback] | None = None,
    ) -> Self:
        """Trains on ``sentences`` and their ``tags`` (None: a column file, or a text read from one, has them).

        ``dev``: development data in either form; learners that go in epochs keep the weights of the best one.
        ``checkpoint``: a file from which the same call goes on if the process was stopped; the final weights are then
        the same, bit for bit at the same number of threads. It is written after rounds of the learner, as often as
        takes a tenth of the time at most. A finished training is not repeated. ``callback``: as for
        :func:`loopwise.fit`. ``sample_weight``: what each sentence counts, as if it were there so many times; learners
        other than :class:`ChainLikelihood` take whole numbers.
        """
        self._stream = None
        self._check_options()
        learner = ChainLikelihood() if self.learner is None else self.learner
        self._check_learner(learner, sample_weight is not None)
        words, known = self._with_tags(sentences, tags)
        words, known, counts = weighed(
            sample_weight, words, known, isinstance(learner, ChainLikelihood), type(learner).__name__
        )
        text = self._text(words, fitting=True)
        if not text.tokens:
            raise ValueError("there is nothing to learn from: the sentences have no words; give at least one")
        problem = self.problem(text, known)
        start = self.weights_ if self._continues else problem.start()
        run = {} if checkpoint is None else self._run(learner, problem, start, dev)
        objective: VectorObjective = (
            learner.objective(problem, start, self.seed)
            if counts is None
            else weighted_descent(problem, start, counts, learner)
        )
        objective.score = None if dev is None else self._scorer(dev, start)
        with progress_bar(progress, learner.limits.epochs) as tell:
            ledger = Ledger.open(checkpoint, run, SPARING)
            self.history_ = train(objective, learner.limits, ledger=ledger, callbacks=as_callbacks(callback), tell=tell)
        self.weights_ = start.like(objective.answer)
        said = f"{problem.sentences} sentences, {text.tokens} words, {len(self.labels_)} tags"
        self.card_ = training_card(said, type(learner).__name__, self.history_)
        return self

    def _check_learner(self, learner: object, weighted: bool) -> None:
        """Refuses what cannot be trained."""
        check_order(self.order, learner)
        check_skip(
            self._skip,
            {
                "order=2": self.order != 1,
                "sample_weight": weighted,
                "seen_only=True": getattr(learner, "seen_only", False),
                type(learner).__name__: not isinstance(learner, ChainLikelihood | ChainERM),
            },
        )

    def problem(self, text: Text, tags: Tags | TaggedText) -> ChainProblem:
        """What a learner is given: features, which are listed here unless training goes on, and gold tags."""
        keys, (tags, iob) = self._keys(text), mended(tags)
        if not self._continues:
            unary, steps = keys
            self.items_, self.labels_ = text.items is not None, labels_of(tags)
            self.iob_ = iob and getattr(self.decoder_, "valid", True)
            self.rules_ = Rules.of(self.labels_, self.constraints, iob=self.iob_)
            if self.hashing is not None:
                self.unary_index_, self.step_index_ = Hashed(self.hashing), Hashed(self.hashing)
            else:
                self.unary_index_ = Indexed.of(unary.key, unary.counts, self.minimum_count)
                self.step_index_ = Indexed.of(steps.key, steps.counts, self.minimum_count)
        problem = self._problem(text, keys, known_tags(tags, text, self.labels_))
        self._check_rules(problem)
        return problem

    def _problem(self, text: Text, keys: tuple[KeyRows, KeyRows], known: Known | None = None) -> ChainProblem:
        unary, steps = keys
        with_steps = len(self._parsed(text.columns)[1]) > 1
        return self._made(
            design_of(unary, self.unary_index_),
            design_of(steps, self.step_index_) if with_steps else None,
            text.start,
            known,
            self._rules,
            None if self._skip is None else text_links(self._skip, self._link_templates(text.columns), text),
        )

    @property
    def _rules(self) -> Rules | None:
        """Those that hold: decoders may do without those of IOB2."""
        if self.iob_ and not getattr(self.decoder_, "valid", True):
            return Rules.of(self.labels_, self.constraints)
        return self.rules_

    def _text(self, sentences: Sentences, *, fitting: bool = False) -> Text:
        """The sentences, with the columns that templates look at."""
        items = self.templates is None if fitting and not self._continues else self.items_
        text = Text.of(sentences, self.columns, items=items, words=self._skip is not None)
        if not fitting and text.tokens and items != (text.items is not None):
            raise ValueError(
                f"this Tagger was trained on {'features of tokens, dicts or lists' if items else 'words'}; give it "
                "sentences of the same kind"
            )
        return text

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a file, or keys of dicts, that the templates look at beside words."""
        links = "" if self._skip is None else self._skip.templates
        return columns_wanted(self.templates or "", self.step_templates, links)

    def _keys(self, text: Text) -> tuple[KeyRows, KeyRows]:
        unary, steps = self._parsed(text.columns)
        return extract_items(text) if text.items is not None else extract(unary, text), extract(steps, text)

    def _parsed(self, columns: Any) -> tuple[tuple[FeatureTemplate, ...], tuple[FeatureTemplate, ...]]:
        """Templates of tags, and of steps, among which there always is the constant one."""
        bias = parse_templates(BIAS)
        given = parse_templates(self.step_templates, columns)
        templates = parse_templates(NAMES if self.templates is None else self.templates, columns)
        return templates, bias + tuple(template for template in given if template not in bias)

    def _link_templates(self, columns: Any) -> tuple[FeatureTemplate, ...]:
        """Those of links: a kind of them each."""
        return () if self._skip is None else parse_templates(self._skip.templates, columns)

    @property
    def step_rows(self) -> int:
        """Tables of weights of two tags: of the constant step feature, of those of the step templates, of links."""
        if self.order == 2:
            return 1 + len(self.labels_)
        steps = self.step_index_.size if len(self._parsed(self.columns)[1]) > 1 else 1
        return steps + len(self._link_templates(self.columns))

    @property
    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "weights_")

    def _scorer(self, dev: Sentences | tuple[Sentences, Tags], like: ChainWeights) -> Callable[[Floats], float]:
        text, gold, labels = self._held_out(dev)
        problem = self._problem(text, self._keys(text))

        def score(vector: Floats) -> float:
            said = self._decided(self._scored(problem, like.like(vector), text))
            return compare(gold, said, text.start, labels).score

        return score

    def _held_out(self, dev: Sentences | tuple[Sentences, Tags]) -> tuple[Text, Integers, tuple[str, ...]]:
        """Development data: the text, its tags, and the labels that these number."""
        words, known = self._with_tags(*dev) if isinstance(dev, tuple) else self._with_tags(dev, None)
        text, labels = self._text(words), self._with_others(known)
        return text, tag_numbers(known, text, labels), labels

    def _run(
        self,
        learner: ChainLearner,
        problem: ChainProblem,
        start: ChainWeights,
        dev: Sentences | tuple[Sentences, Tags] | None,
    ) -> dict[str, str]:
        """What tells a training from others."""
        arrays = [problem.chains.start, problem.gold, problem.unary.flat.start, problem.unary.flat.index]
        arrays += [] if problem.allowed is None else [problem.allowed]
        if problem.steps is not None:
            arrays += [problem.steps.flat.start, problem.steps.flat.index]
        if isinstance(problem, SkipChain):
            arrays += [problem.links.place, problem.links.kind]
        run = {
            "templates": f"{self.templates} and {self.step_templates} for steps",
            "learner": identify(learner),
            "training data": f"{problem.sentences} sentences (checksum {checksum(*arrays)})",
            "tags": ", ".join(self.labels_),
            "rules": identify([self.constraints, problem.rules is None, self.order, self.skip]),
            "start": f"{len(start.vector)} weights (checksum {checksum(start.vector)})",
            "seed": str(self.seed),
        }
        if dev is not None:
            text, gold, _ = self._held_out(dev)
            run["development data"] = f"{len(text)} sentences (checksum {checksum(text.word, text.start, gold)})"
            run["decoder"] = identify(self.decoder_)
        return run

    def _with_tags(self, sentences: Sentences, tags: Tags | None) -> tuple[Sentences, Tags | TaggedText]:
        if tags is not None:
            return sentences, tags
        if isinstance(sentences, str | os.PathLike):
            check_file(sentences)
            sentences = read_tagged(sentences, extra=self.columns)
        if isinstance(sentences, TaggedText) and sentences.tags is not None:
            return sentences, sentences
        raise ValueError("there are no tags: give them beside the sentences, or give a column file that has them")

    def _with_others(self, tags: Tags | TaggedText) -> tuple[str, ...]:
        """The labels, and after them those that only ``tags`` have: they are never said, but count as missed."""
        return (*self.labels_, *(label for label in labels_of(tags) if label not in self.labels_))

    def _scored(self, problem: ChainProblem, weights: ChainWeights, text: Text) -> ScoredSequences:
        return ScoredSequences.of(problem, weights, lambda numbers: tag_lists(numbers, text, self.labels_))
