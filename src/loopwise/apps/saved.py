"""The saver of estimators: one file for a fitted one, one check of what a file holds, one sentence for what is wrong.

In: an estimator that says its own fields and tensors. Out: a safetensors file with JSON, and back. Stage: use. Loading
runs nothing that the file says.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from torch import Tensor

from loopwise.apps.estimator import Estimator, not_fitted
from loopwise.formats.files import PathLike
from loopwise.learn.files.card import kept_card, number_count
from loopwise.learn.files.container import CARD, kind_of, read_container, refuse_kind, write_container
from loopwise.learn.files.fields import DAMAGE, Record, damaged

T = TypeVar("T")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
Build = Callable[[Record], T]


def written(thing: object) -> str:
    """How a file tells of an object that it does not hold: as Python shows it, without the place in memory that it has
    in this run, so that equal runs give equal files."""
    return _ADDRESS.sub("", repr(thing))


def read_saved(path: PathLike, app: str, build: Build[T]) -> T:
    """What ``build`` makes of the file at ``path``, if it is of ``app``; else a :class:`FormatError`."""
    tensors, description = read_container(path)
    if kind_of(description) != app:
        raise refuse_kind(path, description, app)
    try:
        return build(Record(description, tensors))
    except DAMAGE as problem:
        raise damaged(path, app, problem) from None


def card_of(model: Any, budget: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The card of a model: what its training said, the budget, and what is given."""
    known = {"budget": budget} if budget else {}
    return {**known, **getattr(model, "card_", {}), **(given or {})}


class Saved:
    """What has files: it says which of its fields and tensors are kept, and builds itself from them.

    ``card_``: what files say of data and figures; training sets it (:func:`loopwise.learn.files.card.training_card`).
    ``_no_weights``: tensors of files that no training chose, scales and frequencies, say.
    """

    card_: Mapping[str, Any]
    _no_weights: ClassVar[frozenset[str]] = frozenset()

    def save(
        self, path: PathLike, notes: Mapping[str, Any] | None = None, card: Mapping[str, Any] | None = None
    ) -> None:
        """Writes the fitted model to one file, which appears whole or not at all; ``notes`` are kept with it. The
        ``card`` is for people, ``{"data": "reviews of 2025"}``, say: besides that, or instead, it has what training
        said of data and figures, the number of weights, and the budget (:func:`loopwise.learn.model_card` reads it)."""
        if not self._is_fitted:
            raise not_fitted(f"this {type(self).__name__} is not fitted yet: there is nothing to save")
        described, tensors = self._kept()
        own = {} if notes is None else {"notes": dict(notes)}
        told = {"weights": number_count(tensors, self._no_weights), **card_of(self, self._budget, card)}
        write_container(path, tensors, {"app": self._app(), **described, **own, CARD: told})

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """The model that :meth:`save` wrote. Nothing in the file is run."""
        return read_saved(path, cls._app(), cls._with_card)

    @classmethod
    def _load_with_notes(cls, path: PathLike) -> tuple[Self, dict[str, Any]]:
        """The model, and what was kept with it."""
        return read_saved(path, cls._app(), lambda told: (cls._with_card(told), told.record("notes").values))

    @classmethod
    def _with_card(cls, told: Record) -> Self:
        found = cls._rebuilt(told)
        found.card_ = kept_card(told.values)
        return found

    @classmethod
    def _app(cls) -> str:
        """What files call the class; a subclass of a user reads and writes the files of its parent."""
        return next(kind.__name__ for kind in reversed(cls.__mro__) if "_kept" in vars(kind) and kind is not Saved)

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "weights_")

    @property
    def _budget(self) -> str:
        """The inference that answers, as cards tell of it."""
        return ""

    @abstractmethod
    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a file says as JSON, and its tensors."""

    @classmethod
    @abstractmethod
    def _rebuilt(cls, told: Record) -> Self:
        """The fitted estimator of a file; a FieldError, or another of :data:`DAMAGE`, names what does not fit."""


class SavedEstimator(Saved, Estimator):
    """An estimator with files.

    How it was trained is kept as text: a loaded estimator has the default options for that.
    """
