r"""A structured factor: a program over many variables in place of a table that would be too large.

In: log messages from its variables. Out: its log-partition function, the messages it sends back, and optionally its
best assignment and exact samples. Stage: structure (the one place below potentials that computes with numbers).

A factor stands over an ordered scope of variables. Its *slots* are the values of those variables, one after another:
incoming and outgoing messages are ``[*batch, slots]``. Only :meth:`StructuredFactor.log_partition` must be written,

.. math:: \log Z(n) = \log\sum_{y} \exp\Big(\theta(y) + \sum_i n_i(y_i)\Big),

since all else follows from it (a message is log Z with its variable held at each value); faster ways are overridden
where there are any.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.notices import ImpossibleError, in_example

if TYPE_CHECKING:
    from loopwise.graph.structured.compiled import CompiledMessages


class StructuredFactor(ABC):
    """One factor; subclasses are frozen dataclasses of their structure (sizes, options, integer arrays).

    Must: :attr:`cardinalities` and :meth:`log_partition`. May: :meth:`messages`, :meth:`max_messages`, :meth:`argmax`,
    :meth:`sample`, and :attr:`potentials_shape` if the factor has numbers of its own. All are functions of torch
    tensors, differentiable where that makes sense, of any batch dimensions; the dtype that comes in goes out. ``-inf``
    in a message is a value that is ruled out: a factor must take it. ``loopwise.testing.check_factor`` compares all of
    it with the table that the factor stands for.

    >>> import loopwise as lw, torch
    >>> class AllEqual(StructuredFactor):  # of three binary variables
    ...     cardinalities = (2, 2, 2)
    ...     def log_partition(self, incoming, potentials=None):
    ...         return torch.logsumexp(incoming.unflatten(-1, (3, 2)).sum(-2), -1)
    >>> graph = lw.FactorGraph([2, 2, 2], {"unary": [[0], [1], [2]]}, structured={"equal": [(AllEqual(), [0, 1, 2])]})
    >>> tables = {"unary": torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])}
    >>> lw.BP()(graph, tables).variables[:, 1]
    tensor([0.8808, 0.8808, 0.8808])
    """

    #: What runs all factors of this kind at once in the compiled engine; None: the torch methods, factor by factor.
    compiled: ClassVar[type[CompiledMessages] | None] = None

    @property
    @abstractmethod
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of each variable of the scope, in order."""

    @property
    def potentials_shape(self) -> tuple[int, ...] | None:
        """Shape of the log-potentials of one factor of this kind, None if it has none (a hard constraint)."""
        return None

    @abstractmethod
    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """log Z ``[*batch]`` of ``incoming`` ``[*batch, slots]``; -inf where no assignment is possible.

        ``potentials``: ``[*b, *potentials_shape]`` with ``b`` broadcastable to the batch."""

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """Log messages to the variables ``[*batch, slots]``, those to each variable normalised.

        A message does not depend on the incoming message of its own variable. ImpossibleError if no assignment is
        possible. This default calls :meth:`log_partition` once a slot, with its variable held at that value: override
        it where there is a way to have all messages at once."""
        self.refuse(torch.isneginf(self.log_partition(incoming, potentials)))
        pieces = []
        for first, end in zip(self.slot_start[:-1], self.slot_start[1:], strict=True):
            values = []
            for slot in range(first, end):
                chosen = torch.full((int(end - first),), -torch.inf, dtype=incoming.dtype, device=incoming.device)
                chosen[slot - first] = 0.0
                alone = chosen.expand(*incoming.shape[:-1], int(end - first))
                moved = torch.cat([incoming[..., :first], alone, incoming[..., end:]], -1)
                values.append(self.log_partition(moved, potentials))
            pieces.append(torch.stack(values, -1))
        return self.normalised(torch.cat(pieces, -1))

    def max_messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """Max-product messages ``[*batch, slots]``: as :meth:`messages` with the largest term in place of the sum.
        Max-product also needs :meth:`argmax`."""
        raise NotImplementedError(f"{type(self).__name__} has no max-product messages; define them in the class")

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """An assignment of largest score, int64 ``[*batch, variables]``."""
        raise NotImplementedError(
            f"{type(self).__name__} has no argmax; define it in the class, or decode from marginals"
        )

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        """Exact samples, int64 ``[count, *batch, variables]``."""
        raise NotImplementedError(
            f"{type(self).__name__} draws no samples; define it in the class, or sample a dense table"
        )

    def k_best(self, incoming: Tensor, potentials: Tensor | None = None, *, count: int) -> tuple[Tensor, Tensor]:
        """The ``count`` assignments of largest score, best first, exactly.

        Returns
        -------
        values, scores:
            int64 ``[count, *batch, variables]`` and ``[count, *batch]``, the incoming messages included. Where there
            are fewer assignments, values are -1 and scores -inf. No gradient.

        This default asks :meth:`argmax` once for each variable and assignment (Lawler 1972).

        >>> from loopwise.graph.structured import ProjectiveTree
        >>> tree = ProjectiveTree(2)  # edges 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 1
        >>> values, scores = tree.k_best(torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0]), count=2)
        >>> tree.heads(values).tolist(), scores.tolist()
        ([[0, 0], [0, 1]], [2.0, 1.5])
        """
        from loopwise.graph.structured.k_best import k_best_by_branching

        return k_best_by_branching(self, incoming, potentials, count)

    def branching(self, values: Tensor) -> Sequence[int]:
        """Variables of which every other assignment than ``values`` ``[variables]`` differs in one: by default all."""
        return range(self.arity)

    # What follows from these is the same for all factors.

    @property
    def arity(self) -> int:
        """Number of variables."""
        return len(self.cardinalities)

    @cached_property
    def slot_start(self) -> Integers:
        """First slot of each variable, ``[variables + 1]``."""
        return starts_of(self.cardinalities)

    @property
    def slots(self) -> int:
        return int(self.slot_start[-1])

    @property
    def maximises(self) -> bool:
        """Whether there is all that max-product needs: its messages, and the best assignment to read off them."""
        mine, base = type(self), StructuredFactor
        return mine.max_messages is not base.max_messages and mine.argmax is not base.argmax

    @cached_property
    def slot_variable(self) -> Integers:
        """The variable (position in the scope) of each slot, ``[slots]``."""
        return np.repeat(np.arange(self.arity), self.cardinalities)

    def marginals(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """Marginals of the variables under the factor and ``incoming``, ``[*batch, slots]``."""
        return torch.exp(self.normalised(self.messages(incoming, potentials) + incoming))

    def score(self, values: Tensor, potentials: Tensor | None = None) -> Tensor:
        """Log value of the factor at ``values`` ``[*batch, variables]``: -inf where it forbids them."""
        chosen = torch.full((*values.shape[:-1], self.slots), -torch.inf, dtype=torch.float64, device=values.device)
        places = values + torch.tensor(self.slot_start[:-1], device=values.device)
        if potentials is not None:
            chosen = chosen.to(potentials.dtype)
        return self.log_partition(chosen.scatter(-1, places, 0.0), potentials)

    def allows(self, values: Tensor, potentials: Tensor | None = None) -> Tensor:
        """Whether the factor does not forbid ``values`` ``[*batch, variables]``, bool ``[*batch]``."""
        return ~torch.isneginf(self.score(values, potentials))

    def normalised(self, messages: Tensor) -> Tensor:
        """The same messages ``[*batch, slots]`` with those of each variable summing to 1; ImpossibleError where all
        values of a variable are ruled out."""
        owner = torch.tensor(self.slot_variable, device=messages.device)
        index = owner.expand(messages.shape)
        shape = (*messages.shape[:-1], self.arity)
        high = torch.full(shape, -torch.inf, dtype=messages.dtype, device=messages.device)
        high = high.scatter_reduce(-1, index, messages.detach(), "amax")
        if bool(torch.isneginf(high).any()):
            self.refuse(torch.isneginf(high).any(-1))
        total = torch.zeros(shape, dtype=messages.dtype, device=messages.device)
        total = total.index_add(-1, owner, torch.exp(messages - high[..., owner]))
        return messages - (torch.log(total) + high)[..., owner]

    def refuse(self, impossible: Tensor) -> None:
        """Raises for the first example of ``impossible``, bool ``[*batch]``, if there is any."""
        if bool(impossible.any()):
            where = in_example(impossible.nonzero()[0].tolist())
            raise ImpossibleError(f"no assignment is possible under {self.describe()}{where}")

    def describe(self) -> str:
        """How error messages call the factor."""
        return f"the factor {type(self).__name__} over {self.arity} variables"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not dataclasses.is_dataclass(self):
            return self is other
        names = [field.name for field in dataclasses.fields(self)]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.cardinalities))


