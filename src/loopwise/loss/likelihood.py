r"""Likelihoods under approximate inference: what a model is trained for when no other loss is given.

In: an inference method, a graph, log-potentials, :class:`Evidence` with roles. Out: a number to minimise, the mean over
examples (or one an example). Stage: loss. Unlike losses on beliefs, these objectives run inference themselves: once
with the inputs clamped, and once more with the outputs clamped too where variables are hidden.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.gradient.hvp import differentiating_twice
from loopwise.graph.evidence import FREE, Evidence, Role, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.structured import own_batches, split_potentials
from loopwise.notices import GradientError, ImpossibleError, in_example
from loopwise.potentials.checks import broadcast_batches, checked_tables

Own = Mapping[str, list[Tensor | None]]  # potentials of the structured factors of each name


class LikelihoodObjective(ABC):
    """Something to minimise that needs the whole model, not only its beliefs."""

    def __call__(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        """The mean over examples, a scalar. Arguments as for :meth:`per_example`."""
        return self.per_example(inference, graph, potentials, evidence).mean()

    @abstractmethod
    def per_example(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        """The objective of each example, ``[*batch]``: the batch of potentials and evidence together.

        ``potentials``: as every inference method takes them. ``evidence``: what is input, output, hidden or missing,
        example by example. ``inference``: an objective that needs none ignores it, and takes None.
        """


@dataclass(frozen=True, eq=False)
class Observed:
    """Evidence read for a likelihood: values ``[*batch, variables]``, :data:`FREE` where there is none."""

    given: Integers  # of the variables conditioned on
    known: Integers  # of these and of the variables whose probability is asked for

    @staticmethod
    def of(graph: FactorGraph, evidence: Evidence, joint: bool) -> Observed:
        """Checks ``evidence``; ``joint``: nothing is conditioned on, inputs are scored like outputs."""
        if not isinstance(evidence, Evidence):
            raise ValueError(
                f"a likelihood needs an Evidence, which has roles, not {type(evidence).__name__}: "
                "lw.Evidence.of(values, roles) says which variables are outputs"
            )
        known = clamped_values(graph, evidence.clamp((Role.INPUT, Role.OUTPUT)))
        given = np.full_like(known, FREE) if joint else evidence.clamp((Role.INPUT,))
        if known.size == 0:
            raise ValueError(f"evidence of shape {known.shape} holds no value of any example; give at least one")
        observed = Observed(given, known)
        if not observed.scored.any():
            wanted = "neither an INPUT nor an OUTPUT" if joint else "no OUTPUT"
            roles = ", ".join(Role(int(role)).name for role in np.unique(evidence.roles))
            raise ValueError(
                f"there is {wanted} in the evidence, so there is no likelihood: its roles are {roles}; "
                "give some variables the role OUTPUT"
            )
        return observed

    @property
    def scored(self) -> NDArray[np.bool_]:
        """The variables whose probability is asked for, ``[*batch, variables]``."""
        scored: NDArray[np.bool_] = (self.known != FREE) & (self.given == FREE)
        return scored

    @property
    def ever_scored(self) -> NDArray[np.bool_]:
        """Those scored in some example, ``[variables]``."""
        return np.asarray(self.scored.reshape(-1, self.scored.shape[-1]).any(0))

    @property
    def complete(self) -> bool:
        """Whether every variable has a value in every example."""
        return bool((self.known != FREE).all())


@dataclass(frozen=True)
class _LogPartitionDifference(LikelihoodObjective):
    """log Z given the inputs, less log Z given inputs and outputs; how log Z is differentiated is left open."""

    joint: bool = False

    def per_example(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        if not isinstance(inference, Inference):
            raise ValueError(
                f"{type(self).__name__} needs an inference method, such as lw.BP(), not {type(inference).__name__}"
            )
        observed = Observed.of(graph, evidence, self.joint)
        rest, structured = split_potentials(graph, potentials)
        tables, batch = model_batch(graph, rest, observed, own_batches(graph, structured))
        own = {group.name: list(structured[group.name]) for group in graph.structured if group.weighted}
        unconditional = bool((observed.given == FREE).all())  # then one run serves all examples that share tables
        free = self._log_partition(inference, graph, tables, own, None if unconditional else observed.given)
        if (
            observed.complete and not graph.structured
        ):  # then only one configuration is left, and its score is the log-partition function
            clamped = log_score(graph, tables, observed.known)
        else:
            clamped = self._log_partition(inference, graph, tables, own, observed.known)
        return (free - clamped).expand(batch)

    @abstractmethod
    def _log_partition(
        self, inference: Inference, graph: FactorGraph, tables: Mapping[str, Tensor], own: Own, values: Integers | None
    ) -> Tensor:
        """log Z with ``values`` clamped; ``own`` are the potentials of structured factors."""


@dataclass(frozen=True)
class SurrogateLikelihood(_LogPartitionDifference):
    r"""Negative log-likelihood under approximate inference, with the belief-difference gradient.

    .. math:: \mathrm{NLL} = \log Z_{\text{inputs clamped}} - \log Z_{\text{inputs and outputs clamped}}, \qquad
              \frac{\partial\,\mathrm{NLL}}{\partial\eta_\alpha(x_\alpha)}
              = b^{free}_\alpha(x_\alpha) - b^{clamped}_\alpha(x_\alpha)

    This is the baseline of Stoyanov et al. 2011 (APPR-LOGL; ERMA spec, eq. B3) and the surrogate likelihood of Domke
    2010. Hidden and missing variables are summed out in both terms. The gradient is the derivative of the value only at
    a fixed point of inference (or with :class:`Exact`, where both are exact); before convergence it is still the belief
    difference, as published. Nothing is propagated back through inference, so that any method serves, also one without
    gradients; parameters of inference itself get none. The value can be negative on graphs with cycles.

    ``joint``: the likelihood of inputs and outputs together; nothing is clamped in the first term.

    Second derivatives (``create_graph=True``) are the tangents of the beliefs, :math:`Hv = \dot b^{free} - \dot
    b^{clamped}` (ERMA spec, section 8); they do need a differentiable method, which is then run once more.
    Cost: one inference call, two with hidden variables.
    """

    def _log_partition(
        self, inference: Inference, graph: FactorGraph, tables: Mapping[str, Tensor], own: Own, values: Integers | None
    ) -> Tensor:
        given = tuple(tables[group.name] for group in graph.groups)
        trained = next((name for name, each in own.items() if any(map(_wants_gradient, each))), None)
        if trained is not None and torch.is_grad_enabled():
            raise GradientError(
                f"beliefs say nothing of the potentials of the structured factors {trained!r}, so SurrogateLikelihood "
                "has no gradient for them: use TruncatedLikelihood"
            )
        call = _LikelihoodCall(inference, graph, values, own)
        twice = differentiating_twice() and torch.is_grad_enabled() and any(table.requires_grad for table in given)
        with torch.set_grad_enabled(twice):
            beliefs = call.run(given)
            found = tuple(beliefs.factor(group.name) for group in graph.groups)
        result: Tensor = _BeliefGradient.apply(  # type: ignore[no-untyped-call]
            call, beliefs.log_partition.detach(), found, *given
        )
        return result


@dataclass(frozen=True)
class TruncatedLikelihood(_LogPartitionDifference):
    r"""The value of :class:`SurrogateLikelihood` with its own derivative, propagated back through inference.

    After T sweeps, converged or not, the gradient is that of the number which T sweeps gave (of the free energy, ERMA
    spec eq. B1), by whichever estimator the inference method names. At a fixed point it is the belief difference again.
    ``joint``: the likelihood of inputs and outputs together. Cost: one inference call and its backward, two with hidden
    variables.
    """

    def _log_partition(
        self, inference: Inference, graph: FactorGraph, tables: Mapping[str, Tensor], own: Own, values: Integers | None
    ) -> Tensor:
        log_partition = inference(graph, {**tables, **own}, values).log_partition
        given = [*tables.values(), *(value for each in own.values() for value in each)]
        wanted = torch.is_grad_enabled() and any(map(_wants_gradient, given))
        if wanted and not log_partition.requires_grad:
            raise GradientError(
                f"{type(inference).__name__} gives a log-partition function without a gradient: use "
                "SurrogateLikelihood, which needs beliefs only"
            )
        return log_partition


@dataclass(frozen=True)
class _LikelihoodCall:
    """One inference call, which may have to be repeated."""

    inference: Inference
    graph: FactorGraph
    values: Integers | None
    own: Own

    def run(self, tables: Sequence[Tensor]) -> Beliefs:
        named = {group.name: table for group, table in zip(self.graph.groups, tables, strict=True)}
        return self.inference(self.graph, {**named, **self.own}, self.values)


def _wants_gradient(value: Tensor | None) -> bool:
    return value is not None and value.requires_grad


class _BeliefGradient(torch.autograd.Function):
    """log Z of one inference call; its gradient is the factor beliefs of that call, whatever they are.

    When a graph of the gradient is wanted, the beliefs must carry gradients themselves: where they do not, inference
    runs again.
    """

    @staticmethod
    def forward(
        ctx: Any, call: _LikelihoodCall, log_partition: Tensor, found: tuple[Tensor, ...], *tables: Tensor
    ) -> Tensor:
        # The beliefs are no inputs of this node: backward would then go through them with an adjoint of zero.
        ctx.call, ctx.found = call, found
        ctx.save_for_backward(*tables)
        return log_partition.clone()

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor | None, ...]:
        groups = ctx.call.graph.groups
        tables, found = ctx.saved_tensors, ctx.found
        if torch.is_grad_enabled() and not any(belief.requires_grad for belief in found):
            again = ctx.call.run(tables)
            found = tuple(again.factor(group.name) for group in groups)
        gradients: list[Tensor | None] = []
        for group, table, belief, need in zip(groups, tables, found, ctx.needs_input_grad[3:], strict=True):
            if not need:
                gradients.append(None)
                continue
            if torch.is_grad_enabled():
                _check_differentiable(ctx.call, group, table, belief)
            weight = adjoint.reshape(*adjoint.shape, *(1,) * (group.arity + 1))
            gradients.append((weight * belief).sum_to_size(table.shape))
        return None, None, None, *gradients


def _check_differentiable(call: _LikelihoodCall, group: Group, table: Tensor, belief: Tensor) -> None:
    """A factor with a free variable has beliefs that depend on its own table: no gradient there means none at all."""
    values = call.values
    if values is not None:
        free = (values == FREE).reshape(-1, values.shape[-1]).any(0)[group.scopes].any()
    else:
        free = group.arity > 0 and group.count > 0
    if free and table.requires_grad and not belief.requires_grad:
        raise GradientError(
            f"the beliefs of {type(call.inference).__name__} carry no gradient, so SurrogateLikelihood has no second "
            "derivatives under it: use a differentiable method, such as lw.BP()"
        )


def model_batch(
    graph: FactorGraph, potentials: object, observed: Observed, others: Sequence[torch.Size] = ()
) -> tuple[dict[str, Tensor], torch.Size]:
    """Checked tables, and the batch shape of tables, evidence and ``others`` together."""
    tables, batch = checked_tables(graph, potentials)
    examples = observed.known.shape[:-1]
    try:
        return tables, broadcast_batches(batch, examples, *others)
    except RuntimeError:
        raise ValueError(
            f"evidence for {examples} examples does not fit potentials for {tuple(batch)}; give both for the same batch"
        ) from None


def check_tables_only(graph: FactorGraph, objective: LikelihoodObjective) -> None:
    """Refuses a graph with structured factors, for objectives that look at one table at a time."""
    if graph.structured:
        weighted = any(group.weighted for group in graph.structured)  # whose log-potentials beliefs do not speak of
        other = "TruncatedLikelihood" if weighted else "SurrogateLikelihood"
        raise ValueError(
            f"{type(objective).__name__} takes tables only, and {graph.structured[0].name!r} is a structured factor; "
            f"use lw.loss.{other}() with lw.BP()"
        )


def log_score(graph: FactorGraph, tables: Mapping[str, Tensor], values: Integers) -> Tensor:
    """The score of complete configurations ``[*batch, variables]``: the sum of one cell of every factor, ``[*batch]``.

    Cost: one number read a factor and example, and one written on the way back.
    """
    total = next((table.new_zeros(()) for table in tables.values()), torch.zeros((), dtype=torch.float64))
    for group in graph.groups:
        table = tables[group.name]
        picked = pick_cells(group, table, cells_at(group, torch.tensor(values, device=table.device)))
        check_possible(group, picked, np.arange(group.count))
        total = total + picked.sum(-1)
    return total


def cells_at(group: Group, values: Tensor) -> Tensor:
    """The cell of each factor's flattened table that ``values`` ``[*batch, variables]`` name, ``[*batch, factors]``."""
    cell = torch.zeros(group.count, dtype=torch.int64, device=values.device)
    for axis, size in enumerate(group.shape):
        cell = cell * size + values[..., torch.tensor(group.scopes[:, axis], device=values.device)]
    return cell


