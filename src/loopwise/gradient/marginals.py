r"""Inference as a map from natural parameters to marginals: all that perturbation and the implicit system see of it.

In: natural parameters. Out: marginals in the same shapes. Stage: gradient. Where marginals are the gradient of a
(log-partition) function of the parameters, their Jacobian is symmetric, so that :math:`dL/d\theta = J g` with
:math:`g = \partial L/\partial\mu` (Domke 2010, section 3): one direction of the forward map is the whole backward.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from loopwise.gradient.base import Gradient, Report
from loopwise.graph.layout import Layout


class Natural(NamedTuple):
    """A number for every value of every variable and every cell of every factor of arity 2 and more: natural
    parameters, marginals, their adjoints and differences all have this shape. Batch dimensions are flat."""

    unary: Tensor  # [examples, states]
    tables: tuple[Tensor, ...]  # [examples, factors, *shape], one a message group of the layout


class Outcome(NamedTuple):
    """Where one inference call ended."""

    marginals: Natural
    log_partition: Tensor  # [examples], without the constants of factors of arity 0
    sweeps: Tensor  # int64 [examples]
    converged: bool


class MarginalMap(Protocol):
    """Inference on one graph, to be called again at other parameters. Runs without recording gradients."""

    layout: Layout
    temperature: float

    @property
    def counting(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Counting numbers of the layout's message factors and of its variables; None if the method has none."""

    def __call__(self, theta: Natural, sweeps: int | None = None) -> Outcome:
        """Marginals at ``theta``; with ``sweeps``, after exactly so many, from the same start in the same order."""


class MarginalGradient(Gradient):
    """An estimator that only needs the marginal map."""

    @abstractmethod
    def pull_back(
        self, inference: MarginalMap, theta: Natural, found: Outcome, adjoint: Natural, report: Report
    ) -> Natural:
        r""":math:`J^\top g` for :math:`g` = ``adjoint``, at the result ``found`` of ``inference(theta)``."""
