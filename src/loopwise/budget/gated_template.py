r"""Gates on the factors of a template: :math:`\psi_\alpha^{\tau(S_\alpha)}`, by example.

In: a template. Out: :class:`GatedTemplate`, a template whose weak factors fade in training and say nothing in
evaluation; :class:`WithoutGroups`, the same template without some groups of factors. Stage: budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.budget.gates import Faded, Gate
from loopwise.budget.unary_terms import check_unaries
from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import FactorGraph
from loopwise.loss.univariate import check_sharpness
from loopwise.potentials.template import Template, TemplateBatch


class _Around(Template):
    """A template that asks another one."""

    template: Template

    def graph(self, example: Any) -> FactorGraph:
        return self.template.graph(example)

    def shape(self, example: Any) -> Hashable | None:
        return self.template.shape(example)

    def values(self, example: Any) -> ArrayLike | None:
        return self.template.values(example)

    def roles(self, example: Any) -> ArrayLike | Role:
        return self.template.roles(example)

    def prepare(self, example: Any) -> Mapping[str, ArrayLike]:
        return self.template.prepare(example)


class GatedTemplate(_Around):
    r"""``template`` behind gates, as :class:`~loopwise.budget.Gated` for potentials on one graph: factors of two or
    more variables become :math:`\tau(S_\alpha)\,\eta_\alpha` while training, and those with :math:`\tau<\frac12` say
    nothing in evaluation (``module.eval()``).

    Groups of which no factor is left in any example go for good by :func:`~loopwise.budget.prune`; structured factors
    stay as they are.

    Parameters
    ----------
    template: whose factors fade.
    gate: which groups may, and how.
    sharpness: of the step; a run of training sets it by its schedule.

    >>> import loopwise as lw
    >>> class Pairs(lw.Template):
    ...     def graph(self, size):
    ...         steps = [(k, k + 1) for k in range(size - 1)]
    ...         unary = [[k] for k in range(size)]
    ...         return lw.FactorGraph([2] * size, {"unary": unary, "strong": steps, "weak": steps})
    ...     def potentials(self, batch):
    ...         strong, weak = torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.zeros(2, 2)
    ...         return {"unary": torch.zeros(2), "strong": strong, "weak": weak}
    >>> system = lw.System(lw.budget.GatedTemplate(Pairs()), lw.BP(iterations=3))
    >>> lw.budget.prune(system, [3, 4]).potentials.groups  # those that went
    ('weak',)
    """

    sharpness: Tensor

    def __init__(self, template: Template, gate: Gate | None = None, *, sharpness: float = 1.0) -> None:
        super().__init__()
        if not isinstance(template, Template):
            raise ValueError(
                f"gates of a template need a lw.Template, not {type(template).__name__}; use lw.budget.Gated"
            )
        self.template, self.gate = template, Gate() if gate is None else gate
        check_sharpness(sharpness)
        self.register_buffer("sharpness", torch.tensor(float(sharpness), dtype=torch.float64))

    def potentials(self, batch: TemplateBatch) -> Mapping[str, Any]:
        return self.fade(batch).tables

    def fade(self, batch: TemplateBatch) -> Faded:
        """Tables of the union of a batch and presences of its factors; hard in evaluation mode."""
        graph, tables = batch.graph, dict(self.template(batch))
        own = {named.name: tables.pop(named.name) for named in graph.structured if named.name in tables}
        for group in graph.groups:  # one table for all factors has presences for all
            table = tables[group.name]
            tables[group.name] = table[None] if table.ndim == group.arity else table
        gate = self._gate(graph)
        if gate.strength.leaves_terms:
            check_unaries(graph, gate.gated_groups(graph))
        found = gate.fade(graph, tables, float(self.sharpness), not self.training)
        return Faded({**found.tables, **own}, found.present)

    def _gate(self, graph: FactorGraph) -> Gate:
        """The gate for a union that may lack some of its groups."""
        if self.gate.groups is None:
            return self.gate
        known = {group.name for group in graph.groups}
        return replace(self.gate, groups=tuple(name for name in self.gate.groups if name in known))

    def sharpen(self, sharpness: float) -> None:
        """Sets the sharpness of the step."""
        check_sharpness(sharpness)
        self.sharpness.fill_(sharpness)


class WithoutGroups(_Around):
    """``template`` without the factors of some groups, which are not computed with at all; their single-variable terms,
    as far as the gate's strength leaves them, are in the unary factors already.

    Parameters
    ----------
    template: as it is with them.
    groups: the names of those that go.
    """

    def __init__(self, template: Template, groups: Iterable[str]) -> None:
        super().__init__()
        self.template, self.groups = template, tuple(groups)

    def graph(self, example: Any) -> FactorGraph:
        whole = self.template.graph(example)
        kept = {group.name: group.scopes for group in whole.groups if group.name not in self.groups}
        gone = [group for group in whole.groups if group.name in self.groups]
        empty = {group.name: np.zeros((0, group.arity), dtype=np.int64) for group in gone}
        structured = {named.name: list(named.members) for named in whole.structured}
        return FactorGraph(whole.cardinalities, {**kept, **empty}, structured)

    def potentials(self, batch: TemplateBatch) -> Mapping[str, Any]:
        whole = self.template.union_of([self.template.graph_of(example, "an example") for example in batch.examples])
        tables = dict(self.template(batch.over(whole)))
        for group in batch.graph.groups:
            if group.name in self.groups:
                tables[group.name] = tables[group.name].new_zeros(0, *group.shape)
        return tables
