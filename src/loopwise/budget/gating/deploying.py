"""From a system that was trained with gates to one that leaves out what they shut.

In: a system with gates of any kind and perhaps a policy. Out: the same decisions for the messages that are left. Stage:
budget.
"""

from __future__ import annotations

import numpy as np

from loopwise.budget.gates import Gate, Gated
from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.gating.evidence_gates import ByEvidence, edges_left, without_evidence_gates
from loopwise.budget.gating.message_gates import chosen_by, message_gates
from loopwise.budget.pruning import keep, kept_factors
from loopwise.budget.selection import Kept
from loopwise.budget.strength import Raw
from loopwise.inference.base import Inference
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import System


def deploy(system: System, examples: Examples | None = None) -> System:
    """The system as it is used: weak factors are gone from the graph, messages whose gates are shut are not made, and
    each pattern of evidence has the factors that its gate leaves; a policy stops it as before.

    ``examples``: as for :func:`~loopwise.budget.prune`, where tables depend on inputs. A system without any gate comes
    back as it is. Weights of gates are copied, those of potentials with inputs shared.

    >>> import torch, loopwise as lw
    >>> from loopwise import budget
    >>> graph = lw.grid(3, 3)
    >>> gate = budget.EvidenceGate(graph)
    >>> method = budget.ByEvidence(lw.BP(iterations=2, tolerance=0, weights=budget.MessageGates(graph, 2)), gate)
    >>> small = budget.deploy(lw.System(lw.TablePotentials.random(graph, seed=0), method))
    >>> small.beliefs().status.messages  # all gates are open still: 24 messages a sweep
    48
    """
    inner = without_evidence_gates(system.inference)
    gates = message_gates(inner)
    if gates is not None:
        inner = chosen_by(inner, gates)
    kept: Kept = {}
    smaller = system
    if isinstance(system.potentials, Gated):
        kept = kept_factors(system.potentials, examples)
        smaller = keep(system, kept, Gate(strength=Raw()))
    if isinstance(inner, ChosenMessages) and kept:
        inner = inner.on(smaller.graph, edges_left(system.graph, kept))
    return System(
        smaller.potentials, _with_gate(system, inner, smaller, kept), system.decoder, graph=smaller.graph,
        vocabulary=system.vocabulary, roles=system.roles,
    ).eval()  # fmt: skip


def _with_gate(system: System, inner: Inference, smaller: System, kept: Kept) -> Inference:
    """``inner`` behind the gate of ``system`` that looks at evidence, if it has one and a factor is left."""
    if not isinstance(system.inference, ByEvidence) or not any(group.arity >= 2 for group in smaller.graph.groups):
        return inner
    gate = system.inference.gate
    bools = {name: np.asarray(rows, dtype=bool) for name, rows in kept.items()}
    return ByEvidence(inner, gate.on(smaller.graph, bools))  # type: ignore[arg-type]
