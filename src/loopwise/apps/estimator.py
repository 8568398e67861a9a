"""What estimators share: options as scikit-learn asks for them, without importing it.

In: the constructor's parameters, each kept under its own name. Out: ``get_params``, ``set_params``, a short ``repr``,
checks of names and numbers of columns. Stage: use.

Options that are objects (learners, losses, inference methods: frozen dataclasses) show theirs under double names, as
scikit-learn's do: ``learner__l2``, ``inference__iterations``, ``loss__beta``. So a grid search can go over them.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

_WITHIN = "__"  # between the name of an option and the name of an option of that


class Estimator:
    """Base of the applications whose ``__init__`` does nothing but keep its parameters."""

    n_features_in_: int

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
            setattr(self, name, _changed(name, getattr(self, name), options))
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self).__init__).parameters
        own = self.get_params(deep=False)
        given = {name: value for name, value in own.items() if not _same(value, standard[name].default)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

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


def column_names(given: Any) -> tuple[str, ...] | None:
    """Column names of a data frame, if all are strings."""
    columns = getattr(given, "columns", None)
    if columns is None:
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
    detach = getattr(given, "detach", None)
    return np.asarray(given if detach is None else detach().cpu())


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