def pick_cells(group: Group, table: Tensor, cells: Tensor) -> Tensor:
    """Entries of ``table`` ``[*b, factors or 1, *shape]`` at flat ``cells`` ``[*batch, factors]``.

    Tables that examples or factors share are never expanded, forwards or back.
    """
    lead = table.shape[: table.ndim - group.arity]
    first = group.cells * torch.arange(lead.numel(), device=table.device).reshape(lead)
    index = first + cells
    return table.reshape(-1).index_select(0, index.reshape(-1)).reshape(index.shape)


def chosen_rows(group: Group, table: Tensor, rows: Integers) -> Tensor:
    """``table`` ``[*b, factors or 1, *shape]`` of the factors ``rows`` only; a tied one serves any of them."""
    axis = table.ndim - group.arity - 1
    if table.shape[axis] == 1 or len(rows) == group.count:
        return table
    return table.index_select(axis, torch.tensor(rows, device=table.device))


def check_possible(group: Group, log_values: Tensor, rows: Integers) -> None:
    """Refuses a factor among ``rows`` whose ``log_values`` ``[*batch, rows]`` leave the evidence no probability."""
    dead = torch.isneginf(log_values.detach()).nonzero()
    if len(dead):
        *example, column = dead[0].tolist()
        row = int(rows[column])
        raise ImpossibleError(
            f"impossible evidence: factor {row} of group {group.name!r} forbids the values observed for the variables "
            f"{group.scopes[row].tolist()}{in_example(example)}; "
            "relax the zero, or leave the example out"
        )
