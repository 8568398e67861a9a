"""The methods: ours and what users have today, each tuned alike.

In: training cells. Out: a function from test cells to the probabilities of classes.

Every method has a grid of settings, the best of which by log-loss is taken, on held-out training rows of which any
share of the input cells is taken away (three folds, of a large table one), then trained on all training rows. Ours does
the same inside. Numbers are standardised, labels one-hot, for logistic regression and forests; boosting and Bayes
classifiers have them as they like them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps import Table
from loopwise.apps.table import AnyRate
from loopwise.formats.coding import Numbers, Texts
from studies.tables.data import Cells

Floats = NDArray[np.float64]
Answer = Callable[[Cells], Floats]

OURS, NAIVE, TAN = "loopwise", "naive Bayes", "TAN"
LOGISTIC_ITERATIVE, LOGISTIC_KNN = "logistic, iterative imputation", "logistic, KNN imputation"
FOREST_ITERATIVE, FOREST_KNN = "forest, iterative imputation", "forest, KNN imputation"
BOOSTING, MAJORITY = "boosting", "most common class"
METHODS = (
    OURS, NAIVE, TAN, LOGISTIC_ITERATIVE, LOGISTIC_KNN, FOREST_ITERATIVE, FOREST_KNN, BOOSTING,
)  # fmt: skip
BINS = 6
TREES = 200
MANY = 1500  # rows from which on one split decides about settings
NEIGHBOURS, DONORS = 10, 1000  # of KNN imputation: neighbours, and rows among which they are looked for


@dataclass(frozen=True, eq=False)
class TableProblem:
    """Training rows with ``inputs`` and one output."""

    inputs: Cells
    answers: NDArray[Any]
    classes: NDArray[Any]
    numeric: tuple[bool, ...]
    seed: int
    kept: dict[Any, Any] = field(default_factory=dict)  # imputations, which settings share

    def part(self, rows: NDArray[np.int64]) -> TableProblem:
        return TableProblem(self.inputs[rows], self.answers[rows], self.classes, self.numeric, self.seed)

    @property
    def codes(self) -> NDArray[np.int64]:
        return np.searchsorted(self.classes, self.answers)


def trained(method: str, problem: TableProblem) -> Answer:
    """The method with its best setting."""
    if method == MAJORITY:
        shares = np.bincount(problem.codes, minlength=len(problem.classes)) / len(problem.codes)
        return lambda cells: np.tile(shares, (len(cells), 1))
    grid, train = GRIDS[method]
    if len(grid) == 1:
        return train(problem, grid[0])
    losses = np.zeros(len(grid))
    for fitting, judging in _splits(len(problem.answers), problem.seed):
        held = problem.part(judging)
        shown = held.inputs.copy()
        shown[AnyRate().draw(shown.shape[0], shown.shape[1], np.random.default_rng(problem.seed))] = None
        part = problem.part(fitting)
        for number, setting in enumerate(grid):
            losses[number] += log_loss(train(part, setting)(shown), held.codes)
    return train(problem, grid[int(losses.argmin())])


def log_loss(probabilities: Floats, codes: NDArray[np.int64]) -> float:
    """The mean log-loss, after a thousandth of the mass was shared among all classes."""
    return float(-np.log(_mixed(probabilities)[np.arange(len(codes)), codes]).mean())


def _mixed(probabilities: Floats) -> Floats:
    return np.asarray(0.999 * probabilities + 0.001 / probabilities.shape[1])


def _splits(rows: int, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    parts = np.array_split(np.random.default_rng(seed).permutation(rows), 3 if rows < MANY else 4)
    pairs = [(np.concatenate([*parts[:place], *parts[place + 1 :]]), parts[place]) for place in range(len(parts))]
    return pairs if rows < MANY else pairs[:1]


# --- Ours ------------------------------------------------------------------------------------------------------------


def ours(problem: TableProblem, setting: None) -> Answer:
    model = Table(bins=BINS, seed=problem.seed).fit(problem.inputs, problem.answers, progress=False)
    return lambda cells: _spread(model.predict_proba(cells), np.asarray(model.classes_), problem.classes)


def ours_together(cells: Cells, outputs: int, seed: int) -> Callable[[Cells], list[tuple[NDArray[Any], Floats]]]:
    """One model of several outputs: classes and probabilities of each."""
    model = Table(bins=BINS, seed=seed).fit(cells[:, :-outputs], cells[:, -outputs:], progress=False)

    def answer(rows: Cells) -> list[tuple[NDArray[Any], Floats]]:
        found = model.predict_proba(rows[:, :-outputs])
        return list(zip(model.classes_, found, strict=True))

    return answer


def _spread(probabilities: Floats, known: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """Probabilities of all classes, of some of which training rows knew nothing."""
    found = np.zeros((len(probabilities), len(classes)))
    found[:, np.searchsorted(classes, known)] = probabilities
    return found


# --- Bayes classifiers, written for this study ------------------------------------------------------------------------


def _encoder(problem: TableProblem) -> Callable[[Cells], tuple[NDArray[np.int64], list[int]]]:
    columns: list[Numbers | Texts] = []
    for place, numeric in enumerate(problem.numeric):
        cells = problem.inputs[:, place].tolist()
        columns.append(Numbers.of(_as_numbers(cells), BINS) if numeric else Texts.of(cells))

    def encode(cells: Cells) -> tuple[NDArray[np.int64], list[int]]:
        codes = []
        for place, column in enumerate(columns):
            own = cells[:, place].tolist()
            codes.append(column.codes(_as_numbers(own)) if isinstance(column, Numbers) else column.codes(own))
        return np.stack(codes, axis=1), [len(column.labels) for column in columns]

    return encode


def _as_numbers(cells: Sequence[Any]) -> Floats:
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


def bayes(problem: TableProblem, setting: tuple[bool, float]) -> Answer:
    """Naive Bayes or TAN (the tree of largest conditional mutual information), add-alpha smoothing, exact inference:
    missing cells are summed out."""
    joined, alpha = setting
    encode = _encoder(problem)
    (values, sizes), labels, count = encode(problem.inputs), problem.codes, len(problem.classes)
    prior = np.log(np.bincount(labels, minlength=count) + alpha)
    parents = _tree(values, sizes, labels, count) if joined else [(place, -1) for place in range(len(sizes))]
    tables = [_counts(values, sizes, labels, count, place, parent) + alpha for place, parent in parents]
    tables = [table / table.sum(axis=0) for table in tables]  # [values, parent's values or 1, classes]

    def answer(cells: Cells) -> Floats:
        rows = encode(cells)[0]
        weight = [np.where(rows[:, p, None] < 0, 1.0, rows[:, p, None] == np.arange(s)) for p, s in enumerate(sizes)]
        inward = [each[:, :, None] * np.ones(count) for each in weight]
        scores = np.tile(prior, (len(rows), 1))
        for (place, parent), table in zip(reversed(parents), reversed(tables), strict=True):
            message = np.einsum("nvc,vpc->npc", inward[place], table)
            if parent < 0:
                scores = scores + np.log(message[:, 0])
            else:
                top = message.max(axis=(1, 2), keepdims=True)
                inward[parent] = inward[parent] * (message / top)
                scores = scores + np.log(top[:, 0])
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    return answer


def _counts(
    values: NDArray[np.int64], sizes: Sequence[int], labels: NDArray[np.int64], count: int, place: int, parent: int
) -> Floats:
    found = np.zeros((sizes[place], sizes[parent] if parent >= 0 else 1, count))
    above = values[:, parent] if parent >= 0 else np.zeros(len(values), dtype=np.int64)
    known = (values[:, place] >= 0) & (above >= 0)
    np.add.at(found, (values[known, place], above[known], labels[known]), 1.0)
    return found


def _tree(
    values: NDArray[np.int64], sizes: Sequence[int], labels: NDArray[np.int64], count: int
) -> list[tuple[int, int]]:
    """``(input, parent)`` of the maximal tree by conditional mutual information, parents first."""
    inputs = len(sizes)
    shared = np.zeros((inputs, inputs))
    for one in range(inputs):
        for other in range(one):
            joint = _counts(values, sizes, labels, count, one, other)
            total = joint.sum()
            if total:
                by_class = joint.sum(axis=(0, 1), keepdims=True)
                chance = joint.sum(axis=0, keepdims=True) * joint.sum(axis=1, keepdims=True) / np.maximum(by_class, 1)
                seen = joint > 0
                shared[one, other] = shared[other, one] = (
                    joint[seen] * np.log(joint[seen] / chance[seen])
                ).sum() / total
    found, inside = [(0, -1)], [0]
    while len(inside) < inputs:
        rest = [place for place in range(inputs) if place not in inside]
        best = np.unravel_index(shared[np.ix_(rest, inside)].argmax(), (len(rest), len(inside)))
        found.append((rest[best[0]], inside[best[1]]))
        inside.append(rest[best[0]])
    return found


# --- scikit-learn ----------------------------------------------------------------------------------------------------


def imputed(problem: TableProblem, imputer: str) -> tuple[Floats, Callable[[Cells], Floats]]:
    """Training inputs as numbers without gaps, and the way there; worked out once for all settings."""
    if imputer not in problem.kept:
        problem.kept[imputer] = _imputed(problem, imputer)
    inputs, fill = problem.kept[imputer]

    def once(cells: Cells) -> Floats:
        known = problem.kept.get((imputer, "last"))
        if known is None or known[0] is not cells:
            known = problem.kept[imputer, "last"] = cells, fill(cells)
        return np.asarray(known[1])

    return inputs, once


def _imputed(problem: TableProblem, imputer: str) -> tuple[Floats, Callable[[Cells], Floats]]:
    from sklearn.experimental import enable_iterative_imputer  # type: ignore[import-untyped]  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer  # type: ignore[import-untyped]

    labels = [
        sorted({cell for cell in problem.inputs[:, place] if cell is not None}) for place in range(len(problem.numeric))
    ]
    centre = []
    for place in range(len(problem.numeric)):
        own = _as_numbers(problem.inputs[:, place].tolist()) if problem.numeric[place] else np.zeros(1)
        centre.append((float(np.nanmean(own)), float(np.nanstd(own)) or 1.0))

    def wide(cells: Cells) -> Floats:
        parts = []
        for place, numeric in enumerate(problem.numeric):
            column = cells[:, place]
            if numeric:
                mean, spread = centre[place]
                parts.append(((_as_numbers(column.tolist()) - mean) / spread)[:, None])
            elif labels[place]:
                known = np.array([cell in set(labels[place]) for cell in column])
                equal = np.array([[cell == label for label in labels[place]] for cell in column], dtype=np.float64)
                parts.append(np.where(known[:, None], equal, np.nan))
        return np.concatenate(parts, axis=1)

    given = wide(problem.inputs)
    if imputer == "knn":
        filler: Any = KNNImputer(n_neighbors=NEIGHBOURS, keep_empty_features=True).fit(given[:DONORS])
    else:
        filler = IterativeImputer(
            max_iter=3, n_nearest_features=10, random_state=problem.seed, keep_empty_features=True
        ).fit(given)
    return filler.transform(given), lambda cells: filler.transform(wide(cells))


def _quietly(make: Callable[[TableProblem, Any], Answer]) -> Callable[[TableProblem, Any], Answer]:
    def train(problem: TableProblem, setting: Any) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make(problem, setting)

        def answer(cells: Cells) -> Floats:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return found(cells)

        return answer

    return train


@_quietly
def logistic(problem: TableProblem, setting: tuple[str, float]) -> Answer:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    inputs, fill = imputed(problem, setting[0])
    model = LogisticRegression(C=setting[1], max_iter=300).fit(inputs, problem.answers)
    return lambda cells: _spread(model.predict_proba(fill(cells)), model.classes_, problem.classes)


@_quietly
def forest(problem: TableProblem, setting: tuple[str, int]) -> Answer:
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

    inputs, fill = imputed(problem, setting[0])
    model = RandomForestClassifier(TREES, min_samples_leaf=setting[1], random_state=problem.seed)
    model.fit(inputs, problem.answers)
    return lambda cells: _spread(model.predict_proba(fill(cells)), model.classes_, problem.classes)


@_quietly
def boosting(problem: TableProblem, setting: tuple[int, int]) -> Answer:
    """Missing cells are handled natively; labels are categories."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    labels = [
        sorted({cell for cell in problem.inputs[:, place] if cell is not None}) for place in range(len(problem.numeric))
    ]

    def codes(cells: Cells) -> Floats:
        columns = []
        for place, numeric in enumerate(problem.numeric):
            number = {label: float(value) for value, label in enumerate(labels[place])}
            own = cells[:, place].tolist()
            columns.append(_as_numbers(own) if numeric else np.array([number.get(cell, np.nan) for cell in own]))
        return np.stack(columns, axis=1)

    model = HistGradientBoostingClassifier(
        max_iter=setting[0], max_leaf_nodes=setting[1], early_stopping=False, random_state=problem.seed,
        categorical_features=[not numeric for numeric in problem.numeric],
    )  # fmt: skip
    model.fit(codes(problem.inputs), problem.answers)
    return lambda cells: _spread(model.predict_proba(codes(cells)), model.classes_, problem.classes)


GRIDS: dict[str, tuple[list[Any], Callable[[TableProblem, Any], Answer]]] = {
    OURS: ([None], ours),
    NAIVE: ([(False, alpha) for alpha in (0.1, 0.5, 2.0)], bayes),
    TAN: ([(True, alpha) for alpha in (0.1, 0.5, 2.0)], bayes),
    LOGISTIC_ITERATIVE: ([("iterative", strength) for strength in (0.03, 0.3, 3.0)], logistic),
    LOGISTIC_KNN: ([("knn", strength) for strength in (0.03, 0.3, 3.0)], logistic),
    FOREST_ITERATIVE: ([("iterative", leaf) for leaf in (1, 3, 8)], forest),
    FOREST_KNN: ([("knn", leaf) for leaf in (1, 3, 8)], forest),
    BOOSTING: ([(40, 4), (40, 15), (120, 15)], boosting),
}
