r"""Penalties on parameters: what is added to the loss, and its proximal step.

In: parameters. Out: a number to add to a loss, or the parameters after a proximal step. Stage: numbers. A prior is used
in one of two ways: ``loss + prior.value(parameters)`` under any optimiser, or given to an optimiser that takes it in
closed form (:class:`~loopwise.learn.optim.AdaGradCOMID`), which is how exact zeros come about.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from loopwise.lazy import old_names

# Halvings of the interval in which the norm of a group is sought: down to the last bit of a double.
_HALVINGS = 60


@dataclass(frozen=True)
class Prior(ABC):
    """A penalty of a given strength."""

    strength: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.strength < math.inf:
            raise ValueError(
                f"the strength of {type(self).__name__} must be a finite number, at least 0, not {self.strength}"
            )

    def value(self, parameters: Iterable[Tensor]) -> Tensor:
        """The penalty of all ``parameters`` together, a scalar, differentiable."""
        terms = [self._of(parameter) for parameter in parameters]
        return torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)

    @abstractmethod
    def _of(self, parameter: Tensor) -> Tensor:
        """The penalty of one parameter tensor."""

    @abstractmethod
    def prox(self, parameter: Tensor, scale: Tensor) -> Tensor:
        r""":math:`\arg\min_\theta\ \sum_i \frac{(\theta_i-z_i)^2}{2 s_i} + \mathrm{penalty}(\theta)`.

        ``parameter`` is :math:`z`, ``scale`` the step :math:`s > 0` of each coordinate (broadcast).
        """


class Separable(Prior):
    """A penalty that treats every coordinate by itself, so that ``times`` equal proximal steps have a closed form."""

    def prox(self, parameter: Tensor, scale: Tensor) -> Tensor:
        return self.repeated(parameter, scale, 1)

    @abstractmethod
    def repeated(self, parameter: Tensor, scale: Tensor, times: Tensor | int) -> Tensor:
        """``times`` proximal steps of the same ``scale``, exactly."""

    @property
    @abstractmethod
    def strengths(self) -> tuple[float, float]:
        """Strengths of the L1 and of the L2 part, for compiled code; one of them is 0."""


class L2(Separable):
    r"""Gaussian prior: :math:`\frac{\lambda}{2}\sum_i\theta_i^2`.

    >>> import torch
    >>> float(L2(0.5).value([torch.tensor([1.0, 2.0])]))
    1.25
    """

    def _of(self, parameter: Tensor) -> Tensor:
        return 0.5 * self.strength * parameter.square().sum()

    def repeated(self, parameter: Tensor, scale: Tensor, times: Tensor | int) -> Tensor:
        # (1 + lambda s)^-k; the logarithm keeps the digits where lambda s is small.
        return parameter * torch.exp(-times * torch.log1p(self.strength * scale))

    @property
    def strengths(self) -> tuple[float, float]:
        return 0.0, self.strength


class L1(Separable):
    r"""Laplace prior: :math:`\lambda\sum_i|\theta_i|`; the proximal step is a soft threshold, which gives exact zeros.

    >>> import torch
    >>> L1(1.0).prox(torch.tensor([3.0, 0.5, -3.0]), torch.tensor(1.0)).tolist()
    [2.0, 0.0, -2.0]
    """

    def _of(self, parameter: Tensor) -> Tensor:
        return self.strength * parameter.abs().sum()

    def repeated(self, parameter: Tensor, scale: Tensor, times: Tensor | int) -> Tensor:
        # Soft thresholds add up: those of a and then b are that of a + b.
        return torch.sign(parameter) * (parameter.abs() - times * self.strength * scale).clamp(min=0.0)

    @property
    def strengths(self) -> tuple[float, float]:
        return self.strength, 0.0


class GroupSparsity(Prior):
    r"""A penalty on whole tables: :math:`\lambda\sum_f\sqrt{\mathrm{cells}}\,\lVert\theta_f\rVert_2` (Yuan & Lin 2006).

    Row ``f`` of a parameter ``[factors, *shape]`` is one group, so factors that do not help vanish as a whole: the
    structure is learnt. Under :class:`~loopwise.SparsePotentials` a row is all weights of one feature.

    >>> import torch
    >>> tables = torch.tensor([[[0.1, 0.0], [0.0, 0.1]], [[3.0, 0.0], [0.0, 4.0]]])
    >>> kept = GroupSparsity(0.5).prox(tables, torch.tensor(1.0))
    >>> [round(float(table.norm()), 4) for table in kept]
    [0.0, 4.0]
    """

    def _of(self, parameter: Tensor) -> Tensor:
        rows = _rows(parameter)
        norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
        return self.strength * math.sqrt(rows.shape[1]) * norms.sum()

    def prox(self, parameter: Tensor, scale: Tensor) -> Tensor:
        r"""With steps that differ within a group the norm :math:`r` of the answer solves one equation,
        :math:`\sum_i (z_i/(r + c s_i))^2 = 1` with :math:`c = \lambda\sqrt{\mathrm{cells}}`, by halving.

        A group is 0 exactly where :math:`\lVert z/s\rVert\le c`. O(60 cells).
        """
        z = _rows(parameter)
        steps = _rows(scale.expand(parameter.shape))
        limit = self.strength * math.sqrt(z.shape[1])
        low = z.new_zeros(len(z), 1)
        high = torch.linalg.vector_norm(z, dim=1, keepdim=True)
        alive = torch.linalg.vector_norm(z / steps, dim=1, keepdim=True) > limit
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            inside = (z / (middle + limit * steps)).square().sum(1, keepdim=True) > 1.0
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        norm = 0.5 * (low + high)
        kept = torch.where(alive, z * (norm / (norm + limit * steps)), torch.zeros_like(z))
        return kept.reshape(parameter.shape)


def _rows(parameter: Tensor) -> Tensor:
    """``[groups, cells]``: a parameter of one axis or none has one cell a group."""
    return parameter.reshape(parameter.shape[0], -1) if parameter.ndim > 1 else parameter.reshape(-1, 1)


__getattr__ = old_names(__name__, {"Group": "GroupSparsity"})
