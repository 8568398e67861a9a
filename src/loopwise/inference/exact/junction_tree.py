"""Message passing on a junction tree: the numbers of one exact run.

In: a :class:`JunctionTree` and flat log tables ``[examples, cells]``. Out: log-partition function, marginals,
joint maximum, samples, and derivatives of marginals, all NumPy. Stage: inference, below
:mod:`loopwise.inference.exact.method`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.elimination import JunctionTree
from loopwise.graph.factor_graph import Integers

if TYPE_CHECKING:
    from loopwise.graph.kernels.ports import Ports

Floats = NDArray[np.float64]


class Calibration:
    """Messages on the tree, towards the roots at once and away from them when first needed.

    Keeps two tables per separator and example. ``theta`` is ``[examples, cells]``, the factors of arity 1 and
    more group by group."""

    def __init__(self, tree: JunctionTree, theta: Floats, maximise: bool) -> None:
        from loopwise.inference.exact.kernels.blocks import workspace_sizes
        from loopwise.inference.exact.kernels.tables import collect

        self.tree, self.theta, self.maximise = tree, theta, maximise
        self.sizes = workspace_sizes(tree.ports)
        examples, cells = len(theta), int(tree.ports.separator_start[-1])
        self.up = np.empty((examples, cells))
        self.shift = np.empty((examples, tree.cliques))
        self.log_partition = np.empty(examples)
        collect(*self._inputs, maximise, self.log_partition)

    @staticmethod
    def bytes_needed(tree: JunctionTree, cells: int, examples: int, maximise: bool) -> float:
        """Memory for the messages, the tables and their marginals; derivatives take three more messages."""
        messages = 1 if maximise else 2
        return 8.0 * examples * (messages * tree.separator_cells + 2 * cells + tree.cliques)

    @cached_property
    def _downward(self) -> tuple[Floats, Floats]:
        from loopwise.inference.exact.kernels.tables import distribute

        down = np.empty_like(self.up)
        states = np.empty((len(self.theta), self.tree.graph.layout.states))
        distribute(*self._inputs, down, states)
        return down, states

    @property
    def states(self) -> Floats:
        """Marginals of all variables, ``[examples, states]``; of the best configuration after maximising."""
        return self._downward[1] if not self.maximise else self._indicator_of_states

    @cached_property
    def factors(self) -> Floats:
        """Marginals of all factors, laid out like ``theta``."""
        from loopwise.inference.exact.kernels.tables import factor_marginals

        if self.maximise:
            return self._indicator_of_factors
        marginals = np.empty_like(self.theta)
        factor_marginals(*self._inputs, self._downward[0], marginals)
        return marginals

    def tangent(self, seed_theta: Floats | None = None, seed_states: Floats | None = None) -> Floats:
        """Covariance of the factor indicators with a direction of factors and states, laid out like
        ``theta``.
        """
        from loopwise.inference.exact.kernels.tables import tangent

        along_factors = np.zeros_like(self.theta) if seed_theta is None else seed_theta
        along_states = np.zeros_like(self.states) if seed_states is None else seed_states
        out = np.empty_like(self.theta)
        tangent(*self._inputs, self._downward[0], along_factors, along_states, out)
        return out

    @cached_property
    def assignment(self) -> Integers:
        """A configuration of largest score, ``[examples, variables]``; after maximising only."""
        from loopwise.inference.exact.kernels.descent import best_configuration

        best = np.zeros((len(self.theta), self.tree.graph.variables), dtype=np.int64)
        for example in range(len(self.theta)):
            ports, sizes, theta, up, _ = self._inputs
            best_configuration(ports, sizes, self.tree.members, theta[example], up[example], best[example])
        return best

    def sample(self, count: int, generator: np.random.Generator) -> Integers:
        """Independent samples ``[count, examples, variables]``."""
        from loopwise.inference.exact.kernels.descent import draw

        samples = np.zeros((len(self.theta), count, self.tree.graph.variables), dtype=np.int64)
        for example in range(len(self.theta)):
            ports, sizes, theta, up, shift = self._inputs
            draw(
                ports,
                sizes,
                self.tree.members,
                theta[example],
                up[example],
                shift[example],
                generator,
                samples[example],
            )
        return np.ascontiguousarray(samples.transpose(1, 0, 2))

    @property
    def _inputs(self) -> tuple[Ports, Integers, Floats, Floats, Floats]:
        return self.tree.ports, self.sizes, self.theta, self.up, self.shift

    @cached_property
    def _indicator_of_states(self) -> Floats:
        layout = self.tree.graph.layout
        indicator = np.zeros((len(self.theta), layout.states))
        np.put_along_axis(indicator, layout.state_start[:-1] + self.assignment, 1.0, axis=1)
        return indicator

    @cached_property
    def _indicator_of_factors(self) -> Floats:
        indicator = np.zeros_like(self.theta)
        start = 0
        for group in self.tree.graph.groups:
            if group.arity == 0:
                continue
            values = self.assignment[:, group.scopes]  # [examples, factors, arity]
            cell = np.ravel_multi_index(tuple(np.moveaxis(values, -1, 0)), group.shape)
            np.put_along_axis(indicator, start + np.arange(group.count) * group.cells + cell, 1.0, axis=1)
            start += group.count * group.cells
        return indicator
