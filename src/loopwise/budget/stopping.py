r"""Inference that stops by itself: BP under a stopping policy, example by example.

In: message passing with its limit of sweeps, a :class:`Policy`. Out: :class:`Stopping`, an inference method (the hard
rule), which in training gives the beliefs and scores of every sweep. Stage: budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from loopwise.budget.cost import always_observed
from loopwise.budget.hard_rule import Stopped, run_until_stopped
from loopwise.budget.smoothing import first_stop
from loopwise.graph.evidence import FREE, Evidence, EvidenceLike, Role, clamped_values
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.parts import Parts
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status, check_unchanged, noted
from loopwise.inference.messages.features import Course, stacked
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.policy import Policy, StopByPolicy


@dataclass(frozen=True, eq=False)
class EverySweep:
    """A run with all that a loss of its stopping needs."""

    beliefs: Beliefs  # of all sweeps at once: states [sweeps, *batch, states]
    scores: Tensor  # [sweeps, *batch]
    features: Tensor  # [sweeps, *batch, features], not standardised, without gradient


@dataclass(frozen=True, eq=False)
class Stopping(Inference):
    r"""``inference`` until :math:`w\cdot\phi_t>0`, at most its ``iterations``; its tolerance is not used.

    In a batch every example stops by itself; what it would have cost goes to the others (the compiled engine gathers
    those that still run). Features look at the variables that are neither observed nor hidden. ``detach_features``: no
    gradient through the features (cheaper, biased; cost-aware spec, section 2.3).

    Where a gradient is wanted the whole run is traced, and the gradient is that of the sweeps that were made.
    """

    takes_messages: ClassVar[bool] = True
    saver: ClassVar[str] = "lw.budget.save(system, path)"

    inference: MessagePassing
    policy: Policy
    detach_features: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.inference, MessagePassing):
            raise ValueError(
                f"a stopping policy needs sweeps to stop after, such as those of lw.BP(), not "
                f"{type(self.inference).__name__}"
            )
        if not isinstance(self.policy, Policy):
            raise ValueError(f"the policy must be a lw.budget.Policy, not {type(self.policy).__name__}")
        if self.inference.iterations < 1:
            raise ValueError("a stopping policy needs at least 1 iteration to decide about, not 0")

    @property
    def limit(self) -> int:
        """Sweeps at most."""
        return self.inference.iterations

    @property
    def traced(self) -> MessagePassing:
        """All sweeps, with their beliefs."""
        return replace(self.inference, tolerance=0.0, stop=None, trace=True)

    def __call__(
        self, graph: FactorGraph, potentials: object, evidence: EvidenceLike = None, *, initial: Tensor | None = None
    ) -> Beliefs:
        return _StoppingCall(self, watched_variables(graph, evidence))(graph, potentials, evidence, initial=initial)

    def run(self, problem: Problem) -> Beliefs:
        return _StoppingCall(self, torch.ones(problem.graph.variables, dtype=torch.bool)).run(problem)

    def every_sweep(self, graph: FactorGraph, potentials: object, evidence: EvidenceLike = None) -> EverySweep:
        """All sweeps to the limit, with the scores of each: differentiable in potentials and policy.

        One forward run with a tape, one backward.
        """
        call = _StoppingCall(self, watched_variables(graph, evidence), hard=False)
        beliefs = call(graph, potentials, evidence)
        assert beliefs.trace is not None and call.scores is not None and call.features is not None
        status = replace(beliefs.status, sweeps=torch.full(call.scores.shape, self.limit))
        states = Beliefs(graph, beliefs.trace[1:], _no_factors, _no_log_partition, status)
        return EverySweep(states, call.scores, call.features)


@dataclass(frozen=True, eq=False)
class _Watching(StopByPolicy):
    """The rule with the variables that it looks at."""

    these: Tensor

    def watched(self, problem: Problem) -> Tensor:
        return self.these

    @property
    def name(self) -> str:
        return StopByPolicy.__name__


class _StoppingCall(Inference):
    """One call of a stopping method: knows which variables of the conditioned graph are watched."""

    takes_messages = True

    def __init__(self, stopping: Stopping, watched: Tensor, hard: bool = True) -> None:
        self.stopping, self.watched, self.hard = stopping, watched, hard
        self.scores: Tensor | None = None
        self.features: Tensor | None = None

    def run(self, problem: Problem) -> Beliefs:
        stopping, watched = self.stopping, self.watched.to(problem.like.device)
        parts = None if problem.graph.part_start is None else Parts.of(problem.graph)
        if self.hard and parts is not None:  # of a union each part stops by itself
            rule = _Watching(stopping.policy, watched)
            return replace(stopping.inference, tolerance=0.0, stop=rule).run(problem)
        if self.hard and not self._differentiable(problem):
            stopped = run_until_stopped(problem, stopping.inference, stopping.policy, watched)
            if stopped is not None:
                return _beliefs(problem, stopping.inference, stopped)
        beliefs = stopping.traced.run(problem)
        assert beliefs.trace is not None
        course = Course(problem.graph, beliefs.trace, watched, stopping.limit, parts=parts)
        self.scores = stopping.policy(course, detach=stopping.detach_features)
        if self.hard:
            return _beliefs(problem, stopping.inference, _chosen(beliefs, self.scores.detach()))
        self.features = stacked(stopping.policy.features, course).detach()
        return beliefs

    def _differentiable(self, problem: Problem) -> bool:
        method = self.stopping.inference
        return method.differentiable(problem, method.counting_numbers(problem.graph))


def _chosen(beliefs: Beliefs, scores: Tensor) -> Stopped:
    """What the hard rule makes of a whole run."""
    trace = beliefs.trace
    assert trace is not None
    row = first_stop(scores)  # [*batch], of sweeps from 1
    place = row[None, ..., None].expand(1, *row.shape, trace.shape[-1])
    states = trace[1:].gather(0, place)[0]
    before = trace[:-1].detach().gather(0, place)[0]
    change = (states.detach() - before).abs().amax(-1) if trace.shape[-1] else states.new_zeros(row.shape)
    return Stopped(states, row + 1, change, beliefs.status.engine, beliefs.status.domain)


def _beliefs(problem: Problem, method: MessagePassing, stopped: Stopped) -> Beliefs:
    edges = problem.graph.layout.edges
    status = Status(
        method=f"{type(method).__name__} until a policy stops",
        exact=edges == 0,
        converged=edges == 0,
        sweeps=stopped.sweeps,
        residual=stopped.change,
        messages=int(stopped.sweeps.sum()) * edges,
        engine=stopped.engine,
        domain=stopped.domain,
        notes=() if edges == 0 else ("a policy decides when to stop: whether messages rest was not looked at",),
    )
    given = noted("the potentials of group {!r} were", problem.tables.items())

    def again(read: Callable[[Beliefs], Tensor]) -> Tensor:
        check_unchanged(given)
        return _read_again(problem, method, stopped.sweeps, read)

    return Beliefs(
        problem.graph,
        stopped.states,
        lambda name: again(lambda beliefs: beliefs.factor(name)),
        lambda: again(lambda beliefs: beliefs.log_partition),
        status,
        lambda: again(lambda beliefs: beliefs.messages),
    )


def _read_again(problem: Problem, method: MessagePassing, sweeps: Tensor, read: Callable[[Beliefs], Tensor]) -> Tensor:
    """Something of each example's last sweep, by running once more for each number of sweeps that occurs.

    Only marginals of variables are kept when examples stop, since most losses look at nothing else.
    """
    whole: Tensor | None = None
    for count in torch.unique(sweeps).tolist():
        found = read(replace(method, iterations=int(count), tolerance=0.0, stop=None).run(problem))
        mine = (sweeps == count)[(..., *[None] * (found.ndim - sweeps.ndim))]
        whole = found if whole is None else torch.where(mine, found, whole)
    assert whole is not None
    return whole


def watched_variables(graph: FactorGraph, evidence: EvidenceLike) -> Tensor:
    """The variables that are neither observed nor hidden, bool ``[*b, free variables]``, of the conditioned graph."""
    free = clamped_values(graph, evidence) == FREE
    if isinstance(evidence, Evidence):
        free = free & (evidence.roles != Role.HIDDEN)
    kept = np.flatnonzero(~always_observed(graph, evidence))
    return torch.from_numpy(np.ascontiguousarray(free[..., kept]))


def _no_factors(name: str) -> Tensor:
    raise ValueError(
        f"the beliefs of every sweep hold variables only, not the factors of group {name!r}; use a loss on variables"
    )


def _no_log_partition() -> Tensor:
    raise ValueError("the beliefs of every sweep hold no log-partition function; ask for that of the last one")
