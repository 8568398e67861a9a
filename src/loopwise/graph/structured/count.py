r"""How many of several variables are ON, as one factor: at least, at most, exactly, or a weight for each number.

In: log messages. Out: messages. Stage: structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.automaton import FORBIDDEN, Automaton


@dataclass(frozen=True, eq=False)
class Count(Automaton):
    r"""1 if at least ``least`` and at most ``most`` variables are ON (None: all may be), else 0.

    With ``weighted=True`` there are log-potentials instead, of shape (variables + 1,): one for each number of variables
    that are ON, from none to all of them,

    .. math:: \psi(y) = e^{\theta_{k}},\quad k = \sum_i y_i.

    Messages come from the distributions of the numbers to the left and to the right of a variable: O(variables x most),
    and O(variables x least) where ``most`` is no limit.

    Parameters
    ----------
    variables: how many there are.
    least, most: bounds of how many are ON; ``most`` None: all may be.
    weighted: whether there are log-potentials of the numbers instead.

    >>> import torch
    >>> torch.round(Count.exactly(5, 2).log_partition(torch.zeros(10, dtype=torch.float64)).exp())
    tensor(10., dtype=torch.float64)
    """

    least: int = 0
    most: int | None = None
    weighted: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.variables if self.most is None else self.most
        if not 0 <= self.least <= most <= self.variables:
            raise ValueError(
                f"Count over {self.variables} variables cannot have at least {self.least} and at most {most} of them "
                f"ON; give 0 <= least <= most <= {self.variables}"
            )
        if self.weighted and (self.least, self.most) != (0, None):
            raise ValueError("a weighted Count has a log-potential for each number; rule numbers out by -inf there")

    @classmethod
    def at_least(cls, variables: int, number: int) -> Count:
        """``number`` or more variables are ON."""
        return cls(variables, least=number)

    @classmethod
    def at_most(cls, variables: int, number: int) -> Count:
        """``number`` or fewer variables are ON (a budget)."""
        return cls(variables, most=number)

    @classmethod
    def exactly(cls, variables: int, number: int) -> Count:
        """``number`` variables are ON."""
        return cls(variables, number, number)

    @property
    def potentials_shape(self) -> tuple[int, ...] | None:
        return (self.variables + 1,) if self.weighted else None

    @property
    def _unlimited(self) -> bool:
        """Whether numbers beyond ``least`` need not be told apart."""
        return not self.weighted and self.most in (None, self.variables)

    @cached_property
    def transitions(self) -> Integers:
        last = self.least if self._unlimited else self.variables if self.most is None else self.most
        stay = np.arange(last + 1)
        up = np.append(stay[1:], last if self._unlimited else FORBIDDEN)
        return np.tile(np.stack([stay, up], -1).astype(np.int64), (self.variables, 1, 1))

    @property
    def accepted(self) -> np.ndarray | None:
        if self.weighted:
            return None
        return np.where(np.arange(self.transitions.shape[1]) >= self.least, 0.0, -np.inf)
