r"""The model of label sets as users have it: fit, predict, score, save.

In: inputs, labels. Out: :class:`MultiLabel`. Stage: use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.estimator import Estimator, column_names, not_fitted
from loopwise.apps.multilabel.arrays import Classes, as_inputs
from loopwise.apps.multilabel.decoding import Decoder
from loopwise.apps.multilabel.learners.base import Learner, Watch
from loopwise.apps.multilabel.learners.walks import SampleRankSVM
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.report import Report, compare
from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.multilabel.weights import Floats, Integers, LabelWeights
from loopwise.formats.files import PathLike
from loopwise.learn.checkpoint import checksum, identify
from loopwise.learn.history import History
from loopwise.learn.progress import progress_bar
from loopwise.walk.updates import Tally


class MultiLabel(Estimator):
    r"""A fully connected Markov random field over binary labels, given an input (Finley & Joachims 2008).

    .. math:: p(y\mid x)\propto\exp\Big(\sum_i\theta_{i,y_i}\cdot x+\sum_{i<j}\theta_{ij}(y_i,y_j)\Big)

    Every label has weights of its own over the input, one for each value and feature, and every pair of labels a table
    of four. Labels are an array ``[examples, labels]`` of two classes each (0 and 1, say), or ``[examples]`` for a
    single one. Inputs are arrays, SciPy sparse matrices or data frames; NaN is a missing value. The interface is
    scikit-learn's: ``clone``, grid search and cross-validation work.

    Parameters
    ----------
    learner:
        How to train: :class:`SampleRankSVM` (the default), :class:`SampleRank`, :class:`SampleRankSVM1`,
        :class:`Hybrid`, :class:`CD`, :class:`PCD`, :class:`Perceptron`, :class:`Pegasos`, :class:`Likelihood`,
        :class:`ERM`, all of :mod:`loopwise.apps.multilabel`, or your own.
    decoder:
        How to answer: :class:`Enumeration` (exact, up to 20 labels), :class:`Annealed`, :class:`ByBeliefs`; by default
        what suits the learner and the number of labels.
    standardize:
        Whether features are brought to mean 0 and variance 1 (sparse ones to mean square 1).
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

    def __init__(
        self,
        learner: Learner | None = None,
        decoder: Decoder | None = None,
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
        *,
        dev: tuple[Any, Any] | None = None,
        progress: bool = True,
        checkpoint: PathLike | None = None,
    ) -> MultiLabel:
        """Trains on inputs ``X`` and labels ``y``.

        ``dev``: inputs and labels of development data; of learners that go in epochs the best one's weights are kept.
        ``checkpoint``: a file from which the same call goes on if the process was stopped, to the same weights, bit
        for bit. Learners that go in epochs write it after them, as often as takes a tenth of the time at most. A
        finished training is not repeated.
        """
        inputs = as_inputs(X)
        goes_on = self.warm_start and hasattr(self, "weights_")
        if goes_on:
            self._check_features(X, inputs.shape[1])
            gold = self._classes.encode(y)
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
            self._begin(X, y, inputs, gold.shape[1])
        problem = Problem(self._prepared(inputs), gold)
        learner = self._learner
        start = self.weights_ if goes_on else problem.start()
        with progress_bar(progress, learner.rounds) as tell:
            watch = Watch(tell, None if dev is None else self._error_on(*dev))
            if checkpoint is not None:
                watch.open(checkpoint, self._run(problem, start, dev), start)
            self.weights_ = watch.train(lambda: learner.learn(problem, start, watch, self.seed), start)
        self.history_, self.tally_ = watch.history, watch.tally
        return self

    def _run(self, problem: Problem, start: LabelWeights, dev: tuple[Any, Any] | None) -> dict[str, str]:
        """What tells a training from others."""
        run = {
            "learner": identify(self._learner),
            "training data": _described(problem),
            "start": f"{len(start.vector)} weights (checksum {checksum(start.vector)})",
            "seed": str(self.seed),
        }
        if dev is not None:
            run["development data"] = _described(Problem(*self._held_out(*dev)))
            run["decoder"] = identify(self.decoder_)
        return run

    def _begin(self, X: Any, y: Any, inputs: Any, labels: int) -> None:
        self._note_features(X, int(inputs.shape[1]))
        self.label_names_ = column_names(y) or tuple(str(place) for place in range(labels))
        self.classes_ = self._classes.pairs[0] if self._classes.flat else list(self._classes.pairs)
        self.scaling_ = Scaling.of(inputs, self.standardize)

    def _prepared(self, inputs: Any) -> Any:
        return self.scaling_(inputs, self.standardize)

    @property
    def _learner(self) -> Learner:
        return SampleRankSVM() if self.learner is None else self.learner

    @property
    def decoder_(self) -> Decoder:
        """The decoder that answers."""
        return self._learner.decoder if self.decoder is None else self.decoder

    def _error_on(self, X: Any, y: Any) -> Any:
        inputs, gold = self._held_out(X, y)
        return lambda weights: float((self.decoder_.decide(weights, inputs) != gold).mean())

    def _held_out(self, X: Any, y: Any) -> tuple[Any, Any]:
        return self._ready_inputs(X), self._classes.encode(y)

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """The labels of each input, ``[examples, labels]``."""
        said = self._decided(X)
        return self._classes.decode(said)

    def predict_marginals(self, X: Any) -> Floats:
        """The probability that each label is on (is the second of its classes), ``[examples, labels]``.

        As the decoder's method computes it; only likelihood training makes weights for which these mean frequencies.
        """
        ready = self._ready(X)
        return self.decoder_.marginals(self.weights_, ready)

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

    def evaluate(self, X: Any, y: Any) -> Report:
        """Hamming and subset error, F1 by example, micro, macro and by label."""
        said = self._decided(X)
        gold = self._classes.encode(y)
        if len(gold) != len(said):
            raise ValueError(f"there are {len(said)} inputs and {len(gold)} rows of labels; give one each")
        return compare(gold, said, self.label_names_)

    def _decided(self, X: Any) -> Integers:
        ready = self._ready(X)
        return self.decoder_.decide(self.weights_, ready)

    def _ready(self, X: Any) -> Any:
        if not hasattr(self, "weights_"):
            raise not_fitted("this MultiLabel is not fitted yet: call fit(inputs, labels) first")
        return self._ready_inputs(X)

    def _ready_inputs(self, X: Any) -> Any:
        inputs = as_inputs(X)
        self._check_features(X, inputs.shape[1])
        return self._prepared(inputs)

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    def save(self, path: PathLike, notes: dict[str, Any] | None = None) -> None:
        """Writes the fitted model to one file, which appears whole or not at all; ``notes`` are kept with it."""
        from loopwise.apps.multilabel.saving import save

        if not hasattr(self, "weights_"):
            raise not_fitted("this MultiLabel is not fitted yet: there is nothing to save")
        save(self, path, notes)

    @classmethod
    def load(cls, path: PathLike) -> MultiLabel:
        """The model that :meth:`save` wrote. Nothing in the file is run."""
        return cls.load_with_notes(path)[0]

    @classmethod
    def load_with_notes(cls, path: PathLike) -> tuple[MultiLabel, dict[str, Any]]:
        """The model, and what was kept with it."""
        from loopwise.apps.multilabel.saving import load

        return load(cls, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True, single_output=True),
            classifier_tags=ClassifierTags(multi_class=False, multi_label=True),
            input_tags=InputTags(sparse=True, allow_nan=True),
        )


def _described(problem: Problem) -> str:
    rows = problem.rows
    return f"{len(problem)} examples (checksum {checksum(rows.indptr, rows.indices, rows.data, problem.gold)})"
