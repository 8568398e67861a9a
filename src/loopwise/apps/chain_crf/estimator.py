"""The chain model of feature vectors as users have it: fit, predict, score, save.

In: sequences of feature vectors, sequences of labels. Out: :class:`ChainCRF`. Stage: use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain_crf.design import MatrixDesign
from loopwise.apps.chain_crf.losses import objective_of
from loopwise.apps.chain_crf.sequences import Sequences, as_labels, encoded
from loopwise.apps.class_weights import class_weights
from loopwise.apps.estimator import Estimator, not_fitted
from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.tagger.chains import Chains, Floats
from loopwise.apps.tagger.decoding import Decoder, Posterior, Viterbi
from loopwise.apps.tagger.learners.base import Learner, Watch
from loopwise.apps.tagger.learners.descent import minimise
from loopwise.apps.tagger.learners.likelihood import check_descent
from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.formats.files import PathLike
from loopwise.graph.factor_graph import Integers
from loopwise.kernels.threads import available_threads
from loopwise.learn.history import History
from loopwise.learn.progress import progress_bar
from loopwise.loss.base import Loss

MEMORY = 6  # pairs of differences that L-BFGS keeps


class ChainCRF(Estimator):
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
        ``lw.loss.Hamming()``; or one of marginals of pairs, such as ``EntityF1()`` of :mod:`loopwise.apps.tagger`.
    positive:
        The label, or labels, that an F measure counts, as they are in ``y``.
    class_weight:
        None, ``"balanced"``, or ``{label: weight}``: what elements with this right label count, in likelihood
        (:math:`-\sum_t w_{y_t}\log p(y_t\mid y_{t-1},x)`), margins and losses of elements.
    learner:
        Instead of a loss: ``Perceptron()``, ``SVM()`` or another of :mod:`loopwise.apps.tagger` that goes sequence by
        sequence; features must then be 0 or 1.
    decoder:
        ``Viterbi(valid=False)``, the best sequence (the default for likelihood, margins and learners), or
        ``Posterior(valid=False)``, the best label of each element (the default for losses of elements).
    standardize:
        Whether features are brought to mean 0 and variance 1 (sparse ones to mean square 1).
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
    weights_: Weights
    scaling_: Scaling
    history_: History
    _flat: bool

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

    def fit(self, X: Any, y: Any, *, progress: bool = True) -> ChainCRF:
        """Trains on sequences ``X`` and their labels ``y``. O(elements x (features + K) x K) an iteration."""
        check_descent(self.l2, self.iterations)
        sequences = Sequences.of(X)
        labels = as_labels(y, sequences)
        goes_on = self.warm_start and hasattr(self, "weights_")
        if goes_on:
            self._check_form(X, sequences)
        else:
            self.classes_, self._flat = np.unique(labels), sequences.flat
            self.scaling_ = Scaling.of(sequences.inputs, self.standardize)
            self._note_features(X if sequences.flat else None, sequences.width)
        problem = self._problem(sequences, encoded(labels, self.classes_))
        start = self.weights_ if goes_on else problem.start()
        rounds = 2 * self.iterations if self.learner is None else self.learner.rounds
        with progress_bar(progress, rounds) as tell:
            watch = Watch(tell)
            self.weights_ = self._learnt(problem, start, watch, goes_on)
        self.history_ = watch.history
        return self

    def _learnt(self, problem: Problem, start: Weights, watch: Watch, goes_on: bool) -> Weights:
        if self.learner is not None:
            if self.loss is not None or self.class_weight is not None:
                raise ValueError(
                    f"{type(self.learner).__name__} has an objective of its own: leave loss and class_weight out, or "
                    "the learner"
                )
            return self.learner.learn(problem, start, watch, self.seed)
        weights = None
        if self.class_weight is not None:
            weights = class_weights(self.class_weight, self.classes_, problem.gold)
        goal, first = objective_of(self.loss, problem, self.classes_, self.positive, weights)
        options: dict[str, Any] = {
            "l2": self.l2,
            "iterations": self.iterations,
            "tolerance": self.tolerance,
            "memory": MEMORY,
            "threads": problem.chains.threads,
        }
        if first is not None and not goes_on:
            start = minimise(first, start, watch, **options)
        return minimise(goal, start, watch, **options)

    def _problem(self, sequences: Sequences, gold: Integers | None = None) -> Problem:
        """The sequences as the chain engine takes them."""
        return Problem(
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
        unary, pair = problem.scores(self.weights_)
        gold = encoded(as_labels(y, sequences), self.classes_)
        own = np.append(problem.chains.path_scores(unary, pair, gold), 0.0)
        sums: Floats = np.add.reduceat(own, sequences.start[:-1]) * (np.diff(sequences.start) > 0)
        return sums - problem.chains.marginals(unary, pair).log_z

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

    def _prepared(self, X: Any) -> tuple[Sequences, Problem]:
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

    def save(self, path: PathLike) -> None:
        """Writes the fitted model to one file, which appears whole or not at all."""
        from loopwise.apps.chain_crf.saving import save

        if not hasattr(self, "weights_"):
            raise not_fitted("this ChainCRF is not fitted yet: there is nothing to save")
        save(self, path)

    @classmethod
    def load(cls, path: PathLike) -> ChainCRF:
        """The model that :meth:`save` wrote. Nothing in the file is run."""
        from loopwise.apps.chain_crf.saving import load

        return load(cls, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        # Not "classifier": its tools would look for one label a row, and lists of sequences have none.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True, allow_nan=True, three_d_array=True),
        )
