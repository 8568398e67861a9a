r"""Losses of one distribution when some values are right: the formulas, once, for variables and for factors.

In: probabilities ``[..., K]`` and bool ``allowed`` on the same axis. Out: ``[...]``. Stage: loss. With one right value
these are the published formulas; with a set :math:`A` of them, any distribution on :math:`A` is free of loss (up to the
constant of the quadratic loss, and the smoothing of the smooth error).
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-12  # probabilities below this count as this in logarithms (Domke 2010: the slope is -1/p, up to 1e12)


def miss(probabilities: Tensor, allowed: Tensor) -> Tensor:
    r""":math:`1 - p(A)`: the probability of a wrong value."""
    return 1 - (probabilities * allowed).sum(-1)


def log_loss(probabilities: Tensor, allowed: Tensor) -> Tensor:
    r""":math:`-\log p(A)`, with :math:`p(A)` raised to :data:`SMALLEST` in value and slope."""
    mass = (probabilities * allowed).sum(-1)
    # Raised by a constant, not clamped: a clamp has no slope, and what is most wrong would no longer be trained.
    return -(mass + (mass.clamp_min(SMALLEST) - mass).detach()).log()


def squared_distance(probabilities: Tensor, allowed: Tensor) -> Tensor:
    r""":math:`\sum_{x \notin A} p(x)^2 + (1 - p(A))^2 / |A|`: squared distance to the distributions on :math:`A`.

    The nearest one gives each value of :math:`A` an equal part of what is missing. With one right value :math:`y` this
    is :math:`\sum_x (p(x) - [x = y])^2`.
    """
    outside = (probabilities.square() * ~allowed).sum(-1)
    missing = miss(probabilities, allowed)
    return outside + missing.square() / allowed.sum(-1).clamp_min(1)


def smooth_error(probabilities: Tensor, allowed: Tensor, sharpness: float) -> Tensor:
    r""":math:`S(\max_{x \notin A} p(x) - \max_{x \in A} p(x))`, :math:`S(t) = 1 / (1 + e^{-\lambda t})`.

    0 where no value is wrong. Tied maxima share the slope.
    """
    wrong = probabilities.masked_fill(allowed, -torch.inf).amax(-1)
    right = probabilities.masked_fill(~allowed, -torch.inf).amax(-1)
    return torch.sigmoid(sharpness * (wrong - right))
