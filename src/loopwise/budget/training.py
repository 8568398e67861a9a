r"""Training a system for its loss and its run time together.

In: a system with gates, a stopping policy, or both; examples; a loss; a price. Out: changed weights. Stage: budget
(cost-aware spec, section 3.5). The loop is :func:`loopwise.fit`'s; this file says what it minimises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor

from loopwise.budget.budgeted import Budgeted, Smoothing
from loopwise.budget.cost import Cost
from loopwise.budget.gated_template import GatedTemplate
from loopwise.budget.gates import Gated
from loopwise.budget.gating.evidence_gates import without_evidence_gates
from loopwise.budget.gating.message_gates import message_gates
from loopwise.budget.objective import SpeedAugmented
from loopwise.budget.stopping import Stopping
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.fit import fit as fit_goal
from loopwise.learn.history import History
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.plan import FitKeywords
from loopwise.learn.system import CHUNK, System, answering
from loopwise.loss.base import Loss

RATE = 0.1
POLICY_RATE = 0.1
GATE_RATE = 0.3  # of logits, which have some way to go

USUAL = FitKeywords(epochs=20, batch=32)  # what this stage trains by, unless told

MakeOptimizer = Callable[[list[dict[str, object]]], torch.optim.Optimizer]


def fit(
    system: System,
    examples: Corpus,
    loss: Loss,
    price: float,
    *,
    cost: Cost | None = None,
    smoothing: Smoothing | None = None,
    optimizer: MakeOptimizer | None = None,
    policy_rate: float = POLICY_RATE,
    gate_rate: float = GATE_RATE,
    standardise: bool = True,
    **options: Unpack[FitKeywords],
) -> History:
    r"""Changes the weights of ``system``, those of its policy included, so that :math:`\ell+\lambda\,t_{run}` is small.

    Parameters
    ----------
    system:
        With :class:`~loopwise.budget.Gated` potentials, :class:`~loopwise.budget.MessageGates`,
        :class:`~loopwise.budget.ByEvidence` or :class:`~loopwise.budget.Stopping` inference, or several of them. Start
        from one that is trained for the loss alone: a factor that is weak at first stays so.
    price:
        :math:`\lambda\ge0`: what the longest run of the dense system costs, in units of the loss.
    cost:
        What run time is; by default messages.
    smoothing:
        Thresholds, their width by epochs, the sharpness of gates by epochs.
    optimizer:
        A function of parameter groups that makes an optimiser; by default AdaGrad. The weights of the policy are a
        group of their own, with the learning rate ``policy_rate`` (where groups have an ``lr``), and so are those of
        gates on messages and by evidence, with ``gate_rate``.
    standardise:
        Sets the scale of the policy's features from the examples first; leave it out to train a policy on.
    options:
        ``epochs`` (20), ``batch`` (32 examples), ``dev``, ``patience``, ``clip``, ``seed``, ``checkpoint``,
        ``callback`` and ``progress`` of :func:`loopwise.fit`. After each epoch the same loss of the *hard* system is
        taken on ``dev``, and the best weights are kept.

    An epoch is one gradient an example, and one decision a sweep with a policy.
    """
    goal = SpeedAugmented(loss=loss, price=price)
    inner = without_evidence_gates(system.inference)
    learns = isinstance(inner, Stopping) or inner is not system.inference or message_gates(inner) is not None
    if not isinstance(system.potentials, Gated | GatedTemplate) and not learns:
        raise ValueError(
            "nothing in this system can become faster: give it potentials in lw.budget.Gated (a template in "
            "lw.budget.GatedTemplate), inference in lw.budget.Stopping or lw.budget.ByEvidence, or BP with "
            "lw.budget.MessageGates"
        )
    examples = system.examples(examples)
    budgeted = Budgeted(system, cost, smoothing)
    if standardise and isinstance(inner, Stopping):
        standardise_policy(system, examples)
    make = optimizer or _adagrad
    return fit_goal(
        budgeted,
        examples,
        goal,
        optimizer=lambda params: make(_groups(budgeted, params, policy_rate, gate_rate)),
        **USUAL | options,
    )


def standardise_policy(system: System, examples: Corpus) -> None:
    """Sets centre and scale of a policy's features to those of all sweeps of the examples."""
    stopping = without_evidence_gates(system.inference)
    if not isinstance(stopping, Stopping):
        raise ValueError(f"inference by {type(stopping).__name__} has no policy; wrap it in lw.budget.Stopping")
    found = []
    with answering(system), ignored_convergence():
        for part in system.examples(examples).batches(CHUNK, by_pattern=True):
            run = stopping.every_sweep(system.graph_for(part), system.tables(part), part.evidence)
            found.append(run.features.reshape(-1, run.features.shape[-1]))
    if not found:
        raise ValueError("there are no examples to see the features of; give at least one")
    stopping.policy.standardise(torch.cat(found))


def _groups(system: Budgeted, params: list[Tensor], policy_rate: float, gate_rate: float) -> list[dict[str, object]]:
    policy = list(system.inner.policy.parameters()) if isinstance(system.inner, Stopping) else []
    gates = [param for each in (system.message_gates, system.evidence_gate) if each for param in each.parameters()]
    own = {id(param): rate for mine, rate in ((policy, policy_rate), (gates, gate_rate)) for param in mine}
    groups: list[dict[str, object]] = [{"params": [param for param in params if id(param) not in own]}]
    for rate in dict.fromkeys(own.values()):
        groups.append({"params": [param for param in params if own.get(id(param)) == rate], "lr": rate})
    return [group for group in groups if group["params"]]


def _adagrad(groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return AdaGradCOMID(groups, rate=RATE)
