"""The compiled engine: Numba kernels over flat arrays on the CPU.

In: a problem and a method. Out: a solution. Stage: inference. Runs in the probability domain; examples whose tables
span too many nats for it, or whose messages underflow, run in the log domain, and the solution says so. Its backward
runs adjoint kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.gradient.base import Report
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem
from loopwise.inference.decode import decode
from loopwise.inference.messages.backward import RunOutputs
from loopwise.inference.messages.compiled_gradient import Session
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.inference.messages.kernel_run import Options
from loopwise.inference.messages.message_passing import MessagePassing, Solution
from loopwise.inference.messages.schedules import Residual
from loopwise.inference.messages.sub_batches import RANGES, GradientSpec, Scaled, SubBatch
from loopwise.inference.normalise import divided, factor_softmax, normalised_messages, variable_softmax


@dataclass(frozen=True)
class Compiled:
    """Numba kernels on the CPU. ``threads``: None takes as many as the process may use."""

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            checked_whole("threads", self.threads)

    @property
    def name(self) -> str:
        return "compiled"

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Solution:
        if problem.like.device.type != "cpu":
            raise ValueError(
                f"the compiled engine runs on the CPU; the potentials are on {problem.like.device}; "
                "move them there, or use engine=Reference()"
            )
        if problem.like.dtype not in RANGES:
            raise ValueError(
                f"the compiled engine takes float32 or float64 potentials, not {problem.like.dtype}; "
                "convert them, or use engine=Reference()"
            )
        if problem.graph.structured:
            raise ValueError("the compiled engine takes no structured factors; use Reference(), or no engine at all")
        if method.weights is not None or method.watches:
            from loopwise.inference.messages.stepwise.engine import Stepwise

            return Stepwise().solve(problem, method, numbers)
        given = scaled(problem, method, numbers)
        options = options_of(method, problem.graph, problem.like.dtype)
        if method.by_parts(problem.graph) and not isinstance(method.schedule, Residual):
            options = options._replace(enough=None, enough_parts=method.enough_parts(problem.graph, numbers.factor))
        trained = given.exponents.requires_grad or (isinstance(method.damping, Tensor) and method.damping.requires_grad)
        wanted = torch.is_grad_enabled() and (trained or given.wants_gradient)
        if given.examples == 0 and (wanted or method.trace):
            from loopwise.inference.messages.reference import Reference  # nothing to run, but shapes to keep

            return Reference().solve(problem, method, numbers)
        session = Session(
            options,
            problem.graph.layout,
            self.threads,
            maximise=bool(method.temperature == 0),
            asked=GradientSpec(method.gradient if wanted else None, trained, method.trace),
            converged=method.has_converged,
        )
        if not wanted:
            session.run(given)
            return CompiledSolution(problem, session, given)
        return CompiledSolution(problem, session, given, session.differentiable(given, method.damping))


@dataclass
class CompiledSolution:
    """The parts of a compiled run put together in the order of the examples."""

    problem: Problem
    session: Session
    given: Scaled
    stopped = None  # by no other rule than the tolerance
    results: RunOutputs | None = None  # connected to the potentials, if a gradient is wanted
    known: Tensor | None = None  # variable beliefs, where they have been put together already

    def __post_init__(self) -> None:
        problem, parts = self.problem, self.session.parts
        layout = problem.graph.layout
        in_log = [part.run.in_log_domain for part in parts]
        self.domain = "probability" if not any(in_log) else "log" if all(in_log) else "probability and log"
        self.sent = sum([part.result.sent for part in parts])
        union = self.session.options.enough_parts
        stopping = () if union is None else (len(union),)  # the shape of what stops by itself in an example
        self.sweeps = self._joined(lambda part: _each(part, part.result.sweeps), *stopping)
        self.residual = self._joined(lambda part: _each(part, part.result.residual), *stopping)
        if self.known is not None:
            self.states = self.known
        elif self.results is None:
            self.states = self._joined(lambda part: part.states, layout.states)
        else:
            self.states = variable_softmax(layout, self.results.states).reshape(*problem.batch, layout.states)

    @property
    def report(self) -> Report | None:
        return None if self.results is None else self.session.report

    @property
    def trace(self) -> Tensor | None:
        """Variable beliefs after each sweep; an example that stopped keeps its last ones."""
        if not self.session.asked.trace:
            return None
        found = self.session.trace() if self.results is None else self.results.trace
        assert found is not None
        beliefs = variable_softmax(self.problem.graph.layout, found)
        last = self.session.joined([part.by_state(torch.from_numpy(part.result.sweeps)) for part in self.session.parts])
        running = torch.arange(len(beliefs))[:, None, None] <= last
        final = self.states.reshape(1, len(last), -1)
        return torch.where(running, beliefs, final).reshape(len(beliefs), *self.states.shape)

    def _joined(self, piece: Callable[[SubBatch], Tensor], *shape: int) -> Tensor:
        """The examples' pieces, each of ``shape``, in the order of the batch."""
        parts = self.session.parts
        if not parts:  # an empty batch
            return self.problem.like.new_zeros(*self.problem.batch, *shape)
        return self.session.joined([piece(part) for part in parts]).reshape((*self.problem.batch, *shape))

    def factor(self, name: str) -> Tensor:
        for number, member in enumerate(self.problem.graph.layout.message_groups):
            if member.group.name == name:
                shape = (member.group.count, *member.group.shape)
                if self.results is None:
                    return self._joined(partial(SubBatch.factor, number=number), *shape)
                beliefs = factor_softmax(member, self.given.tables[number], self.results.n)
                return beliefs.reshape(*self.problem.batch, *shape)
        raise ValueError(
            f"no factor group {name!r} of arity 2 or more; factors of fewer variables are read from the variables"
        )

    def structured(self) -> Tensor:
        return self.states.new_zeros(*self.problem.batch, 0)  # there are none

    def messages(self) -> Tensor:
        layout = self.problem.graph.layout
        if self.results is None:
            return self._joined(SubBatch.messages, layout.slots)
        return normalised_messages(layout, self.results.m).reshape(*self.problem.batch, layout.slots)

    def assignment(self) -> Tensor:
        return decode(self.problem, self.states, self.factor)


