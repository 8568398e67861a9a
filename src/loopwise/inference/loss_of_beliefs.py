"""A loss of inference as a function of its log-potentials, with its backward and, apart from that, its differences.

In: an inference method, a graph, a loss of :class:`Beliefs`. Out: values, gradients, Hessian-vector products and
directional derivatives by differences. Stage: inference. What checks and comparisons of gradients are made of.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from loopwise.gradient.base import Report
from loopwise.gradient.differences import STEP, derivative
from loopwise.gradient.hvp import check_scalar
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.notices import ConvergenceWarning, GradientError

Tables = dict[str, Tensor]
Loss = Callable[[Beliefs], Tensor]
SAME = 1e-12  # beliefs of a run with locked sweeps may differ from those of the run itself by rounding only


@dataclass(frozen=True)
class LossOfBeliefs:
    """``loss(inference(graph, tables, evidence))``, a number, as a function of the tables."""

    inference: Inference
    graph: FactorGraph
    loss: Loss
    evidence: EvidenceLike = None

    def run(self, tables: Mapping[str, Tensor]) -> tuple[Tensor, Beliefs]:
        """The loss, checked to be one finite number, and the beliefs it looked at."""
        beliefs = self.inference(self.graph, tables, self.evidence)
        return _checked_loss(self.loss(beliefs)), beliefs

    def gradient(self, tables: Mapping[str, Tensor]) -> tuple[Tables, Report | None]:
        """The derivative for every cell of every table, by the method's own backward, and what that did."""
        loss, beliefs, leaves = self._recorded(tables)
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return _filled(leaves, found), beliefs.gradient

    def hessian_product(self, tables: Mapping[str, Tensor], vector: Mapping[str, Tensor]) -> Tables:
        """The Hessian of the loss times ``vector``, by differentiating the backward."""
        loss, _, leaves = self._recorded(tables)
        inputs = list(leaves.values())
        first = torch.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
        pairs = [(part, vector[name]) for name, part in zip(leaves, first, strict=True) if part is not None]
        slope = sum((_finite_part(part, along).sum() for part, along in pairs), loss.new_zeros(()))
        if not slope.requires_grad:  # a loss linear in the potentials
            return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
        return _filled(leaves, torch.autograd.grad(slope, inputs, allow_unused=True))

    def _recorded(self, tables: Mapping[str, Tensor]) -> tuple[Tensor, Beliefs, Tables]:
        leaves = {name: table.detach().clone().requires_grad_() for name, table in tables.items()}
        with torch.enable_grad():
            loss, beliefs = self.run(leaves)
        if not loss.requires_grad:
            raise GradientError(
                f"the loss carries no gradient: either it does not look at the beliefs, or those of "
                f"{type(self.inference).__name__} are not differentiable; "
                "use the beliefs, or a method such as lw.BP()"
            )
        return loss, beliefs, leaves


class RunDifferences:
    """Directional derivatives of an objective at one point, in float64, by differences of whole runs.

    A run that stops by its tolerance is repeated with exactly as many sweeps; where a method has no such setting, steps
    that change the number of sweeps are left out. So this is the derivative of the run that happened.
    """

    def __init__(self, objective: LossOfBeliefs, tables: Mapping[str, Tensor]) -> None:
        self.tables = {name: table.detach().double() for name, table in tables.items()}
        with torch.no_grad(), ignored_convergence():
            loss, beliefs = objective.run(self.tables)
            self.objective = replace(objective, inference=_locked(objective, beliefs, self.tables))
        self.value, self.status = float(loss), beliefs.status

    def at(self, direction: Mapping[str, Tensor], step: float) -> float:
        """The loss a step along ``direction``; NaN if the run there takes other sweeps."""
        with torch.no_grad(), ignored_convergence():
            loss, beliefs = self.objective.run(moved(self.tables, direction, step))
        locked = self.objective.inference
        if not _settable(locked, "tolerance") or getattr(locked, "tolerance", 0.0) > 0:
            same = torch.equal(beliefs.status.sweeps, self.status.sweeps)
            if not same or beliefs.status.messages != self.status.messages:
                return math.nan
        return float(loss)

    def along(self, direction: Mapping[str, Tensor]) -> tuple[float, float]:
        """The derivative along ``direction`` and an estimate of its own error; never NaN."""
        slope, error = derivative(lambda step: self.at(direction, step), first_step(direction))
        if not (math.isfinite(slope) and math.isfinite(error)):
            raise GradientError(
                f"{type(self.objective.inference).__name__} takes another number of sweeps at every step tried, so its "
                "runs have no differences to compare with: set tolerance=0 and a fixed number of iterations"
            )
        return slope, error


