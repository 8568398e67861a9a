"""Curves of systems that learn which messages and which factors to leave out, also by evidence; and residual BP.

In: a :class:`~loopwise.budget.methods.PricedTask`. Out: systems, from dear to cheap. Stage: budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from loopwise.budget.baselines import own_weights
from loopwise.budget.gating.deploying import deploy
from loopwise.budget.gating.evidence_gates import ByEvidence, EvidenceGate
from loopwise.budget.gating.message_gates import MessageGates
from loopwise.budget.methods import BudgetCurve, Learned, Made, PricedTask
from loopwise.budget.stopping import Stopping
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.schedules import Residual
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import System


@dataclass(frozen=True)
class LearnedGates(Learned):
    """:class:`Learned` with gates on messages, on factors by evidence, or both, besides what it has.

    ``messages``: a gate for each message and sweep. ``evidence``: a gate for each factor that looks at what is observed
    near it. ``gate=None`` and no ``features`` leave these alone.
    """

    messages: bool = False
    evidence: bool = False

    def __post_init__(self) -> None:
        if not (self.messages or self.evidence):
            super().__post_init__()

    @property
    def name(self) -> str:
        if self.title:
            return self.title
        kinds = (
            ("learned sparsity", self.gate), ("learned stopping", self.features), ("message gates", self.messages),
            ("evidence gates", self.evidence),
        )  # fmt: skip
        return " and ".join(name for name, there in kinds if there)

    def _start(self, task: PricedTask) -> System:
        if not isinstance(task.examples, Examples):
            raise ValueError(
                "gates on messages and by evidence are for one graph; examples of a template have one each"
            )
        begun = super()._start(task)
        inference, graph = begun.inference, task.dense.graph
        if self.messages:
            gates = MessageGates(graph, task.method.iterations)
            if isinstance(inference, Stopping):
                inference = replace(inference, inference=replace(inference.inference, weights=gates))
            else:
                assert isinstance(inference, MessagePassing)
                inference = replace(inference, weights=gates)
        if self.evidence:
            assert isinstance(inference, MessagePassing | Stopping)
            inference = ByEvidence(inference, EvidenceGate(graph))
        return System(
            begun.potentials, inference, begun.decoder, graph=graph, vocabulary=begun.vocabulary, roles=begun.roles
        )

    def _hard(self, task: PricedTask, current: System) -> System:
        current = own_weights(current)
        assert isinstance(task.examples, Examples)
        hard = deploy(current, task.examples if task.examples.inputs else None)
        return task.refit(hard, self.refit)


@dataclass(frozen=True)
class ResidualSweeps(BudgetCurve):
    """Residual BP with as many messages as so many sweeps have, trained on for that for ``refit`` epochs."""

    counts: tuple[int, ...]
    refit: int = 0
    tolerance: float = 1e-3  # below it a message is not sent again

    @property
    def name(self) -> str:
        return "residual BP"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        for count in self.counts:
            method = replace(task.method, iterations=count, tolerance=self.tolerance, stop=None, schedule=Residual())
            yield count, task.refit(own_weights(task.dense, method), self.refit)
