"""What variables and their values are called.

In: names. Out: :class:`Vocabulary`, which turns names into numbers and says what is near where there is no such name.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TypeVar

from loopwise.formats.coding import MISSING, as_text, codes_of
from loopwise.formats.errors import listed, quoted
from loopwise.formats.numbers import number_in

H = TypeVar("H", bound=Hashable)

_COMPARED = 1000  # names, and characters of each, that are looked through for one of about the right name


@dataclass(frozen=True)
class Vocabulary:
    """What variables and their values are called: ``labels[v][x]`` is value ``x`` of the variable ``names[v]``."""

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.labels):
            raise ValueError(
                f"a vocabulary of {len(self.names)} variables has labels for {len(self.labels)}; "
                "give each variable its labels"
            )
        twice = first_repeat(self.names)
        if twice is not None:
            raise ValueError(f"two variables are called {quoted(twice)}; give each a name of its own")
        for name, labels in zip(self.names, self.labels, strict=True):
            twice = first_repeat(labels)
            if twice is not None:
                raise ValueError(
                    f"two values of variable {quoted(name)} are called {quoted(twice)}; give each a name of its own"
                )

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable has a label for."""
        return tuple(len(labels) for labels in self.labels)

    def variable(self, name: str) -> int:
        """The number of the variable called ``name``."""
        if name not in self.places:
            raise ValueError(f"no variable is called {quoted(name)}; {known_names('variables', self.names, name)}")
        return self.places[name]

    @staticmethod
    def numbered(cardinalities: Sequence[int]) -> Vocabulary:
        """Variables and values that are called by their numbers, from 0."""
        labels = {size: tuple(map(str, range(size))) for size in set(cardinalities)}
        names = tuple(map(str, range(len(cardinalities))))
        return Vocabulary(names, tuple(labels[size] for size in cardinalities))

    def value(self, variable: int, label: object) -> int:
        """The number of the value of ``variable`` that is called ``label``; where labels are words, also a number
        itself; where they are intervals, any number in one.

        >>> vocabulary = Vocabulary(("smoker", "age"), (("no", "yes"), ("[-inf, 30)", "[30, inf)")))
        >>> vocabulary.value(0, "yes"), vocabulary.value(1, 25)
        (1, 0)
        """
        known, called = self.labels[variable], f"variable {quoted(self.names[variable])}"
        text = as_text(label)
        (code,), lost = codes_of(known, [label], nearest=False)
        if not lost and code != MISSING:
            return int(code)
        # A number where labels are words counts values; where they are numbers themselves, it would be misread.
        if isinstance(label, str | bool) or any(number_in(other) is not None for other in known):
            raise ValueError(f"{called} has no value {quoted(text)}; {known_names('values', known, text)}")
        return _whole(label)

    def evidence(self, given: Mapping[object, object]) -> dict[int, int]:
        """Variables and values by number, of such by name or number.

        >>> Vocabulary(("age", "smoker"), (("old", "young"), ("no", "yes"))).evidence({"smoker": "yes", 0: 1})
        {1: 1, 0: 1}
        """
        found: dict[int, int] = {}
        for name, label in given.items():
            if isinstance(name, str):
                place = self.variable(name)
                found[place] = self.value(place, label)
            else:  # a number, whose value is one too unless it is a word
                place = _whole(name)
                named = isinstance(label, str) and 0 <= place < len(self.names)
                found[place] = self.value(place, label) if named else _whole(label)
        return found

    def check_sizes(self, cardinalities: Sequence[int], *, whole: bool = False) -> None:
        """A ``ValueError`` unless each variable is named, and no more of its values (``whole``: all) than it has."""
        if len(self.names) != len(cardinalities):
            raise ValueError(
                f"a vocabulary of {len(self.names)} variables does not fit {len(cardinalities)} variables; "
                "name each variable"
            )
        for name, size, values in zip(self.names, self.cardinalities, cardinalities, strict=True):
            if size > values or (whole and size < values):
                raise ValueError(
                    f"variable {name!r} has {size} labels, but {values} values in the graph; "
                    "give the variable as many values in the graph"
                )

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each variable, by its name."""
        return {name: place for place, name in enumerate(self.names)}


def _whole(given: object) -> int:
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"evidence must map names or numbers of variables to values, not {given!r}") from None


def first_repeat(names: Sequence[H]) -> H | None:
    """The first name (or number) that is there twice."""
    seen: set[H] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def known_names(what: str, names: Sequence[str], wish: str) -> str:
    """What a message says of the names there are: the nearest one if there is one, else all or some."""
    near = get_close_matches(wish[:_COMPARED], [name[:_COMPARED] for name in names[:_COMPARED]], 1)
    return f"did you mean {quoted(near[0])}?" if near else f"the {what} are {listed(names)}"
