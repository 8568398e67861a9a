"""Models of one's own in compiled form: a handful of functions compiled by Numba.

In: functions of (data, document, state, ...). Out: a model, a proposal and a metric that walk at compiled speed. Stage:
walking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.offsets import starts_of
from loopwise.walk.corpus import Corpus
from loopwise.walk.kernels import codes as codes
from loopwise.walk.models.model import Factor, Model, Sparse
from loopwise.walk.proposal import Proposal, Proposed, Walker
from loopwise.walk.randomness import Stream
from loopwise.walk.signal import Signal
from loopwise.walk.world import Move, Start, World

Integers = NDArray[np.int64]
_START = {Start.TRUTH: codes.TRUTH, Start.RANDOM: codes.RANDOM, Start.SINGLETONS: codes.SINGLETONS}


@dataclass(frozen=True)
class WalkFunctions:
    """What a compiled model is made of: functions compiled by ``numba.njit``, of (data, document, state, ...).

    ``state`` is an int64 array that the functions may read as they like. ``start(..., kind, generator)`` fills it;
    ``kind`` is 0 for the truth, 1 for random, 2 to keep what it holds (and prepare for it), 3 for singletons.
    ``propose(..., generator, move)`` writes a move (int64 ``[4]``) and returns (whether it changes anything, log
    ratio); random numbers come from ``loopwise.inference.gibbs.kernels.gibbs.next_uniform(generator)``.
    ``difference(..., move, delta)`` and ``features(..., sign, delta)`` call ``loopwise.walk.kernels.delta.add(delta,
    weight, value)``.
    ``gain(..., move)`` and ``gap(...)`` are the signal's. ``apply(..., move)`` and ``undo(..., move)`` change the
    state.
    """

    start: Callable[..., Any]
    propose: Callable[..., Any]
    difference: Callable[..., Any]
    gain: Callable[..., Any]
    apply: Callable[..., Any]
    undo: Callable[..., Any]
    features: Callable[..., Any]
    gap: Callable[..., Any]


class FunctionWorld(World):
    """A state that only the functions understand."""

    def __init__(self, model: CompiledModel, document: int, state: Integers) -> None:
        self.model, self.document, self.state = model, document, state

    def labels(self) -> list[int]:
        found: list[int] = self.state.tolist()
        return found

    def assign(self, item: int, value: int) -> Any:
        raise ValueError("a world of compiled functions changes by their moves only; make one of those instead")

    def restore(self, token: Any) -> None:
        raise ValueError("a world of compiled functions changes by their moves only; make one of those instead")

    def copy(self) -> FunctionWorld:
        return FunctionWorld(self.model, self.document, self.state.copy())


class FunctionMove(Move):
    """A move as the functions write it."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Integers) -> None:
        super().__init__([(int(numbers[0]), int(numbers[1]), int(numbers[2]))])
        self.numbers = numbers

    def apply(self, world: World) -> None:
        assert isinstance(world, FunctionWorld)
        world.model.functions.apply(world.model.data, world.document, world.state, self.numbers)

    def undo(self, world: World) -> None:
        assert isinstance(world, FunctionWorld)
        world.model.functions.undo(world.model.data, world.document, world.state, self.numbers)


@dataclass(frozen=True)
class FunctionProposal(Proposal):
    """The proposal of a :class:`CompiledModel`."""

    model: CompiledModel

    def propose(self, walker: Walker) -> Proposed:
        world = walker.world
        assert isinstance(world, FunctionWorld)
        numbers = np.zeros(4, dtype=np.int64)
        generator = walker.random.words()
        moved, ratio = self.model.functions.propose(self.model.data, world.document, world.state, generator, numbers)
        walker.random.set_words(generator)
        return Proposed(FunctionMove(numbers) if moved else None, float(ratio))


