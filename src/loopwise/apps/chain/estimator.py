"""Chains as users have them: fit, predict, evaluate, save.

In: sentences as lists of words, their tags, or column files; sequences of feature vectors, their labels. Out:
:class:`Tagger`, :class:`ChainCRF`. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.chain.features.extraction import KeyRows, design_of, extract
from loopwise.apps.chain.features.index import FeatureIndex, Hashed, Indexed
from loopwise.apps.chain.features.sequences import Sequences, as_labels, encoded
from loopwise.apps.chain.features.templates import BIAS, NAMES, Template, parse_templates
from loopwise.apps.chain.features.text import Sentences, Text, as_lists, check_tag, tag_lists, tag_numbers
from loopwise.apps.chain.incremental import IncrementalTagger, step_over, weighed, weighted_descent
from loopwise.apps.chain.model import Learner, Likelihood, describe_decoder, objective_of, read_decoder
from loopwise.apps.chain.report import Report, compare
from loopwise.apps.class_weights import class_weights
from loopwise.apps.estimator import not_fitted
from loopwise.apps.incremental import AdaGrad, Incremental
from loopwise.apps.inputs import Scaling
from loopwise.apps.saved import SavedEstimator, written
from loopwise.decode.chains import Decoder, Posterior, Viterbi
from loopwise.formats.columns import TaggedText, read_tagged, read_words, write_tagged
from loopwise.formats.files import PathLike, check_apart
from loopwise.formats.iob import OUTSIDE, TagSet, find_spans
from loopwise.inference.chains import Chains
from loopwise.kernels.threads import available_threads
from loopwise.learn.callbacks import as_callbacks
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.checkpoint import checksum, identify
from loopwise.learn.descent import Descent, Smooth, check_descent
from loopwise.learn.fields import LARGEST, FieldError, Record
from loopwise.learn.history import History
from loopwise.learn.ledger import SPARING, Ledger
from loopwise.learn.objective import Callback
from loopwise.learn.progress import progress_bar
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import VectorObjective
from loopwise.loss.base import Loss
from loopwise.potentials.linear import Floats, Integers, MatrixDesign

Tags = Sequence[Sequence[str]]


class Tagger(IncrementalTagger, SavedEstimator):
    r"""A linear-chain conditional random field for tags of words: names, chunks, parts of speech.

    .. math:: p(y\mid x)\propto\exp\Big(\sum_t\theta_{y_t}\cdot f_t(x)+\sum_t\theta_{y_{t-1}y_t}\cdot g_t(x)\Big)

    (Lafferty, McCallum & Pereira 2001). Features :math:`f_t` are given by templates; :math:`g_t` is constant unless
    ``step_templates`` add to it. Sentences are lists of words, or a column file, or what
    :func:`loopwise.formats.columns.read_tagged` reads. The interface is scikit-learn's.

    Parameters
    ----------
    templates:
        What to look at (:mod:`loopwise.apps.chain.features.templates`), such as ``"w[0] w[-1]|w[0] suffix3[0] bias"``.
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
    weights_: ChainWeights
    history_: History
    unary_index_: FeatureIndex
    step_index_: FeatureIndex
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {"learner": Likelihood, "decoder": Viterbi}

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
        sample_weight: Any = None,
        dev: Sentences | tuple[Sentences, Tags] | None = None,
        progress: bool = True,
        checkpoint: PathLike | None = None,
        callback: Callback | Sequence[Callback] | None = None,
    ) -> Tagger:
        """Trains on ``sentences`` and their ``tags`` (None: a column file, or a text read from one, has them).

        ``dev``: development data in either form; learners that go in epochs keep the weights of the best one.
        ``checkpoint``: a file from which the same call goes on if the process was stopped; the final weights are then
        the same, bit for bit at the same number of threads. It is written after rounds of the learner, as often as
        takes a tenth of the time at most. A finished training is not repeated. ``callback``: as for
        :func:`loopwise.fit`. ``sample_weight``: what each sentence counts, as if it were there so many times; learners
        other than :class:`Likelihood` take whole numbers.
        """
        self._stream = None
        learner = Likelihood() if self.learner is None else self.learner
        words, known = _with_tags(sentences, tags)
        words, known, counts = weighed(
            sample_weight, words, known, isinstance(learner, Likelihood), type(learner).__name__
        )
        text = Text.of(words)
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
        return self

    def problem(self, text: Text, tags: Tags | TaggedText) -> ChainProblem:
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

    def _problem(self, text: Text, keys: tuple[KeyRows, KeyRows], gold: Integers | None = None) -> ChainProblem:
        unary, steps = keys
        return ChainProblem(
            design_of(unary, self.unary_index_),
            design_of(steps, self.step_index_) if len(self._parsed[1]) > 1 else None,
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

    def _scorer(self, dev: Sentences | tuple[Sentences, Tags], like: ChainWeights) -> Callable[[Floats], float]:
        text, gold, labels = self._held_out(dev)
        problem = self._problem(text, self._keys(text))
        return lambda vector: compare(gold, self._decide(problem, like.like(vector)), text.start, labels).score

    def _held_out(self, dev: Sentences | tuple[Sentences, Tags]) -> tuple[Text, Integers, tuple[str, ...]]:
        """Development data: the text, its tags, and the labels that these number."""
        words, known = _with_tags(*dev) if isinstance(dev, tuple) else _with_tags(dev, None)
        text, labels = Text.of(words), self._with_others(known)
        return text, tag_numbers(known, text, labels), labels

    def _run(
        self,
        learner: Learner,
        problem: ChainProblem,
        start: ChainWeights,
        dev: Sentences | tuple[Sentences, Tags] | None,
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
        return problem.log_likelihoods(self.weights_, tag_numbers(known, text, self.labels_))

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

    def _decide(self, problem: ChainProblem, weights: ChainWeights) -> Integers:
        decoder = Viterbi() if self.decoder is None else self.decoder
        return decoder.decide(problem.chains, *problem.scores(weights), self.labels_)

    def prepared(self, sentences: Sentences) -> tuple[Text, ChainProblem]:
        """The sentences as numbers, and as the fitted model sees them."""
        if not hasattr(self, "weights_"):
            raise not_fitted("this Tagger is not fitted yet: call fit(sentences, tags) first")
        text = Text.of(sentences)
        return text, self._problem(text, self._keys(text))

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        indices = {"unary": self.unary_index_, "step": self.step_index_}
        keys = {
            f"{name}_keys": torch.from_numpy(index.keys.view(np.int64))
            for name, index in indices.items()
            if isinstance(index, Indexed)
        }
        described = {
            "templates": self.templates,
            "step_templates": self.step_templates,
            "minimum_count": self.minimum_count,
            "hashing": self.hashing,
            "labels": list(self.labels_),
            "decoder": describe_decoder(Viterbi() if self.decoder is None else self.decoder),
            "trained": written(self.learner),
        }
        return described, {**self.weights_.tensors(), **keys}

    @classmethod
    def _rebuilt(cls, told: Record) -> Tagger:
        tagger = cls(
            templates=told.text("templates"),
            step_templates=told.text("step_templates"),
            minimum_count=told.whole("minimum_count", 1),
            hashing=told.maybe("hashing", lambda record, name: record.whole(name, 1, LARGEST)),
            decoder=read_decoder(told.record("decoder")),
        )
        tagger.labels_ = told.texts("labels", distinct=True)
        tagger.unary_index_ = _read_index("unary", told, tagger.hashing)
        tagger.step_index_ = _read_index("step", told, tagger.hashing)
        tagger.weights_ = _read_weights(told, tagger.unary_index_.size, tagger.step_rows, len(tagger.labels_))
        return tagger

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
    rows = tags.tagged() if isinstance(tags, TaggedText) else as_lists("tags", tags)
    for number, row in enumerate(rows):
        for tag in row:
            check_tag(tag, number)
    found = {tag for row in rows for tag in row}
    return tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag)))


