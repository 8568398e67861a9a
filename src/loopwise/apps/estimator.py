"""What estimators share: options as scikit-learn asks for them, without importing it.

In: the constructor's parameters, each kept under its own name. Out: ``get_params``, ``set_params``, a short ``repr``,
checks of names and numbers of columns. Stage: use.

Options that are objects (learners, losses, inference methods: frozen dataclasses) show theirs under double names, as
scikit-learn's do: ``learner__l2``, ``inference__iterations``, ``loss__beta``. So a grid search can go over them.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.frames import frame_array
from loopwise.notebook import Shown

REPEATED = 100  # times that rows are repeated on average, at most
_WITHIN = "__"  # between the name of an option and the name of an option of that


class Estimator(Shown):
    """Base of the applications whose ``__init__`` does nothing but keep its parameters.

    ``_usual``: what an option that is None stands for, by name, so that ``learner__l2=3`` can be set without naming the
    learner first.
    """

    n_features_in_: int
    _usual: ClassVar[Mapping[str, Callable[[], Any]]] = {}

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; ``deep``: also those of options that are objects, as ``option__its_option``."""
        found = {name: getattr(self, name) for name in self._names()}
        if deep:
            for name, value in list(found.items()):
                found.update(_within(name, value))
        return found

    def set_params(self, **params: Any) -> Self:
        """Changes options; ``option__its_option=value`` replaces the object ``option`` by one that differs there."""
        names = self._names()
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition(_WITHIN)
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names)}")
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, options in inner.items():
            value = getattr(self, name)
            usual = self._usual.get(name) if value is None else None
            setattr(self, name, _changed(name, value if usual is None else usual(), options))
        return self

    @property
    def n_iter_(self) -> int:
        """Iterations, or epochs, that the last fit took; of an estimator that is not fitted there are none."""
        history = getattr(self, "history_", None)
        if history is None:
            raise AttributeError(f"this {type(self).__name__} has no n_iter_: it was not trained here")
        return len(history)

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "_is_fitted", False))

    def __sklearn_tags__(self) -> Any:
        """For estimators of other things than tables: answers are asked for what is given, with or without labels."""
        from sklearn.utils import Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._set_options().items())})"

    def _set_options(self) -> dict[str, Any]:
        """The options that are not what they are by default."""
        standard = inspect.signature(type(self).__init__).parameters
        own = self.get_params(deep=False)
        return {name: value for name, value in own.items() if not _same(value, standard[name].default)}

    # --- Data frames -------------------------------------------------------------------------------------------------

    def predict_frame(self, X: Any, backend: str | None = None) -> Any:
        """The answers of ``predict`` as a data frame: of the library that ``X`` is of, with the index of pandas; or of
        ``backend`` (``"pandas"``, ``"polars"``, ``"pyarrow"``). Columns are called as the labels were in training."""
        from loopwise.formats.frames import is_frame, make_frame

        said = np.asarray(self.predict(X))  # type: ignore[attr-defined]  # those that take tables have it
        table = said[:, None] if said.ndim == 1 else said
        names = getattr(self, "_output_names", None) or [f"y{place}" for place in range(table.shape[1])]
        columns = {name: table[:, place].tolist() for place, name in enumerate(names)}
        made = make_frame(columns, backend, like=X if backend is None and is_frame(X) else None)
        if hasattr(made, "set_axis") and hasattr(X, "index"):
            made = made.set_axis(X.index)
        return made

    # --- Columns -----------------------------------------------------------------------------------------------------

    def _note_features(self, given: Any, width: int) -> None:
        """Remembers how many columns training data have, and their names if they have any."""
        self.n_features_in_ = width
        names = column_names(given)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_features(self, given: Any, width: int) -> None:
        """Refuses data whose columns are not those of training, in the words that scikit-learn's checks look for."""
        if width != self.n_features_in_:
            raise ValueError(
                f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input"
            )
        names, known = column_names(given), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and list(names) != list(known):
            raise ValueError(
                "The feature names should match those that were passed during fit: the columns differ, or their order"
            )


