"""Tags of words as users have them: fit, predict, evaluate, save.

In: sentences as lists of words, or of dicts of features, their tags, or column files. Out: :class:`Tagger`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.chain.estimator import ScoredSequences
from loopwise.apps.chain.features.index import FeatureIndex, Hashed, Indexed
from loopwise.apps.chain.features.reader import FEW, Reader
from loopwise.apps.chain.features.sequences import by_sequence
from loopwise.apps.chain.features.templates import NAMES
from loopwise.apps.chain.features.text import Sentences, Text, known_tags, tag_numbers
from loopwise.apps.chain.model import ChainLearner, ChainLikelihood
from loopwise.apps.chain.report import TaggingReport, compare
from loopwise.apps.chain.saving import (
    describe_decoder,
    kept_rules,
    kept_skip,
    read_decoder,
    read_rules,
    read_skip,
    read_weights,
)
from loopwise.apps.chain.skip import Skip
from loopwise.apps.chain.training import Tags, TrainedTagger
from loopwise.apps.estimator import not_fitted
from loopwise.apps.partial import RankedAnswer
from loopwise.apps.saved import written
from loopwise.decode.chains import ChainDecoder, Viterbi
from loopwise.decode.rules import Forbid, Rules
from loopwise.formats.columns import read_words, split, write_tagged
from loopwise.formats.files import PathLike, check_apart
from loopwise.formats.iob import TagSet, find_spans
from loopwise.inference.beliefs import Status
from loopwise.inference.families.chains import Chains
from loopwise.learn.chain.problem import ChainProblem
from loopwise.learn.files.fields import LARGEST, Record
from loopwise.potentials.linear import Floats


class Tagger(TrainedTagger):
    r"""A linear-chain conditional random field for tags of words: names, chunks, parts of speech.

    .. math:: p(y\mid x)\propto\exp\Big(\sum_t\theta_{y_t}\cdot f_t(x)+\sum_t\theta_{y_{t-1}y_t}\cdot g_t(x)\Big)

    (Lafferty, McCallum & Pereira 2001). Features :math:`f_t` are given by templates; :math:`g_t` is constant unless
    ``step_templates`` add to it. Sentences are lists of words, or a column file, or what
    :func:`loopwise.formats.columns.read_tagged` reads; or lists of dicts or of lists of features, as sklearn-crfsuite
    has them. A tag may be None (or NaN, or -1), which is not known, or a set of the tags it may be. The interface is
    scikit-learn's.

    Parameters
    ----------
    templates:
        What to look at (:mod:`loopwise.apps.chain.features.templates`), such as ``"w[0] w[-1]|w[0] suffix3[0] bias"``;
        names beside the attributes of words are columns of the file, or keys of dicts: ``"pos[-1]|pos[0]"``. None:
        ``NAMES`` for words; dicts and lists are features as they are.
    step_templates:
        The same for pairs of neighbouring tags: factors :math:`y_{t-1}\times y_t\times x_t`. Each feature has
        :math:`K^2` weights.
    learner:
        :class:`ChainLikelihood` (the default), :class:`ChainPerceptron`, :class:`ChainSVM`, :class:`ChainERM` or your
        own.
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
    constraints:
        :class:`Forbid`: steps, first and last tags that there are not, in training, in marginals and in decisions. The
        rules of IOB2 are always among them where tags are such and the decoder is ``valid``.
    order:
        2: tags depend on the two before them (:math:`\theta_{y_{t-2}y_{t-1}y_t}`), for likelihood and few tags.
    skip:
        Links between words far apart, a skip chain: templates such as ``"w[0]|is_title[0]"``, where words are linked
        that see the same, or :class:`Skip`. For :class:`ChainLikelihood` and :class:`ChainERM`; answers are then
        approximate.

    After fitting: ``labels_``, ``weights_``, ``history_``, ``rules_``.

    >>> words = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann"], ["Bob", "ran"]]
    >>> tags = [["B-PER", "O", "B-PER"], ["O", "O", None, "B-PER"], ["B-PER", "O"]]
    >>> tagger = Tagger("w[0] is_title[0] bias", learner=ChainLikelihood(l2=0.1)).fit(words, tags)
    >>> tagger.predict([["Zoe", "saw", "the", "dog"]])
    [['B-PER', 'O', 'O', 'O']]
    """

    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {"learner": ChainLikelihood, "decoder": Viterbi}

    def __init__(
        self,
        templates: str | None = None,
        step_templates: str = "",
        learner: ChainLearner | None = None,
        decoder: ChainDecoder | None = None,
        minimum_count: int = 1,
        hashing: int | None = None,
        warm_start: bool = False,
        threads: int | None = None,
        seed: int = 0,
        constraints: Forbid | None = None,
        order: int = 1,
        skip: Skip | str | None = None,
    ) -> None:
        self.templates, self.step_templates = templates, step_templates
        self.learner, self.decoder = learner, decoder
        self.minimum_count, self.hashing, self.warm_start = minimum_count, hashing, warm_start
        self.threads, self.seed = threads, seed
        self.constraints, self.order, self.skip = constraints, order, skip

    # --- Use ---------------------------------------------------------------------------------------------------------

    @overload
    def predict(self, sentences: Sentences, *, k: None = None, evidence: Tags | None = None) -> list[list[str]]: ...
    @overload
    def predict(self, sentences: Sentences, *, k: int, evidence: Tags | None = None) -> list[list[RankedAnswer]]: ...
    def predict(self, sentences: Sentences, *, k: int | None = None, evidence: Tags | None = None) -> Any:
        """The tags of each sentence.

        Parameters
        ----------
        sentences:
            As for :meth:`fit`.
        k:
            So many of the most probable sequences of tags of each sentence, best first, with their probabilities:
            lists of :class:`~loopwise.apps.partial.RankedAnswer`, ``(tags, probability)``. Exact; not with ``skip``.
        evidence:
            Tags that are given, in lists like those of :meth:`fit`: None where a tag is asked for, a set where it is
            one of several.

        Returns
        -------
            A list of tags for each sentence, or of answers if ``k`` is given.

        >>> tagger = Tagger("w[0] bias").fit([["Ann", "ran"], ["dogs", "ran"]], [["B-PER", "O"], ["O", "O"]])
        >>> [[best, *_]] = tagger.predict([["Ann", "ran"]], k=2)
        >>> best.answer, 0.5 < best.probability < 1
        (['B-PER', 'O'], True)
        >>> tagger.predict([["Ann", "ran"]], evidence=[["O", None]])
        [['O', 'O']]
        """
        asked = self._asked(sentences, evidence)
        return asked.told(self._decided(asked)) if k is None else self._best(asked, k)

    @overload
    def predict_marginals(
        self, sentences: Sentences, *, evidence: Tags | None = None, status: Literal[False] = False
    ) -> list[Floats]: ...
    @overload
    def predict_marginals(
        self, sentences: Sentences, *, evidence: Tags | None = None, status: Literal[True]
    ) -> tuple[list[Floats], Status]: ...
    def predict_marginals(self, sentences: Sentences, *, evidence: Tags | None = None, status: bool = False) -> Any:
        """Of each sentence the probabilities ``[words, tags]``, tags in the order of ``labels_``.

        ``evidence``: tags that are given, as for :meth:`predict`. ``status``: whether to tell, beside them, how far
        they can be trusted: exact, or with ``skip`` approximate, converged or not.
        """
        asked = self._asked(sentences, evidence)
        found = by_sequence(asked.marginals(), asked.chains.start)
        return (found, asked.how()) if status else found

    predict_proba = predict_marginals  # as scikit-learn calls it

    def sample(
        self,
        sentences: Sentences,
        seed: int | None = None,
        *,
        count: int | None = None,
        evidence: Tags | None = None,
    ) -> Any:
        """Tags drawn from the distribution of each sentence; ``count``: so many, each with its probability, as the
        best ones of :meth:`predict`."""
        return self._drawn(self._asked(sentences, evidence), count, seed)

    def entities(self, sentences: Sentences) -> list[list[tuple[int, int, str]]]:
        """Of each sentence the entities: first word, word after the last, type."""
        asked = self._asked(sentences, None)
        start = asked.chains.start
        spans = find_spans(self._decided(asked), TagSet.of(self.labels_), start)
        sentence = np.searchsorted(start, spans.start, side="right") - 1
        found: list[list[tuple[int, int, str]]] = [[] for _ in range(len(start) - 1)]
        for number, (begin, end, name) in zip(sentence.tolist(), spans.named(), strict=True):
            offset = int(start[number])
            found[number].append((begin - offset, end - offset, name))
        return found

    def log_likelihood(self, sentences: Sentences, tags: Tags | None = None) -> Floats:
        """The log-probability of the tags of each sentence, ``[sentences]``; of what is known, where that is a part.

        With ``skip`` of each document, an estimate.
        """
        words, known = self._with_tags(sentences, tags)
        text, problem = self.prepared(words)
        found = known_tags(known, text, self.labels_)
        return problem.log_likelihoods(self.weights_, found.gold, found.allowed)

    def evaluate(self, sentences: Sentences, tags: Tags | None = None) -> TaggingReport:
        """Precision, recall and F1 of entities, and the share of right tags."""
        words, known = self._with_tags(sentences, tags)
        text, problem = self.prepared(words)
        labels = self._with_others(known)
        gold = tag_numbers(known, text, labels)
        return compare(gold, self._decided(self._scored(problem, self.weights_, text)), text.start, labels)

    def score(self, sentences: Sentences, tags: Tags | None = None) -> float:
        """Entity F1, or the share of right tags where tags are no entities."""
        return self.evaluate(sentences, tags).score

    def tag_file(self, source: PathLike, target: PathLike) -> int:
        """Tags the words of a column file; writes words and tags; how many sentences."""
        check_apart([(f"the target {target}", target)], [source])
        text = read_words(source, extra=self.columns)
        write_tagged(target, text.sentences(), self.predict(text))
        return len(text)

    @property
    def decoder_(self) -> ChainDecoder:
        return Viterbi() if self.decoder is None else self.decoder

    @property
    def _tags(self) -> tuple[str, ...]:
        return self.labels_

    def prepared(self, sentences: Sentences) -> tuple[Text, ChainProblem]:
        """The sentences as numbers, and as the fitted model sees them."""
        self._check_fitted()
        text = self._text(sentences)
        return text, self._problem(text, self._keys(text))

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise not_fitted("this Tagger is not fitted yet: call fit(sentences, tags) first")

    def _asked(self, given: Sentences, evidence: Tags | None) -> ScoredSequences:
        self._check_fitted()
        if evidence is None:
            few = self._few(given)
            if few is not None:
                return few
        text, problem = self.prepared(given)
        if evidence is not None:
            problem = replace(problem, allowed=known_tags(evidence, text, self.labels_).mask(len(self.labels_)))
        return self._scored(problem, self.weights_, text)

    # --- A few sentences ---------------------------------------------------------------------------------------------

    def _few(self, sentences: Sentences) -> ScoredSequences | None:
        """The scores of a few sentences, by what is kept for that; None: go the general way."""
        if type(sentences) is not list or len(sentences) > FEW or not all(type(row) is list for row in sentences):
            return None
        kept = self.__dict__.get("_kept_reader")
        if kept is None or kept[0] is not self.weights_:
            kept = self._kept_reader = (self.weights_, self._reader())
        if kept[1] is None:
            return None
        found = kept[1].scores(sentences)
        if found is None:
            return None
        start, unary = found
        pair = self.weights_.pair.reshape(1, len(self.labels_), -1)
        chains, labels = Chains(start, 1), self.labels_
        if self._rules is not None:
            unary, pair = self._rules(chains, unary, pair)
        return ScoredSequences(
            chains, unary, pair, lambda numbers: split([labels[one] for one in numbers.tolist()], start)
        )

    def _reader(self) -> Reader | None:
        """None for what only the general way can do: columns, features of steps or as they are, order 2, links."""
        if self.items_ or self.columns or self.order != 1 or self.step_rows > 1 or not self.unary_index_.size:
            return None
        return Reader(self._parsed(())[0], self.unary_index_, self.weights_.unary)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept_reader"}

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        indices = {"unary": self.unary_index_, "step": self.step_index_}
        keys = {
            f"{name}_keys": torch.from_numpy(index.keys.view(np.int64))
            for name, index in indices.items()
            if isinstance(index, Indexed)
        }
        described = {
            "templates": NAMES if self.templates is None else self.templates,
            "items": self.items_,
            "step_templates": self.step_templates,
            "minimum_count": self.minimum_count,
            "hashing": self.hashing,
            "labels": list(self.labels_),
            "rules": kept_rules(self.rules_),
            "order": self.order,
            "skip": kept_skip(self._skip),
            "decoder": describe_decoder(self.decoder_),
            "trained": written(self.learner),
        }
        return described, {**self.weights_.tensors(), **keys}

    @classmethod
    def _rebuilt(cls, told: Record) -> Tagger:
        items = "items" in told and told.flag("items")
        tagger = cls(
            templates=None if items else told.text("templates"),
            step_templates=told.text("step_templates"),
            minimum_count=told.whole("minimum_count", 1),
            hashing=told.maybe("hashing", lambda record, name: record.whole(name, 1, LARGEST)),
            decoder=read_decoder(told.record("decoder")),
            order=told.whole("order", 1, 2) if "order" in told else 1,
            skip=read_skip(told),
        )
        tagger.labels_, tagger.items_ = told.texts("labels", distinct=True), items
        states = len(tagger.labels_)
        # Files of before there were rules have those of IOB2.
        tagger.iob_ = getattr(tagger.decoder_, "valid", True)
        old = Rules.of(tagger.labels_, iob=tagger.iob_)
        tagger.rules_ = read_rules(told, states) if "rules" in told else old
        tagger.unary_index_ = _read_index("unary", told, tagger.hashing)
        tagger.step_index_ = _read_index("step", told, tagger.hashing)
        tagger.weights_ = read_weights(told, tagger.unary_index_.size, tagger.step_rows, states)
        return tagger

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags as SklearnTags  # type: ignore[import-untyped]
        from sklearn.utils import TargetTags

        return SklearnTags(estimator_type=None, target_tags=TargetTags(required=True))


def _read_index(name: str, told: Record, size: int | None) -> FeatureIndex:
    return Indexed(told.integers(f"{name}_keys", (None,)).view(np.uint64)) if size is None else Hashed(size)
