r"""Which factors are there depends on what is observed: gates that look at the evidence.

In: a graph. Out: :class:`EvidenceGate`, a gate for each factor whose logit is a learnt function of which variables near
it are observed; :class:`ByEvidence`, inference on the factors that it leaves. Stage: budget.

Evidence next to a factor may say all that the factor would, or make it the only way to what is known: so one set of
factors for all patterns of evidence is either too many or too few.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.cost import Cost, Presence
from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.gating.message_gates import message_gates
from loopwise.budget.selection import Selection
from loopwise.budget.stopping import Stopping
from loopwise.budget.strength import Raw
from loopwise.graph.evidence import FREE, Evidence, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.potentials.checks import broadcast_batches

OPEN = 0.95
Bools = NDArray[np.bool_]


class EvidenceGate(nn.Module):
    r"""A gate for each factor of two variables or more, open or shut by what is observed near it.

    The presence of factor :math:`\alpha` is :math:`\sigma(g_\alpha/s)` with

    .. math:: g_\alpha = b_\alpha + \sum_{k\in N(\alpha)} c_{\alpha k}\,o_k

    where :math:`o_k` is 1 if variable :math:`k` is observed and 0 if not, and :math:`N(\alpha)` are the variables that
    share a factor with one of its own (its own included). In evaluation a factor is there (:math:`g>0`) or not.

    Parameters
    ----------
    graph: whose factors they are.
    open: how far all are open at first, whatever is observed.

    >>> import loopwise as lw
    >>> gate = EvidenceGate(lw.chain(4))
    >>> gate.near["pair"].shape, gate.eval().present(np.zeros(4, dtype=bool))["pair"].tolist()
    ((10, 2), [1.0, 1.0, 1.0])
    """

    width: Tensor

    def __init__(self, graph: FactorGraph, *, open: float = OPEN) -> None:
        super().__init__()
        if not 0 < open < 1:
            raise ValueError(f"gates can be open by a share between 0 and 1 at first, not {open}")
        self.graph = graph
        self.groups = tuple(group for group in graph.groups if group.arity >= 2)
        if not self.groups:
            raise ValueError("the graph has no factor of two or more variables, so there is nothing to choose from")
        self.near = {group.name: _near(graph, group) for group in self.groups}  # (factor, variable) pairs
        start = math.log(open / (1 - open))
        self.bias = nn.ParameterList(
            nn.Parameter(torch.full((group.count,), start, dtype=torch.float64)) for group in self.groups
        )
        self.weight = nn.ParameterList(
            nn.Parameter(torch.zeros(len(self.near[group.name]), dtype=torch.float64)) for group in self.groups
        )
        self.register_buffer("width", torch.tensor(1.0, dtype=torch.float64))

    def logits(self, observed: Bools) -> dict[str, Tensor]:
        """:math:`g` of each factor, ``[*batch, factors]`` by group; ``observed``: bool ``[*batch, variables]``."""
        seen, found = torch.from_numpy(observed), {}
        for group, bias, weight in zip(self.groups, self.bias, self.weight, strict=True):
            factor, variable = (torch.from_numpy(ends) for ends in self.near[group.name].T.copy())
            terms = weight * seen[..., variable]
            none = terms.new_zeros(*terms.shape[:-1], group.count)
            found[group.name] = bias + none.index_add(-1, factor, terms)
        return found

    def present(self, observed: Bools) -> dict[str, Tensor]:
        """How much of each factor is there, ``[*batch, factors]`` by group; 0 or 1 in evaluation."""
        if self.training:
            return {name: torch.sigmoid(logit / self.width) for name, logit in self.logits(observed).items()}
        return {name: (logit > 0).to(logit.dtype) for name, logit in self.logits(observed).items()}

    def fade(self, tables: Mapping[str, Tensor], observed: Bools) -> tuple[dict[str, Tensor], Presence]:
        r"""Tables :math:`\sigma(g_\alpha)\,\eta_\alpha`, and how much of each factor is in them."""
        faded, present = dict(tables), self.present(observed)
        for group in self.groups:
            table, share = tables[group.name], present[group.name]
            faded[group.name] = table * share.to(table.dtype).reshape(*share.shape, *[1] * group.arity)
        return faded, present

    def on(self, graph: FactorGraph, kept: Mapping[str, Bools]) -> EvidenceGate:
        """The gates of the factors that are ``kept``, bool ``[factors]`` by group, on the graph that these make; near a
        factor is what was."""
        found = copy.copy(self)
        found.__dict__.update({"_parameters": {}, "_buffers": {"width": self.width.clone()}, "_modules": {}})
        found.graph, found.near = graph, {}
        left = [group for group in graph.groups if group.arity >= 2]
        biases, weights = [], []
        for group, bias, weight in zip(self.groups, self.bias, self.weight, strict=True):
            rows = kept.get(group.name, np.ones(group.count, dtype=bool))
            if not any(group.name == each.name for each in left):
                continue
            pairs = self.near[group.name]
            mine = rows[pairs[:, 0]]
            number = np.cumsum(rows) - 1
            found.near[group.name] = np.stack([number[pairs[mine, 0]], pairs[mine, 1]], axis=1)
            biases.append(nn.Parameter(bias.detach()[torch.from_numpy(rows)].clone()))
            weights.append(nn.Parameter(weight.detach()[torch.from_numpy(mine)].clone()))
        found.groups = tuple(left)
        found.bias, found.weight = nn.ParameterList(biases), nn.ParameterList(weights)
        return found

    def narrow(self, width: float) -> None:
        """Sets the width :math:`s`: the smaller, the nearer gates are to open or shut."""
        if not (math.isfinite(width) and width > 0):
            raise ValueError(f"the width of gates must be positive, not {width}")
        self.width.fill_(width)


class Pattern(NamedTuple):
    """Examples in which the same variables are observed, and what is left of the graph for them."""

    rows: Integers
    selection: Selection
    edges: Integers  # of the whole graph, that are left


@dataclass(frozen=True, eq=False)
class ByEvidence(Inference):
    """``inference`` on the factors that ``gate`` leaves for what is observed, pattern of evidence by pattern.

    While its gate trains, factors fade; in evaluation each pattern has a graph of its own, without the others (but with
    :class:`~loopwise.budget.MessageGates`, which are for the whole graph, the others are there and say nothing).

    Parameters
    ----------
    inference: message passing, with or without a policy or chosen messages.
    gate: for the graph of the system.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> gate = EvidenceGate(graph).eval()
    >>> with torch.no_grad():
    ...     gate.bias[0][1] = -1.0  # the second pair never
    >>> method = ByEvidence(lw.BP(iterations=3, tolerance=0), gate)
    >>> method(graph, lw.TablePotentials.random(graph, seed=0)).status.messages
    6
    """

    saver: ClassVar[str] = "lw.budget.save(system, path)"

    inference: MessagePassing | Stopping | ChosenMessages
    gate: EvidenceGate

    def __post_init__(self) -> None:
        if isinstance(self.inference, ByEvidence) or not isinstance(
            self.inference, MessagePassing | Stopping | ChosenMessages
        ):
            raise ValueError(f"gates of evidence go around message passing, not {type(self.inference).__name__}")

    def __call__(
        self, graph: FactorGraph, potentials: object, evidence: EvidenceLike = None, *, initial: Tensor | None = None
    ) -> Beliefs:
        if initial is not None:
            raise ValueError("each pattern of evidence has messages of its own here; leave initial out")
        self.check_graph(graph)
        tables: Mapping[str, Tensor] = potentials() if callable(potentials) else potentials  # type: ignore[assignment]
        values = clamped_values(graph, evidence)
        if self.gate.training or message_gates(self.inference) is not None:
            faded, _ = self.gate.fade(tables, values != FREE)
            return self.inference(graph, faded, evidence)
        return self._by_pattern(graph, tables, values, evidence)

    def run(self, problem: Problem) -> Beliefs:
        raise NotImplementedError("gates look at evidence: call the method")

    def check_graph(self, graph: FactorGraph) -> None:
        if graph is not self.gate.graph and graph != self.gate.graph:
            raise ValueError(f"the gates are for {self.gate.graph!r}; they do not fit {graph!r}")

    def patterns(self, observed: Bools) -> Iterator[Pattern]:
        """The patterns of evidence among examples ``[examples, variables]``, with what is left of the graph."""
        kept = self.graphs
        found, owner = np.unique(observed, axis=0, return_inverse=True)
        for number, seen in enumerate(found):
            with torch.no_grad():
                there = {name: (logit > 0).numpy() for name, logit in self.gate.logits(seen).items()}
            key = b"".join(rows.tobytes() for rows in there.values())
            if key not in kept:
                selection = Selection.of(self.gate.graph, there, Raw())
                kept[key] = selection, edges_left(self.gate.graph, there)
            yield Pattern(np.flatnonzero(owner.reshape(-1) == number), *kept[key])

    @property
    def graphs(self) -> dict[bytes, tuple[Selection, Integers]]:
        """What is left of the graph, by which factors are there; made once."""
        found: dict[bytes, tuple[Selection, Integers]] = self.gate.graph.layout.kept.setdefault(ByEvidence, {})
        return found

    def on(self, pattern: Pattern) -> MessagePassing | Stopping | ChosenMessages:
        """The inference of one pattern."""
        if isinstance(self.inference, ChosenMessages):
            return self.inference.on(pattern.selection.graph, pattern.edges)
        return self.inference

    def _by_pattern(
        self, graph: FactorGraph, tables: Mapping[str, Tensor], values: Integers, evidence: EvidenceLike
    ) -> Beliefs:
        batch = broadcast_batches(values.shape[:-1], *_batches(graph, tables))
        flat = np.broadcast_to(values, (*batch, graph.variables)).reshape(-1, graph.variables)
        whole = {
            group.name: tables[group.name]
            .expand(*batch, *tables[group.name].shape[-1 - group.arity :])
            .flatten(0, len(batch) - 1)
            if batch and tables[group.name].ndim > group.arity + 1
            else tables[group.name]
            for group in graph.groups
        }
        states: list[Tensor] = []
        sweeps: list[Tensor] = []
        order, sent, first = [], 0, None
        for pattern in self.patterns(flat != FREE):
            mine = {
                group.name: whole[group.name][torch.from_numpy(pattern.rows)]
                if whole[group.name].ndim > group.arity + 1
                else whole[group.name]
                for group in graph.groups
            }
            given = _evidence_of(graph, evidence, flat, pattern.rows)
            found = self.on(pattern)(pattern.selection.graph, pattern.selection.tables(mine), given)
            order.append(pattern.rows)
            states.append(found.states.expand(len(pattern.rows), -1))
            sweeps.append(found.status.sweeps.expand(len(pattern.rows)))
            sent, first = sent + found.status.messages, first or found.status
        assert first is not None
        place = torch.from_numpy(np.argsort(np.concatenate(order)))
        notes = (*first.notes, "factors were chosen by what is observed")
        swept = torch.cat(sweeps)[place].reshape(batch)
        status = replace(
            first, exact=False, sweeps=swept, messages=sent, notes=notes, residual=torch.zeros(batch), stopped=None
        )
        return Beliefs(graph, torch.cat(states)[place].reshape(*batch, -1), _no_part, _no_part, status)

    def cost(self, model: Cost, sweeps: Tensor, evidence: EvidenceLike) -> Tensor:
        """What examples that made ``sweeps`` ``[examples]`` cost by ``model``, each on the factors left for it."""
        observed = clamped_values(self.gate.graph, evidence) != FREE
        flat = np.broadcast_to(observed, (*sweeps.shape, observed.shape[-1])).reshape(-1, observed.shape[-1])
        found = torch.zeros(len(flat), dtype=torch.float64)
        for pattern in self.patterns(flat):
            mine, graph, seen = sweeps.reshape(-1)[pattern.rows], pattern.selection.graph, flat[pattern.rows[0]]
            method = self.on(pattern)
            if isinstance(method, ChosenMessages):
                given = dict.fromkeys(np.flatnonzero(seen).tolist(), 0)
                found[pattern.rows] = method.cost(model, mine, given)
            else:
                found[pattern.rows] = model.run(graph, mine.double(), None, seen)
        return found.reshape(sweeps.shape)


def without_evidence_gates(inference: Inference) -> Inference:
    """What runs behind gates that look at the evidence, if there are any."""
    return inference.inference if isinstance(inference, ByEvidence) else inference


def edges_left(graph: FactorGraph, kept: Mapping[str, Bools]) -> Integers:
    """The edges of ``graph`` whose factors are kept, in the order in which the smaller graph has them."""
    found = [np.zeros(0, dtype=np.int64)]
    for member in graph.layout.message_groups:
        rows = np.flatnonzero(kept.get(member.group.name, np.ones(member.group.count, dtype=bool)))
        found.append(
            (member.edge_start + rows[:, None] * member.group.arity + np.arange(member.group.arity)).reshape(-1)
        )
    return np.concatenate(found)


def _near(graph: FactorGraph, group: Group) -> Integers:
    """(factor, variable) pairs ``[pairs, 2]``: variables that share a factor with one of the factor's own."""
    touching = np.eye(graph.variables, dtype=bool)
    for other in graph.groups:
        for first in range(other.arity):
            for second in range(other.arity):
                touching[other.scopes[:, first], other.scopes[:, second]] = True
    near = np.zeros((group.count, graph.variables), dtype=bool)
    for axis in range(group.arity):
        near |= touching[group.scopes[:, axis]]
    return np.argwhere(near)


def _batches(graph: FactorGraph, tables: Mapping[str, Tensor]) -> list[torch.Size]:
    return [tables[group.name].shape[: -1 - group.arity] for group in graph.groups]


def _evidence_of(graph: FactorGraph, evidence: EvidenceLike, values: Integers, rows: Integers) -> EvidenceLike:
    """The evidence of some examples, with roles where it has them: policies look at outputs only."""
    if not isinstance(evidence, Evidence):
        return values[rows]
    roles = np.broadcast_to(evidence.roles, values.shape)[rows]
    known = np.broadcast_to(evidence.values, values.shape)[rows]
    return replace(evidence, values=known, roles=roles)


def _no_part(*_: object) -> Tensor:
    raise ValueError("patterns of evidence have different factors: of all examples there are beliefs of variables only")