def first_step(direction: Mapping[str, Tensor]) -> float:
    """A step along ``direction`` that moves no log-potential by more than :data:`STEP`."""
    longest = max((float(part.abs().max()) for part in direction.values() if part.numel()), default=0.0)
    return STEP / longest if longest > 0 else STEP


def moved(tables: Mapping[str, Tensor], direction: Mapping[str, Tensor], step: float) -> Tables:
    """``tables`` a step along ``direction``; cells of -inf stay."""
    return {name: table + step * direction[name] for name, table in tables.items()}


def inner(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """The inner product over all cells, in float64; cells where ``right`` is 0 do not count, whatever they hold."""
    return sum(float(_finite_part(left[name].double(), right[name].double()).sum()) for name in right)


def random_direction(tables: Mapping[str, Tensor], generator: torch.Generator) -> Tables:
    """A normal number for every cell that is not -inf."""
    drawn = {
        name: torch.randn(table.shape, generator=generator, dtype=torch.float64).to(table.device)
        for name, table in tables.items()
    }
    return {name: torch.where(torch.isneginf(tables[name]), 0.0, part) for name, part in drawn.items()}


def with_gradient(inference: Inference, estimator: object) -> Inference:
    """``inference`` with its backward by ``estimator``; a :class:`GradientError` if that pair is not valid."""
    if not _settable(inference, "gradient"):
        raise GradientError(
            f"{type(inference).__name__} has no field 'gradient': its backward cannot be chosen; "
            "use lw.BP() or another method that has it"
        )
    settable: Any = inference
    changed: Inference = replace(settable, gradient=estimator)
    return changed


class ignored_convergence(warnings.catch_warnings):  # noqa: N801 (used like a function, as its base is)
    """No :class:`ConvergenceWarning` inside: the caller reports convergence itself."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)


def _locked(objective: LossOfBeliefs, beliefs: Beliefs, tables: Tables) -> Inference:
    """The same method with exactly the sweeps of ``beliefs``, if that is the same run; else the method itself."""
    method: Any = objective.inference
    sweeps = beliefs.status.sweeps
    if not (_settable(method, "iterations") and _settable(method, "tolerance") and sweeps.numel()):
        return objective.inference
    count = int(sweeps.max())
    if count == 0 or bool((sweeps != count).any()):
        return objective.inference
    unstopped = {"stop": None} if _settable(method, "stop") else {}
    fixed: Inference = replace(method, iterations=count, tolerance=0.0, **unstopped)
    again = fixed(objective.graph, tables, objective.evidence)
    same = torch.allclose(again.states, beliefs.states, rtol=0.0, atol=SAME)
    return fixed if same else objective.inference


def _settable(method: object, name: str) -> bool:
    return is_dataclass(method) and any(entry.name == name for entry in fields(method))


def _checked_loss(loss: object) -> Tensor:
    scalar = check_scalar(loss)
    if not bool(torch.isfinite(scalar)):
        raise GradientError(f"the loss is {float(scalar)}; it must be finite where its gradient is asked for")
    return scalar


def _filled(leaves: Mapping[str, Tensor], found: tuple[Tensor | None, ...]) -> Tables:
    """Groups that the loss does not depend on have derivative 0."""
    return {
        name: torch.zeros_like(leaf) if part is None else part.detach()
        for (name, leaf), part in zip(leaves.items(), found, strict=True)
    }


def _finite_part(left: Tensor, right: Tensor) -> Tensor:
    return torch.where(right == 0, 0.0, left) * right
