r"""How strong a factor is, and which part of its table that strength is of.

In: log tables of one group, ``[*batch, factors, *shape]``. Out: strengths, and the table as a part that may be pruned
and single-variable terms that stay. Stage: budget (cost-aware spec, sections 3.1 and 3.2).

The distribution does not change when a constant is added to a table, or a term of one variable moved to a unary factor;
the raw strength does. So a factor that says nothing may look strong: for use, take :class:`Interaction`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


class Strength(ABC):
    r""":math:`S_\alpha=\sum_{x_\alpha}\iota_\alpha(x_\alpha)^2` of a part :math:`\iota_\alpha` of the log table."""

    leaves_terms: ClassVar[bool] = False  # whether single-variable terms are not in the part

    @abstractmethod
    def split(self, table: Tensor, arity: int) -> tuple[Tensor, list[Tensor]]:
        r"""``table`` as :math:`\iota(x)+\sum_i u_i(x_i)`, up to a constant: the part, ``[*batch, factors, *shape]``,
        and the terms of each axis, ``[*batch, factors, K]``; none if single variables keep nothing."""

    def __call__(self, table: Tensor, arity: int) -> Tensor:
        """Strengths ``[*batch, factors]``."""
        part, _ = self.split(table, arity)
        return _cells(part, arity).square().sum(-1)


@dataclass(frozen=True)
class Raw(Strength):
    r""":math:`\sum_{x_\alpha}(\log\psi_\alpha(x_\alpha))^2`, as published (Eisner & Stoyanov 2011, section 3)."""

    def split(self, table: Tensor, arity: int) -> tuple[Tensor, list[Tensor]]:
        return table, []


@dataclass(frozen=True)
class Centred(Strength):
    """The same of the table without its mean, which changes no distribution (but the log-partition function)."""

    def split(self, table: Tensor, arity: int) -> tuple[Tensor, list[Tensor]]:
        return table - _mean(table, arity), []


@dataclass(frozen=True)
class Interaction(Strength):
    r"""The same of the table without mean and main effects: what single-variable factors cannot say.

    For binary pairs all cells are :math:`\pm\frac14(\eta_{00}+\eta_{11}-\eta_{01}-\eta_{10})`.

    >>> import torch
    >>> table = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])  # a sum of two terms; agreement
    >>> Interaction()(table, 2).tolist()
    [0.0, 1.0]
    """

    leaves_terms: ClassVar[bool] = True

    def split(self, table: Tensor, arity: int) -> tuple[Tensor, list[Tensor]]:
        mean = _mean(table, arity)
        flat_mean = mean.reshape(*mean.shape[: mean.ndim - arity], 1)
        terms = [_along(table, axis, arity) - flat_mean for axis in range(arity)]
        part = table - mean
        for axis, term in enumerate(terms):
            part = part - spread_term(term, axis, arity)
        terms[0] = terms[0] + flat_mean
        return part, terms


def spread_term(term: Tensor, axis: int, arity: int) -> Tensor:
    """A term of one axis ``[*batch, factors, K]``, to be added to tables ``[*batch, factors, *shape]``."""
    shape = [term.shape[-1] if place == axis else 1 for place in range(arity)]
    return term.reshape(*term.shape[:-1], *shape)


def _cells(table: Tensor, arity: int) -> Tensor:
    return table.flatten(table.ndim - arity)


def _mean(table: Tensor, arity: int) -> Tensor:
    """The mean of each table, with its axes kept."""
    return table.mean(tuple(range(table.ndim - arity, table.ndim)), keepdim=True)


def _along(table: Tensor, axis: int, arity: int) -> Tensor:
    """The mean over all axes but one, ``[*batch, factors, K]``."""
    first = table.ndim - arity
    others = tuple(first + place for place in range(arity) if place != axis)
    return table.mean(others) if others else table