@dataclasses.dataclass(frozen=True, eq=False)
class BinaryFactor(StructuredFactor):
    """A factor over ``variables`` binary variables."""

    variables: int

    def __post_init__(self) -> None:
        if self.variables < 1:
            raise ValueError(f"{type(self).__name__} needs at least one variable, not {self.variables}")

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return (2,) * self.variables


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, np.ndarray) or isinstance(theirs, np.ndarray):
        return np.array_equal(mine, theirs)
    return bool(mine == theirs)


def log_odds(incoming: Tensor) -> tuple[Tensor, Tensor]:
    """Of binary variables, whose slots are (OFF, ON): log-odds of ON, and what every assignment has in common.

    ``[*batch, slots]`` to ``[*batch, variables]`` and ``[*batch]``: log Z of the messages is that of weights exp(odds)
    for the variables that are ON (1 for those of odds +inf, which must be) plus the second."""
    pairs = incoming.reshape(*incoming.shape[:-1], -1, 2)
    off, on = pairs[..., 0], pairs[..., 1]
    must, never = torch.isneginf(off), torch.isneginf(on)
    finite = torch.where(must | never, 0.0, on) - torch.where(must | never, 0.0, off)
    odds = torch.where(never, -torch.inf, torch.where(must, torch.inf, finite))
    return odds, torch.where(must, on, off).sum(-1)


def from_log_odds(odds: Tensor) -> Tensor:
    """Normalised log messages ``[*batch, 2 variables]`` of log-odds ``[*batch, variables]``, which may be infinite."""
    hard = torch.isinf(odds)
    soft = torch.where(hard, 0.0, odds)
    on = torch.where(hard, torch.where(odds > 0, 0.0, -torch.inf), torch.nn.functional.logsigmoid(soft))
    off = torch.where(hard, torch.where(odds > 0, -torch.inf, 0.0), torch.nn.functional.logsigmoid(-soft))
    return torch.stack([off, on], -1).flatten(-2)
