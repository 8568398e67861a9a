"""Which tags may come first, last, and after which: rules that hold in training, in marginals and in decisions.

In: tags by name, pairs that a user forbids. Out: :class:`Rules`, which turn scores of what is forbidden into minus
infinity. Stage: use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import listed, quoted
from loopwise.formats.iob import TagError, TagSet, allowed_steps
from loopwise.inference.families.chains import Chains
from loopwise.potentials.linear import Floats, Integers

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Forbid:
    """What a sequence of tags may not do.

    Parameters
    ----------
    steps:
        Pairs ``(tag, next tag)``.
    first, last:
        Tags that no sequence begins, or ends, with.

    Example
    -------
    >>> rules = Rules.of(("DET", "NOUN", "VERB"), Forbid(steps=[("DET", "VERB")], last=["DET"]))
    >>> rules.follow.astype(int).tolist(), rules.last.tolist()
    ([[1, 1, 0], [1, 1, 1], [1, 1, 1]], [False, True, True])
    """

    steps: Iterable[tuple[object, object]] = ()
    first: Iterable[object] = ()
    last: Iterable[object] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "first", "last"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, eq=False)
class Rules:
    """``first[k]``, ``last[k]``: whether tag k may be there; ``follow[j, k]``: whether k may come after j."""

    first: Flags
    follow: Flags
    last: Flags

    @staticmethod
    def of(labels: Sequence[str], forbidden: Forbid | None = None, *, iob: bool = False) -> Rules | None:
        """The rules of ``forbidden`` and, with ``iob``, those of IOB2 if the labels are such tags; None: no rules."""
        states = len(labels)
        found = Rules(np.ones(states, np.bool_), np.ones((states, states), np.bool_), np.ones(states, np.bool_))
        if iob:
            found = found._with_iob(labels)
        if forbidden is not None:
            place = {label: number for number, label in enumerate(labels)}
            for tag in forbidden.first:
                found.first[_known(tag, place)] = False
            for tag in forbidden.last:
                found.last[_known(tag, place)] = False
            for before, after in forbidden.steps:
                found.follow[_known(before, place), _known(after, place)] = False
        return None if found.first.all() and found.follow.all() and found.last.all() else found

    def _with_iob(self, labels: Sequence[str]) -> Rules:
        try:
            first, follow = allowed_steps(TagSet.of(labels))
        except TagError:
            return self
        return Rules(first, follow, self.last) if first.any() else self

    def __call__(self, chains: Chains, unary: Floats, pair: Floats) -> tuple[Floats, Floats]:
        """The scores with minus infinity where something is forbidden."""
        filled = np.diff(chains.start) > 0
        begin, end = chains.start[:-1][filled], chains.start[1:][filled] - 1
        changed = unary.copy()
        changed[begin] = np.where(self.first, unary[begin], -np.inf)
        changed[end] = np.where(self.last, changed[end], -np.inf)
        return changed, np.where(self.follow, pair, -np.inf)

    def broken(self, chains: Chains, tag: Integers) -> Integers:
        """Tokens whose tags ``[tokens]`` (-1: not known) break a rule."""
        known, follows = tag >= 0, chains.follows
        begin, end = ~follows, np.append(~follows[1:], True)
        wrong = known & ((begin & ~self.first[tag]) | (end & ~self.last[tag]))
        after = np.flatnonzero(follows & known)
        after = after[tag[after - 1] >= 0]
        wrong[after] |= ~self.follow[tag[after - 1], tag[after]]
        return np.flatnonzero(wrong)


def _known(tag: object, place: dict[str, int]) -> int:
    if str(tag) not in place:
        raise ValueError(f"the rules forbid the tag {quoted(str(tag))}, which is none; there are {listed(place, 20)}")
    return place[str(tag)]
