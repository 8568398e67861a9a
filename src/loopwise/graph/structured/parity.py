r"""The parity of any number of binary variables as one factor: checks of codes, XOR constraints.

In: log messages. Out: messages. Stage: structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.automaton import Automaton
from loopwise.graph.structured.automaton_messages import ParityMessages


@dataclass(frozen=True, eq=False)
class Parity(Automaton):
    r"""1 if the number of variables that are ON is even (``odd`` False) or odd (True), else 0.

    .. math:: \tanh\tfrac{o_i}{2} = \pm\prod_{j\ne i}\tanh\tfrac{a_j}{2}

    for log-odds :math:`a_j` in and :math:`o_i` out, plus for an even number OFF counted as +1; computed from the
    weights of an even and an odd number on both sides of i, so that it is right from :math:`o = 0` to thousands of
    nats. O(variables). With ``odd=None`` each example has a sign of its own: the potentials, shape (2,), are the log
    weights of an even and of an odd number; :meth:`signs` makes them of syndrome bits.

    Parameters
    ----------
    variables: how many there are.
    odd: which sum has weight; None: each example says so by its potentials.

    >>> import torch
    >>> check = Parity(3, odd=None)
    >>> same = torch.tensor([0.1, 0.9, 0.1, 0.9, 0.5, 0.5]).log()  # two that are likely ON, a third left open
    >>> check.messages(same, Parity.signs([0, 1])).exp()[:, -2:]  # of an even and of an odd sum
    tensor([[0.8200, 0.1800],
            [0.1800, 0.8200]])
    """

    compiled = ParityMessages

    odd: bool | None = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.odd not in (None, False, True):
            raise ValueError(f"odd of Parity must be False (an even sum), True or None (by example), not {self.odd!r}")

    @staticmethod
    def signs(bits: ArrayLike | Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Potentials ``[*batch, 2]`` that hold the parity of each example at its bit (0: even, 1: odd)."""
        odd = torch.as_tensor(bits)
        if not bool(((odd == 0) | (odd == 1)).all()):
            raise ValueError("the bits of parity checks must be 0 (even) or 1 (odd)")
        held = odd.to(torch.bool)[..., None] == torch.tensor([False, True], device=odd.device)
        return torch.where(held, 0.0, -torch.inf).to(dtype)

    @property
    def potentials_shape(self) -> tuple[int, ...] | None:
        return (2,) if self.odd is None else None

    def allows(self, values: Tensor, potentials: Tensor | None = None) -> Tensor:
        odd = values.sum(-1) % 2
        if potentials is None:
            return odd == bool(self.odd)
        signs = potentials.expand(*odd.shape, 2)
        return ~torch.isneginf(signs.gather(-1, odd[..., None])[..., 0])

    @cached_property
    def transitions(self) -> Integers:
        return np.tile(np.array([[0, 1], [1, 0]], dtype=np.int64), (self.variables, 1, 1))

    @property
    def accepted(self) -> np.ndarray | None:
        return None if self.odd is None else np.where(np.array([False, True]) == self.odd, 0.0, -np.inf)