def _each(part: SubBatch, values: NDArray[Any]) -> Tensor:
    """A number for each example of ``part``, or each of their parts, a row an example."""
    return torch.from_numpy(values).reshape(len(part.index), -1)


def options_of(method: MessagePassing, graph: FactorGraph, dtype: torch.dtype) -> Options:
    """What a run of ``method`` does, as plain numbers."""
    return Options(
        method.schedule,
        int(method.iterations),
        float(method.tolerance),
        method.plain_damping,
        method.threshold(dtype),
        method.enough(graph),
        method.judge_messages,
    )


def scaled(problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Scaled:
    """The potentials of ``problem`` as the kernels want them, batch dimensions flattened."""
    layout = problem.graph.layout
    temperature = method.temperature if method.temperature > 0 else 1.0
    examples = math.prod(problem.batch)
    like = problem.like

    def flat(values: Tensor, trailing: int) -> Tensor:
        """Batch dimensions flattened, or dropped where all examples share the values."""
        lead = values.shape[: values.ndim - trailing]
        if not lead:
            return values
        if all(size == 1 for size in lead):
            return values.reshape(values.shape[values.ndim - trailing :])
        return values.expand(*problem.batch, *values.shape[len(lead) :]).flatten(0, len(problem.batch) - 1)

    initial = None if problem.initial is None else problem.initial.reshape(examples, -1)
    groups = [member.group for member in layout.message_groups]
    tables = [flat(problem.table(group.name).flatten(-group.arity), 2) for group in groups]
    if numbers.plain and not isinstance(temperature, Tensor) and temperature == 1.0:
        unary, extents = flat(problem.unary(), 1), tuple([problem.extent(group.name) for group in groups])
        return Scaled(tables, unary, initial, numbers.exponents(layout, like), examples, extents, plain=True)
    first = 0
    factor, total = numbers.tensors(like)
    for number, group in enumerate(groups):
        weight = factor[first : first + group.count]
        first += group.count
        tables[number] = divided(tables[number], temperature * weight[:, None])
    owner = torch.tensor(layout.state_variable)
    unary = flat(divided(problem.unary(), temperature * total[owner]), 1)
    return Scaled(tables, unary, initial, numbers.exponents(layout, like), examples)
