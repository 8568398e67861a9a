r"""Inference as a map from natural parameters to marginals: all that perturbation and the implicit system see of it.

In: natural parameters. Out: marginals in the same shapes. Stage: gradient. Where marginals are the gradient of a
(log-partition) function of the parameters, their Jacobian is symmetric, so that :math:`dL/d\theta = J g` with
:math:`g = \partial L/\partial\mu` (Domke 2010, section 3): one direction of the forward map is the whole backward.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.gradient.base import Gradient, Report
from loopwise.graph.layout import Layout


class Natural(NamedTuple):
    """A number for every value of every variable and every cell of every factor of arity 2 and more: natural
    parameters, marginals, their adjoints and differences all have this shape. Batch dimensions are flat."""

    unary: Tensor  # [examples, states]
    tables: tuple[Tensor, ...]  # [examples, factors, *shape], one a message group of the layout

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All tensors in a row."""
        return (self.unary, *self.tables)

    @staticmethod
    def of(parts: tuple[Tensor, ...]) -> Natural:
        """The inverse of :attr:`parts`."""
        return Natural(parts[0], tuple(parts[1:]))


class Outcome(NamedTuple):
    """Where one inference call ended."""

    marginals: Natural
    sweeps: Tensor  # int64 [examples]
    converged: bool
    messages: Callable[[], Tensor] | None = None  # from which another call can go on; None: not from any


class MarginalCounts(NamedTuple):
    """Counting numbers of the entropy that a method maximises."""

    factor: NDArray[np.float64]  # of the layout's message factors
    variable: NDArray[np.float64]  # the c_i, not their sums with the factors'


class MarginalMap(Protocol):
    """Inference on one graph, to be called again at other parameters. Runs without recording gradients."""

    @property
    def layout(self) -> Layout:
        """The graph's."""

    @property
    def temperature(self) -> float:
        """Marginals at ``theta`` are those of ``theta / temperature``."""

    @property
    def tolerance(self) -> float:
        """The change of beliefs at which the method stops; 0 if it makes all its sweeps, or has none."""

    @property
    def iterations(self) -> int:
        """Sweeps that the method makes at most."""

    @property
    def counting(self) -> MarginalCounts | None:
        """None if the method has no counting numbers."""

    def __call__(
        self,
        theta: Natural,
        *,
        sweeps: int | None = None,
        tolerance: float | None = None,
        iterations: int | None = None,
        messages: Tensor | None = None,
    ) -> Outcome:
        """Marginals at ``theta``, from the same start in the same order as every other call.

        ``messages``: those of an earlier call, from which to go on instead of from the start. ``sweeps``: exactly so
        many, without a test of convergence. ``tolerance``, ``iterations``: other than the
        method's own. The precision is that of ``theta``.
        """


class MarginalGradient(Gradient):
    """An estimator that only needs the marginal map."""

    @abstractmethod
    def pull_back(
        self, inference: MarginalMap, theta: Natural, found: Outcome, adjoint: Natural, report: Report
    ) -> Natural:
        r""":math:`J^\top g` for :math:`g` = ``adjoint``, at the result ``found`` of ``inference(theta)``."""