class ChainCRF(Incremental, SavedEstimator):
    r"""A linear-chain conditional random field on sequences of feature vectors.

    .. math:: p(y\mid x)\propto\exp\Big(\sum_t\theta_{y_t}\cdot x_t+\sum_t\theta_{y_{t-1}y_t}\Big)

    (Lafferty, McCallum & Pereira 2001). Inference is exact. Sequences are a list of arrays ``[length, features]``,
    dense or SciPy sparse, NaN where a value is missing; labels are a list of as many sequences of numbers or text.
    Answers come back as lists of arrays. An array ``[rows, features]`` with labels ``[rows]`` is taken for sequences
    of one element, and then answers are arrays; a model has one of the two forms. For words and templates there is
    :class:`~loopwise.apps.Tagger`, on the same engine. The interface is scikit-learn's.

    Parameters
    ----------
    loss:
        What to train for: None, the likelihood; :class:`SoftmaxMargin`, a smooth hinge; a loss of ``lw.loss`` on the
        marginals of all elements together, such as ``lw.loss.FBeta(beta=2)``, ``lw.loss.MSE()`` or
        ``lw.loss.Hamming()``; or one of marginals of pairs, such as ``EntityF1()`` of :mod:`loopwise.apps.chain`.
    positive:
        The label, or labels, that an F measure counts, as they are in ``y``.
    class_weight:
        None, ``"balanced"``, or ``{label: weight}``: what elements with this right label count, in likelihood
        (:math:`-\sum_t w_{y_t}\log p(y_t\mid y_{t-1},x)`), margins and losses of elements.
    learner:
        Instead of a loss: ``Perceptron()``, ``SVM()`` or another of :mod:`loopwise.apps.chain` that goes sequence by
        sequence; features must then be 0 or 1.
    decoder:
        ``Viterbi(valid=False)``, the best sequence (the default for likelihood, margins and learners), or
        ``Posterior(valid=False)``, the best label of each element (the default for losses of elements).
    standardize:
        Whether dense features are brought to mean 0 and variance 1 (in sparse matrices to mean square 1). Indicators
        and features that most rows do not have are left as they are; ``scaling_.scaled`` says which were not.
    l2:
        Of the penalty :math:`\frac{\lambda}{2}|\theta|^2` beside the sum of the loss over all elements (of the
        likelihood: over all sequences).
    iterations, tolerance:
        Of L-BFGS at most, for each loss that is trained; it stops when one changes the objective by less than this
        part of it.
    warm_start:
        Whether :meth:`fit` goes on from the weights of the last fit, with its scales and classes.
    threads:
        None: all cores.
    seed:
        For learners that draw at random.

    After fitting: ``classes_``, ``weights_`` (``unary`` ``[features + 1, K]``, the last row the constant, and ``pair``
    ``[1, K * K]``), ``history_``, ``n_features_in_``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = [np.repeat(rng.integers(0, 2, 5), 4) for _ in range(20)]  # runs of four
    >>> signals = [np.stack([row, 1 - row], 1) + rng.normal(0, 0.7, (20, 2)) for row in labels]
    >>> crf = ChainCRF().fit(signals[:10], labels[:10])
    >>> bool(crf.score(signals[10:], labels[10:]) > 0.85)
    True
    """

    classes_: NDArray[Any]
    weights_: ChainWeights
    scaling_: Scaling
    history_: History
    _flat: bool
    _stream: AdaGrad | None = None  # of partial_fit
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {"decoder": lambda: Viterbi(valid=False)}

    def __init__(
        self,
        loss: Any = None,
        positive: Any = None,
        class_weight: Any = None,
        learner: Learner | None = None,
        decoder: Decoder | None = None,
        standardize: bool = True,
        l2: float = 1.0,
        iterations: int = 200,
        tolerance: float = 1e-6,
        warm_start: bool = False,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.loss, self.positive, self.class_weight = loss, positive, class_weight
        self.learner, self.decoder, self.standardize = learner, decoder, standardize
        self.l2, self.iterations, self.tolerance = l2, iterations, tolerance
        self.warm_start, self.threads, self.seed = warm_start, threads, seed

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: bool = True) -> ChainCRF:
        """Trains on sequences ``X`` and their labels ``y``. O(elements x (features + K) x K) an iteration.

        ``sample_weight``: what each sequence counts, as if it were there so many times; whole numbers, unless training
        is by plain likelihood.
        """
        self._stream = None
        check_descent(self.l2, self.iterations)
        plain = self.loss is None and self.learner is None and self.class_weight is None
        X, y, counts = weighed(sample_weight, X, y, plain, "a loss or a learner")
        sequences = Sequences.of(X)
        labels = as_labels(y, sequences)
        goes_on = self.warm_start and hasattr(self, "weights_")
        if goes_on:
            self._check_form(X, sequences)
        else:
            self.classes_, self._flat = np.unique(labels), sequences.flat
            each = None if counts is None else np.repeat(counts, np.diff(sequences.start))
            self.scaling_ = Scaling.of(sequences.inputs, self.standardize, each)
            self._note_features(X if sequences.flat else None, sequences.width)
        problem = self._problem(sequences, encoded(labels, self.classes_))
        start = self.weights_ if goes_on else problem.start()
        objective, limits = self._objective(problem, start, goes_on)
        if counts is not None:
            objective = weighted_descent(problem, start, counts, self)
        with progress_bar(progress, limits.epochs) as tell:
            self.history_ = train(objective, limits, tell=tell)
        self.weights_ = start.like(objective.answer)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> ChainCRF:
        """Goes on with a batch of sequences: steps of AdaGrad on the likelihood, 32 sequences each.

        The first batch says how features are scaled; labels are ``classes``, by default those of the first batch.
        """
        if (self.loss, self.learner, self.class_weight) != (None, None, None):
            raise ValueError("partial_fit is by likelihood: leave loss, learner and class_weight out")
        sequences = Sequences.of(X)
        if not self._is_fitted:
            labels = as_labels(y, sequences)
            self.classes_ = np.unique(labels if classes is None else np.asarray(classes))
            self._flat, self.scaling_ = sequences.flat, Scaling.of(sequences.inputs, self.standardize)
            self._note_features(X if sequences.flat else None, sequences.width)
            self.weights_ = self.problem_of(X, y).start()
        self._check_form(X, sequences)
        if self._stream is None:
            self._stream = AdaGrad(len(self.weights_.vector), self.l2)
        step_over(self, X, y, self._stream)
        return self

    def problem_of(self, X: Any, y: Any) -> ChainProblem:
        """Sequences and their labels as the chain engine takes them."""
        sequences = Sequences.of(X)
        return self._problem(sequences, encoded(as_labels(y, sequences), self.classes_))

    def _objective(self, problem: ChainProblem, start: ChainWeights, goes_on: bool) -> tuple[VectorObjective, Limits]:
        if self.learner is not None:
            if self.loss is not None or self.class_weight is not None:
                raise ValueError(
                    f"{type(self.learner).__name__} has an objective of its own: leave loss and class_weight out, or "
                    "the learner"
                )
            return self.learner.objective(problem, start, self.seed), self.learner.limits
        weights = None
        if self.class_weight is not None:
            weights = class_weights(self.class_weight, self.classes_, problem.gold)
        goal, first = objective_of(self.loss, problem, self.classes_, self.positive, weights)
        functions = [goal] if first is None or goes_on else [first, goal]
        stages = [
            Smooth(problem.of_vector(function), self.l2, self.iterations, self.tolerance) for function in functions
        ]
        descent = Descent(stages, start.vector, threads=problem.chains.threads)
        return descent, descent.limits

    def _problem(self, sequences: Sequences, gold: Integers | None = None) -> ChainProblem:
        """The sequences as the chain engine takes them."""
        return ChainProblem(
            MatrixDesign(self.scaling_(sequences.inputs, self.standardize)),
            None,
            Chains(sequences.start, available_threads() if self.threads is None else self.threads),
            tuple(map(str, self.classes_.tolist())),
            np.zeros(0, dtype=np.int64) if gold is None else gold,
        )

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """The labels of each sequence, a list of arrays; ``[rows]`` for an array of rows."""
        sequences, problem = self._prepared(X)
        said = self.decoder_.decide(problem.chains, *problem.scores(self.weights_), problem.labels)
        return sequences.split(self.classes_[said])

    def predict_marginals(self, X: Any) -> Any:
        """The probabilities ``[length, K]`` of each sequence's labels, in the order of ``classes_``; exact."""
        sequences, problem = self._prepared(X)
        return sequences.split(problem.chains.marginals(*problem.scores(self.weights_)).single)

    def predict_proba(self, X: Any) -> Any:
        """:meth:`predict_marginals`, as scikit-learn calls it."""
        return self.predict_marginals(X)

    def log_likelihood(self, X: Any, y: Any) -> Floats:
        """The log-probability of the labels of each sequence, ``[sequences]``."""
        sequences, problem = self._prepared(X)
        return problem.log_likelihoods(self.weights_, encoded(as_labels(y, sequences), self.classes_))

    def score(self, X: Any, y: Any) -> float:
        """The share of labels that are right, over all sequences together."""
        sequences = Sequences.of(X)
        right = as_labels(y, sequences)
        said = self.predict(X)
        return float(((said if sequences.flat else np.concatenate(said)) == right).mean())

    @property
    def decoder_(self) -> Decoder:
        """The decoder that answers."""
        if self.decoder is not None:
            return self.decoder
        return Posterior(valid=False) if isinstance(self.loss, Loss) else Viterbi(valid=False)

    def _prepared(self, X: Any) -> tuple[Sequences, ChainProblem]:
        if not hasattr(self, "weights_"):
            raise not_fitted("this ChainCRF is not fitted yet: call fit(X, y) first")
        sequences = Sequences.of(X)
        self._check_form(X, sequences)
        return sequences, self._problem(sequences)

    def _check_form(self, X: Any, sequences: Sequences) -> None:
        """One sequence given in place of a list of them would pass for rows of their own, and be answered wrongly."""
        if sequences.flat and not self._flat:
            raise ValueError(
                f"X is one array of shape {np.shape(X)}, but this ChainCRF was trained on a list of sequences: for a "
                "single sequence give [X]"
            )
        self._check_features(X if sequences.flat else None, sequences.width)

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        names = getattr(self, "feature_names_in_", None)
        described = {
            "classes": self.classes_.tolist(),
            "type": self.classes_.dtype.str,
            "flat": self._flat,
            "features": self.n_features_in_,
            "names": None if names is None else names.tolist(),
            "standardize": bool(self.standardize),
            "decoder": describe_decoder(self.decoder_),
            "trained": written(self),
        }
        return described, {**self.weights_.tensors(), **self.scaling_.tensors()}

    @classmethod
    def _rebuilt(cls, told: Record) -> ChainCRF:
        classes, features = told.classes("classes", "type"), told.whole("features", 0, LARGEST)
        weights, scaling = _read_weights(told, features + 1, 1, len(classes)), Scaling.read(told, features)
        model = cls(decoder=read_decoder(told.record("decoder")), standardize=told.flag("standardize"))
        model.weights_, model.scaling_ = weights, scaling
        model.classes_, model._flat, model.n_features_in_ = classes, told.flag("flat"), features
        names = told.maybe("names", Record.texts)
        if names is not None:
            if len(names) != features:
                raise FieldError("names", f"lists {len(names)} names of {features} features")
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        # Not "classifier": its tools would look for one label a row, and lists of sequences have none.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True, allow_nan=True, three_d_array=True),
        )


def _read_index(name: str, told: Record, size: int | None) -> FeatureIndex:
    return Indexed(told.integers(f"{name}_keys", (None,)).view(np.uint64)) if size is None else Hashed(size)


def _read_weights(told: Record, features: int, step_features: int, states: int) -> ChainWeights:
    unary, pair = told.weights("unary", (features, states)), told.weights("pair", (step_features, states * states))
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    return ChainWeights.of_vector(vector, features, step_features, states)
