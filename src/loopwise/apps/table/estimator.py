r"""The classifier of tables as users have it: fit, predict, score, save.

In: columns of features, columns of labels, both with missing values. Out: :class:`MRFClassifier`. Stage: use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from loopwise.apps.class_weights import weighted, weights_of_each
from loopwise.apps.estimator import SampleWeights, classifier_tags, column_names, not_fitted, taken
from loopwise.apps.goals import checked_goal, decoder_for, stages_for
from loopwise.apps.incremental import Incremental
from loopwise.apps.saved import SavedEstimator, written
from loopwise.apps.table.features import (
    Answers,
    TableColumns,
    as_table,
    column_of_file,
    described_column,
    distinct,
    share_right,
)
from loopwise.apps.table.model import BySize, Complete, FitOptions, Structure, cells_of, train
from loopwise.decode.base import BeliefDecoder
from loopwise.decode.pointwise import Identity, Max, SoftArgmax
from loopwise.formats.coding import as_text
from loopwise.formats.table import Vocabulary
from loopwise.graph.evidence import FREE, Role
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.base import Inference
from loopwise.inference.evidence_rows import RowAnswers
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import Goal
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import FieldError, Record
from loopwise.learn.files.saving import build_system, describe_system
from loopwise.learn.history import History
from loopwise.learn.optim.stream import StreamAdaGrad, parts, total
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.system import System
from loopwise.learn.system_loss import SystemLoss
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.notices import TimeWarning, warn
from loopwise.potentials.tables import TablePotentials

SWEEPS = 10  # of BP, where the user names no inference: what the command line takes

# Of training, for each cell of a pairwise table, row and iteration (2,000 rows by 20 columns: 8e-8 to 1.5e-7).
SECONDS = 1e-7
LONG = 120.0  # seconds, which are worth a warning

Floats = NDArray[np.float64]


class MRFClassifier(Incremental, SavedEstimator):
    r"""A Markov random field over the columns of a table, some of which are predicted.

    .. math:: p(x, y) \propto \exp\Big(\sum_i \theta_i(v_i) + \sum_{i \sim j} \theta_{ij}(v_i, v_j)\Big),
              \qquad v = (x, y, h)

    Features :math:`x` are columns of text (a value for each label) or numbers (cut into intervals); labels :math:`y`
    are one column or several. NaN, None and empty text are missing values: what is missing is summed out, in training
    and in use, and a row counts as far as its labels are known. All tables :math:`\theta` are learnt, for the loss you
    name, under the inference you name: :math:`n\,\ell(\text{system}) + \frac{\lambda}{2}|\theta|^2` over ``n`` rows
    (Stoyanov, Ropson & Eisner 2011). The interface is scikit-learn's.

    Parameters
    ----------
    structure:
        Which columns are joined: :class:`BySize` (the default: every pair if inputs are missing and the table is small,
        else inputs with outputs), :class:`Complete`, :class:`ToOutputs`, :class:`ColumnChain`, :class:`ColumnTree`
        (Chow & Liu), :class:`Grid`, :class:`ColumnPairs`, all of :mod:`loopwise.apps.table`, or your own.
    loss:
        One of ``lw.loss``: likelihood (the default), ``MSE()``, ``Hamming()``, ``FBeta(beta=2)``, ... Losses of
        decisions start from the weights of most likelihood.
    positive:
        The label, or labels, that an F measure counts, as they are in ``y``; by default those that the loss names by
        number.
    class_weight:
        None, ``"balanced"``, or ``{label: weight}``; a list of these for several outputs. Losses of single answers
        become weighted means; a likelihood weighs rows, by the product of the weights of their labels.
    inference:
        In training and in use; by default 10 sweeps of BP.
    decoder:
        One of ``lw.decode``; by default what suits the loss: the most probable label.
    bins:
        Numbers with more distinct values than that are cut into so many intervals of about equally many rows.
    hidden:
        Numbers of values of variables that are never seen, such as ``(2, 2)``, each joined to every column.
    l2:
        :math:`\lambda`.
    optimizer:
        None: L-BFGS over all rows. Or a function of the parameters that makes a torch optimiser, such as ``lambda
        params: torch.optim.Adam(params, lr=0.05)``.
    iterations:
        Of L-BFGS, or epochs; for each loss that is trained.
    tolerance:
        L-BFGS stops when an iteration changes the loss by less than this part of it.
    batch:
        Rows that go through inference at once; None: 512, or 32 for each step of another optimiser.
    warm_start:
        Whether :meth:`fit` goes on from the last fit: its columns, classes, structure and weights.
    seed:
        For random starts (where something is missing or hidden) and the order of rows.

    After fitting: ``system_``, ``classes_`` (an array, or a list of arrays), ``history_``, ``n_features_in_``.

    >>> import numpy as np
    >>> x = [["sun", 20.0], ["rain", np.nan], ["sun", 25.0], ["rain", 9.0], [None, 22.0], ["rain", 11.0]]
    >>> y = ["walk", "read", "walk", "read", "walk", "read"]
    >>> model = MRFClassifier(l2=0.1).fit(x, y)
    >>> model.predict([["sun", np.nan], [None, 10.0]]).tolist()
    ['walk', 'read']
    """

    system_: System
    classes_: Any
    history_: History
    _columns: TableColumns
    _answers: Answers
    _stream: StreamAdaGrad | None = None  # of partial_fit
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {
        "inference": lambda: BP(iterations=SWEEPS, tolerance=0),
        "loss": SurrogateLikelihood,
    }
    _row_answers: tuple[RowAnswers | None, list[int]]

    def __init__(
        self,
        structure: Structure | None = None,
        loss: Goal | None = None,
        positive: Any = None,
        class_weight: Any = None,
        inference: Inference | None = None,
        decoder: BeliefDecoder | None = None,
        bins: int = 8,
        hidden: tuple[int, ...] = (),
        l2: float = 1.0,
        optimizer: MakeOptimizer | None = None,
        iterations: int = 100,
        tolerance: float = 1e-9,
        batch: int | None = None,
        warm_start: bool = False,
        seed: int = 0,
    ) -> None:
        self.structure, self.loss, self.positive, self.class_weight = structure, loss, positive, class_weight
        self.inference, self.decoder, self.bins, self.hidden = inference, decoder, bins, hidden
        self.l2, self.optimizer, self.iterations, self.tolerance = l2, optimizer, iterations, tolerance
        self.batch, self.warm_start, self.seed = batch, warm_start, seed

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: bool = True) -> MRFClassifier:
        """Trains on the rows of ``X`` ``[rows, columns]`` and ``y`` ``[rows]`` or ``[rows, outputs]``.

        ``sample_weight``: what each row counts, as if it were there so many times.
        """
        self._stream = None
        counts = None if sample_weight is None else SampleWeights.of(sample_weight, len(as_table(X)))
        if counts is not None:
            X, y = taken(X, counts.rows), taken(y, counts.rows)
        options = FitOptions(self.optimizer, self.iterations, self.tolerance, self.l2, self.batch, self.seed)
        table, goes_on = as_table(X), self.warm_start and hasattr(self, "system_")
        if goes_on:
            self._check_features(X, table.shape[1])
            answers, codes = self._answers, self._answers.encode(y)
        else:
            answers, codes = Answers.of(y)
        if len(codes) != len(table):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {len(table)} rows of X, "
                f"{len(codes)} of y; give as many"
            )
        goal = checked_goal(self.loss, answers.classes, self.positive)
        if not goes_on:
            self._begin(X, table, answers, codes, goal, None if counts is None else counts.counts)
        examples = self._examples(self._columns.codes(table), codes)
        if counts is not None:
            examples = examples.weighted(counts.counts)
            options = replace(options, l2=options.l2 * len(table) / float(counts.counts.sum()))
        first: Goal | None = None if goes_on else SurrogateLikelihood()
        if self.class_weight is not None:
            weights = self._state_weights(codes)
            goal, first = weighted(goal, weights), None if first is None else weighted(first, weights)
        stages = stages_for(goal, first, options.epochs(self.system_), whole=self.optimizer is None)
        self.history_ = train(self.system_, examples, stages, options, progress)
        self.card_ = training_card(f"{len(table)} rows, {table.shape[1]} columns", type(goal).__name__, self.history_)
        self._note_rows()
        return self

    def _begin(
        self,
        X: Any,
        table: NDArray[Any],
        answers: Answers,
        codes: Integers,
        goal: Goal,
        counts: Floats | None = None,
    ) -> None:
        """Columns, classes and structure of training data; weights are 0. Intervals hold about equally many rows, which
        count as often as whole ``counts`` say."""
        width = table.shape[1]
        names = column_names(X) or tuple(f"x{place}" for place in range(width))
        whole = counts is not None and bool((counts == np.round(counts)).all())
        seen = np.repeat(table, counts.astype(np.int64), axis=0) if counts is not None and whole else table
        columns = TableColumns.of(seen, names, self.bins)
        labels = (*columns.labels, *(tuple(map(as_text, known.tolist())) for known in answers.classes))
        hidden = _hidden_sizes(self.hidden)
        vocabulary = Vocabulary(
            (*names, *distinct((*answers.names, *(f"hidden{place}" for place in range(len(hidden)))), names)),
            (*labels, *(tuple(map(str, range(size))) for size in hidden)),
        )
        roles = np.repeat([Role.INPUT, Role.OUTPUT, Role.HIDDEN], [width, codes.shape[1], len(hidden)]).astype(np.int64)
        values = np.concatenate([columns.codes(table), codes, np.full((len(codes), len(hidden)), FREE)], axis=1)
        sizes = vocabulary.cardinalities
        usual = Complete() if getattr(goal, "joint", False) else BySize()  # which scores inputs too
        pairs = (usual if self.structure is None else self.structure).pairs(values, sizes, roles)
        self._tell_time(cells_of(pairs, sizes, len(values)))
        graph = FactorGraph.from_scopes(
            sizes, [*((place,) for place in range(len(sizes))), *map(tuple, pairs.tolist())]
        )
        inference = BP(iterations=SWEEPS, tolerance=0) if self.inference is None else copy.deepcopy(self.inference)
        decoder = decoder_for(goal) if self.decoder is None else copy.deepcopy(self.decoder)
        self.system_ = System(TablePotentials(graph), inference, decoder, vocabulary=vocabulary, roles=roles)
        self._columns, self._answers = columns, answers
        self.classes_ = answers.classes[0] if answers.flat else list(answers.classes)
        self._note_features(X, width)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> MRFClassifier:
        """Goes on with a batch of rows: steps of AdaGrad for the loss, some rows a step.

        The first batch says which values and intervals columns have, and which columns are joined; labels are those of
        ``classes`` (an array, or a list of arrays for several outputs), else those of the first batch.
        """
        table = as_table(X)
        if not self._is_fitted:
            answers, codes = Answers.of(y)
            if classes is not None:
                every = [classes] if answers.flat else list(classes)
                answers = replace(answers, classes=tuple(np.unique(np.asarray(known)) for known in every))
                codes = answers.encode(y)
            self._begin(X, table, answers, codes, checked_goal(self.loss, answers.classes, self.positive))
        else:
            self._check_features(X, table.shape[1])
            codes = self._answers.encode(y)
        examples = self._examples(self._columns.codes(table), codes)
        goal = checked_goal(self.loss, self._answers.classes, self.positive)
        parameters = list(self.system_.parameters())
        vector = parameters_to_vector(parameters).detach().numpy().copy()
        if self._stream is None:
            self._stream = StreamAdaGrad(len(vector), self.l2)
        for part in parts(len(examples)):
            count = part.stop - part.start
            _, vector = self._stream.step(total(SystemLoss(self.system_, examples[part], goal), count), vector, count)
        vector_to_parameters(torch.from_numpy(vector), parameters)
        self.system_.eval()
        self._note_batch(len(examples), "rows", type(goal).__name__)
        self._note_rows()
        return self

    @property
    def _budget(self) -> str:
        return written(self.system_.inference)

    def _tell_time(self, cells: int) -> None:
        """Warns where training will take long, and says what would not."""
        seconds = cells * SECONDS * self.iterations
        if seconds > LONG:
            warn(
                f"training may take about {seconds / 60:.0f} minutes ({cells} cells of tables a sweep over all rows); "
                "structure=ToOutputs(), fewer bins, fewer rows or fewer iterations take less",
                TimeWarning,
            )

    def _examples(self, inputs: Integers, answers: Integers | None = None) -> Examples:
        """Rows with their answers, if these are known."""
        system = self.system_
        assert system.roles is not None
        values = np.full((len(inputs), system.graph.variables), FREE, dtype=np.int64)
        values[:, : inputs.shape[1]] = inputs
        if answers is not None:
            values[:, self._outputs] = answers
        return Examples.of(system.graph, values, system.roles)

    def _state_weights(self, codes: Integers) -> Floats:
        """Class weights for each state of the graph; 1 for what is no output."""
        graph = self.system_.graph
        found = np.ones(graph.layout.states)
        each = weights_of_each(self.class_weight, self._answers.classes, codes)
        for place, own in zip(self._outputs.tolist(), each, strict=True):
            first = int(graph.layout.state_start[place])
            found[first : first + len(own)] = own
        return found

    @property
    def _output_names(self) -> Sequence[str]:
        return self._answers.names

    @property
    def _outputs(self) -> Integers:
        """The variables that are predicted."""
        assert self.system_.roles is not None
        return np.flatnonzero(self.system_.roles == Role.OUTPUT)

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """The labels of each row, ``[rows]`` or ``[rows, outputs]`` as they were in training."""
        rows = self._by_rows(X) if isinstance(self._decoder, Max | Identity | SoftArgmax) else None
        if rows is not None:
            chosen = [rows[place].argmax(axis=1) for place in self._outputs.tolist()]
            return self._answers.decode(np.stack(chosen, axis=1))
        examples = self._asked(X)
        values = self.system_.predict(examples).numpy()
        return self._answers.decode(values[:, self._outputs])

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, ``[rows, classes]``; a list of these, one an output, if ``y`` had columns."""
        rows = self._by_rows(X)
        if rows is not None:
            shares = [rows[place] for place in self._outputs.tolist()]
            return shares[0] if self._answers.flat else shares
        examples = self._asked(X)
        beliefs = self.system_.predict_marginals(examples).numpy()
        found = [
            beliefs[:, place, : len(known)]
            for place, known in zip(self._outputs.tolist(), self._answers.classes, strict=True)
        ]
        return found[0] if self._answers.flat else found

    def predict_marginals(self, X: Any) -> dict[str, Floats]:
        """What is believed of every variable, by name: outputs, inputs that are missing, hidden ones.

        ``[rows, values]`` each, values in the order of ``system_.vocabulary``; what is known is certain.
        """
        rows, vocabulary = self._by_rows(X), self.system_.vocabulary if hasattr(self, "system_") else None
        if rows is not None and vocabulary is not None:
            return dict(zip(vocabulary.names, rows, strict=True))
        examples = self._asked(X)
        beliefs = self.system_.predict_marginals(examples).numpy()
        assert vocabulary is not None
        sizes = vocabulary.cardinalities
        return {name: beliefs[:, place, : sizes[place]] for place, name in enumerate(vocabulary.names)}

    def score(self, X: Any, y: Any) -> float:
        """The share of known labels that are predicted rightly; NaN if none is known."""
        return share_right(self.predict(X), y)

    @property
    def _decoder(self) -> BeliefDecoder | None:
        return self.system_.decoder if hasattr(self, "system_") else None

    def _note_rows(self) -> None:
        """Keeps what answers rows one by one, where inference is a fixed number of plain BP sweeps."""
        self._row_answers = RowAnswers.of(self.system_), self._versions

    @property
    def _versions(self) -> list[int]:
        """What tells whether weights were changed from outside."""
        return [weights._version for weights in self.system_.parameters()]

    def _by_rows(self, X: Any) -> list[Floats] | None:
        """Beliefs of each variable, whatever is missing in each row; None where the system must be asked."""
        if not hasattr(self, "system_") or self._row_answers[0] is None or self._row_answers[1] != self._versions:
            return None
        table = as_table(X)
        self._check_features(X, table.shape[1])
        values = np.full((len(table), self.system_.graph.variables), FREE, dtype=np.int64)
        values[:, : table.shape[1]] = self._columns.codes(table)
        return self._row_answers[0].beliefs(values)

    def _asked(self, X: Any) -> Examples:
        if not hasattr(self, "system_"):
            raise not_fitted("this MRFClassifier is not fitted yet: call fit(X, y) first")
        table = as_table(X)
        self._check_features(X, table.shape[1])
        return self._examples(self._columns.codes(table))

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "system_")

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Beside what a :class:`~loopwise.System` keeps: ``loopwise predict`` and ``evaluate`` take the file as one."""
        tensors, description = describe_system(self.system_)
        answers = self._answers
        own = {
            "columns": [described_column(column) for column in self._columns.columns],
            "named": hasattr(self, "feature_names_in_"),
            "classes": [{"type": known.dtype.str, "labels": known.tolist()} for known in answers.classes],
            "flat": answers.flat,
            "outputs": list(answers.names),
            "trained": written(self),
        }
        return {**description, **own}, tensors

    @classmethod
    def _rebuilt(cls, told: Record) -> MRFClassifier:
        columns = told.items("columns", lambda record, name: column_of_file(record.record(name)))
        classes = told.items("classes", lambda record, name: record.record(name).classes("labels", "type"))
        outputs, flat, named = told.texts("outputs"), told.flag("flat"), told.flag("named")
        if len(outputs) != len(classes) or not classes:
            raise FieldError("outputs", f"lists {len(outputs)} outputs, but there are classes of {len(classes)}")
        if flat and len(classes) > 1:
            raise FieldError("flat", f"says that there is one output, but there are {len(classes)}")
        system = build_system(told)
        if system.vocabulary is None or system.roles is None:
            raise FieldError("vocabulary" if system.vocabulary is None else "roles", "is not there")
        names, sizes = system.vocabulary.names, system.vocabulary.cardinalities
        model = cls(inference=system.inference, decoder=system.decoder)
        model.system_ = system
        model._columns = TableColumns(names[: len(columns)], columns)
        model._answers = Answers(outputs, classes, flat)
        wanted = [len(labels) for labels in model._columns.labels] + [len(known) for known in classes]
        if wanted != list(sizes[: len(wanted)]) or len(model._outputs) != len(classes):
            raise ValueError(f"columns and classes have {wanted} values, the variables of the system {list(sizes)}")
        model.classes_ = classes[0] if model._answers.flat else list(classes)
        model.n_features_in_ = len(columns)
        if named:
            model.feature_names_in_ = np.array(model._columns.names, dtype=object)
        model._note_rows()
        return model

    def __sklearn_tags__(self) -> Any:
        return classifier_tags(string=True)


def _hidden_sizes(given: Any) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in given)
    if any(size < 2 for size in sizes):
        raise ValueError(f"hidden lists numbers of values, at least 2 each, not {sizes}")
    return sizes
