r"""Tables as users have them: any column from any others, whatever is missing.

In: columns of texts, numbers, dates and truth values, some cells empty. Out: :class:`Table`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from loopwise.apps.estimator import SampleWeights, classifier_tags, column_names, taken
from loopwise.apps.incremental import Incremental
from loopwise.apps.saved import written
from loopwise.apps.table.answering import AnsweringTable
from loopwise.apps.table.features import Answers, TableColumns, distinct
from loopwise.apps.table.missingness import Missingness, missingness_of
from loopwise.apps.table.model import Structure
from loopwise.apps.table.reading import (
    check_columns,
    read_answers,
    read_columns,
    read_saved_columns,
    representatives,
    saved_answers,
    saved_columns,
    table_of,
)
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.selection import Fitted, PriorTrial, select
from loopwise.apps.table.start import Scope
from loopwise.apps.table.training import PATH, Task
from loopwise.arguments import checked_whole
from loopwise.decode.pointwise import Max
from loopwise.formats.coding import LABELS, Numbers, as_text, is_integer, is_number
from loopwise.formats.errors import quoted
from loopwise.formats.table import Vocabulary
from loopwise.formats.vocabulary import first_repeat, known_names
from loopwise.graph.evidence import FREE, Role
from loopwise.graph.factor_graph import Integers
from loopwise.inference.evidence_rows import EvidenceRows, RowAnswers
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import FieldError, Record
from loopwise.learn.files.saving import build_system, describe_system
from loopwise.learn.history import History
from loopwise.learn.optim.stream import StreamAdaGrad, parts
from loopwise.learn.progress import progress_bar
from loopwise.learn.system import System
from loopwise.notices import DataWarning, warn
from loopwise.potentials.tables import TablePotentials

Floats = NDArray[np.float64]
TRIED = 500  # rows drawn to see which columns a rule of missing cells ever takes away


class Table(Incremental, AnsweringTable):
    r"""A Markov random field over the columns of a table, trained for the cells that will be missing.

    Training begins with a Bayesian network in closed form (naive Bayes, TAN, or a tree, as the data bear), and then
    minimises the log-loss of what is asked, through a few sweeps of BP, while cells go missing anew in every epoch.
    How much the start is believed (L2), the weight of the joint likelihood and further factors of two or three columns
    (grafting) are chosen by cross-validation. The interface is scikit-learn's; NaN, None and empty text are empty
    cells, in training and in use.

    Parameters
    ----------
    outputs:
        Names (or numbers) of the columns of ``X`` to predict, where :meth:`fit` gets no ``y``; answers come in the
        order of these columns, ``outputs_``. None: any column is asked for, from any others.
    missing:
        Which input cells will be missing in use: None (any share of a row), a rate such as 0.3, a rate for each input
        column (a list of all, or a dict of some by name, the others never missing), or a rule:
        :meth:`Patterns.like(other) <loopwise.apps.table.Patterns.like>`, what rows of another table miss, of which
        ``other`` has the input columns.
    structure:
        None: chosen by cross-validation. Or one of :mod:`loopwise.apps.table` (``Complete()``, ``ColumnChain()``,
        ``ColumnTree()``, ``ColumnPairs(...)``), whose pairs then are all factors of two columns that there are.
    bins:
        Columns of more different numbers or dates are cut into so many intervals of about equally many rows.
    sweeps:
        Of BP, in training and in use.
    price:
        What a factor has to save, in nats a row, for each cell of its table and variable.
    threads:
        For large tables.
    seed:
        For folds and missing cells.

    After fitting: ``system_``, ``classes_`` (with ``y``), ``kinds_`` (what each column was read as), ``l2_``,
    ``trials_`` (what was tried, with its development loss), ``steps_`` (of grafting, from
    ``ungrafted_loss_`` on), ``history_``.

    Example
    -------
    >>> import numpy as np
    >>> x = [["sun", 20.0], ["rain", np.nan], ["sun", 25.0], ["rain", 9.0], [None, 22.0], ["rain", 11.0]] * 4
    >>> y = ["walk", "read", "walk", "read", "walk", "read"] * 4
    >>> model = Table().fit(x, y)
    >>> model.predict([["sun", np.nan], [None, 10.0]]).tolist()
    ['walk', 'read']
    >>> model.impute([["sun", np.nan], [None, 10.0]])[1, 0]
    'rain'
    """

    system_: System
    classes_: Any
    history_: History
    ungrafted_loss_: float
    _stream: tuple[StreamAdaGrad, Floats, np.random.Generator] | None = None  # of partial_fit

    def __init__(
        self,
        outputs: Any = None,
        missing: Any = None,
        structure: Structure | None = None,
        bins: int = 6,
        sweeps: int = 4,
        price: float = 1e-6,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        self.outputs, self.missing, self.structure, self.bins = outputs, missing, structure, bins
        self.sweeps, self.price, self.threads, self.seed = sweeps, price, threads, seed

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, progress: bool = True) -> Table:
        """Trains on the rows of ``X`` ``[rows, columns]``, and of ``y`` ``[rows]`` or ``[rows, outputs]`` if given.

        Parameters
        ----------
        X, y:
            Rows in any order, which does not change what is learnt.
        sample_weight:
            What each row counts, as if it were there so many times; of whole numbers just that.
        progress:
            Whether a bar shows what is tried.

        Returns
        -------
        Table
            Itself.
        """
        self._stream = None
        counts = SampleWeights.of(sample_weight, len(table_of(X)))
        if counts is None:
            return self._fit(X, y, None, None, progress)
        rows = counts.repeated("Table") if counts.whole else counts.rows
        return self._fit(taken(X, rows), taken(y, rows), None if counts.whole else counts.counts, None, progress)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Table:
        """Goes on with a batch of rows: the first is fitted, later ones are steps of AdaGrad for the same loss.

        Columns, their intervals, structure and prior are those that the first batch led to; labels are those of
        ``classes`` (an array, or a list of arrays for several outputs), else those of the first batch. The prior of
        later batches is around the weights that the first led to, with the strength that cross-validation chose.
        """
        if not self._is_fitted:
            self._fit(X, y, None, classes, False)
            self._stream, count = None, len(table_of(X))
        else:
            count = self._go_on(X, y)
        self._note_batch(count, "rows", "log-loss of what is asked")
        return self

    def _fit(self, X: Any, y: Any, counts: Floats | None, classes: Any, progress: bool) -> Table:
        self._check_options()
        table = table_of(X)
        names = column_names(X) or tuple(f"x{place}" for place in range(table.shape[1]))
        check_columns(names, table, allow_empty=y is not None)
        if y is None:
            self._outputs_of = self._named_outputs(names)
            inside = [place for place, _ in enumerate(names) if place in self._outputs_of]
            answers = Answers.of(table[:, inside])[0] if inside else None
            if answers is not None:
                answers = Answers(tuple(names[place] for place in inside), answers.classes, len(inside) == 1)
        else:
            if self.outputs is not None:
                raise ValueError("outputs names columns of X, but y was given as well; give one of them")
            self._outputs_of = ()
            answers = Answers.of(y)[0]
        if classes is not None and answers is not None:
            every = [classes] if answers.flat else list(classes)
            answers = replace(answers, classes=tuple(np.unique(np.asarray(known)) for known in every))
        self._begin(X, table, names, answers)
        values = self._coded(table, y)
        self._learn(CountedRows.of(values, counts).in_order(), progress)
        return self

    def _coded(self, table: NDArray[Any], y: Any) -> Integers:
        """Inputs and outputs of rows as integers."""
        inputs = self._rows(table)
        if self._answers is None:
            return inputs
        codes = self._answers.encode(table[:, list(self._outputs_of)] if y is None else y)
        if len(codes) != len(table):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {len(table)} rows of X, "
                f"{len(codes)} of y; give as many"
            )
        return np.concatenate([inputs, codes], axis=1)

    def _go_on(self, X: Any, y: Any) -> int:
        """Steps for a batch; how many rows it had."""
        table = table_of(X)
        self._check_features(X, table.shape[1])
        if (y is None) != (self._answers is None or bool(self._outputs_of)):
            raise ValueError("y must be given in every batch, or in none of them")
        values = self._learnable(CountedRows.of(self._coded(table, y))).values
        parameters = list(self.system_.parameters())
        weights = parameters_to_vector(parameters).detach().numpy().copy()
        if self._stream is None:
            strength = self.l2_ if np.isfinite(self.l2_) else PATH[0]
            self._stream = StreamAdaGrad(len(weights), strength), weights, np.random.default_rng(self.seed)
        stream, centre, generator = self._stream
        task = self._task()
        rows, share = EvidenceRows(self.system_.graph, self.sweeps, self.threads), task.shares(self.joint_)
        moved = weights - centre
        for part in parts(len(values)):
            own = values[part]
            shown = np.where(task.hidden(own, generator), FREE, own)
            batch = partial(_batch_loss, rows, centre, shown, own, share)
            _, moved = stream.step(batch, moved, len(own))
        vector_to_parameters(torch.from_numpy(centre + moved), parameters)
        self._model = _answering(self.system_)
        return len(table)

    def _named_outputs(self, names: Sequence[str]) -> tuple[int, ...]:
        """Where the outputs stand among the columns of ``X``, in the order of these."""
        if self.outputs is None:
            return ()
        alone = isinstance(self.outputs, str) or not isinstance(self.outputs, Iterable)
        found = [_place_of(name, names) for name in ([self.outputs] if alone else self.outputs)]
        twice = first_repeat(found)
        if twice is not None:
            raise ValueError(f"outputs lists column {quoted(names[twice])} twice; name it once")
        if len(found) == len(names):
            raise ValueError("all columns are outputs; leave outputs out to predict any column from the others")
        return tuple(sorted(found))

    def _check_options(self) -> None:
        """Refuses options that mean nothing, before anything is read."""
        for name, least in (("sweeps", 1), ("threads", 1), ("seed", 0)):
            checked_whole(name, getattr(self, name), least)
        if not is_number(self.price) or not 0 <= self.price < np.inf:
            raise ValueError(f"price must be a finite number, at least 0, not {self.price!r}")
        if self.structure is not None and not hasattr(self.structure, "pairs"):
            raise ValueError(
                "structure must be None or one of loopwise.apps.table, such as Tree() or Complete(), not "
                f"{self.structure!r}"
            )

    def _begin(self, X: Any, table: NDArray[Any], names: Sequence[str], answers: Answers | None) -> None:
        """Columns and classes of training data."""
        inputs = [place for place in range(len(names)) if place not in self._outputs_of]
        self._inputs_of = tuple(inputs)
        own = [names[place] for place in inputs]
        self._columns = read_columns(table[:, inputs], own, self.bins)
        self._centres = representatives(self._columns, table[:, inputs])
        self._answers = answers
        self._note_features(X, table.shape[1])
        if answers is None:
            self.__dict__.pop("classes_", None)
        else:
            self._check_answers(answers)
            self.classes_ = answers.classes[0] if answers.flat else list(answers.classes)

    def _check_answers(self, answers: Answers) -> None:
        """Refuses outputs of too many labels, warns of constant ones."""
        for name, known in zip(answers.names, answers.classes, strict=True):
            if len(known) > LABELS:
                raise ValueError(
                    f"output {quoted(name)} has {len(known)} different labels, more than {LABELS}; put labels "
                    "together, or make it an input"
                )
            if len(known) == 1:
                warn(
                    f"output {quoted(name)} has one value, {quoted(as_text(known[0]))}, in every row, so that it is "
                    "always predicted; give rows of another class too",
                    DataWarning,
                )

    def _learn(self, rows: CountedRows, progress: bool) -> None:
        task, vocabulary = self._task(), self._vocabulary()
        count = len(self._columns.names)
        learnable = self._learnable(rows)
        if len(learnable) < 2:
            raise ValueError(
                f"only {len(learnable)} rows have something to learn from; n_samples=1 is too few, give at least 2"
            )
        self._tell_missed(rows.values[:, :count], task.missing)
        with progress_bar(progress, 1) as tell:
            found = select(
                task,
                learnable,
                seed=self.seed,
                price=self.price,
                given=self._given_structure(task, learnable),
                say=lambda text: tell(0.0, text),
            )
        self._keep(found, vocabulary, task.outputs)
        said = f"{len(rows)} rows, {count} columns" + (f", {len(task.outputs)} asked for" if task.outputs else "")
        loss = min((trial.loss for trial in self.trials_), default=None)
        figures = {} if loss is None else {"cross-validated loss": loss}
        self.card_ = training_card(said, "log-loss of what is asked", self.history_, figures=figures)

    def _learnable(self, rows: CountedRows) -> CountedRows:
        """Those that know something that is asked."""
        outputs = range(len(self._columns.names), rows.values.shape[1])
        known = rows.values[:, list(outputs)] if outputs else rows.values
        return rows[(known != FREE).any(axis=1)]

    def _task(self) -> Task:
        sizes, count = self._vocabulary().cardinalities, len(self._columns.names)
        ordered = [isinstance(column, Numbers) for column in self._columns.columns] + [False] * (len(sizes) - count)
        outputs = tuple(range(count, len(sizes)))
        return Task(
            sizes, outputs, missingness_of(self.missing, self._columns.names), self.sweeps, self.threads, tuple(ordered)
        )

    @property
    def _budget(self) -> str:
        return written(self.system_.inference)

    def _given_structure(self, task: Task, rows: CountedRows) -> list[Scope] | None:
        """The pairs of a structure that was given."""
        if self.structure is None:
            return None
        roles = np.where(np.isin(np.arange(len(task.sizes)), task.outputs), Role.OUTPUT, Role.INPUT).astype(np.int64)
        return [(int(one), int(other)) for one, other in self.structure.pairs(rows.values, task.sizes, roles)]

    def _tell_missed(self, inputs: Integers, rule: Missingness) -> None:
        """Which input columns were ever missing in training."""
        drawn_away = rule.draw(TRIED, inputs.shape[1], np.random.default_rng(self.seed)).any(axis=0)
        self._missed = drawn_away | (inputs == FREE).any(axis=0)

    def _vocabulary(self) -> Vocabulary:
        names, labels = self._columns.names, self._columns.labels
        if self._answers is not None:
            own = tuple(tuple(map(as_text, known.tolist())) for known in self._answers.classes)
            names, labels = (*names, *distinct(self._answers.names, names)), (*labels, *own)
        return Vocabulary(names, labels)

    def _keep(self, found: Fitted, vocabulary: Vocabulary, outputs: Sequence[int]) -> None:
        graph, weights = found.net.rows.graph, found.weights
        tables, first = {}, 0
        for group in graph.groups:
            end = first + group.count * group.cells
            tables[group.name] = torch.from_numpy(weights[first:end].reshape(group.count, *group.shape).copy())
            first = end
        roles = np.where(np.isin(np.arange(graph.variables), outputs), Role.OUTPUT, Role.INPUT).astype(np.int64)
        self.system_ = System(
            TablePotentials(graph, tables),
            BP(iterations=self.sweeps, tolerance=0),
            Max(),
            vocabulary=vocabulary,
            roles=roles,
        )
        self.l2_, self.joint_, self.trials_, self.steps_ = found.l2, found.joint, found.trials, found.steps
        self.history_, self.ungrafted_loss_ = found.history, found.loss
        self._model = _answering(self.system_)

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "system_")

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors, description = describe_system(self.system_)
        own = {
            "columns": saved_columns(self._columns, self._centres),
            "kinds": self.kinds_,
            "named": hasattr(self, "feature_names_in_"),
            "answers": None if self._answers is None else saved_answers(self._answers),
            "outputs_of": list(self._outputs_of),
            "missed": self._missed.tolist(),
            "l2": None if np.isinf(self.l2_) else self.l2_,
            "joint": self.joint_,
            "trials": [[trial.what, str(trial.l2), trial.joint, trial.loss] for trial in self.trials_],
            "trained": written(self),
        }
        return {**description, **own}, tensors

    @classmethod
    def _rebuilt(cls, told: Record) -> Table:
        system = build_system(told)
        if system.vocabulary is None or system.roles is None:
            raise FieldError("vocabulary" if system.vocabulary is None else "roles", "is not there")
        model = cls(sweeps=int(getattr(system.inference, "iterations", 4)))
        model.system_ = system
        columns, model._centres = read_saved_columns(told)
        names, sizes = system.vocabulary.names, list(system.vocabulary.cardinalities)
        model._columns = TableColumns(names[: len(columns)], columns)
        model._answers = told.maybe("answers", lambda record, name: read_answers(record.record(name)))
        model._outputs_of = tuple(sorted(told.items("outputs_of", Record.whole)))
        own = [] if model._answers is None else [len(known) for known in model._answers.classes]
        wanted = [len(labels) for labels in model._columns.labels] + own
        if wanted != sizes:
            raise ValueError(f"columns and classes have {wanted} values, the variables of the system {sizes}")
        width = len(columns) + len(model._outputs_of)
        if model._outputs_of and (model._answers is None or len(model._outputs_of) != len(own)):
            raise FieldError("outputs_of", f"lists {len(model._outputs_of)} columns, but there are {len(own)} outputs")
        if any(place >= width for place in model._outputs_of):
            raise FieldError("outputs_of", f"names a column beyond the {width} that there are")
        model._inputs_of = tuple(place for place in range(width) if place not in model._outputs_of)
        model._missed = np.array(told.items("missed", Record.flag), dtype=np.bool_)
        if len(model._missed) != len(columns):
            raise FieldError("missed", f"has {len(model._missed)} entries for {len(columns)} columns")
        model._model = _answering(system)
        model.l2_ = told.maybe("l2", Record.number) or np.inf
        model.joint_ = told.number("joint")
        model.trials_, model.steps_, model.history_ = _read_trials(told), (), History()
        model.ungrafted_loss_ = float("nan")  # steps are not kept
        if model._answers is not None:
            model.classes_ = model._answers.classes[0] if model._answers.flat else list(model._answers.classes)
        model.n_features_in_ = width
        if told.flag("named"):
            model.feature_names_in_ = np.array(model.columns_, dtype=object)
        return model

    def __sklearn_tags__(self) -> Any:
        return classifier_tags(required=False, string=True)


def _place_of(name: Any, names: Sequence[str]) -> int:
    """The number of a column that is given by its name or number."""
    if isinstance(name, str):
        if name not in names:
            raise ValueError(f"no column is called {quoted(name)}; {known_names('columns', names, name)}")
        return names.index(name)
    if not is_integer(name):
        raise ValueError(f"outputs must be names or numbers of columns, not {name!r}")
    if not 0 <= name < len(names):
        raise ValueError(f"there is no column {name}; columns are numbered from 0 to {len(names) - 1}")
    return int(name)


def _batch_loss(
    rows: EvidenceRows, centre: Floats, shown: Integers, right: Integers, share: Floats, moved: Floats
) -> tuple[float, Floats]:
    """The loss of a batch as a function of how far weights have moved."""
    return rows.loss(centre + moved, shown, right, share)


def _answering(system: System) -> RowAnswers:
    found = RowAnswers.of(system)
    if found is None:
        raise ValueError("its inference is no plain BP, or its weights are too large")
    return found


def _read_trials(told: Record) -> tuple[PriorTrial, ...]:
    found = []
    for entry in told.raw("trials"):
        what, l2, joint, loss = entry
        found.append(PriorTrial(str(what), float(l2), float(joint), float(loss)))
    return tuple(found)
