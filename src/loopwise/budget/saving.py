"""Saving a system with its stopping policy to one file, and loading it.

In: a system, a path. Out: one safetensors file. Stage: budget. The file is that of a plain system with the policy
beside it: :meth:`loopwise.System.load` reads it too, and gets the system without its policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from loopwise.budget.stopping import Stopping
from loopwise.formats.files import PathLike
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
from loopwise.learn.files.saving import build_system, describe_system
from loopwise.learn.system import System
from loopwise.potentials.template import Template

PREFIX = "policy."
FEATURES: tuple[type[Feature], ...] = (
    kinds.Bias, kinds.SweepShare, kinds.LogSweep, kinds.LargestChange, kinds.MeanChange, kinds.Slowing, kinds.Entropy,
    kinds.Confident, kinds.Undecided,
)  # fmt: skip
_BY_NAME = {kind.__name__: kind for kind in FEATURES}


def save(system: System, path: PathLike, card: Mapping[str, Any] | None = None) -> None:
    """Writes ``system`` with its policy; the file appears whole or not at all. ``card``: as for ``System.save``.

    Potentials must be of a class that loopwise can save (pruned ones are: :func:`~loopwise.budget.prune` gives tables).
    """
    stopping = system.inference
    if not isinstance(stopping, Stopping):
        system.save(path, card)
        return
    plain = _with_inference(system, stopping.inference)
    tensors, description = describe_system(plain)
    policy = {PREFIX + name: tensor for name, tensor in stopping.policy.state_dict().items()}
    description["stopping"] = {
        "features": [_describe(feature) for feature in stopping.policy.features],
        "detach_features": stopping.detach_features,
    }
    told = {"budget": identify(stopping), **system.card, **(card or {})}
    write_container(path, {**tensors, **policy}, {**description, CARD: told})


def load(path: PathLike, *, template: Template | type[Template] | None = None) -> System:
    """The system that :func:`save` wrote. Nothing in the file is run; ``template``: as for
    :meth:`loopwise.System.load`."""
    tensors, description = read_container(path)
    if "stopping" not in description:
        return System.load(path, template=template)
    try:
        told = Record(description, tensors)
        stopping = told.record("stopping")
        policy = _policy(stopping)
        system = build_system(told) if template is None else System.load(path, template=template)
        method = system.inference
        if not isinstance(method, MessagePassing):
            raise FieldError("system.inference", "has no sweeps to stop after")
        inference = Stopping(method, policy, stopping.flag("detach_features"))
    except DAMAGE as problem:
        raise damaged(path, "system and its policy", problem) from None
    found = _with_inference(system, inference)
    found.card = kept_card(description)
    return found


def _with_inference(system: System, inference: Inference) -> System:
    if isinstance(system.potentials, Template):
        return System(system.potentials, inference, system.decoder)
    return System(system.potentials, inference, system.decoder, vocabulary=system.vocabulary, roles=system.roles)


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
