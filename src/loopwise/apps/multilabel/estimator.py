r"""The model of label sets as users have it: fit, predict, score, save.

In: inputs, labels. Out: :class:`MultiLabel`. Stage: use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.estimator import SampleWeights, classifier_tags, column_names, not_fitted, taken
from loopwise.apps.incremental import Incremental
from loopwise.apps.inputs import Scaling, as_inputs
from loopwise.apps.multilabel.features import Classes
from loopwise.apps.multilabel.model import LabelERM, LabelLearner, LabelLikelihood, LabelSampleRank, Stream, completed
from loopwise.apps.multilabel.report import MultiLabelReport, compare
from loopwise.apps.saved import SavedEstimator, written
from loopwise.arguments import checked_part
from loopwise.formats.files import PathLike
from loopwise.graph.builders import complete
from loopwise.learn.callbacks import as_callbacks
from loopwise.learn.files.card import training_card
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.describe import Builder, Describer
from loopwise.learn.files.fields import LARGEST, FieldError, Record, check_counts, check_options, shown
from loopwise.learn.files.ledger import SPARING, Ledger
from loopwise.learn.history import History
from loopwise.learn.label_sets.decoding import Annealed, Automatic, ByBeliefs, Enumeration, LabelDecoder
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import Floats, Integers, LabelWeights, pair_count
from loopwise.learn.objective import Callback
from loopwise.learn.progress import progress_bar
from loopwise.learn.trainer import train
from loopwise.walk.learning.objective import WalkObjective
from loopwise.walk.learning.updates import Tally


class MultiLabel(Incremental, SavedEstimator):
    r"""A fully connected Markov random field over binary labels, given an input (Finley & Joachims 2008).

    .. math:: p(y\mid x)\propto\exp\Big(\sum_i\theta_{i,y_i}\cdot x+\sum_{i<j}\theta_{ij}(y_i,y_j)\Big)

    Every label has weights of its own over the input, one for each value and feature, and every pair of labels a table
    of four. Labels are an array ``[examples, labels]`` of two classes each (0 and 1, say), or ``[examples]`` for a
    single one; a label that is None, NaN or (beside two classes from 0 on) -1 is not known. Inputs are arrays, SciPy
    sparse matrices or data frames; NaN is a missing value. The interface is scikit-learn's: ``clone``, grid search and
    cross-validation work.

    Parameters
    ----------
    learner:
        How to train: :class:`LabelSampleRank` (the default), :class:`LabelSampleRankSVM`, :class:`LabelSampleRankSVM1`,
        :class:`LabelHybrid`, :class:`LabelCD`, :class:`LabelPCD`, :class:`LabelPerceptron`, :class:`LabelPegasos`,
        :class:`LabelLikelihood`, :class:`LabelERM`, all of :mod:`loopwise.apps.multilabel`, or your own.
    decoder:
        How to answer: :class:`Enumeration` (exact, up to 20 labels), :class:`Annealed`, :class:`ByBeliefs`; by default
        what suits the learner and the number of labels.
    standardize:
        Whether dense features are brought to mean 0 and variance 1 (in sparse matrices to mean square 1). Indicators
        and features that most rows do not have are left as they are; ``scaling_.scaled`` says which were not.
    warm_start:
        Whether :meth:`fit` goes on from the weights of the last fit.
    seed:
        For the order of examples and for walks.

    After fitting: ``weights_``, ``classes_`` (a list, an array a label), ``history_``, ``tally_`` (of walks: steps,
    pairs ranked, updates), ``n_features_in_``.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = (x @ [[1, 0], [-1, 1], [0, 1]] > 0).astype(int)
    >>> model = MultiLabel().fit(x[:150], y[:150])
    >>> bool(model.score(x[150:], y[150:]) > 0.9)
    True
    """

    weights_: LabelWeights
    scaling_: Scaling
    history_: History
    tally_: Tally | None
    classes_: Any
    label_names_: tuple[str, ...]
    _classes: Classes
    _stream: Stream | None = None  # of partial_fit
    _no_weights: ClassVar[frozenset[str]] = frozenset({"centre", "spread"})
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {"learner": LabelSampleRank, "decoder": Automatic}

    def __init__(
        self,
        learner: LabelLearner | None = None,
        decoder: LabelDecoder | None = None,
        standardize: bool = True,
        warm_start: bool = False,
        seed: int = 0,
    ) -> None:
        self.learner, self.decoder = learner, decoder
        self.standardize, self.warm_start, self.seed = standardize, warm_start, seed

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        dev: tuple[Any, Any] | None = None,
        progress: bool = True,
        checkpoint: PathLike | None = None,
        callback: Callback | Sequence[Callback] | None = None,
    ) -> MultiLabel:
        """Trains on inputs ``X`` and labels ``y``.

        ``dev``: inputs and labels of development data; of learners that go in epochs the best one's weights are kept.
        ``checkpoint``: a file from which the same call goes on if the process was stopped, to the same weights, bit
        for bit. It is written after rounds of the learner, as often as takes a tenth of the time at most. A finished
        training is not repeated. ``callback``: as for :func:`loopwise.fit`. ``sample_weight``: what each example
        counts, as if it were there so many times; learners other than :class:`LabelLikelihood` and :class:`LabelERM`
        take whole numbers.
        """
        self._stream = None
        inputs = as_inputs(X)
        counts = SampleWeights.of(sample_weight, inputs.shape[0])
        weighs = isinstance(self._learner, LabelLikelihood | LabelERM)
        if counts is not None:
            rows = counts.rows if weighs else counts.repeated(type(self._learner).__name__)
            X, y, inputs = taken(X, rows), taken(y, rows), inputs[rows]
        weights = counts.counts if counts is not None and weighs else None
        goes_on = self.warm_start and hasattr(self, "weights_")
        if goes_on:
            self._check_features(X, inputs.shape[1])
            gold = self._classes.encode(y, partial=True)
        else:
            self._classes, gold = Classes.of(y)
        if len(gold) != inputs.shape[0]:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {inputs.shape[0]} inputs, {len(gold)} "
                "rows of labels"
            )
        if len(gold) < 2:
            raise ValueError("labels cannot be learnt from 1 sample; give at least 2")
        if not goes_on:
            self._begin(X, y, inputs, gold.shape[1], weights)
        learner = self._learner
        problem = LabelProblem(self._prepared(inputs), gold, weights)
        if not isinstance(learner, LabelLikelihood | LabelERM):
            problem = completed(problem)
        start = self.weights_ if goes_on else problem.start()
        run = {} if checkpoint is None else self._run(problem, start, dev)
        objective = learner.objective(problem, start, self.seed)
        objective.score, objective.larger = None if dev is None else self._error_on(*dev, start), False
        with progress_bar(progress, learner.limits.epochs) as tell:
            ledger = Ledger.open(checkpoint, run, SPARING)
            self.history_ = train(objective, learner.limits, ledger=ledger, callbacks=as_callbacks(callback), tell=tell)
        self.weights_ = start.like(objective.answer)
        self.tally_ = objective.learner.tally if isinstance(objective, WalkObjective) else None
        said = f"{len(gold)} examples, {gold.shape[1]} labels, {self.n_features_in_} features"
        self.card_ = training_card(said, type(learner).__name__, self.history_, "Hamming loss")
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> MultiLabel:
        """Goes on with a batch of examples: walks over them, or steps of AdaGrad under :class:`LabelLikelihood`.

        The first batch says how features are scaled; ``classes`` are all values of a label (0 and 1, say; a list of
        pairs if labels differ), by default those of the first batch.
        """
        inputs = as_inputs(X)
        if not self._is_fitted:
            self._classes, gold = Classes.of(y)
            if classes is not None:
                self._classes = self._classes.with_all(classes)
                gold = self._classes.encode(y)
            self._begin(X, y, inputs, gold.shape[1])
        else:
            self._check_features(X, inputs.shape[1])
            gold = self._classes.encode(y)
        problem = LabelProblem(self._prepared(inputs), gold)
        if self._stream is None:
            start = self.weights_ if self._is_fitted else problem.start()
            self._stream = self._learner.stream(problem, start, self.seed) if hasattr(self._learner, "stream") else None
        if self._stream is None:
            raise ValueError(
                f"{type(self._learner).__name__} needs all examples at once; partial_fit goes with learners that walk, "
                "such as SampleRank() (the default), and with Likelihood()"
            )
        self.weights_ = problem.start().like(self._stream(problem))
        self._note_batch(len(gold), "examples", type(self._learner).__name__)
        return self

    @property
    def _budget(self) -> str:
        return written(self.decoder_)

    def _run(self, problem: LabelProblem, start: LabelWeights, dev: tuple[Any, Any] | None) -> dict[str, str]:
        """What tells a training from others."""
        run = {
            "learner": identify(self._learner),
            "training data": _described(problem),
            "start": f"{len(start.vector)} weights (checksum {checksum(start.vector)})",
            "seed": str(self.seed),
        }
        if dev is not None:
            run["development data"] = _described(LabelProblem(*self._held_out(*dev)))
            run["decoder"] = identify(self.decoder_)
        return run

    def _begin(self, X: Any, y: Any, inputs: Any, labels: int, weights: Floats | None = None) -> None:
        self._note_features(X, int(inputs.shape[1]))
        self.label_names_ = column_names(y) or tuple(str(place) for place in range(labels))
        self.classes_ = self._classes.pairs[0] if self._classes.flat else list(self._classes.pairs)
        self.scaling_ = Scaling.of(inputs, self.standardize, weights)

    @property
    def _output_names(self) -> Sequence[str]:
        return self.label_names_

    def _prepared(self, inputs: Any) -> Any:
        return self.scaling_(inputs, self.standardize)

    @property
    def _learner(self) -> LabelLearner:
        if self.learner is None:
            return LabelSampleRank()
        checked_part("learner", self.learner, "objective", "LabelSampleRank()")
        return self.learner

    @property
    def decoder_(self) -> LabelDecoder:
        """The decoder that answers."""
        if self.decoder is None:
            return self._learner.decoder
        checked_part("decoder", self.decoder, "decide", "Automatic()")
        return self.decoder

    def _error_on(self, X: Any, y: Any, like: LabelWeights) -> Callable[[Floats], float]:
        inputs, gold = self._held_out(X, y)
        return lambda vector: float((self.decoder_.decide(like.like(vector), inputs) != gold).mean())

    def _held_out(self, X: Any, y: Any) -> tuple[Any, Any]:
        return self._ready_inputs(X), self._classes.encode(y)

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, *, evidence: Any = None) -> NDArray[Any]:
        """The labels of each input, ``[examples, labels]``.

        ``evidence``: labels that are given, in the same form; None, NaN or -1 where a label is asked for.

        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = np.stack([x[:, 0] > 0, x[:, 0] > 0.1], 1).astype(int)
        >>> model = MultiLabel().fit(x, y)
        >>> model.predict([[1.0, 0.0]], evidence=[[0, None]])[0, 0]
        np.int64(0)
        """
        said = self._decided(X, evidence)
        return self._classes.decode(said)

    def predict_marginals(self, X: Any, *, evidence: Any = None) -> Floats:
        """The probability that each label is on (is the second of its classes), ``[examples, labels]``.

        As the decoder's method computes it; only likelihood training makes weights for which these mean frequencies.
        ``evidence``: labels that are given, as for :meth:`predict`.
        """
        ready = self._ready(X)
        given = self._given(evidence, ready.shape[0])
        if given is None:
            return self.decoder_.marginals(self.weights_, ready)
        return np.where(given < 0, self.decoder_.marginals(self.weights_.given(given), ready), given.astype(np.float64))

    def predict_proba(self, X: Any) -> Floats:
        """:meth:`predict_marginals`; for labels without a second axis both probabilities, ``[examples, 2]``."""
        found = self.predict_marginals(X)
        if not self._classes.flat:
            return found
        both = np.concatenate([1 - found, found], axis=1)
        return both[:, : len(self._classes.pairs[0])] if len(self._classes.pairs[0]) > 1 else np.ones((len(found), 1))

    def score(self, X: Any, y: Any) -> float:
        """The share of labels that are right: 1 minus the Hamming error."""
        return 1.0 - self.evaluate(X, y).hamming

    def evaluate(self, X: Any, y: Any) -> MultiLabelReport:
        """Hamming and subset error, F1 by example, micro, macro and by label."""
        said = self._decided(X)
        gold = self._classes.encode(y)
        if len(gold) != len(said):
            raise ValueError(f"there are {len(said)} inputs and {len(gold)} rows of labels; give one each")
        return compare(gold, said, self.label_names_)

    def _decided(self, X: Any, evidence: Any = None) -> Integers:
        ready = self._ready(X)
        given = self._given(evidence, ready.shape[0])
        if given is None:
            return self.decoder_.decide(self.weights_, ready)
        return np.where(given < 0, self.decoder_.decide(self.weights_.given(given), ready), given)

    def _given(self, evidence: Any, examples: int) -> Integers | None:
        if evidence is None:
            return None
        given = self._classes.evidence(evidence)
        if len(given) != examples:
            raise ValueError(f"there are {examples} inputs and {len(given)} rows of evidence; give one each")
        return given

    def _ready(self, X: Any) -> Any:
        if not hasattr(self, "weights_"):
            raise not_fitted("this MultiLabel is not fitted yet: call fit(inputs, labels) first")
        return self._ready_inputs(X)

    def _ready_inputs(self, X: Any) -> Any:
        inputs = as_inputs(X)
        self._check_features(X, inputs.shape[1])
        return self._prepared(inputs)

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    @classmethod
    def load_with_notes(cls, path: PathLike) -> tuple[MultiLabel, dict[str, Any]]:
        """The model, and what was kept with it."""
        return cls._load_with_notes(path)

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        describer = Describer(complete(self.weights_.labels), {})
        described = {
            "labels": list(self.label_names_),
            "classes": [pair.tolist() for pair in self._classes.pairs],
            "flat": self._classes.flat,
            "features": self.n_features_in_,
            "standardize": bool(self.standardize),
            "decoder": _describe(self.decoder_, describer),
            "trained": written(self._learner),
            "notes": {},
        }
        return described, {**self.weights_.tensors(), **self.scaling_.tensors(), **describer.tensors}

    @classmethod
    def _rebuilt(cls, told: Record) -> MultiLabel:
        names, features = told.texts("labels"), told.whole("features", 0, LARGEST)
        pairs = told.items("classes", _read_classes)
        if len(pairs) != len(names) or not names:
            raise FieldError("classes", f"lists the classes of {len(pairs)} labels, of which {len(names)} have names")
        unary = told.weights("unary", (len(names), features + 1, 2))
        pair = told.weights("pair", (pair_count(len(names)), 2, 2))  # before anything is made for each pair of labels
        scaling, flat = Scaling.read(told, features), told.flag("flat")
        if flat and len(names) > 1:
            raise FieldError("flat", f"says that there is one label, but there are {len(names)}")
        decoder = _read_decoder(told.record("decoder"), Builder(complete(len(names)), told.tensors))
        model = cls(decoder=decoder, standardize=told.flag("standardize"))
        vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
        model.weights_ = LabelWeights.of_vector(vector, len(names), features + 1)
        model.scaling_ = scaling
        model._classes = Classes(pairs, flat)
        model.classes_ = pairs[0] if model._classes.flat else list(pairs)
        model.label_names_, model.n_features_in_ = names, features
        return model

    def __sklearn_tags__(self) -> Any:
        return classifier_tags(multi_class=False, sparse=True)


def _described(problem: LabelProblem) -> str:
    rows = problem.rows
    return f"{len(problem)} examples (checksum {checksum(rows.indptr, rows.indices, rows.data, problem.gold)})"


_DECODERS = {kind.__name__: kind for kind in (Enumeration, Annealed, ByBeliefs, Automatic)}


def _read_classes(told: Record, name: str) -> NDArray[Any]:
    """What 0 and 1 of a label stand for: one or two numbers, truth values or texts."""
    found = told.raw(name)
    kinds = {type(item) for item in found} if isinstance(found, list) else set()
    if len(kinds) != 1 or not kinds <= {bool, int, float, str} or not 1 <= len(set(found)) == len(found) <= 2:
        raise FieldError(told.name(name), f"must be one or two classes of one type, not {shown(found)}")
    made = np.array(found)
    if made.dtype.kind not in "biufU":
        raise FieldError(told.name(name), f"has a class that is too large a number, {shown(found)}")
    return made


def _describe(decoder: LabelDecoder, describer: Describer) -> dict[str, Any]:
    name = type(decoder).__name__
    if type(decoder) is not _DECODERS.get(name):
        raise ValueError(
            f"a model with a decoder of class {name} cannot be saved, since loading would have to run code that is not "
            f"loopwise's; set decoder to one of {', '.join(_DECODERS)}"
        )
    options: dict[str, Any] = {}
    for field in dataclasses.fields(decoder):
        value = getattr(decoder, field.name)
        if isinstance(value, ByBeliefs):
            options[field.name] = _describe(value, describer)
        elif field.name == "inference":
            options[field.name] = describer.describe(value, "inference")
        else:
            options[field.name] = value
    check_counts(type(decoder), options, "decoder")
    return {"class": name, "options": options}


def _read_decoder(told: Record, builder: Builder) -> LabelDecoder:
    kind, given = _DECODERS[told.choice("class", _DECODERS)], told.record("options")
    options = dict(given.values)
    if "beliefs" in options:
        options["beliefs"] = _read_decoder(given.record("beliefs"), builder)
    if "inference" in options:
        options["inference"] = builder.build(options["inference"], given.name("inference"))
    check_options(kind, options, given.path)
    made: LabelDecoder = kind(**options)
    return made
