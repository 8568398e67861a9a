"""One small model as the message kernels see it, and its messages written out in torch: the kernels' oracle.

Tables of two shapes of pairs and of three variables, in plain storage (one example after another), so that a message
stands where the layout says. Messages are logarithms here; differentiating them gives adjoints and tangents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.compiled.arithmetic import LOG_SUM, PROBABILITY_SUM
from loopwise.graph import FactorGraph
from loopwise.inference.messages.kernel_run import KernelRun, Options
from loopwise.inference.messages.kernels.plan import (
    Adjoint,
    Block,
    Linearised,
    Messages,
    Potentials,
    Run,
    Seeds,
    Static,
    Steps,
)
from loopwise.inference.messages.schedules import Flooding
from loopwise.inference.messages.storage import Arrangement, Storage

MIXED = {"even": [(0, 2), (2, 4), (4, 0), (2, 5)], "odd": [(0, 1), (4, 3)], "three": [(0, 1, 2), (4, 3, 5)]}
PAIRS = {"even": [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]}


class Edge(NamedTuple):
    """One message: its factor, the place of its variable there, and where it stands."""

    group: int
    factor: int
    position: int
    variable: int
    place: slice


class KernelCase:
    """A model, its random numbers, and what kernels take of both."""

    def __init__(self, pairs: bool = False, log: bool = False, damping: float = 0.0, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        self.graph = FactorGraph([2] * 5 if pairs else [2, 3, 2, 3, 2, 2], PAIRS if pairs else MIXED)
        self.layout, self.log, self.damping = self.graph.layout, log, damping
        groups = [member.group for member in self.layout.message_groups]
        self.theta = [torch.randn(g.count, *g.shape, generator=random, dtype=torch.float64) for g in groups]
        self.unary = torch.randn(self.layout.states, generator=random, dtype=torch.float64)
        slots = sum(g.count * sum(g.shape) for g in groups)
        self.edges = []
        for number, member in enumerate(self.layout.message_groups):
            for factor, scope in enumerate(member.group.scopes):
                start = member.slot_start + factor * member.width
                for position, variable in enumerate(scope):
                    end = start + member.group.shape[position]
                    self.edges.append(Edge(number, factor, position, int(variable), slice(start, end)))
                    start = end
        self.start = self.normalised(torch.randn(slots, generator=random, dtype=torch.float64))
        self.heard = self.normalised(torch.randn(slots, generator=random, dtype=torch.float64))

    # ------------------------------------------------------------------------------------------------- written out

    def of_variable(self, variable: int) -> slice:
        return slice(int(self.layout.state_start[variable]), int(self.layout.state_start[variable + 1]))

    def normalised(self, messages: Tensor) -> Tensor:
        return torch.cat([messages[edge.place].log_softmax(0) for edge in self.edges])

    def told(self, edge: Edge, theta: list[Tensor], n: Tensor) -> Tensor:
        """The log message of a factor to one of its variables, normalised."""
        cells = theta[edge.group][edge.factor]
        for other in self.edges:
            if other[:2] == edge[:2] and other.position != edge.position:
                shape = [1] * cells.ndim
                shape[other.position] = -1
                cells = cells + n[other.place].reshape(shape)
        axes = [axis for axis in range(cells.ndim) if axis != edge.position]
        return cells.logsumexp(axes).log_softmax(0)

    def to_variables(self, theta: list[Tensor], n: Tensor, old: Tensor) -> Tensor:
        """All messages of factors, damped."""
        new = torch.cat([self.told(edge, theta, n) for edge in self.edges])
        return self.normalised((1 - self.damping) * new + self.damping * old)

    def to_factor(self, edge: Edge, unary: Tensor, m: Tensor) -> Tensor:
        """The log message of a variable to one of its factors, of any scale."""
        others = [other for other in self.edges if other.variable == edge.variable and other.place != edge.place]
        return unary[self.of_variable(edge.variable)] + sum(m[other.place] for other in others)

    def to_factors(self, unary: Tensor, m: Tensor) -> Tensor:
        return torch.cat([self.to_factor(edge, unary, m) for edge in self.edges])

    def beliefs(self, unary: Tensor, m: Tensor) -> Tensor:
        """Log beliefs of all states."""
        totals = [unary[self.of_variable(variable)] for variable in range(self.graph.variables)]
        for edge in self.edges:
            totals[edge.variable] = totals[edge.variable] + m[edge.place]
        return torch.cat([total.log_softmax(0) for total in totals])

    def flooded(self, theta: list[Tensor], unary: Tensor, m: Tensor, sweeps: int) -> Tensor:
        """Messages of factors after so many flooding sweeps."""
        for _ in range(sweeps):
            m = self.to_variables(theta, self.to_factors(unary, m), m)
        return m

    def gone_round(self, theta: list[Tensor], unary: Tensor, m: Tensor, sweeps: int) -> Tensor:
        """Messages of factors after so many sequential sweeps: each visit renews what has news, and what it sends is
        heard at once."""
        order = self.layout.sequential
        for _ in range(sweeps):
            for way, pull in ((1, order.pull_forward), (-1, order.pull_backward)):
                for variable in order.variables[::way]:
                    for number, edge in enumerate(self.edges):
                        if edge.variable == variable and pull[number]:
                            m = self.renewed(edge, theta, self.to_factors(unary, m), m)
        return m

    def renewed(self, edge: Edge, theta: list[Tensor], n: Tensor, m: Tensor) -> Tensor:
        """All messages with one of them renewed."""
        new = (1 - self.damping) * self.told(edge, theta, n) + self.damping * m[edge.place]
        return torch.cat([m[: edge.place.start], new.log_softmax(0), m[edge.place.stop :]])

    # ------------------------------------------------------------------------------------------------- for kernels

    def numbers(self, values: Tensor) -> np.ndarray:
        """As kernels of the domain want them."""
        return (values if self.log else values.exp()).detach().numpy().copy()

    def logs(self, values: np.ndarray) -> Tensor:
        given = torch.from_numpy(values)
        return self.normalised(given if self.log else given.log())

    def options(self, iterations: int = 3, schedule: object | None = None, tolerance: float = 0.0) -> Options:
        return Options(schedule or Flooding(), iterations, tolerance, self.damping, max(tolerance, 1e-15))  # type: ignore[arg-type]

    def kernel_run(self) -> KernelRun:
        storage = Storage.of(self.layout, Arrangement.PLAIN)
        tables = [table.reshape(len(table), -1) for table in self.theta]
        theta, groups = storage.pack_tables(tables, 1, 0.0, exponentiate=not self.log)
        plan = storage.plan(groups, np.ones(self.layout.edges), 0)
        potentials = Potentials(theta, self.numbers(self.unary))
        return KernelRun(storage, plan, potentials, 1, 1, LOG_SUM if self.log else PROBABILITY_SUM)

    def run(self, m: Tensor, n: Tensor) -> Run:
        """The arrays of a call that finds these messages."""
        kernels, none = self.kernel_run(), np.zeros(0)
        flow = Messages(self.numbers(m), self.numbers(n), np.zeros(self.layout.states))
        size, zero = np.uint64(len(flow.m)), np.uint64(0)
        tape = Steps(size, zero, none, zero, size, zero)
        return Run(kernels.plan, kernels.potentials, flow, tape, kernels.rule(self.options()), self.damping, 1)

    @property
    def static(self) -> Static:
        return self.kernel_run().static()

    @property
    def here(self) -> Block:
        return Block(*[np.uint64(0)] * 5)

    def linearised(self, run: Run) -> Linearised:
        """The same call to be undone; no seeds."""
        none = np.zeros(0)
        seeds = Seeds(np.zeros(self.layout.states), none, none, none, np.zeros(1, dtype=np.int64))
        return Linearised(run.plan, run.potentials.theta, 1, self.damping, seeds)

    def adjoint(self, m: Tensor, n: Tensor, now: np.ndarray) -> Adjoint:
        """Room for adjoints, those of messages given."""
        sizes = [table.numel() for table in self.theta]
        starts = np.stack([np.cumsum([0, *sizes[:-1]]), np.zeros(len(sizes))], 1).astype(np.uint64)
        return Adjoint(
            m.numpy().copy(), n.numpy().copy(), now, np.zeros(sum(sizes)), starts, np.zeros(self.layout.states),
            np.uint64(0), np.zeros(1), np.zeros(0),
        )  # fmt: skip

    def balanced(self, seed: int) -> Tensor:
        """Random adjoints of log messages, which sum to zero over the values of each."""
        values = torch.randn(len(self.start), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return torch.cat([values[edge.place] - values[edge.place].mean() for edge in self.edges])


def wanting(*values: Tensor) -> list[Tensor]:
    """Copies that want a gradient."""
    return [value.clone().requires_grad_() for value in values]
