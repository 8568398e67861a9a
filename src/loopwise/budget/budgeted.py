r"""A system whose run time counts: what is trained when :math:`\ell+\lambda\,t_{run}` is.

In: a system with gated potentials, a stopping policy, or both. Out: :class:`Budgeted`, which shares its weights and
decides with a cost. Stage: budget (cost-aware spec, section 3.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.budget.cost import Cost, Messages, Presence, always_observed
from loopwise.budget.gates import Gated
from loopwise.budget.objective import Priced
from loopwise.budget.smoothing import Falling, Independent, Threshold
from loopwise.budget.stopping import Stopping
from loopwise.decode.temperature import Schedule
from loopwise.graph.evidence import EvidenceLike
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import Given, Inputs, System, answering


@dataclass(frozen=True)
class Smoothing:
    """How steps are made smooth while training, by epochs.

    ``threshold``: how random thresholds of a policy are drawn; ``width``: their scale, which falls. ``sharpness``: of
    gates, which may rise (None: it stays as it is). ``decay``: strength of an L2 penalty on the weights of a policy, so
    that they do not grow to undo the width.
    """

    threshold: Threshold = field(default_factory=Independent)
    width: Schedule = field(default_factory=Falling)
    sharpness: Schedule | None = None
    decay: float = 1e-4

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
        method = system.inference.inference if isinstance(system.inference, Stopping) else system.inference
        if not isinstance(method, MessagePassing):
            raise ValueError(f"{type(method).__name__} has no sweeps to pay for; use lw.BP or lw.TRW")
        if method.iterations < 1:
            raise ValueError("a run without iterations costs nothing; allow at least one")
        super().__init__(
            system.potentials,
            system.inference,
            system.decoder,
            graph=system.graph,
            vocabulary=system.vocabulary,
            roles=system.roles,
        )
        self.limit = method.iterations
        self.cost = Messages() if cost is None else cost
        self.smoothing = Smoothing() if smoothing is None else smoothing

    def forward(self, given: Given = None, *, inputs: Inputs | None = None, step: int | None = None) -> Priced:
        decoder = (self.decoder if step is None else self.decoder.at(step)).soft()
        smoothing, epoch = self.smoothing, step or 0
        if isinstance(self.potentials, Gated) and smoothing.sharpness is not None:
            self.potentials.sharpen(smoothing.sharpness(epoch))
        tables, present = self.faded(given, inputs)
        evidence = self._evidence(given)
        if not isinstance(self.inference, Stopping):
            beliefs = self.inference(self.graph, tables, evidence)
            sweeps = beliefs.status.sweeps.to(beliefs.states.dtype)
            return Priced(decoder(beliefs, self._outputs(given)), self.share(sweeps, present, evidence))
        run = self.inference.every_sweep(self.graph, tables, evidence)
        weights = smoothing.threshold.weights(run.scores, smoothing.width(epoch))
        numbers = torch.arange(1, self.limit + 1, dtype=weights.dtype).reshape(-1, *[1] * (weights.ndim - 1))
        expected = (weights * numbers).sum(0)
        penalty = 0.5 * smoothing.decay * self.inference.policy.weights.square().sum()
        decision = decoder(run.beliefs, self._outputs(given))
        return Priced(decision, self.share(expected, present, evidence), weights, penalty)

    def decide(self, given: Given = None, *, inputs: Inputs | None = None) -> Priced:
        with answering(self):
            tables, present = self.faded(given, inputs)
            evidence = self._evidence(given)
            beliefs = self.inference(self.graph, tables, evidence)
            decision = self.decoder.hard()(beliefs, self._outputs(given))
            sweeps = beliefs.status.sweeps.to(beliefs.states.dtype)
            return Priced(decision, self.share(sweeps, present, evidence))

    def faded(self, given: Given, inputs: Inputs | None = None) -> tuple[dict[str, Tensor], Presence | None]:
        """Tables as inference takes them, and how much of each factor is in them (None: everything)."""
        if not isinstance(self.potentials, Gated):
            return self.tables(given, inputs=inputs), None
        arguments = given.inputs if isinstance(given, Examples) else inputs or {}
        return self.potentials.fade(**arguments)

    def share(self, sweeps: Tensor, present: Presence | None, evidence: EvidenceLike) -> Tensor:
        """Cost as a share of all factors and all sweeps."""
        observed = always_observed(self.graph, evidence)
        return self.cost.run(self.graph, sweeps, present, observed) / self._longest(observed)

    def _longest(self, observed: NDArray[np.bool_]) -> Tensor:
        whole = self.cost.run(self.graph, float(self.limit), None, observed)
        return whole if float(whole) > 0 else torch.ones_like(whole)

    def _evidence(self, given: Given) -> EvidenceLike:
        part = self._corpus(given)
        return given if part is None else part.evidence  # type: ignore[return-value]
