"""From scores to tags: the best path, or the best tag of each token.

In: chains and scores. Out: tags ``[tokens]``. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loopwise.formats.iob import TagError, TagSet, allowed_steps
from loopwise.inference.chains import Chains
from loopwise.potentials.linear import Floats, Integers


class Decoder(Protocol):
    """A way to decide."""

    def decide(self, chains: Chains, unary: Floats, pair: Floats, labels: tuple[str, ...]) -> Integers:
        """The number of the tag of each token."""
        ...


@dataclass(frozen=True)
class Viterbi:
    """The most probable tags of the sentence as a whole: least expected sentence error.

    ``valid``: only sequences that IOB2 allows, where labels are such tags (no ``I`` that continues nothing).
    """

    valid: bool = True

    def decide(self, chains: Chains, unary: Floats, pair: Floats, labels: tuple[str, ...]) -> Integers:
        if self.valid:
            unary, pair = forbid(chains, unary, pair, labels)
        return chains.best(unary, pair)[0]


@dataclass(frozen=True)
class Posterior:
    """The most probable tag of each token by itself: least expected token error. ``valid``: as for :class:`Viterbi`.

    The result may be a sequence of no probability; with ``valid`` impossible ones are left out of the marginals.
    """

    valid: bool = True

    def decide(self, chains: Chains, unary: Floats, pair: Floats, labels: tuple[str, ...]) -> Integers:
        if self.valid:
            unary, pair = forbid(chains, unary, pair, labels)
        tags: Integers = chains.marginals(unary, pair).single.argmax(axis=1)
        return tags


def forbid(chains: Chains, unary: Floats, pair: Floats, labels: tuple[str, ...]) -> tuple[Floats, Floats]:
    """The scores with minus infinity where IOB2 allows nothing; unchanged if the labels are no such tags."""
    try:
        may_begin, may_follow = allowed_steps(TagSet.of(labels))
    except TagError:
        return unary, pair
    if not may_begin.any() or may_begin.all():
        return unary, pair
    first = chains.start[:-1][np.diff(chains.start) > 0]
    changed = unary.copy()
    changed[first] = np.where(may_begin, unary[first], -np.inf)
    return changed, np.where(may_follow, pair, -np.inf)
