"""Saving a system with its stopping policy to one file, and loading it.

In: a system, a path. Out: one safetensors file. Stage: budget. The file is that of a plain system with the policy
beside it: :meth:`loopwise.System.load` reads it too, and gets the system without its policy.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor

from loopwise.budget import features as kinds
from loopwise.budget.features import Feature
from loopwise.budget.policy import Policy
from loopwise.budget.stopping import Stopping
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.inference.message_passing import MessagePassing
from loopwise.learn.container import read_container, write_container
from loopwise.learn.saving import build_system, describe_system
from loopwise.learn.system import System

PREFIX = "policy."
FEATURES: tuple[type[Feature], ...] = (
    kinds.Bias, kinds.SweepShare, kinds.LogSweep, kinds.LargestChange, kinds.MeanChange, kinds.Slowing, kinds.Entropy,
    kinds.Confident, kinds.Undecided,
)  # fmt: skip
_BY_NAME = {kind.__name__: kind for kind in FEATURES}


def save(system: System, path: PathLike) -> None:
    """Writes ``system`` with its policy; the file appears whole or not at all.

    Potentials must be of a class that loopwise can save (pruned ones are: :func:`~loopwise.budget.prune` gives tables).
    """
    stopping = system.inference
    if not isinstance(stopping, Stopping):
        system.save(path)
        return
    plain = System(
        system.potentials, stopping.inference, system.decoder, vocabulary=system.vocabulary, roles=system.roles
    )
    tensors, description = describe_system(plain)
    policy = {PREFIX + name: tensor for name, tensor in stopping.policy.state_dict().items()}
    description["stopping"] = {
        "features": [_describe(feature) for feature in stopping.policy.features],
        "detach_features": stopping.detach_features,
    }
    write_container(path, {**tensors, **policy}, description)


def load(path: PathLike) -> System:
    """The system that :func:`save` wrote. Nothing in the file is run."""
    tensors, description = read_container(path)
    if "stopping" not in description:
        return System.load(path)
    try:
        system = build_system(tensors, description)
        stopping = description["stopping"]
        policy = Policy([_BY_NAME[kind](**options) for kind, options in stopping["features"]])
        policy.load_state_dict(_policy_state(tensors))
        method = system.inference
        if not isinstance(method, MessagePassing):
            raise ValueError("its inference has no sweeps")
        inference = Stopping(method, policy, bool(stopping["detach_features"]))
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as problem:
        raise FormatError(
            display_name(path),
            None,
            f"the policy of the system in the file is damaged: {' '.join(str(problem).split())}",
        ) from None
    return System(system.potentials, inference, system.decoder, vocabulary=system.vocabulary, roles=system.roles)


def _policy_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}


def _describe(feature: Feature) -> list[Any]:
    if type(feature) not in FEATURES:
        raise ValueError(
            f"a policy with a feature of class {type(feature).__name__} cannot be saved, since loading would have to "
            "run code that is not loopwise's: save policy.state_dict() instead"
        )
    return [type(feature).__name__, asdict(feature)]  # type: ignore[call-overload]
