"""From scores to tags: the best path, or the best tag of each token.

In: chains and scores. Out: tags ``[tokens]``. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loopwise.decode.rules import Rules
from loopwise.inference.families.chains import Chains
from loopwise.notices import ImpossibleError
from loopwise.potentials.linear import Floats, Integers


class ChainDecoder(Protocol):
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
        path, score = chains.best(unary, pair)
        impossible = np.flatnonzero(np.isneginf(score))
        if impossible.size:
            raise no_path(int(impossible[0]))
        return path


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
    rules = Rules.of(labels, iob=True)
    return (unary, pair) if rules is None else rules(chains, unary, pair)


def no_path(sentence: int) -> ImpossibleError:
    """What is raised where rules and given tags leave no sequence."""
    return ImpossibleError(
        f"sentence {sentence} has no possible tags: what is given for it breaks the rules of the tags (I after "
        "nothing, say); give other tags, or fewer"
    )
