r"""Tables as users have them: any column from any others, whatever is missing.

In: columns of texts, numbers, dates and truth values, some cells empty. Out: :class:`Table`. Stage: use.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.estimator import classifier_tags, column_names, not_fitted
from loopwise.apps.saved import SavedEstimator, written
from loopwise.apps.table.completion import drawn, most_probable
from loopwise.apps.table.explanation import Explanation, Influence, by_clamping, by_gradient
from loopwise.apps.table.features import Answers, TableColumns, distinct, share_right
from loopwise.apps.table.missingness import Missingness, missingness_of
from loopwise.apps.table.model import Structure
from loopwise.apps.table.reading import (
    NamedCells,
    cells_for,
    cells_like,
    check_columns,
    read_answers,
    read_columns,
    read_saved_columns,
    representatives,
    saved_answers,
    saved_columns,
    table_of,
)
from loopwise.apps.table.selection import Fitted, PriorTrial, select
from loopwise.apps.table.start import Scope
from loopwise.apps.table.training import Task
from loopwise.decode.pointwise import Max
from loopwise.formats.coding import LABELS, as_text, is_missing
from loopwise.formats.frames import is_frame, make_frame
from loopwise.formats.quoting import listed, quoted
from loopwise.formats.table import Vocabulary
from loopwise.formats.vocabulary import known_names
from loopwise.graph.evidence import FREE, Role
from loopwise.graph.factor_graph import Integers
from loopwise.inference.evidence_rows import RowAnswers
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import FieldError, Record
from loopwise.learn.files.saving import build_system, describe_system
from loopwise.learn.history import History
from loopwise.learn.progress import progress_bar
from loopwise.learn.system import System
from loopwise.notices import DataWarning, callers_level
from loopwise.potentials.tables import TablePotentials

Floats = NDArray[np.float64]
TRIED = 500  # rows drawn to see which columns a rule of missing cells ever takes away


class Table(SavedEstimator):
    r"""A Markov random field over the columns of a table, trained for the cells that will be missing.

    Training begins with a Bayesian network in closed form (naive Bayes, TAN, or a tree, as the data bear), and then
    minimises the log-loss of what is asked, through a few sweeps of BP, while cells go missing anew in every epoch.
    How much the start is believed (L2), the weight of the joint likelihood and further factors of two or three columns
    (grafting) are chosen by cross-validation. The interface is scikit-learn's; NaN, None and empty text are empty
    cells, in training and in use.

    Parameters
    ----------
    outputs:
        Names (or numbers) of the columns of ``X`` to predict, where :meth:`fit` gets no ``y``. None: any column is
        asked for, from any others.
    missing:
        Which input cells will be missing in use: None (any share of a row), a rate such as 0.3, a rate for each input
        column, or a rule (:class:`~loopwise.apps.table.missingness.Patterns` of another table's rows).
    structure:
        None: chosen by cross-validation. Or one of :mod:`loopwise.apps.table` (``Complete()``, ``Chain()``,
        ``Tree()``, ``Edges(...)``), whose pairs then are all factors of two columns that there are.
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
    ``trials_`` (what was tried, with its development loss), ``steps_`` (of grafting), ``history_``.

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

    def fit(self, X: Any, y: Any = None, *, progress: bool = True) -> Table:
        """Trains on the rows of ``X`` ``[rows, columns]``, and of ``y`` ``[rows]`` or ``[rows, outputs]`` if given.

        Returns
        -------
        Table
            Itself.
        """
        table = table_of(X)
        names = column_names(X) or tuple(f"x{place}" for place in range(table.shape[1]))
        check_columns(names, table, allow_empty=y is not None)
        if y is None:
            self._outputs_of = self._named_outputs(names)
            inside = [place for place, _ in enumerate(names) if place in self._outputs_of]
            answers, codes = Answers.of(table[:, inside]) if inside else (None, None)
            if answers is not None:
                answers = Answers(tuple(names[place] for place in inside), answers.classes, len(inside) == 1)
        else:
            if self.outputs is not None:
                raise ValueError("outputs names columns of X, but y was given as well; give one of them")
            self._outputs_of = ()
            answers, codes = Answers.of(y)
            if len(codes) != len(table):
                raise ValueError(
                    f"Found input variables with inconsistent numbers of samples: {len(table)} rows of X, "
                    f"{len(codes)} of y; give as many"
                )
        self._begin(X, table, names, answers)
        values = self._rows(table) if codes is None else np.concatenate([self._rows(table), codes], axis=1)
        self._learn(values, progress)
        return self

    def _named_outputs(self, names: Sequence[str]) -> tuple[int, ...]:
        if self.outputs is None:
            return ()
        given = [self.outputs] if isinstance(self.outputs, str | int) else list(self.outputs)
        for name in given:
            if isinstance(name, str) and name not in names:
                raise ValueError(f"no column is called {quoted(name)}; {known_names('columns', names, name)}")
            if not isinstance(name, str) and not 0 <= int(name) < len(names):
                raise ValueError(f"there is no column {name}; columns are numbered from 0 to {len(names) - 1}")
        found = tuple(names.index(name) if isinstance(name, str) else int(name) for name in given)
        if len(found) == len(names):
            raise ValueError("all columns are outputs; leave outputs out to predict any column from the others")
        return found

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
                warnings.warn(
                    f"output {quoted(name)} has one value, {quoted(as_text(known[0]))}, in every row, so that it is "
                    "always predicted; give rows of another class too",
                    DataWarning,
                    stacklevel=callers_level(),
                )

    def _learn(self, values: Integers, progress: bool) -> None:
        vocabulary = self._vocabulary()
        count = len(self._columns.names)
        outputs = tuple(range(count, len(vocabulary.names)))
        rule = missingness_of(self.missing)
        known = values[:, list(outputs)] if outputs else values
        rows = values[(known != FREE).any(axis=1)]
        if len(rows) < 2:
            raise ValueError(
                f"only {len(rows)} rows have something to learn from; n_samples=1 is too few, give at least 2"
            )
        task = Task(vocabulary.cardinalities, outputs, rule, self.sweeps, self.threads)
        self._tell_missed(values[:, :count], rule)
        with progress_bar(progress, 1) as tell:
            found = select(
                task,
                rows,
                seed=self.seed,
                price=self.price,
                given=self._given_structure(task, rows),
                say=lambda text: tell(0.0, text),
            )
        self._keep(found, vocabulary, outputs)
        said = f"{len(values)} rows, {count} columns" + (f", {len(outputs)} asked for" if outputs else "")
        loss = min((trial.loss for trial in self.trials_), default=None)
        figures = {} if loss is None else {"cross-validated loss": loss}
        self.card_ = training_card(said, "log-loss of what is asked", self.history_, figures=figures)

    @property
    def _budget(self) -> str:
        return written(self.system_.inference)

    def _given_structure(self, task: Task, rows: Integers) -> list[Scope] | None:
        """The pairs of a structure that was given."""
        if self.structure is None:
            return None
        roles = np.where(np.isin(np.arange(len(task.sizes)), task.outputs), Role.OUTPUT, Role.INPUT).astype(np.int64)
        return [(int(one), int(other)) for one, other in self.structure.pairs(rows, task.sizes, roles)]

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
        self.history_ = found.history
        self._model = _answering(self.system_)

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, column: str | None = None) -> NDArray[Any]:
        """The most probable label of each row.

        Parameters
        ----------
        X:
            Rows as in training; a column that is predicted is not looked at.
        column:
            The column to predict, by name; None: the outputs of training.

        Returns
        -------
        ndarray
            ``[rows]``, or ``[rows, outputs]`` as in training. Of a column of numbers that was cut into intervals the
            middle number of the most probable interval.
        """
        answers = self._answers_or_error()
        if column is not None or answers is None:
            place, asked = self._asked_column(X, column)
            return self._cells(place, asked.argmax(axis=1))
        beliefs = self._beliefs(X)[len(self._columns.names) :]
        return answers.decode(np.stack([each.argmax(axis=1) for each in beliefs], axis=1))

    def predict_proba(self, X: Any, column: str | None = None) -> Any:
        """The probability of each class, ``[rows, classes]``; a list of these, one an output, if there are several.

        ``column``: any column, by name; its values are in the order of ``system_.vocabulary``.
        """
        if column is not None or self._answers_or_error() is None:
            return self._asked_column(X, column)[1]
        found = self._beliefs(X)[len(self._columns.names) :]
        assert self._answers is not None
        return found[0] if self._answers.flat else found

    def score(self, X: Any, y: Any) -> float:
        """The share of known labels that are predicted rightly; NaN if none is known."""
        return share_right(self.predict(X), y)

    def impute(self, X: Any, *, probabilities: bool = False, samples: int | None = None, seed: int = 0) -> Any:
        """Fills the empty cells. A model trained without outputs, for any column, does this best.

        Parameters
        ----------
        X:
            Rows as in training, a data frame or an array.
        probabilities:
            Also how sure each cell is, ``[rows, columns]``; 1 where it was not empty.
        samples:
            So many joint draws instead of the most probable values, for multiple imputation; a list.
        seed:
            For draws.

        Returns
        -------
        Like ``X`` (a data frame of the same library, or an array of objects), a pair with probabilities, or a list.
        A number that was missing becomes the middle training number of its interval.
        """
        table, values = self._known(X)
        if samples is not None:
            if samples < 1:
                raise ValueError(f"samples must be at least 1, not {samples}")
            generator = np.random.default_rng(seed)
            return [self._filled(X, table, values, drawn(self._model, values, generator)) for _ in range(samples)]
        filled, sure = most_probable(self._model, values)
        found = self._filled(X, table, values, filled)
        if not probabilities:
            return found
        places = [self._variable_of(place) for place in range(table.shape[1])]
        return found, sure[:, places]

    def sample(self, count: int = 1, *, seed: int = 0) -> NDArray[Any]:
        """Rows drawn from the model, ``[count, columns]`` as in ``X``, then the outputs of ``y`` if there were any.

        Columns are drawn one after another, each given those before, by BP.
        """
        self._answers_or_error()
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        empty = np.full((count, self.system_.graph.variables), FREE)
        values = drawn(self._model, empty, np.random.default_rng(seed))
        width = self.n_features_in_
        order = [self._variable_of(place) for place in range(width)]
        rest = [place for place in range(values.shape[1]) if place not in order]
        return np.stack([self._cells(place, values[:, place]).astype(object) for place in [*order, *rest]], axis=1)

    def explain(self, row: Any, column: str | None = None, *, answer: Any = None) -> Explanation:
        """Which cells of a row moved the belief about a column, and by how much.

        Parameters
        ----------
        row:
            One row, as in training.
        column:
            By name; None: the first output.
        answer:
            The label asked about; None: the most probable one.

        Returns
        -------
        Explanation
            Cells with their influence in nats, by clamping and by gradient, strongest first.
        """
        self._answers_or_error()
        given = row if is_frame(row) else np.asarray([row], dtype=object) if np.ndim(row) == 1 else row
        _, values = self._known(given)
        names = self._vocabulary_.names
        if column is None and self._answers is None:
            raise ValueError(f"any column can be asked for; name one of {listed(names)}")
        place = len(self._columns.names) if column is None else self._vocabulary_.variable(column)
        labels = self._vocabulary_.labels[place]
        own = values[0].copy()
        own[place] = FREE
        beliefs = self._model.beliefs(own[None])[place][0]
        chosen = int(beliefs.argmax()) if answer is None else self._vocabulary_.value(place, answer)
        before = self._model.beliefs(np.full((1, len(own)), FREE))[place][0, chosen]
        clamping, gradient = (way(self._model, own, place, chosen) for way in (by_clamping, by_gradient))
        cells = [
            Influence(names[other], self._vocabulary_.labels[other][own[other]], clamping[other], gradient[other])
            for other in sorted(np.flatnonzero(own != FREE).tolist(), key=lambda one: -abs(clamping[one]))
        ]
        return Explanation(names[place], labels[chosen], float(beliefs[chosen]), float(before), tuple(cells))

    @property
    def columns_(self) -> tuple[str, ...]:
        """The names of the columns of ``X``, in order."""
        self._answers_or_error()
        names = self._vocabulary_.names
        return tuple(names[self._variable_of(place)] for place in range(self.n_features_in_))

    @property
    def outputs_(self) -> tuple[str, ...]:
        """The names of the columns that are predicted; none where any may be."""
        self._answers_or_error()
        return self._vocabulary_.names[len(self._columns.names) :]

    def read_cells(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> NamedCells:
        """The rows of a file, texts in named columns, as this model takes them; columns it does not know are left out.

        Columns that are not in the file are empty.
        """
        inside = [name for name in self.columns_ if name not in self._columns.names]
        found = cells_for(self._columns, header, rows, inside)
        cells = np.empty((len(rows), self.n_features_in_), dtype=object)
        for place, name in enumerate(self.columns_):
            cells[:, place] = found[name]
        return NamedCells(self.columns_, cells)

    @property
    def kinds_(self) -> dict[str, str]:
        """What each column was read as, by name."""
        self._answers_or_error()
        found = {
            name: f"{column.kind}, {len(column.labels)} {'intervals' if column.cut else 'values'}"
            for name, column in zip(self._columns.names, self._columns.columns, strict=True)
        }
        extra = () if self._answers is None else zip(self._answers.names, self._answers.classes, strict=True)
        return {**found, **{name: f"output, {len(known)} values" for name, known in extra}}

    @property
    def _vocabulary_(self) -> Vocabulary:
        assert self.system_.vocabulary is not None
        return self.system_.vocabulary

    def _answers_or_error(self) -> Answers | None:
        if not hasattr(self, "system_"):
            raise not_fitted("this Table is not fitted yet: call fit(X) or fit(X, y) first")
        return self._answers

    def _rows(self, table: NDArray[Any]) -> Integers:
        """Input columns of a table as integers."""
        return self._columns.codes(table[:, list(self._inputs_of)] if self._outputs_of else table)

    def _known(self, X: Any, *, warn: bool = False) -> tuple[NDArray[Any], Integers]:
        """The table, and the values of all variables as far as it holds them."""
        self._answers_or_error()
        table = table_of(X)
        self._check_features(X, table.shape[1])
        values = np.full((len(table), self.system_.graph.variables), FREE, dtype=np.int64)
        values[:, : len(self._columns.names)] = self._rows(table)
        self._warn_of_unseen(table, values)
        if warn and (self._outputs_of or self._answers is not None):
            self._warn_of_missing(values[:, : len(self._columns.names)])
        if self._outputs_of and not warn:
            assert self._answers is not None
            values[:, len(self._columns.names) :] = self._answers.encode(table[:, list(self._outputs_of)])
        return table, values

    def _warn_of_unseen(self, table: NDArray[Any], values: Integers) -> None:
        """Labels that training did not see."""
        if table.dtype != object:
            return
        count = len(self._columns.names)
        unseen = [
            (row, place)
            for row, place in np.argwhere(values[:, :count] == FREE).tolist()
            if not is_missing(table[row, self._inputs_of[place]])
        ]
        if unseen:
            row, place = unseen[0]
            cell = quoted(as_text(table[row, self._inputs_of[place]]))
            warnings.warn(
                f"{len(unseen)} cells hold labels that training did not see, the first in row {row} ({cell} in column "
                f"{quoted(self._columns.names[place])}); they count as missing",
                DataWarning,
                stacklevel=callers_level(),
            )

    def _warn_of_missing(self, inputs: Integers) -> None:
        new = np.flatnonzero((inputs == FREE).any(axis=0) & ~self._missed)
        if len(new):
            names = [self._columns.names[place] for place in new.tolist()]
            warnings.warn(
                f"rows miss {listed(names)}, which training never missed, so that answers may be poor; train with "
                "missing=None, or a rate for these columns",
                DataWarning,
                stacklevel=callers_level(),
            )

    def _beliefs(self, X: Any) -> list[Floats]:
        return self._model.beliefs(self._known(X, warn=True)[1])

    def _asked_column(self, X: Any, column: str | None) -> tuple[int, Floats]:
        if column is None:
            raise ValueError(f"any column can be asked for: name it, column=..., one of {listed(self._columns.names)}")
        values = self._known(X)[1]
        place = self._vocabulary_.variable(column)
        values[:, place] = FREE
        return place, self._model.beliefs(values)[place]

    def _variable_of(self, place: int) -> int:
        """The variable of a column of ``X``."""
        if place in self._outputs_of:
            return len(self._columns.names) + sorted(self._outputs_of).index(place)
        return self._inputs_of.index(place)

    def _cells(self, place: int, codes: Integers) -> NDArray[Any]:
        """Values of a variable as cells of a table."""
        count = len(self._columns.names)
        if place >= count:
            assert self._answers is not None
            return self._answers.classes[place - count][codes]
        return cells_like(self._columns.columns[place], self._centres[place])[codes]

    def _filled(self, X: Any, table: NDArray[Any], values: Integers, codes: Integers) -> Any:
        columns = []
        for place in range(table.shape[1]):
            variable = self._variable_of(place)
            cells = table[:, place].astype(object)
            empty = values[:, variable] == FREE
            cells[empty] = self._cells(variable, codes[empty, variable])
            columns.append(cells)
        if is_frame(X):
            names = column_names(X) or tuple(map(str, X.columns))
            return make_frame({name: cells.tolist() for name, cells in zip(names, columns, strict=True)}, like=X)
        return np.stack(columns, axis=1)

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
        model._outputs_of = told.items("outputs_of", Record.whole)
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
        if model._answers is not None:
            model.classes_ = model._answers.classes[0] if model._answers.flat else list(model._answers.classes)
        model.n_features_in_ = width
        if told.flag("named"):
            model.feature_names_in_ = np.array(model.columns_, dtype=object)
        return model

    def __sklearn_tags__(self) -> Any:
        return classifier_tags(required=False, string=True)


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
