r"""A system whose run time counts: what is trained when :math:`\ell+\lambda\,t_{run}` is.

In: a system with gates (of factors, of messages, by evidence), a stopping policy, or several of these. Out:
:class:`Budgeted`, which shares its weights and decides with a cost. Stage: budget (cost-aware spec, section 3.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from loopwise.budget.cost import Cost, MessageCost, Presence, always_observed
from loopwise.budget.gated_template import GatedTemplate
from loopwise.budget.gates import Gated
from loopwise.budget.gating.evidence_gates import ByEvidence, EvidenceGate, without_evidence_gates
from loopwise.budget.gating.message_gates import MessageGates, message_gates
from loopwise.budget.objective import Priced
from loopwise.budget.smoothing import Falling, IndependentThresholds, RandomThreshold
from loopwise.budget.stopping import Stopping
from loopwise.decode.base import BeliefDecoder
from loopwise.decode.temperature import TemperatureSchedule
from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.template_examples import TemplateExamples
from loopwise.learn.system import Given, Inputs, System, answering
from loopwise.potentials.template import Template


@dataclass(frozen=True)
class Smoothing:
    """How steps are made smooth while training, by epochs.

    ``threshold``: how random thresholds of a policy are drawn; ``width``: their scale, which falls. ``sharpness``: of
    gates, which may rise (None: it stays as it is); ``gates``: the width of gates on messages and of those that look at
    evidence, which falls. ``decay``: strength of an L2 penalty on the weights of a policy, so
    that they do not grow to undo the width.
    """

    threshold: RandomThreshold = field(default_factory=IndependentThresholds)
    width: TemperatureSchedule = field(default_factory=Falling)
    sharpness: TemperatureSchedule | None = None
    decay: float = 1e-4
    gates: TemperatureSchedule = field(default_factory=partial(Falling, 1.0, 0.9, 0.1))

    def __post_init__(self) -> None:
        if not self.decay >= 0:
            raise ValueError(f"decay must be at least 0, not {self.decay}")


class Budgeted(System):
    """``system`` with a cost model: the same weights, decisions that know what they cost.

    Costs are shares of the longest run of the whole graph: 1 is all factors and all sweeps. In evaluation weak factors
    and late sweeps are really gone (hard gates, hard stopping). ``system`` must have
    :class:`~loopwise.budget.Gated` potentials, :class:`~loopwise.budget.Stopping` inference, or both, for a price to
    change anything.
    """

    def __init__(self, system: System, cost: Cost | None = None, smoothing: Smoothing | None = None) -> None:
        inner = without_evidence_gates(system.inference)
        method = inner.inference if isinstance(inner, Stopping) else inner
        if not isinstance(method, MessagePassing):
            raise ValueError(f"{type(method).__name__} has no sweeps to pay for; use lw.BP or lw.TRW")
        if method.iterations < 1:
            raise ValueError("a run without iterations costs nothing; allow at least one")
        super().__init__(
            system.potentials,
            system.inference,
            system.decoder,
            graph=None if isinstance(system.potentials, Template) else system.graph,
            vocabulary=system.vocabulary,
            roles=system.roles,
        )
        self.inner, self.limit = inner, method.iterations
        self.cost = MessageCost() if cost is None else cost
        self.smoothing = Smoothing() if smoothing is None else smoothing

    def forward(self, given: Given = None, *, inputs: Inputs | None = None, step: int | None = None) -> Priced:
        decoder = (self.decoder if step is None else self.decoder.at(step)).soft()
        smoothing, epoch = self.smoothing, step or 0
        if isinstance(self.potentials, Gated | GatedTemplate) and smoothing.sharpness is not None:
            self.potentials.sharpen(smoothing.sharpness(epoch))
        for gates in (self.message_gates, self.evidence_gate):
            if gates is not None:
                gates.narrow(smoothing.gates(epoch))
        tables, present = self.faded(given, inputs)
        graph, evidence = self._graph_of(given), self._evidence(given)
        if not isinstance(self.inner, Stopping):
            beliefs = self.inner(graph, tables, evidence)
            sweeps = beliefs.status.sweeps.to(beliefs.states.dtype)
            return Priced(self._decision(decoder, beliefs, given), self.share(sweeps, present, evidence, graph))
        run = self.inner.every_sweep(graph, tables, evidence)
        weights = smoothing.threshold.weights(run.scores, smoothing.width(epoch))
        made = weights.flip(0).cumsum(0).flip(0)  # a sweep is made unless the run stopped before
        penalty = 0.5 * smoothing.decay * self.inner.policy.weights.square().sum()
        decision = self.every_decision(decoder, run.beliefs, given)
        return Priced(decision, self.share_of(made, present, evidence, graph), weights, penalty)

    def decide(self, given: Given = None, *, inputs: Inputs | None = None) -> Priced:
        with answering(self):
            tables, present = self.faded(given, inputs)
            graph, evidence = self._graph_of(given), self._evidence(given)
            beliefs = self.inner(graph, tables, evidence)
            decision = self._decision(self.decoder.hard(), beliefs, given)
            sweeps = beliefs.status.sweeps.to(beliefs.states.dtype)
            return Priced(decision, self.share(sweeps, present, evidence, graph))

    def every_decision(self, decoder: BeliefDecoder, every: Beliefs, given: Given) -> Decision:
        """The decision on the beliefs of each sweep, which have the sweeps for their first axis."""
        part = self._corpus(given)
        if not isinstance(part, TemplateExamples):
            return decoder(every, self._outputs(given))
        made = []
        for states in every.states:  # a decoder that looks at whole examples takes one union at a time
            made.append(part.decide(decoder, Beliefs(every.graph, states, _none, _none, every.status)).states)
        return Decision(every, torch.stack(made), _none)

    def _decision(self, decoder: BeliefDecoder, beliefs: Beliefs, given: Given) -> Decision:
        part = self._corpus(given)
        if isinstance(part, TemplateExamples):
            return part.decide(decoder, beliefs)
        return decoder(beliefs, self._outputs(given))

    def _graph_of(self, given: Given) -> FactorGraph:
        part = self._corpus(given)
        return self.graph if part is None else self.graph_for(part)

    def faded(self, given: Given, inputs: Inputs | None = None) -> tuple[dict[str, Tensor], Presence | None]:
        """Tables as inference takes them, and how much of each factor is in them (None: everything)."""
        if isinstance(self.potentials, GatedTemplate):
            part = self._corpus(given)
            assert isinstance(part, TemplateExamples)
            return self.potentials.fade(part.batch)
        tables, present = self._faded_by_strength(given, inputs)
        if self.evidence_gate is None:
            return tables, present
        observed = clamped_values(self.graph, self._evidence(given)) != FREE
        tables, seen = self.evidence_gate.fade(tables, observed)
        both = seen if present is None else {name: present[name] * share for name, share in seen.items()}
        return tables, both

    def _faded_by_strength(
        self, given: Given, inputs: Inputs | None = None
    ) -> tuple[dict[str, Tensor], Presence | None]:
        if not isinstance(self.potentials, Gated):
            return self.tables(given, inputs=inputs), None
        arguments = given.inputs if isinstance(given, Examples) else inputs or {}
        return self.potentials.fade(**arguments)

    @property
    def message_gates(self) -> MessageGates | None:
        """Gates on single messages, if there are any."""
        return message_gates(self.inner)

    @property
    def evidence_gate(self) -> EvidenceGate | None:
        """Gates on factors that look at the evidence, if there are any."""
        return self.inference.gate if isinstance(self.inference, ByEvidence) else None

    def share(
        self, sweeps: Tensor, present: Presence | None, evidence: EvidenceLike, graph: FactorGraph | None = None
    ) -> Tensor:
        """Cost of runs of so many ``sweeps`` ``[*batch]`` as a share of all factors and all sweeps; of examples of a
        template (``graph``: their union) each as a share of its own."""
        numbers = torch.arange(1, self.limit + 1, dtype=sweeps.dtype).reshape(-1, *[1] * sweeps.ndim)
        return self.share_of((numbers <= sweeps).to(sweeps.dtype), present, evidence, graph)

    def share_of(
        self, made: Tensor, present: Presence | None, evidence: EvidenceLike, graph: FactorGraph | None = None
    ) -> Tensor:
        """The same where each sweep is made with some probability, ``[sweeps, *batch]``."""
        graph = self.graph if graph is None else graph
        observed = always_observed(graph, evidence)
        whole = self.cost.run(graph, float(self.limit), None, observed)
        gates = self.message_gates
        if gates is None:
            cost = self.cost.run(graph, made.sum(0), present, observed)
        else:
            cost = self.cost.run_of_messages(graph, made, gates.open()[: self.limit], present, observed)
        return cost / torch.where(whole > 0, whole, 1.0)

    def _evidence(self, given: Given) -> EvidenceLike:
        part = self._corpus(given)
        return given if part is None else part.evidence  # type: ignore[return-value]


def _none(*_: object) -> Tensor:
    raise ValueError("the beliefs of every sweep hold variables only; use a loss on variables")
