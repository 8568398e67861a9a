r"""Beliefs whose backward sees inference only as a map from natural parameters to marginals.

In: a method, a problem whose numbers may ask for a gradient. Out: :class:`ImplicitBeliefs`. Stage: inference. The
forward runs the method without recording anything; the backward collects the adjoints of variable beliefs, factor
beliefs and log-partition function and asks the method's :class:`MarginalGradient` once. The log-partition function
needs none of that: its gradient is the marginals (Domke 2010, section 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.marginals import MarginalCounts, MarginalGradient, Natural, Outcome
from loopwise.gradient.once import taken_once
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.layout import Layout
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.inference.messages.schedules import Residual
from loopwise.notices import GradientError


class ImplicitBeliefs(Beliefs):
    """Beliefs that carry gradients; ``plain`` are the same ones without, as the method returned them."""

    plain: Beliefs


def implicit_beliefs(method: Inference, problem: Problem, numbers: CountingNumbers | None) -> ImplicitBeliefs:
    """Runs ``method`` on ``problem``, differentiable once by the :class:`MarginalGradient` it names.

    ``numbers``: its counting numbers, None if it has none. Time and memory of the forward are those of the method.
    """
    gradient = _checked_gradient(method, problem)
    _check_constants(method, numbers)
    run = _Run(InferenceMap(method, _detached(problem), numbers), gradient, Report(type(gradient).__name__))
    plain, inference = run.plain, run.inference
    names = [member.group.name for member in inference.layout.message_groups]
    theta = inference.flat(problem)
    places: tuple[Tensor, ...] = _Hub.apply(run, *theta.parts)  # type: ignore[no-untyped-call]
    states = plain.states + places[0].reshape(plain.states.shape)

    def factor(name: str) -> Tensor:
        group = problem.graph.group(name)
        if group.arity >= 2:
            value = plain.factor(name)
            return value + places[1 + names.index(name)].reshape(value.shape)
        if group.arity == 0:
            return plain.factor(name)
        first = torch.tensor(problem.graph.layout.state_start[group.scopes[:, 0]], device=states.device)
        return states[..., first[:, None] + torch.arange(group.shape[0], device=states.device)]

    def log_partition() -> Tensor:
        constant = problem.constant()
        return plain.log_partition + places[-1].reshape(problem.batch) + (constant - constant.detach())

    beliefs = ImplicitBeliefs(
        problem.graph,
        states,
        factor,
        log_partition,
        plain.status,
        lambda: plain.messages,
        lambda: plain.assignment,
        gradient=run.report,
        bounds=(lambda: plain.log_partition_bounds) if plain.has_bounds else None,
    )
    beliefs.plain = plain
    return beliefs


def marginal_map(
    method: Inference, graph: FactorGraph, potentials: object, evidence: EvidenceLike = None
) -> tuple[InferenceMap, Natural]:
    """``method`` on ``graph`` given ``evidence`` as a map, and the natural parameters of ``potentials``.

    With evidence the map is that of the graph without the observed variables.
    """
    capture = _Capture(method)
    with torch.no_grad():
        capture(graph, potentials, evidence)
    counting = getattr(method, "counting_numbers", None)
    numbers = None if counting is None else counting(capture.problem.graph)
    inference = InferenceMap(method, capture.problem, numbers)
    return inference, inference.flat(capture.problem)


@dataclass(frozen=True)
class InferenceMap:
    """A :class:`~loopwise.gradient.marginals.MarginalMap`: a method on one graph, from one start."""

    method: Inference
    problem: Problem  # detached
    numbers: CountingNumbers | None

    @property
    def layout(self) -> Layout:
        return self.problem.graph.layout

    @property
    def temperature(self) -> float:
        return float(getattr(self.method, "temperature", 1.0))

    @property
    def tolerance(self) -> float:
        return float(getattr(self.method, "tolerance", 0.0))

    @property
    def iterations(self) -> int:
        return int(getattr(self.method, "iterations", 0))

    @property
    def counting(self) -> MarginalCounts | None:
        return None if self.numbers is None else MarginalCounts(self.numbers.factor, self.numbers.variable(self.layout))

    def flat(self, problem: Problem) -> Natural:
        """Natural parameters of ``problem``, each example with its own (views where they are shared)."""
        examples, batch = problem.batch.numel(), problem.batch
        unary, tables = problem.unary(), []
        for member in self.layout.message_groups:
            group, table = member.group, problem.table(member.group.name)
            tables.append(table.expand(*batch, group.count, *group.shape).reshape(examples, group.count, *group.shape))
        return Natural(unary.expand(*batch, unary.shape[-1]).reshape(examples, unary.shape[-1]), tuple(tables))

    def outcome(self, beliefs: Beliefs) -> Outcome:
        """The beliefs of one call with flat batch dimensions."""
        examples = self.problem.batch.numel()
        factors = [beliefs.factor(member.group.name) for member in self.layout.message_groups]
        shapes = [(examples, member.group.count, *member.group.shape) for member in self.layout.message_groups]
        marginals = Natural(
            beliefs.states.reshape(examples, self.layout.states),
            tuple(table.reshape(shape) for table, shape in zip(factors, shapes, strict=True)),
        )
        sweeps = beliefs.status.sweeps.reshape(examples)
        return Outcome(marginals, sweeps, beliefs.status.converged, self._messages(beliefs))

    def _messages(self, beliefs: Beliefs) -> Callable[[], Tensor] | None:
        """None where a run is more than its messages: one that goes on from them is then not a longer one."""
        if not self.method.takes_messages or isinstance(getattr(self.method, "schedule", None), Residual):
            return None
        return lambda: beliefs.messages.reshape(self.problem.batch.numel(), -1)

    def plain(self) -> Beliefs:
        """The method's beliefs at the problem's own parameters, recording nothing."""
        with torch.no_grad():
            return self.method.run(self.problem)

    def __call__(
        self,
        theta: Natural,
        *,
        sweeps: int | None = None,
        tolerance: float | None = None,
        iterations: int | None = None,
        messages: Tensor | None = None,
    ) -> Outcome:
        if sweeps is not None:
            tolerance, iterations = 0.0, sweeps
        with torch.no_grad():
            return self.outcome(_stopping(self.method, tolerance, iterations).run(self._at(theta, messages)))

    def _at(self, theta: Natural, messages: Tensor | None) -> Problem:
        """The problem at other parameters; factors of arity 1 are part of ``theta.unary``, constants are 0."""
        like, examples = theta.unary.new_empty(0), theta.unary.shape[0]
        names = [member.group.name for member in self.layout.message_groups]
        tables = {name: table.detach() for name, table in zip(names, theta.tables, strict=True)}
        for group in (*self.layout.unary_groups, *self.layout.constant_groups):
            tables[group.name] = like.new_zeros(1, *group.shape)
        initial = self.problem.initial if messages is None else messages
        if initial is not None:
            initial = initial.detach().to(like).reshape(examples, initial.shape[-1])
        return Problem(self.problem.graph, tables, torch.Size([examples]), like, initial, theta.unary.detach())


class _Run:
    """One forward, to be pulled back through later."""

    def __init__(self, inference: InferenceMap, gradient: MarginalGradient, report: Report) -> None:
        self.inference, self.gradient, self.report = inference, gradient, report
        self.plain = inference.plain()

    def pull_back(self, theta: Natural, adjoints: list[Tensor | None]) -> tuple[Tensor, ...]:
        """Adjoints of all natural parameters from those of all marginals and of the log-partition function."""
        found = self.inference.outcome(self.plain)
        given = [
            torch.zeros_like(marginal) if adjoint is None else adjoint
            for adjoint, marginal in zip(adjoints[:-1], found.marginals.parts, strict=True)
        ]
        self._check(given)
        self.report.iterations, self.report.residual = 0, 0.0
        self.report.notes.clear()
        pulled = tuple(torch.zeros_like(part) for part in theta.parts)
        if any(bool((adjoint != 0).any()) for adjoint in given):
            pulled = self.gradient.pull_back(self.inference, theta, found, Natural.of(tuple(given)), self.report).parts
        weight = adjoints[-1]
        if weight is None:
            return pulled
        return tuple(
            part + weight.reshape(-1, *(1,) * (part.ndim - 1)) * marginal
            for part, marginal in zip(pulled, found.marginals.parts, strict=True)
        )

    def _check(self, adjoints: list[Tensor]) -> None:
        names = ["variable beliefs"]
        names += [f"beliefs of group {member.group.name!r}" for member in self.inference.layout.message_groups]
        for name, adjoint in zip(names, adjoints, strict=True):
            check_finite(adjoint, name)


class _Hub(torch.autograd.Function):
    """Places (of value 0) at which the adjoints of all results come together, so that one pull-back serves all.

    A result is its plain value plus its place: what is never asked for is never computed."""

    @staticmethod
    def forward(ctx: Any, run: _Run, *theta: Tensor) -> tuple[Tensor, ...]:
        ctx.run = run
        ctx.save_for_backward(*theta)
        ctx.set_materialize_grads(False)
        shapes = [part.shape for part in theta] + [theta[0].shape[:1]]
        return tuple(theta[0].new_zeros(()).expand(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        theta: tuple[Tensor, ...] = ctx.saved_tensors
        run: _Run = ctx.run
        with torch.no_grad():
            detached = Natural.of(tuple(part.detach() for part in theta))
            pulled = run.pull_back(detached, list(adjoints))
        message = f"{type(run.gradient).__name__} differentiates once; use Unroll() for Hessian-vector products"
        return (None, *taken_once(message, pulled, (*theta, *adjoints)))


class _Capture(Inference):
    """Keeps the problem that a call leads to."""

    def __init__(self, method: Inference) -> None:
        self._method = method
        self.problem: Problem

    def run(self, problem: Problem) -> Beliefs:
        self.problem = _detached(problem)
        return self._method.run(self.problem)


def _checked_gradient(method: Inference, problem: Problem) -> MarginalGradient:
    gradient = getattr(method, "gradient", None)
    if not isinstance(gradient, MarginalGradient):
        raise GradientError(
            f"{type(method).__name__} names no gradient that works on marginals, but {gradient!r}; "
            "use gradient=Perturbation(), FixedPoint() or LinearSolve()"
        )
    name = type(gradient).__name__
    if problem.initial is not None and problem.initial.requires_grad:
        raise GradientError(
            f"{name} has no gradient with respect to initial messages, since a fixed point does not depend on them; "
            "use gradient=Unroll(), or detach them"
        )
    if getattr(method, "temperature", 1.0) == 0:
        raise GradientError(
            f"{name} needs a temperature above 0: beliefs at temperature 0 jump, they have no Jacobian; use "
            "gradient=Unroll(), or a small temperature"
        )
    if getattr(method, "trace", False):
        raise GradientError(f"{name} has no gradient for the beliefs of earlier sweeps (trace); use gradient=Unroll()")
    return gradient


def _check_constants(method: Inference, numbers: CountingNumbers | None) -> None:
    """Options of the method that are tensors of their own are constants here, and must not expect a gradient."""
    options: dict[str, Any] = {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]
    for place, value in enumerate(getattr(numbers, "trained", None) or ()):
        options["factor counting numbers" if place == 0 else "total counting numbers"] = value
    for name, value in options.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise GradientError(
                f"{type(options['gradient']).__name__} has no gradient with respect to the method's own {name}; use "
                "gradient=Unroll(), or detach it"
            )


def _stopping(method: Inference, tolerance: float | None, iterations: int | None) -> Inference:
    """The same method with other rules for stopping; one that does not iterate has none to change."""
    wanted = {"tolerance": tolerance, "iterations": iterations}
    known = {field.name for field in fields(method)}  # type: ignore[arg-type]
    change: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None and name in known}
    return replace(method, **change) if change else method  # type: ignore[type-var]


def _detached(problem: Problem) -> Problem:
    return replace(
        problem,
        tables={name: table.detach() for name, table in problem.tables.items()},
        initial=None if problem.initial is None else problem.initial.detach(),
        folded=None if problem.folded is None else problem.folded.detach(),
    )
