"""One call of a message-passing kernel: choosing its literal sizes, threads and working arrays.

In: packed arrays. Out: the same arrays at their final values, and what the run noticed. Stage: inference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.inference.message_passing import MessagePassing
from loopwise.inference.schedules import Residual, Sequential
from loopwise.inference.storage import Arrangement, Storage
from loopwise.inference.threads import in_threads
from loopwise.kernels import arithmetic
from loopwise.kernels.plan import SHARED, Flow, Numbers, Plan

# Cardinalities of pair factors for which a kernel with literal sizes is compiled.
LITERAL_SIZES = range(2, 6)

# Below this many messages a sweep, starting a second thread costs more than it gains.
WORTH_A_THREAD = 2000


class Order(NamedTuple):
    """The sequential order as kernels read it: pull marks are in the plan's per-variable edge order."""

    forward: np.ndarray
    pull_forward: np.ndarray
    backward: np.ndarray
    pull_backward: np.ndarray


class KernelRun:
    """Packed arrays of some examples, run from initial to final messages by :meth:`start`."""

    def __init__(
        self,
        storage: Storage,
        plan: Plan,
        numbers: Numbers,
        flow: Flow,
        examples: int,
        threads: int,
        semiring: tuple[int, ...],
    ) -> None:
        self.storage, self.plan, self.numbers, self.flow = storage, plan, numbers, flow
        self.examples, self.threads, self.semiring = examples, threads, semiring
        padded = storage.blocks(examples) * storage.lanes
        self.sweeps = np.zeros(padded, dtype=np.int64)
        self.residual = np.zeros(padded, dtype=flow.m.dtype)
        self.lowest = np.full(padded, np.inf, dtype=flow.m.dtype)
        self.sent = 0

    def start(self, method: MessagePassing) -> None:
        """Runs the method's schedule on the arrays, in place."""
        if isinstance(method.schedule, Residual):
            self._by_residual(method)
        elif self.storage.arrangement is Arrangement.FACTORS:
            self._flood_graph(method)
        else:
            self._run_blocks(method)
        if method.iterations == 0 and not isinstance(method.schedule, Residual):
            self.residual[:] = np.inf  # no sweep was made, so nothing is known of it
        self.sweeps = self.sweeps[: self.examples]
        self.residual = self.residual[: self.examples]
        self.lowest = self.lowest[: self.examples]

    def _parts(self, work: int) -> int:
        """Threads worth starting for this many factors or messages a sweep."""
        return self.threads if work >= WORTH_A_THREAD else 1

    def _literal(self) -> tuple[int, ...]:
        """As long as the commonest small cardinality of pair factors between equal variables."""
        weight: dict[int, int] = {}
        for member in self.storage.layout.message_groups:
            group = member.group
            if group.arity == 2 and group.shape[0] == group.shape[1] and group.shape[0] in LITERAL_SIZES:
                weight[group.shape[0]] = weight.get(group.shape[0], 0) + group.count
        return (0,) * max(weight, key=lambda size: weight[size]) if weight else ()

    def _general(self, literal: tuple[int, ...]) -> tuple[int, ...] | None:
        """(0,) if some factor is not for the pair kernel."""
        for member in self.storage.layout.message_groups:
            if member.group.arity != 2 or (literal and member.group.shape != (len(literal),) * 2):
                return (0,)
        return None

    def _quick(self, method: MessagePassing, literal: tuple[int, ...]) -> tuple[int, ...] | None:
        """(0,) for the plainest sequential run: single examples, undamped sum-product, small pair factors only."""
        plain = self.storage.arrangement is Arrangement.PLAIN and self.semiring == arithmetic.PROBABILITY_SUM
        return (0,) if plain and literal and self._general(literal) is None and method.damping == 0 else None

    def _uniform(self) -> tuple[int, ...] | None:
        """As long as the cardinality that all variables share, if it is small."""
        size = self.storage.layout.graph.uniform_cardinality
        return (0,) * size if size is not None and size in LITERAL_SIZES else None

    def _power(self) -> tuple[int, ...]:
        exponents = self.plan.exponents
        if (exponents == 1).all():
            return arithmetic.PLAIN
        return arithmetic.SQUARE_ROOT if (exponents == 0.5).all() else arithmetic.ANY_POWER

    def _flood_graph(self, method: MessagePassing) -> None:
        from loopwise.kernels.schedules import flood_graph

        literal, parts = self._literal(), self._parts(self.storage.layout.message_factors)
        barrier, change = np.zeros(2, dtype=np.int64), np.zeros(parts, dtype=self.flow.m.dtype)
        results = in_threads(
            parts,
            lambda part: flood_graph(
                self.plan,
                self.numbers,
                self.flow,
                part,
                parts,
                barrier,
                change,
                method.iterations,
                method.tolerance,
                method.damping,
                literal,
                self._general(literal),
                self._uniform(),
                arithmetic.LANED,
                self._power(),
                self.semiring,
            ),
        )
        self.sweeps[:], self.residual[:] = results[0][:2]
        self.lowest[:] = min(lowest for _, _, lowest in results)
        self.sent = int(self.sweeps[0]) * self.storage.layout.edges

    def _run_blocks(self, method: MessagePassing) -> None:
        from loopwise.kernels.schedules import run_blocks

        literal, flow, layout = self._literal(), self.flow, self.storage.layout
        laned = self.storage.arrangement is Arrangement.EXAMPLES
        stops_early = laned and method.tolerance > 0
        done = Flow(np.empty_like(flow.m), np.empty_like(flow.n), np.empty_like(flow.beliefs)) if stops_early else flow
        order = None
        if isinstance(method.schedule, Sequential):
            sequential = layout.sequential
            order = Order(
                sequential.variables,
                sequential.pull_forward[layout.variable_edges],
                sequential.variables[::-1].copy(),
                sequential.pull_backward[layout.variable_edges],
            )
        sharing = (0,) if bool((self.plan.groups[:, SHARED] == 1).any()) else None
        blocks = self.storage.blocks(self.examples)
        parts = min(self._parts(self.examples * layout.edges), max(blocks, 1))
        in_threads(
            parts,
            lambda part: run_blocks(
                self.plan,
                order,
                self.numbers,
                flow,
                done,
                self.examples,
                blocks * part // parts,
                blocks * (part + 1) // parts,
                method.iterations,
                method.tolerance,
                method.damping,
                self.sweeps,
                self.residual,
                self.lowest,
                literal,
                self._general(literal),
                sharing,
                self._quick(method, literal),
                self._uniform(),
                arithmetic.LANED if laned else arithmetic.SCALAR,
                self._power(),
                self.semiring,
            ),
        )
        self.flow = done
        each = layout.edges if order is None else layout.sequential.messages
        self.sent = int(self.sweeps[: self.examples].sum()) * each

    def _by_residual(self, method: MessagePassing) -> None:
        from loopwise.kernels.residual import residual_examples

        literal, layout = self._literal(), self.storage.layout
        edge_at = np.empty_like(layout.variable_edges)
        edge_at[layout.variable_edges] = np.arange(layout.edges)
        arity = np.concatenate(
            [np.zeros(0, dtype=np.int64)]
            + [np.full(member.group.count * member.group.arity, member.group.arity) for member in layout.message_groups]
        )[layout.variable_edges]
        updates = np.zeros(self.examples, dtype=np.int64)
        fresh = np.empty_like(self.flow.m)
        parts = min(self._parts(self.examples * layout.edges), max(self.examples, 1))
        in_threads(
            parts,
            lambda part: residual_examples(
                self.plan,
                edge_at,
                layout.edge_variable,
                layout.variable_edges - self.plan.edge_position.astype(np.int64),
                arity,
                self.numbers,
                self.flow,
                fresh,
                self.examples * part // parts,
                self.examples * (part + 1) // parts,
                method.iterations * layout.edges,
                method.tolerance,
                method.damping,
                updates,
                self.residual,
                self.lowest,
                literal,
                self._general(literal),
                self._power(),
                self.semiring,
            ),
        )
        self.sweeps = -(-updates // max(layout.edges, 1))
        self.sent = int(updates.sum())
