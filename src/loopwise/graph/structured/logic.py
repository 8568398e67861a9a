r"""Deterministic logic over binary variables (ON is true): or, and, implication, with negated literals.

In: log messages. Out: messages. Stage: structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.automaton import FORBIDDEN, Automaton, literals


@dataclass(frozen=True, eq=False)
class Logic(Automaton):
    """A constraint on the literals of ``variables`` variables; ``negated``: positions in the scope whose literal holds
    when the variable is OFF. State 1 of the automaton: some literal has settled the matter."""

    negated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "negated", tuple(sorted({int(place) for place in self.negated})))
        literals(type(self).__name__, self.variables, self.negated)

    @property
    def held(self) -> np.ndarray:
        """Whether each literal holds at each value of its variable, bool ``[variables, 2]``."""
        return literals(type(self).__name__, self.variables, self.negated)

    def _settled_by(self, settling: np.ndarray) -> Integers:
        """Transitions to state 1 by the values that ``settling`` (bool ``[variables, 2]``) marks; no way back."""
        return np.stack([settling, np.ones_like(settling)], 1).astype(np.int64)

    def _ending(self, table: Integers, allowed: np.ndarray) -> Integers:
        """The same with the last variable judged: its value is ``allowed`` (bool ``[2, 2]``, by state) or not."""
        table[-1] = np.where(allowed, np.arange(2)[:, None], FORBIDDEN)
        return table


@dataclass(frozen=True, eq=False)
class Or(Logic):
    r"""1 if at least one literal holds, else 0; with ``output=True`` 1 if the last literal says whether one of the
    others does, :math:`y_n = y_1\vee\dots\vee y_{n-1}`.

    A message is the odds of any other literal, :math:`o_i = -\log(1-\prod_{j\ne i}(1-q_j))`, added up from both sides
    without a subtraction; O(variables).

    Parameters
    ----------
    variables: how many there are, the output included.
    negated: positions of the scope whose literal holds when they are OFF.
    output: whether the last literal says if one of the others holds.

    >>> import torch
    >>> torch.round(Or(3).log_partition(torch.zeros(6, dtype=torch.float64)).exp())
    tensor(7., dtype=torch.float64)
    >>> Or(3, output=True).score(torch.tensor([[0, 1, 1], [0, 0, 1]]))
    tensor([0., -inf], dtype=torch.float64)
    """

    output: bool = False

    @cached_property
    def transitions(self) -> Integers:
        table = self._settled_by(self.held)
        return self._ending(table, np.stack([~self.held[-1], self.held[-1]])) if self.output else table

    @property
    def accepted(self) -> np.ndarray:
        return np.array([0.0 if self.output else -np.inf, 0.0])


@dataclass(frozen=True, eq=False)
class And(Logic):
    r"""1 if all literals hold, else 0; with ``output=True`` 1 if the last literal says whether all others do,
    :math:`y_n = y_1\wedge\dots\wedge y_{n-1}`. O(variables).

    Parameters
    ----------
    variables: how many there are, the output included.
    negated: positions of the scope whose literal holds when they are OFF.
    output: whether the last literal says if all others hold.

    >>> import torch
    >>> And(3, output=True).score(torch.tensor([[1, 1, 1], [0, 1, 1], [0, 1, 0]]))
    tensor([0., -inf, 0.], dtype=torch.float64)
    """

    output: bool = False

    @cached_property
    def transitions(self) -> Integers:
        table = self._settled_by(~self.held)
        return self._ending(table, np.stack([self.held[-1], ~self.held[-1]])) if self.output else table

    @property
    def accepted(self) -> np.ndarray:
        return np.array([0.0, 0.0 if self.output else -np.inf])


@dataclass(frozen=True, eq=False)
class Implies(Logic):
    r"""1 if the last literal holds whenever all others do, :math:`y_1\wedge\dots\wedge y_{n-1}\rightarrow y_n`, else 0.
    O(variables).

    Parameters
    ----------
    variables: premises and conclusion together.
    negated: positions of the scope whose literal holds when they are OFF.

    >>> import torch
    >>> Implies(2).score(torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
    tensor([0., 0., -inf, 0.], dtype=torch.float64)
    """

    @cached_property
    def transitions(self) -> Integers:
        return self._ending(self._settled_by(~self.held), np.stack([self.held[-1], np.array([True, True])]))

    @property
    def accepted(self) -> np.ndarray:
        return np.array([0.0, 0.0])
