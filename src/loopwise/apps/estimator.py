"""Options of estimators as scikit-learn asks for them, without importing it.

In: the constructor's parameters, each kept under its own name. Out: ``get_params``, ``set_params``, a short ``repr``.
Stage: use.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Estimator:
    """Base of the applications whose ``__init__`` does nothing but keep its parameters."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Changes options."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self).__init__).parameters
        given = {name: value for name, value in self.get_params().items() if not _same(value, standard[name].default)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _same(value: Any, default: Any) -> bool:
    """Whether an option was left alone; what does not compare to one truth (an array) is the same by identity."""
    if value is default:
        return True
    equal = value == default
    return equal is True
