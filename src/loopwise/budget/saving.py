"""Saving a system with its stopping policy, chosen messages and gates of evidence to one file, and loading it.

In: a system, a path. Out: one safetensors file. Stage: budget. The file of a policy is that of a plain system with the
policy beside it: :meth:`loopwise.System.load` reads it too, and gets the system without its policy. One with messages
or factors left out answers otherwise without that, so only :func:`load` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.gating.evidence_gates import ByEvidence, EvidenceGate, without_evidence_gates
from loopwise.budget.stopping import Stopping
from loopwise.formats.files import PathLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.messages import features as kinds
from loopwise.inference.messages.features import Feature
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.policy import Policy
from loopwise.learn.files.card import kept_card
from loopwise.learn.files.checkpoint import identify
from loopwise.learn.files.container import CARD, read_container, write_container
from loopwise.learn.files.fields import (
    DAMAGE,
    FieldError,
    Record,
    check_options,
    check_shapes,
    check_weights,
    damaged,
    shown,
)
from loopwise.learn.files.saving import NO_GRAPH, build_system, describe_system
from loopwise.learn.system import System
from loopwise.potentials.template import Template

PREFIX = "policy."
FEATURES: tuple[type[Feature], ...] = (
    kinds.Bias, kinds.SweepShare, kinds.LogSweep, kinds.LargestChange, kinds.MeanChange, kinds.Slowing, kinds.Entropy,
    kinds.Confident, kinds.Undecided,
)  # fmt: skip
_BY_NAME = {kind.__name__: kind for kind in FEATURES}


GATED = "gated system"  # what files with messages or factors left out are called


@dataclass(frozen=True)
class _Layers:
    """Inference as it is put together: gates of evidence around chosen messages or a policy around ``method``."""

    method: Inference
    policy: Policy | None = None
    detach_features: bool = False
    sent: NDArray[np.bool_] | None = None
    gate: EvidenceGate | None = None

    @staticmethod
    def of(system: System) -> _Layers:
        gate = system.inference.gate if isinstance(system.inference, ByEvidence) else None
        inference = without_evidence_gates(system.inference)
        if isinstance(inference, Stopping):
            return _Layers(inference.inference, inference.policy, inference.detach_features, None, gate)
        if isinstance(inference, ChosenMessages):
            return _Layers(inference.inference, inference.policy, False, inference.sent, gate)
        return _Layers(inference, gate=gate)

    def around(self, method: MessagePassing, graph: FactorGraph) -> Inference:
        """The inference again, around ``method``."""
        found: MessagePassing | Stopping | ChosenMessages = method
        if self.sent is not None:
            found = ChosenMessages(method, graph, self.sent, self.policy)
        elif self.policy is not None:
            found = Stopping(method, self.policy, self.detach_features)
        return found if self.gate is None else ByEvidence(found, self.gate)


def save(system: System, path: PathLike, card: Mapping[str, Any] | None = None) -> None:
    """Writes ``system`` with its policy, its chosen messages and its gates of evidence: what
    :func:`~loopwise.budget.send_only` and :func:`~loopwise.budget.deploy` make. The file appears whole or not at all.
    ``card``: as for ``System.save``.

    Potentials must be of a class that loopwise can save (pruned ones are: :func:`~loopwise.budget.prune` gives tables).

    >>> import pathlib, tempfile, loopwise as lw
    >>> from loopwise import budget
    >>> graph = lw.chain(3)
    >>> sent = budget.ChosenMessages(lw.BP(), graph, graph.layout.edge_variable[None] % 2 == 1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "few.loopwise"
    >>> save(lw.System(lw.TablePotentials.random(graph, seed=0), sent), path)
    >>> load(path).beliefs().status.messages
    2
    """
    layers = _Layers.of(system)
    if layers.method is system.inference:
        system.save(path, card)
        return
    tensors, description = describe_system(_with_inference(system, layers.method))
    told = {"budget": identify(system.inference), **system.card, **(card or {})}
    if layers.policy is not None:
        tensors |= {PREFIX + name: tensor for name, tensor in layers.policy.state_dict().items()}
        features = [_describe(feature) for feature in layers.policy.features]
        description["stopping"] = {"features": features, "detach_features": layers.detach_features}
    if layers.sent is not None or layers.gate is not None:
        parts, gated = _describe_gates(layers)
        tensors |= parts
        description = {"app": GATED, "loader": "lw.budget.load", "plain": description, "gated": gated}
    write_container(path, tensors, {**description, CARD: told})


def load(path: PathLike, *, template: Template | type[Template] | None = None) -> System:
    """The system that :func:`save` wrote. Nothing in the file is run; ``template``: as for
    :meth:`loopwise.System.load`. One with gates of evidence comes back in evaluation, as it is used."""
    tensors, description = read_container(path)
    gated = description.get("app") == GATED
    if not gated and "stopping" not in description:
        return System.load(path, template=template)
    try:
        told = Record(description, tensors)
        plain = told.record("plain") if gated else told
        system = build_system(plain) if gated or template is None else System.load(path, template=template)
        layers = _read_layers(plain, told.record("gated") if gated else None, system)
        method = system.inference
        if not isinstance(method, MessagePassing):
            raise FieldError("system.inference", "has no sweeps to choose from")
        inference = layers.around(method, system.graph) if gated else layers.around(method, NO_GRAPH)
    except DAMAGE as problem:
        raise damaged(path, "system and its policy", problem) from None
    found = _with_inference(system, inference)
    found.card = kept_card(description)
    return found if layers.gate is None else found.eval()


def _describe_gates(layers: _Layers) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Which messages are sent, and the gates of evidence, as tensors and JSON."""
    tensors: dict[str, Tensor] = {}
    if layers.sent is not None:
        tensors["gated.sent"] = torch.from_numpy(layers.sent)
    gate = layers.gate
    if gate is not None:
        tensors["gated.width"] = gate.width
        for number, group in enumerate(gate.groups):
            tensors[f"gated.{number}.bias"], tensors[f"gated.{number}.weight"] = gate.bias[number], gate.weight[number]
            tensors[f"gated.{number}.near"] = torch.from_numpy(gate.near[group.name])
    return tensors, {"sent": layers.sent is not None, "evidence": layers.gate is not None}


def _read_layers(plain: Record, gated: Record | None, system: System) -> _Layers:
    stopping = plain.record("stopping") if "stopping" in plain else None
    policy = None if stopping is None else _policy(stopping)
    detach = stopping is not None and stopping.flag("detach_features")
    sent = gate = None
    if gated is not None and gated.flag("sent"):
        found = gated.tensor("gated.sent", (None, system.graph.layout.edges))
        if found.dtype != torch.bool:
            raise ValueError(f"the tensor 'gated.sent' holds {found.dtype}; it must hold truth values")
        sent = found.numpy()
    if gated is not None and gated.flag("evidence"):
        gate = _gate(gated, system.graph)
    return _Layers(system.inference, policy, detach, sent, gate)


def _gate(told: Record, graph: FactorGraph) -> EvidenceGate:
    """Gates of evidence on the factors of ``graph``; which variables are near a factor is what was in training."""
    gate = EvidenceGate(graph)
    gate.narrow(float(told.weights("gated.width", ())))
    for number, group in enumerate(gate.groups):
        near = told.integers(f"gated.{number}.near", (None, 2), 0)
        if len(near) and (near[:, 0].max() >= group.count or near[:, 1].max() >= graph.variables):
            raise ValueError(f"the tensor 'gated.{number}.near' names a factor or variable that there is not")
        gate.near[group.name] = near
        gate.bias[number] = _parameter(told.weights(f"gated.{number}.bias", (group.count,)))
        gate.weight[number] = _parameter(told.weights(f"gated.{number}.weight", (len(near),)))
    return gate


def _parameter(values: NDArray[np.float64]) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(values))