class SampleWeights(NamedTuple):
    """Which rows count, and what each of them counts; those of weight 0 are left out."""

    rows: NDArray[np.int64]
    counts: NDArray[np.float64]

    @staticmethod
    def of(given: Any, count: int) -> SampleWeights | None:
        """Checked weights of ``count`` samples (None: all alike; one number: all of that weight)."""
        if given is None:
            return None
        array = as_array(given)
        if array.ndim == 0:
            array = np.full(count, array)
        if array.shape != (count,):
            raise ValueError(
                f"Sample weights must be 1D array or scalar, one for each of {count} samples; got shape {array.shape}"
            )
        weights = array.astype(np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError("sample_weight holds NaN, infinity or a negative number; give weights from 0 on")
        rows = np.flatnonzero(weights)
        if not rows.size:
            raise ValueError("every sample weight is zero, so nothing counts; give at least one sample a weight")
        return SampleWeights(rows, weights[rows])

    @property
    def whole(self) -> bool:
        """Whether all are whole numbers, small enough for rows to be repeated so often."""
        return bool((self.counts == np.round(self.counts)).all()) and self.counts.mean() <= REPEATED

    def repeated(self, what: str) -> NDArray[np.int64]:
        """Rows as often as they count, for ``what`` knows no other weights; others than whole numbers are an error."""
        if not self.whole:
            raise ValueError(
                f"{what} takes whole numbers as sample_weight, {REPEATED} on average at most (a row is then seen so "
                "often); round them, or train by likelihood, which takes any"
            )
        return np.repeat(self.rows, self.counts.astype(np.int64))


def taken(given: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of data in whatever form they came; data frames stay such."""
    if given is None:
        return None
    if hasattr(given, "iloc"):
        return given.iloc[rows]
    if isinstance(given, list | tuple):
        return [given[row] for row in rows.tolist()]
    if hasattr(given, "take") and hasattr(given, "schema"):
        return given.take(rows)  # Arrow
    if hasattr(given, "tocsr"):
        return given.tocsr()[rows]
    return given[rows] if hasattr(given, "__getitem__") else np.asarray(given)[rows]


def column_names(given: Any) -> tuple[str, ...] | None:
    """Column names of a data frame, if all are strings."""
    columns = getattr(given, "column_names", None)  # as Arrow calls them; its ``columns`` are the data
    if columns is None:
        columns = getattr(given, "columns", None)
    if columns is None or callable(columns):
        return None
    names = tuple(columns)
    return names if all(isinstance(name, str) for name in names) else None


def as_array(given: Any) -> NDArray[Any]:
    """Whatever NumPy makes of it; tensors that ask for a gradient are taken without.

    >>> as_array(iter([1, 2]))
    Traceback (most recent call last):
    ValueError: data are read more than once, and an iterator is empty after that: give a list or an array
    """
    if isinstance(given, Iterator):
        raise ValueError("data are read more than once, and an iterator is empty after that: give a list or an array")
    framed = frame_array(given)
    if framed is not None:
        return framed
    detach = getattr(given, "detach", None)
    return np.asarray(given if detach is None else detach().cpu())


def classifier_tags(*, required: bool = True, multi_class: bool = True, **inputs: bool) -> Any:
    """scikit-learn's tags of what classifies the rows of a table, for one output or several, and takes empty cells.

    ``required``: whether training asks for labels. ``inputs``: what else inputs may be (``sparse``, ``string``).
    """
    from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

    return Tags(
        estimator_type="classifier",
        target_tags=TargetTags(required=required, multi_output=True, single_output=True),
        classifier_tags=ClassifierTags(multi_class=multi_class, multi_label=True),
        input_tags=InputTags(allow_nan=True, **inputs),
    )


def not_fitted(sentence: str) -> ValueError:
    """scikit-learn's own error where it is installed, which its tools look for."""
    try:
        from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
    except ImportError:
        return ValueError(sentence)
    made: ValueError = NotFittedError(sentence)
    return made


def _within(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The options of an option, under double names."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return
    for field in dataclasses.fields(value):
        if field.init:
            key, own = f"{name}{_WITHIN}{field.name}", getattr(value, field.name)
            yield key, own
            yield from _within(key, own)


def _changed(name: str, value: Any, options: Mapping[str, Any]) -> Any:
    """``value`` with some of its options replaced."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        first = next(iter(options))
        raise ValueError(
            f"{name}{_WITHIN}{first} cannot be set, since {name} is {value!r}: set {name} to an object that has an "
            f"option {first!r} first"
        )
    known = [field.name for field in dataclasses.fields(value) if field.init]
    direct: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for key, new in options.items():
        own, _, rest = key.partition(_WITHIN)
        if own not in known:
            raise ValueError(f"{type(value).__name__} has no parameter {own!r}; it has {', '.join(known)}")
        if rest:
            inner.setdefault(own, {})[rest] = new
        else:
            direct[own] = new
    for own, deeper in inner.items():
        direct[own] = _changed(f"{name}{_WITHIN}{own}", direct.get(own, getattr(value, own)), deeper)
    return dataclasses.replace(value, **direct)


def _same(value: Any, default: Any) -> bool:
    """Whether an option was left alone; what does not compare to one truth (an array) is the same by identity."""
    if value is default:
        return True
    equal = value == default
    return equal is True
