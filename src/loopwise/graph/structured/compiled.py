"""What structured factors bring to run in the compiled engine: messages of many of them at once, and their adjoint.

In: log messages of a whole graph, as arrays. Out: the messages that the factors of one kind send; adjoints. Stage:
structure. A factor class names its :class:`CompiledMessages` in ``compiled``; one without runs its torch methods there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.base import StructuredFactor
from loopwise.notices import GradientError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class CompiledMessages(ABC):
    """Factors of one kind in one graph, of any sizes; made once for a graph.

    ``factors``: those factors. ``slot_start``: where the slots of each begin among all messages of the graph.
    ``own_start``: where the log-potentials of each begin, flattened, among those of all structured factors.

    Arrays are float64. Messages are ``[examples, slots of the graph]``; log-potentials and their adjoints ``[1 or
    examples, numbers]``, one row where all examples share them. ``rows`` are the examples to work on.
    """

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        self.factors, self.slot_start, self.own_start = tuple(factors), slot_start, own_start

    @abstractmethod
    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> Any:
        """Writes the factors' slots of ``outgoing``, normalised log messages, and sets ``possible[row, factor]`` False
        where no assignment is. What it returns is handed to :meth:`pull_back`: whatever saves work there."""

    @abstractmethod
    def pull_back(
        self,
        rows: Integers,
        incoming: Floats,
        own: Floats,
        kept: Any,
        of_outgoing: Floats,
        of_incoming: Floats,
        of_own: Floats,
    ) -> None:
        """Adds to ``of_incoming`` and ``of_own`` the adjoints that belong to ``of_outgoing``, those of the messages
        that :meth:`send` made of ``incoming`` (same arguments)."""


class KernelMessages(CompiledMessages):
    """All factors of one kind by one kernel: ``arrays`` says where they stand."""

    arrays: Any

    @staticmethod
    @abstractmethod
    def kernels() -> tuple[Callable[..., None], Callable[..., None]]:
        """What sends, called with rows, arrays, log-potentials, messages in and out, possible; and its adjoint."""

    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> None:
        self.kernels()[0](rows, self.arrays, own, incoming, outgoing, possible)

    def pull_back(self, rows: Integers, incoming: Floats, own: Floats, kept: Any, *adjoints: Floats) -> None:
        self.kernels()[1](rows, self.arrays, own, incoming, *adjoints)


class TorchMessages(CompiledMessages):
    """One factor by its torch methods: what any factor can do."""

    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> None:
        with torch.no_grad():
            given, numbers = self._tensors(rows, incoming, own)
            outgoing[rows, self._slots] = self.factors[0].messages(given, numbers).numpy()

    def pull_back(
        self,
        rows: Integers,
        incoming: Floats,
        own: Floats,
        kept: Any,
        of_outgoing: Floats,
        of_incoming: Floats,
        of_own: Floats,
    ) -> None:
        given, numbers = self._tensors(rows, incoming, own)
        sources = [each.requires_grad_() for each in (given, numbers) if each is not None]
        with torch.enable_grad():
            sent = self.factors[0].messages(given, numbers)
            # Messages of -inf have no adjoint: theirs are 0.
            seeds = torch.where(torch.isneginf(sent), 0.0, torch.from_numpy(of_outgoing[rows, self._slots]))
            found = torch.autograd.grad(sent, sources, seeds, allow_unused=True) if sent.requires_grad else [None] * 2
        if found[0] is not None:
            of_incoming[rows, self._slots] += self._checked(found[0]).numpy()
        if numbers is not None and found[1] is not None:
            back = self._checked(found[1]).reshape(len(found[1]), -1).numpy()
            of_own[rows if len(of_own) > 1 else slice(None), self._numbers] += back

    def _checked(self, adjoint: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(adjoint).all()):
            raise GradientError(
                f"the messages of {self.factors[0].describe()} have no gradient here (NaN or infinite): its "
                "log-partition function must be differentiable also where a message is -inf"
            )
        return adjoint

    @property
    def _slots(self) -> slice:
        return slice(int(self.slot_start[0]), int(self.slot_start[0]) + self.factors[0].slots)

    @property
    def _numbers(self) -> slice:
        return slice(int(self.own_start[0]), int(self.own_start[0]) + int(np.prod(self.factors[0].potentials_shape)))

    def _tensors(self, rows: Integers, incoming: Floats, own: Floats) -> tuple[torch.Tensor, torch.Tensor | None]:
        given = torch.from_numpy(incoming[rows, self._slots])
        shape = self.factors[0].potentials_shape
        if shape is None:
            return given, None
        mine = own[rows, self._numbers] if len(own) > 1 else own[:, self._numbers]
        return given, torch.from_numpy(mine.copy()).reshape(-1, *shape)


def _outdone(kind: type) -> bool:
    """Whether a class says itself what its messages are, after what it inherits was compiled."""
    lines = [
        next(k for k, each in enumerate(kind.__mro__) if name in vars(each)) for name in ("messages", "log_partition")
    ]
    return min(lines) < next(k for k, each in enumerate(kind.__mro__) if "compiled" in vars(each))


def kinds_of(factors: Sequence[StructuredFactor]) -> list[tuple[type[CompiledMessages], list[int]]]:
    """The places of factors that run together, and what runs them."""
    found: dict[type[CompiledMessages], list[int]] = {}
    alone: list[tuple[type[CompiledMessages], list[int]]] = []
    for place, factor in enumerate(factors):
        if factor.compiled is None or _outdone(type(factor)):
            alone.append((TorchMessages, [place]))
        else:
            found.setdefault(factor.compiled, []).append(place)
    return [*found.items(), *alone]
