r"""From the strength of a factor to how much of it is there: a smooth step.

In: strengths :math:`S\ge0`, a sharpness :math:`s`. Out: presences :math:`\tau(S)\in[0,1]`. Stage: budget (Eisner &
Stoyanov 2011, section 3, in the reading of the cost-aware spec, section 3.1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from loopwise.loss.univariate import check_sharpness

LARGEST = 700.0  # exp of more overflows


class PresenceStep(ABC):
    """An increasing function from 0 to 1, steeper the larger its sharpness."""

    @abstractmethod
    def __call__(self, strength: Tensor, sharpness: float) -> Tensor:
        """Presences, of the shape of ``strength``."""

    @abstractmethod
    def half(self, sharpness: float) -> float:
        """The strength at which the presence is 1/2: below it a factor is pruned."""


@dataclass(frozen=True)
class Published(PresenceStep):
    r""":math:`\tau(S)=2/(1+\exp(S^{-s}))=2\,\sigma(-S^{-s})`: 1/2 at :math:`S=(\ln3)^{-1/s}`, a step at 1 in the limit.

    Flat at 0: :math:`\tau` and all its derivatives vanish there, so a factor that has become weak stays so.

    >>> round(float(Published()(torch.tensor(1 / math.log(3.0)), 1.0)), 6)
    0.5
    """

    def __call__(self, strength: Tensor, sharpness: float) -> Tensor:
        check_sharpness(sharpness)
        # Where S^-s would overflow, tau and its slope are 0.
        least = LARGEST ** (-1.0 / sharpness)
        alive = strength > least
        safe = torch.where(alive, strength, 1.0)
        return torch.where(alive, 2.0 * torch.sigmoid(-safe.pow(-sharpness)), 0.0)

    def half(self, sharpness: float) -> float:
        check_sharpness(sharpness)
        return float(math.log(3.0) ** (-1.0 / sharpness))


@dataclass(frozen=True)
class Tanh(PresenceStep):
    r""":math:`\tau(S)=2\sigma(sS)-1=\tanh(sS/2)`, of the authors' released toolkit: 1/2 at :math:`S=\ln3/s`."""

    def __call__(self, strength: Tensor, sharpness: float) -> Tensor:
        check_sharpness(sharpness)
        return torch.tanh(0.5 * sharpness * strength)

    def half(self, sharpness: float) -> float:
        check_sharpness(sharpness)
        return math.log(3.0) / sharpness
