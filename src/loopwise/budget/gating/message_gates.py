r"""Which message is sent in which sweep, learnt: a gate for each edge and sweep.

In: a graph and a number of sweeps. Out: :class:`MessageGates`, weights of message passing to be trained with a price on
messages; :func:`send_only`, the system that sends the messages whose gates are open, and no others. Stage: budget
(cost-aware spec, section 6).

A gate :math:`a\in(0,1)` mixes the new message with the old one, :math:`m^t=(1-a)\,m^{t-1}+a\,\hat m` in logs, which is
damping by :math:`1-a`; a run costs :math:`\sum_t\sum_e a_e^t\kappa_e`. In evaluation gates are open or shut.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.stopping import Stopping
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.message_weights import LARGEST, BelowOne, MessageWeights
from loopwise.learn.system import System
from loopwise.potentials.template import Template

OPEN = 0.95  # of each gate at first: nearly the system as it was


class Shut(BelowOne):
    """How far gates are shut, :math:`1-a`: smooth in training, 0 or (but for a millionth) 1 in evaluation."""

    width: Tensor

    def __init__(self, logits: nn.Parameter, width: float = 1.0) -> None:
        super().__init__(logits)
        self.register_buffer("width", torch.tensor(float(width), dtype=torch.float64))

    @property
    def logits(self) -> Tensor:
        """Numbers above 0 for gates that are rather open."""
        held: Tensor = self.values  # type: ignore[assignment]
        return held

    def open(self) -> Tensor:
        """How far gates are open, ``[sweeps, edges]``."""
        if self.training:
            return torch.sigmoid(self.logits / self.width)
        return (self.logits > 0).to(self.logits.dtype)

    def forward(self) -> Tensor:
        return (1 - self.open()).clamp(max=LARGEST)


class MessageGates(MessageWeights):
    r"""A gate for each message: ``lw.BP(weights=MessageGates(graph, sweeps))``, trained by :func:`loopwise.budget.fit`.

    The gate of edge :math:`e` in sweep :math:`t` is :math:`a_e^t=\sigma(g_e^t/s)` with a logit :math:`g` that is learnt
    and a width :math:`s` that training makes smaller; in evaluation it is open (:math:`g>0`) or shut. Shut gates leave
    the message as it was before the sweep, uniform before the first. What the engine does not skip, it computes for
    nothing: :func:`send_only` gives the system that does skip it.

    Parameters
    ----------
    graph: whose messages they are; its edges are numbered as for :class:`~loopwise.MessageWeights`.
    sweeps: a row of gates for each.
    open: how far all are open at first.

    >>> import loopwise as lw
    >>> gates = MessageGates(lw.chain(3), sweeps=2)
    >>> tuple(gates.open().shape), int(gates.eval().sent.sum())
    ((2, 4), 8)
    """

    damping: Shut

    saver: ClassVar[str] = "lw.budget.save, once send_only or deploy has made of it what is used"

    def __init__(self, graph: FactorGraph, sweeps: int, *, open: float = OPEN) -> None:
        if not 0 < open < 1:
            raise ValueError(f"gates can be open by a share between 0 and 1 at first, not {open}")
        if sweeps < 1:
            raise ValueError(f"gates are for at least 1 sweep, not {sweeps}")
        start = torch.full((sweeps, graph.layout.edges), math.log(open / (1 - open)), dtype=torch.float64)
        super().__init__(graph, damping=Shut(nn.Parameter(start)))

    def open(self) -> Tensor:
        """How far each gate is open, ``[sweeps, edges]``; 0 or 1 in evaluation."""
        return self.damping.open()

    @property
    def logits(self) -> Tensor:
        """What is learnt, ``[sweeps, edges]``."""
        return self.damping.logits

    @property
    def sent(self) -> NDArray[np.bool_]:
        """Which messages are sent in evaluation, ``[sweeps, edges]``."""
        found: NDArray[np.bool_] = (self.logits.detach() > 0).cpu().numpy()
        return found

    def narrow(self, width: float) -> None:
        """Sets the width :math:`s`: the smaller, the nearer gates are to open or shut."""
        if not (math.isfinite(width) and width > 0):
            raise ValueError(f"the width of gates must be positive, not {width}")
        self.damping.width.fill_(width)


def message_gates(inference: Inference) -> MessageGates | None:
    """The gates that an inference method has on its messages, if any."""
    method = inference.inference if isinstance(inference, Stopping) else inference
    weights = method.weights if isinstance(method, MessagePassing) else None
    return weights if isinstance(weights, MessageGates) else None


def send_only(system: System) -> System:
    """The system in which messages whose gates are shut are not made at all.

    Its beliefs are those of ``system`` in evaluation, up to the millionth that a shut gate lets through there. A policy
    that stops it goes with it. The potentials are shared, not copied.

    >>> import loopwise as lw
    >>> from loopwise import budget
    >>> graph = lw.grid(3, 3)
    >>> gates = budget.MessageGates(graph, sweeps=3)
    >>> with torch.no_grad():
    ...     gates.logits[2, ::2] = -1.0  # in the last sweep half of the messages are not worth it
    >>> method = lw.BP(iterations=3, tolerance=0, weights=gates)
    >>> system = budget.send_only(lw.System(lw.TablePotentials.random(graph, seed=0), method))
    >>> system.beliefs().status.messages
    60
    """
    gates = message_gates(system.inference)
    if gates is None or isinstance(system.potentials, Template):
        raise ValueError("there are no gates on messages to send by; use lw.BP(weights=lw.budget.MessageGates(...))")
    inference = chosen_by(system.inference, gates)
    return System(
        system.potentials, inference, system.decoder, graph=system.graph, vocabulary=system.vocabulary,
        roles=system.roles,
    )  # fmt: skip


def chosen_by(inference: Inference, gates: MessageGates) -> ChosenMessages:
    """Inference that sends what ``gates`` leave open, until the policy of ``inference`` stops it, if it has one."""
    method, policy = (inference.inference, inference.policy) if isinstance(inference, Stopping) else (inference, None)
    assert isinstance(method, MessagePassing) and gates.graph is not None
    plain = replace(method, weights=None, tolerance=0.0, stop=None)
    return ChosenMessages(plain, gates.graph, gates.sent[: method.iterations], policy)