def _with_inference(system: System, inference: Inference) -> System:
    if isinstance(system.potentials, Template):
        return System(system.potentials, inference, system.decoder)
    return System(
        system.potentials,
        inference,
        system.decoder,
        graph=system.graph,
        vocabulary=system.vocabulary,
        roles=system.roles,
    )


def _policy(stopping: Record) -> Policy:
    policy = Policy(stopping.items("features", _feature))
    check_shapes({PREFIX + name: tensor.shape for name, tensor in policy.state_dict().items()}, stopping.tensors)
    state = {name: stopping.tensors[PREFIX + name] for name in policy.state_dict()}
    check_weights({PREFIX + name: tensor for name, tensor in state.items()})
    if not bool((state["scale"] > 0).all()):
        raise ValueError(f"the tensor {PREFIX + 'scale'!r} must be above 0")
    policy.load_state_dict(state)
    return policy


def _feature(told: Record, name: str) -> Feature:
    pair = told.raw(name)
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], dict) and pair[0] in _BY_NAME):
        raise FieldError(told.name(name), f"is {shown(pair)}, which describes no feature that this version knows")
    check_options(_BY_NAME[pair[0]], pair[1], told.name(name))
    return _BY_NAME[pair[0]](**pair[1])


def _describe(feature: Feature) -> list[Any]:
    if type(feature) not in FEATURES:
        raise ValueError(
            f"a policy with a feature of class {type(feature).__name__} cannot be saved, since loading would have to "
            "run code that is not loopwise's: save policy.state_dict() instead"
        )
    return [type(feature).__name__, asdict(feature)]  # type: ignore[call-overload]
