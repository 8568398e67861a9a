"""A fitted model of a table in use: any column from any others, empty cells filled, reasons.

In: rows with empty cells. Out: :class:`AnsweringTable`, labels, probabilities, filled tables, explanations. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.estimator import column_names, not_fitted
from loopwise.apps.saved import SavedEstimator
from loopwise.apps.table.completion import drawn, most_probable
from loopwise.apps.table.explanation import AnswerExplanation, CellInfluence, by_clamping, by_gradient
from loopwise.apps.table.features import Answers, TableColumns, share_right
from loopwise.apps.table.missingness import warn_of_unmet
from loopwise.apps.table.reading import NamedCells, cells_for, cells_like, like_others, missing_cells, table_of
from loopwise.arguments import checked_whole
from loopwise.formats.coding import as_text
from loopwise.formats.errors import listed, quoted
from loopwise.formats.frames import is_frame, refilled
from loopwise.formats.table import Vocabulary
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.inference.evidence_rows import RowAnswers
from loopwise.learn.system import System
from loopwise.notices import DataWarning, warn

Floats = NDArray[np.float64]


class AnsweringTable(SavedEstimator):
    """What a fitted table answers; :class:`~loopwise.apps.Table` trains it."""

    system_: System
    _columns: TableColumns
    _answers: Answers | None
    _centres: list[list[Any]]  # the cell that stands for each value of each input column
    _outputs_of: tuple[int, ...]  # columns of X that are outputs
    _inputs_of: tuple[int, ...]  # the others
    _missed: NDArray[np.bool_]  # inputs that were ever missing in training
    _model: RowAnswers

    def predict(self, X: Any, column: str | None = None) -> NDArray[Any]:
        """The most probable label of each row.

        Parameters
        ----------
        X:
            Rows as in training; a column that is predicted is not looked at, and outputs that training found among the
            columns of ``X`` may be absent.
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
        """Fills the empty cells; all others stay. A model trained without outputs, for any column, does this best.

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
        A number or date that was missing becomes the middle training one of its interval. A label that training did
        not see counts as missing, but stays.
        """
        table, values = self._known(X)
        empty = missing_cells(table)
        if samples is not None:
            checked_whole("samples", samples)
            if probabilities:
                raise ValueError("probabilities are those of most probable values, not of samples; ask for one of them")
            generator = np.random.default_rng(seed)
            return [self._filled(X, table, empty, drawn(self._model, values, generator)) for _ in range(samples)]
        filled, sure = most_probable(self._model, values)
        found = self._filled(X, table, empty, filled)
        if not probabilities:
            return found
        places = [self._variable_of(place) for place in range(table.shape[1])]
        return found, np.where(empty, sure[:, places], 1.0)

    def sample(self, count: int = 1, *, seed: int = 0) -> NDArray[Any]:
        """Rows drawn from the model, ``[count, columns]`` as in ``X``, then the outputs of ``y`` if there were any.

        Columns are drawn one after another, each given those before, by BP.
        """
        self._answers_or_error()
        checked_whole("count", count)
        empty = np.full((count, self.system_.graph.variables), FREE)
        values = drawn(self._model, empty, np.random.default_rng(seed))
        width = self.n_features_in_
        order = [self._variable_of(place) for place in range(width)]
        rest = [place for place in range(values.shape[1]) if place not in order]
        return np.stack([self._cells(place, values[:, place]).astype(object) for place in [*order, *rest]], axis=1)

    def explain(self, row: Any, column: str | None = None, *, answer: Any = None) -> AnswerExplanation:
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
            CellInfluence(names[other], self._vocabulary_.labels[other][own[other]], clamping[other], gradient[other])
            for other in sorted(np.flatnonzero(own != FREE).tolist(), key=lambda one: -abs(clamping[one]))
        ]
        return AnswerExplanation(names[place], labels[chosen], float(beliefs[chosen]), float(before), tuple(cells))

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

    @property
    def _output_names(self) -> tuple[str, ...]:
        """What the columns of ``predict_frame`` are called."""
        return () if self._answers is None else self._answers.names

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
            name: f"{column.kind}, {_counted(len(column.labels), 'interval' if column.cut else 'value')}"
            for name, column in zip(self._columns.names, self._columns.columns, strict=True)
        }
        classes = () if self._answers is None else self._answers.classes
        return {
            **found,
            **{n: f"output, {_counted(len(c), 'value')}" for n, c in zip(self.outputs_, classes, strict=True)},
        }

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
        table = self._whole(X, absent=warn)
        values = np.full((len(table), self.system_.graph.variables), FREE, dtype=np.int64)
        values[:, : len(self._columns.names)] = self._rows(table)
        self._warn_of_unseen(table, values)
        if warn and (self._outputs_of or self._answers is not None):
            warn_of_unmet(self._columns.names, values[:, : len(self._columns.names)], self._missed)
        if self._outputs_of and not warn:
            assert self._answers is not None
            values[:, len(self._columns.names) :] = self._answers.encode(table[:, list(self._outputs_of)])
        return table, values

    def _whole(self, X: Any, *, absent: bool) -> NDArray[Any]:
        """The rows of ``X`` with all columns of training; those that are predicted may be ``absent``: empty then."""
        table, names, inputs = table_of(X), column_names(X), list(self._inputs_of)
        known = getattr(self, "feature_names_in_", None)
        same = names is None or known is None or list(names) == [known[place] for place in inputs]
        if not (absent and self._outputs_of and same and table.shape[1] == len(inputs)):
            self._check_features(X, table.shape[1])
            return table
        whole = np.full((len(table), self.n_features_in_), None, dtype=object)
        whole[:, inputs] = table
        return whole

    def _warn_of_unseen(self, table: NDArray[Any], values: Integers) -> None:
        """Labels that training did not see."""
        if table.dtype != object:
            return
        count = len(self._columns.names)
        unseen = np.argwhere((values[:, :count] == FREE) & ~missing_cells(table[:, list(self._inputs_of)]))
        if len(unseen):
            row, place = unseen[0].tolist()
            cell = quoted(as_text(table[row, self._inputs_of[place]]))
            warn(
                f"{len(unseen)} cells hold labels that training did not see, the first in row {row} ({cell} in column "
                f"{quoted(self._columns.names[place])}); they count as missing",
                DataWarning,
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

    def _filled(self, X: Any, table: NDArray[Any], empty: NDArray[np.bool_], codes: Integers) -> Any:
        """The table with its empty cells from ``codes`` ``[rows, variables]``, in the form in which it came."""
        columns = []
        for place in range(table.shape[1]):
            variable, lost = self._variable_of(place), empty[:, place]
            cells = table[:, place].astype(object)
            cells[lost] = like_others(self._cells(variable, codes[lost, variable]), cells[~lost])
            columns.append(cells)
        if is_frame(X):
            return refilled(X, columns, np.flatnonzero(empty.any(axis=0)).tolist())
        return np.stack(columns, axis=1)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