@dataclass(frozen=True)
class FunctionMetric:
    """The signal of a :class:`CompiledModel`."""

    model: CompiledModel

    def watch(self, world: World) -> FunctionSignal:
        """Follows ``world``."""
        assert isinstance(world, FunctionWorld)
        return FunctionSignal(self.model, world)


class FunctionSignal(Signal):
    """Asks the functions."""

    def __init__(self, model: CompiledModel, world: FunctionWorld) -> None:
        self.model, self.world = model, world

    def gain(self, move: Move) -> float:
        assert isinstance(move, FunctionMove)
        found = self.model.functions.gain(self.model.data, self.world.document, self.world.state, move.numbers)
        return float(found)

    def accept(self, move: Move) -> None:
        """The state says it all."""

    def gap(self) -> float:
        return float(self.model.functions.gap(self.model.data, self.world.document, self.world.state))


class CompiledModel(Model):
    """A model given by compiled functions; documents are the numbers 0, 1, ... that the functions know them by.

    ``size`` weights; ``sizes[d]`` integers of state for document d; ``data``: arrays, or a named tuple of arrays.
    ``model.proposal`` and ``model.metric`` go with it. The functions are compiled into the walk, which takes some
    seconds in each process.
    """

    starts = frozenset(_START)

    def __init__(self, size: int, functions: WalkFunctions, data: Any, sizes: Sequence[int]) -> None:
        self.size, self.functions, self.data = size, functions, data
        self.sizes = np.array(sizes, dtype=np.int64)
        self.proposal = FunctionProposal(self)
        self.metric = FunctionMetric(self)

    def world(self, document: Any, start: Start, random: Stream) -> FunctionWorld:
        state = np.zeros(int(self.sizes[document]), dtype=np.int64)
        generator = random.words()
        self.functions.start(self.data, document, state, _START[start], generator)
        random.set_words(generator)
        return FunctionWorld(self, document, state)

    def world_of(self, document: Any, labels: Sequence[int]) -> FunctionWorld:
        state = np.array(labels, dtype=np.int64)
        self.functions.start(self.data, document, state, codes.KEEP, Stream(0).words())
        return FunctionWorld(self, document, state)

    def answer(self, document: Any, labels: Sequence[int]) -> Integers:
        return np.array(labels, dtype=np.int64)

    def items(self, document: Any) -> int:
        return int(self.sizes[document])

    def factors(self, world: World) -> Iterable[Factor]:
        return [("all", list(self.features(world).items()))]

    def features(self, world: World) -> Sparse:
        assert isinstance(world, FunctionWorld)
        return self._emitted(self.functions.features, world, 1.0)

    def difference(self, world: World, move: Move) -> Sparse:
        assert isinstance(world, FunctionWorld) and isinstance(move, FunctionMove)
        return self._emitted(self.functions.difference, world, move.numbers)

    def compiled(self, documents: Sequence[Any], proposal: Proposal, metric: Any) -> Corpus | None:
        if proposal != self.proposal or metric not in (None, self.metric):
            return None
        from loopwise.walk.kernels.user import UserArrays, UserWorld

        functions = self.functions
        numbers = np.array(documents, dtype=np.int64)
        starts = starts_of(self.sizes[numbers])
        arrays = UserArrays(
            functions.start,
            functions.propose,
            functions.difference,
            functions.gain,
            functions.apply,
            functions.undo,
            functions.features,
            functions.gap,
            self.data,
            starts,
            numbers,
        )
        states = np.zeros(int(starts[-1]), dtype=np.int64)
        return Corpus(arrays, UserWorld(states), states, starts, lambda document: 0)

    def _emitted(self, function: Callable[..., Any], world: FunctionWorld, argument: Any) -> Sparse:
        from loopwise.walk.kernels.delta import KEYS, empty_delta

        delta = empty_delta(self.size)
        function(self.data, world.document, world.state, argument, delta)
        count = int(delta.keys[0])
        keys = delta.keys[KEYS : KEYS + count].tolist()
        return dict(zip(keys, delta.values[:count].tolist(), strict=True))
