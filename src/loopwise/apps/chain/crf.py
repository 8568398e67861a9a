"""Chains of feature vectors as users have them: fit, predict, evaluate, save.

In: sequences of feature vectors, or of dicts of features, their labels. Out: :class:`ChainCRF`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.chain.estimator import ChainEstimator, ScoredSequences
from loopwise.apps.chain.features.sequences import Sequences, as_evidence, as_labels, by_sequence, no_labels
from loopwise.apps.chain.features.text import Known
from loopwise.apps.chain.incremental import step_over, weighed, weighted_descent
from loopwise.apps.chain.model import ChainLearner, objective_of
from loopwise.apps.chain.saving import (
    describe_decoder,
    kept_rules,
    kept_skip,
    read_decoder,
    read_rules,
    read_skip,
    read_weights,
)
from loopwise.apps.chain.skip import Skip, check_skip, sequence_links
from loopwise.apps.class_weights import class_weights
from loopwise.apps.estimator import not_fitted
from loopwise.apps.incremental import Incremental
from loopwise.apps.inputs import Scaling
from loopwise.apps.saved import written
from loopwise.decode.chains import ChainDecoder, Posterior, Viterbi
from loopwise.decode.rules import Forbid, Rules
from loopwise.inference.families.chains import Chains
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.descent import Descent, Smooth, check_descent
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import LARGEST, FieldError, Record
from loopwise.learn.history import History
from loopwise.learn.optim.stream import StreamAdaGrad
from loopwise.learn.progress import progress_bar
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import VectorObjective
from loopwise.loss.base import Loss
from loopwise.potentials.linear import Floats, MatrixDesign


class ChainCRF(Incremental, ChainEstimator):
    r"""A linear-chain conditional random field on sequences of feature vectors.

    .. math:: p(y\mid x)\propto\exp\Big(\sum_t\theta_{y_t}\cdot x_t+\sum_t\theta_{y_{t-1}y_t}\Big)

    (Lafferty, McCallum & Pereira 2001). Inference is exact, unless there are links (``skip``). Sequences are a list
    of arrays ``[length, features]``, dense or SciPy sparse, NaN where a value is missing, or lists of dicts or of
    lists of features, as sklearn-crfsuite has them; labels are a list of as many sequences of numbers or text. A
    label that is None, NaN or (beside two or more labels from 0 on) -1 is not known, a set says which it may be.
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
        Instead of a loss: ``ChainPerceptron()``, ``ChainSVM()`` or another of :mod:`loopwise.apps.chain` that goes
        sequence by sequence; features must then be 0 or 1.
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
    constraints:
        ``Forbid`` of :mod:`loopwise.apps.chain`: steps, first and last labels that there are not, in training, in
        marginals and in decisions.
    order:
        2: labels depend on the two before them, for likelihood and few labels.
    skip:
        Links between elements far apart, a skip chain: those are linked whose feature ``skip`` is equal, a key of dicts
        or the number of a column; or :class:`Skip`. For losses, not learners; answers are then approximate.

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
    scaling_: Scaling
    history_: History
    _flat: bool
    _items: tuple[str, ...] | None = None  # features by name, where they came so

    _stream: StreamAdaGrad | None = None  # of partial_fit
    _no_weights: ClassVar[frozenset[str]] = frozenset({"centre", "spread"})
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {"decoder": lambda: Viterbi(valid=False)}

    def __init__(
        self,
        loss: Any = None,
        positive: Any = None,
        class_weight: Any = None,
        learner: ChainLearner | None = None,
        decoder: ChainDecoder | None = None,
        standardize: bool = True,
        l2: float = 1.0,
        iterations: int = 200,
        tolerance: float = 1e-6,
        warm_start: bool = False,
        threads: int | None = None,
        seed: int = 0,
        constraints: Forbid | None = None,
        order: int = 1,
        skip: Skip | str | int | None = None,
    ) -> None:
        self.loss, self.positive, self.class_weight = loss, positive, class_weight
        self.learner, self.decoder, self.standardize = learner, decoder, standardize
        self.l2, self.iterations, self.tolerance = l2, iterations, tolerance
        self.warm_start, self.threads, self.seed = warm_start, threads, seed
        self.constraints, self.order, self.skip = constraints, order, skip

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: bool = True) -> ChainCRF:
        """Trains on sequences ``X`` and their labels ``y``. O(elements x (features + K) x K) an iteration.

        ``sample_weight``: what each sequence counts, as if it were there so many times; whole numbers, unless training
        is by plain likelihood.
        """
        self._stream = None
        self._check_options()
        check_descent(self.l2, self.iterations)
        self._check_order()
        check_skip(
            self._skip,
            {
                "order=2": self.order != 1,
                "sample_weight": sample_weight is not None,
                "learner": self.learner is not None,
            },
        )
        plain = self.loss is None and self.learner is None and self.class_weight is None
        X, y, counts = weighed(sample_weight, X, y, plain, "a loss or a learner")
        goes_on = self.warm_start and hasattr(self, "weights_")
        sequences = Sequences.of(X, self._items if goes_on else None)
        labels = as_labels(y, sequences)
        if goes_on:
            self._check_form(X, sequences)
        else:
            self.classes_, self._flat, self._items = labels.classes(), sequences.flat, sequences.names
            each = None if counts is None else np.repeat(counts, np.diff(sequences.start))
            self.scaling_ = Scaling.of(sequences.inputs, self.standardize, each)
            self._note_features(X if sequences.flat else None, sequences.width)
        known = labels.coded(self.classes_)
        if not goes_on:
            self.rules_ = self._rules_of(known, Chains(sequences.start))
        problem = self._problem(sequences, known, X)
        self._check_rules(problem)
        start = self.weights_ if goes_on else problem.start()
        objective, limits = self._objective(problem, start, goes_on)
        if counts is not None:
            objective = weighted_descent(problem, start, counts, self)
        with progress_bar(progress, limits.epochs) as tell:
            self.history_ = train(objective, limits, tell=tell)
        self.weights_ = start.like(objective.answer)
        said = f"{problem.sentences} sequences, {problem.chains.start[-1]} elements, {len(self.classes_)} labels"
        self.card_ = training_card(said, self._trained_for, self.history_)
        return self

    @property
    def _trained_for(self) -> str:
        given = next((each for each in (self.learner, self.loss) if each is not None), None)
        return "Likelihood" if given is None else given if isinstance(given, str) else type(given).__name__

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> ChainCRF:
        """Goes on with a batch of sequences: steps of AdaGrad on the likelihood, 32 sequences each.

        The first batch says how features are scaled; labels are ``classes``, by default those of the first batch.
        """
        if (self.loss, self.learner, self.class_weight) != (None, None, None):
            raise ValueError("partial_fit is by likelihood: leave loss, learner and class_weight out")
        self._check_options()
        self._check_order()
        check_skip(self._skip, {"partial_fit": True})
        sequences = Sequences.of(X, self._items if self._is_fitted else None)
        if not self._is_fitted:
            labels = as_labels(y, sequences)
            self.classes_ = labels.classes() if classes is None else np.unique(np.asarray(classes))
            self._flat, self._items = sequences.flat, sequences.names
            self.scaling_ = Scaling.of(sequences.inputs, self.standardize)
            self._note_features(X if sequences.flat else None, sequences.width)
            known = labels.coded(self.classes_)
            self.rules_ = self._rules_of(known, Chains(sequences.start))
            self.weights_ = self._problem(sequences, known, X).start()
        self._check_form(X, sequences)
        if self._stream is None:
            self._stream = StreamAdaGrad(len(self.weights_.vector), self.l2)
        step_over(self, X, y, self._stream)
        self._note_batch(len(sequences.start) - 1, "sequences", self._trained_for)
        return self

    def problem_of(self, X: Any, y: Any) -> ChainProblem:
        """Sequences and their labels as the chain engine takes them."""
        sequences = Sequences.of(X, self._items)
        return self._problem(sequences, as_labels(y, sequences).coded(self.classes_), X)

    def _check_order(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, not {self.order!r}")
        if self.order == 2 and (self.loss, self.learner, self.class_weight) != (None, None, None):
            raise ValueError(
                "chains of second order are trained by likelihood; leave loss, learner and class_weight out"
            )

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

    def _problem(self, sequences: Sequences, known: Known | None, given: Any) -> ChainProblem:
        """The sequences as the chain engine takes them; ``given``: as users gave them."""
        design = MatrixDesign(self.scaling_(sequences.inputs, self.standardize))
        links = None if self._skip is None else sequence_links(self._skip, given, sequences)
        return self._made(design, None, sequences.start, known, self.rules_, links)

    def _rules_of(self, known: Known, chains: Chains) -> Rules | None:
        """Constraints, and IOB2 if the decoder asks for it and the labels are such."""
        iob = Rules.of(self._tags, iob=getattr(self.decoder_, "valid", False))
        return Rules.of(self._tags, self.constraints, iob=iob is not None and not iob.broken(chains, known.gold).size)

    @property
    def _tags(self) -> tuple[str, ...]:
        return tuple(map(str, self.classes_.tolist()))

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, *, k: int | None = None, evidence: Any = None) -> Any:
        """The labels of each sequence, a list of arrays; ``[rows]`` for an array of rows.

        Parameters
        ----------
        X:
            As for :meth:`fit`.
        k:
            So many of the most probable label sequences of each, best first: lists of ``(labels, probability)``
            (:class:`~loopwise.apps.partial.RankedAnswer`). Exact; not with ``skip``.
        evidence:
            Labels that are given, shaped like ``y``: None, NaN or -1 where one is asked for, a set where it is one of
            several.
        """
        asked = self._asked(X, evidence)
        if k is not None:
            return self._best(asked, k)
        said = self.classes_[self._decided(asked)]
        return said if self._flat else by_sequence(said, asked.chains.start)

    def predict_marginals(self, X: Any, *, evidence: Any = None, status: bool = False) -> Any:
        """The probabilities ``[length, K]`` of each sequence's labels, in the order of ``classes_``.

        ``evidence``: labels that are given, as for :meth:`predict`. ``status``: whether to tell, beside them, how far
        they can be trusted: exact, or with ``skip`` approximate, converged or not.
        """
        asked = self._asked(X, evidence)
        found = asked.marginals() if self._flat else by_sequence(asked.marginals(), asked.chains.start)
        return (found, asked.how()) if status else found

    def predict_proba(self, X: Any) -> Any:
        """:meth:`predict_marginals`, as scikit-learn calls it."""
        return self.predict_marginals(X)

    def sample(self, X: Any, seed: int | None = None, *, count: int | None = None, evidence: Any = None) -> Any:
        """Labels drawn from the distribution of each sequence; ``count``: so many, each with its probability, as the
        best ones of :meth:`predict`."""
        return self._drawn(self._asked(X, evidence), count, seed)

    def log_likelihood(self, X: Any, y: Any) -> Floats:
        """The log-probability of the labels of each sequence, ``[sequences]``; of what is known, where that is a part.
        With ``skip`` of each document, an estimate."""
        sequences, problem = self._prepared(X)
        some = sequences.inputs.shape[0] > 0
        known = as_labels(y, sequences).coded(self.classes_) if some else no_labels(y, sequences, len(self.classes_))
        return problem.log_likelihoods(self.weights_, known.gold, known.allowed)

    def score(self, X: Any, y: Any) -> float:
        """The share of labels that are right, over all sequences together; those that are not known do not count."""
        sequences = Sequences.of(X, self._items)
        right = as_labels(y, sequences)
        said = self.predict(X)
        return float(((said if sequences.flat else np.concatenate(said)) == right.values)[right.known].mean())

    @property
    def decoder_(self) -> ChainDecoder:
        """The decoder that answers."""
        if self.decoder is not None:
            return self.decoder
        return Posterior(valid=False) if isinstance(self.loss, Loss) else Viterbi(valid=False)

    def _prepared(self, X: Any) -> tuple[Sequences, ChainProblem]:
        if not hasattr(self, "weights_"):
            raise not_fitted("this ChainCRF is not fitted yet: call fit(X, y) first")
        sequences = Sequences.of(X, self._items, self.n_features_in_)
        self._check_form(X, sequences)
        return sequences, self._problem(sequences, None, X)

    def _asked(self, given: Any, evidence: Any) -> ScoredSequences:
        sequences, problem = self._prepared(given)
        if evidence is not None:
            known = as_evidence(evidence, sequences, self.classes_)
            problem = replace(problem, allowed=known.mask(len(self.classes_)))
        start = sequences.start
        return ScoredSequences.of(problem, self.weights_, lambda numbers: by_sequence(self.classes_[numbers], start))

    def _check_form(self, X: Any, sequences: Sequences) -> None:
        """One sequence given in place of a list of them would pass for rows of their own, and be answered wrongly."""
        if sequences.flat and not self._flat:
            raise ValueError(
                f"X is one array of shape {np.shape(X)}, but this ChainCRF was trained on a list of sequences: for a "
                "single sequence give [X]"
            )
        if self._flat and not sequences.flat:
            raise ValueError(
                "X is a list of sequences, but this ChainCRF was trained on one array of rows; give such an array"
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
            "items": self._items,
            "rules": kept_rules(self.rules_),
            "order": self.order,
            "skip": kept_skip(self._skip),
            "standardize": bool(self.standardize),
            "decoder": describe_decoder(self.decoder_),
            "trained": written(self),
        }
        return described, {**self.weights_.tensors(), **self.scaling_.tensors()}

    @classmethod
    def _rebuilt(cls, told: Record) -> ChainCRF:
        classes, features = told.classes("classes", "type"), told.whole("features", 0, LARGEST)
        order = told.whole("order", 1, 2) if "order" in told else 1
        skip = read_skip(told)
        step_rows = 1 + (0 if skip is None else len(skip.columns)) if order == 1 else 1 + len(classes)
        weights, scaling = read_weights(told, features + 1, step_rows, len(classes)), Scaling.read(told, features)
        decoder = read_decoder(told.record("decoder"))
        model = cls(decoder=decoder, standardize=told.flag("standardize"), order=order, skip=skip)
        model.weights_, model.scaling_ = weights, scaling
        model.classes_, model._flat, model.n_features_in_ = classes, told.flag("flat"), features
        model.rules_ = (
            read_rules(told, len(classes))
            if "rules" in told
            else Rules.of(model._tags, iob=getattr(decoder, "valid", False))
        )
        model._items = told.maybe("items", Record.texts) if "items" in told else None
        if model._items is not None and max(len(model._items), 1) != features:
            raise FieldError("items", f"lists {len(model._items)} names of {features} features")
        names = told.maybe("names", Record.texts)
        if names is not None:
            if len(names) != features:
                raise FieldError("names", f"lists {len(names)} names of {features} features")
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        # Not "classifier": its tools would look for one label a row, and lists of sequences have none.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True, allow_nan=True, three_d_array=True),
        )
