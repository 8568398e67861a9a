r"""What a walk needs to know of a model: worlds of documents, and which features which factors have.

In: documents. Out: worlds, sparse feature differences. Stage: walking. The model is :math:`\pi(y) \propto \exp(\theta
\cdot \phi(y))`, :math:`\phi(y) = \sum_\psi \phi_\psi(y_\psi)` (Wick et al. 2011, eq. 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.walk.randomness import Stream
from loopwise.walk.world import Move, Start, World

if TYPE_CHECKING:
    from loopwise.walk.corpus import Corpus
    from loopwise.walk.proposal import Proposal

Floats = NDArray[np.float64]
Sparse = dict[int, float]  # weight number: value, in order of first appearance
Factor = tuple[Hashable, Iterable[tuple[int, float]]]  # what tells it from others, and its features


class Model(ABC):
    """Worlds and features. Subclass it for a model of your own; three methods are enough.

    ``size`` is the number of weights. A factor is given as its identity and its features; a factor that two changed
    items share is counted once, by its identity.
    """

    size: int
    starts: frozenset[Start] = frozenset({Start.TRUTH, Start.RANDOM})  # those that :meth:`world` can make

    @abstractmethod
    def world(self, document: Any, start: Start, random: Stream) -> World:
        """A state of ``document``: :attr:`Start.TRUTH` is the right one; others as far as the model has them."""

    @abstractmethod
    def factors(self, world: World) -> Iterable[Factor]:
        """All factors of a state; structure may depend on the state."""

    def touched(self, world: World, move: Move) -> Iterable[Factor]:
        """The factors that may change by ``move``, as they are in ``world``: asked before the move and after it.

        By default all factors, which is right but slow.
        """
        return self.factors(world)

    def world_of(self, document: Any, labels: Sequence[int]) -> World:
        """The world with these :meth:`World.labels`; needed to go on from an earlier state."""
        raise ValueError(f"{type(self).__name__} cannot make a world of labels: write its method world_of")

    def decoding_start(self) -> Start:
        """Where decoding begins unless told."""
        return Start.RANDOM

    def answer(self, document: Any, labels: Sequence[int]) -> Any:
        """What decoding gives back, for a state as labels."""
        return self.world_of(document, labels)

    def gold(self, document: Any) -> Sequence[int] | None:
        """The labels of the truth as metrics see them, -1 where an item is not scored; None: those of its world."""
        return None

    def items(self, document: Any) -> int:
        """How many items may change: the steps of one sweep."""
        return len(self.world(document, Start.TRUTH, Stream(0)).labels())

    def complete(self, document: Any) -> bool:
        """Whether the right value of every item is known, as learners that compare with the truth need it."""
        return True

    def cells(self, document: Any) -> int:
        """How many events :meth:`events` tells apart."""
        raise ValueError(f"{type(self).__name__} does not say what its marginals are of: write cells and events")

    def events(self, document: Any, labels: Sequence[int]) -> Iterable[int]:
        """The events that hold in a state, of those whose probabilities are the marginals."""
        raise ValueError(f"{type(self).__name__} does not say what its marginals are of: write cells and events")

    def marginals(self, document: Any, probabilities: Floats) -> Floats:
        """Probabilities ``[cells]`` of the events, in a shape that is good to read."""
        return probabilities

    def compiled(self, documents: Sequence[Any], proposal: Proposal, metric: Any) -> Corpus | None:
        """The same walk over flat arrays, or None where the model has only its Python form."""
        return None

    # ------------------------------------------------------------------------------- what follows from these

    def features(self, world: World) -> Sparse:
        """The feature vector of a state, from scratch."""
        return collect({}, self.factors(world), 1.0)

    def difference(self, world: World, move: Move) -> Sparse:
        r""":math:`\phi(y') - \phi(y)`; the world is left as it was.

        Factors are collected in each of the two worlds, since the second may have others than the first. O(factors
        touched).
        """
        delta = collect({}, self.touched(world, move), -1.0)
        move.apply(world)
        collect(delta, self.touched(world, move), 1.0)
        move.undo(world)
        return delta

    def difference_between(self, world: World, before: Move | None, after: Move | None, over: Move) -> Sparse:
        """Features after move ``after`` less those after ``before`` (None: no move); ``over`` touches what both do."""
        delta: Sparse = {}
        for move, sign in ((before, -1.0), (after, 1.0)):
            if move is not None:
                move.apply(world)
            collect(delta, self.touched(world, over), sign)
            if move is not None:
                move.undo(world)
        return delta


def collect(delta: Sparse, factors: Iterable[Factor], sign: float) -> Sparse:
    """Adds ``sign`` times the features of the factors, each factor once."""
    seen = set()
    for identity, features in factors:
        if identity not in seen:
            seen.add(identity)
            for key, value in features:
                delta[key] = delta.get(key, 0.0) + sign * value
    return delta


def dot(delta: Sparse, weights: Sequence[float]) -> float:
    """The score of a sparse vector, added up in its order."""
    total = 0.0
    for key, value in delta.items():
        total += weights[key] * value
    return total


def squared_norm(delta: Sparse) -> float:
    """The sum of squares, added up in the vector's order."""
    total = 0.0
    for value in delta.values():
        total += value * value
    return total
