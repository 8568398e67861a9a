"""Features as people have them: a dict or a list of texts for each token, as python-crfsuite and sklearn-crfsuite take.

In: ``{"w": "dog", "is_title": True, "len": 3.0}`` or ``["w=dog", "title"]``. Out: names of features and their values,
token after token. Stage: use. A text is the feature ``key:text``, a truth value the feature ``key`` where it is true, a
number the feature ``key`` with that value; a list or set has a feature for each member, a dict those of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import shortened
from loopwise.potentials.linear import Floats, Integers


class TokenPlace(NamedTuple):
    """Where a token stands, as messages say it."""

    sequence: int
    token: int

    def __str__(self) -> str:
        return f"{self.token} of sequence {self.sequence}"


@dataclass(frozen=True, eq=False)
class Items:
    """Token ``t`` has the features ``names[index[e]]`` with ``value[e]``, e from ``start[t]`` to ``start[t + 1]``."""

    names: tuple[str, ...]  # distinct
    start: Integers  # [tokens + 1]
    index: NDArray[np.int32]  # [entries]
    value: Floats  # [entries]

    @staticmethod
    def of(sequences: Sequence[Sequence[Any]]) -> Items:
        """The features of the tokens of all sequences; those of value 0 are left out."""
        number: dict[str, int] = {}
        start, index, value = [0], [], []
        for row, sequence in enumerate(sequences):
            for place, token in enumerate(sequence):
                for name, amount in features_of(token, TokenPlace(row, place)):
                    if amount:
                        index.append(number.setdefault(name, len(number)))
                        value.append(amount)
                start.append(len(index))
        return Items(
            tuple(number),
            np.array(start, dtype=np.int64),
            np.array(index, dtype=np.int32),
            np.array(value, dtype=np.float64),
        )


def are_items(token: object) -> bool:
    """Whether a token is given by its features rather than as a word."""
    return isinstance(token, Mapping | list | tuple | set | frozenset)


def features_of(token: Any, place: TokenPlace) -> Iterator[tuple[str, float]]:
    """Names and values of one token's features.

    >>> list(features_of({"w": "dog", "is_title": False, "len": 3.0, "ends": ["g", "og"]}, TokenPlace(0, 0)))
    [('w:dog', 1.0), ('is_title', 0.0), ('len', 3.0), ('ends:g', 1.0), ('ends:og', 1.0)]
    >>> list(features_of(["w=dog", "title"], TokenPlace(0, 0)))
    [('w=dog', 1.0), ('title', 1.0)]
    """
    if isinstance(token, Mapping):
        for key, value in token.items():
            yield from _features(str(key), value, place)
    elif are_items(token):
        for name in sorted(token) if isinstance(token, set | frozenset) else token:
            if not isinstance(name, str):
                raise ValueError(
                    f"token {place} lists the feature {shortened(repr(name))}; listed features are texts; dicts have "
                    "numbers"
                )
            yield name, 1.0
    else:
        raise ValueError(
            f"token {place} is {shortened(repr(token))}; give every token as a dict or a list of features, like the "
            "first"
        )


def _features(name: str, value: Any, place: TokenPlace) -> Iterator[tuple[str, float]]:
    if isinstance(value, str):
        yield f"{name}:{value}", 1.0
    elif isinstance(value, bool | np.bool_):
        yield name, float(value)
    elif isinstance(value, Real):
        if not np.isfinite(float(value)):
            raise ValueError(f"feature {name!r} of token {place} is {value}; give a finite number, or leave it out")
        yield name, float(value)
    elif are_items(value):
        for inner, amount in features_of(value, place):
            yield f"{name}:{inner}", amount
    elif value is not None:
        raise ValueError(
            f"feature {name!r} of token {place} is {shortened(repr(value))}; give text, a number, a truth value, or a "
            "list of texts"
        )
