"""Checkpoints of learning in walks: from one, the same call goes on to the same weights, bit for bit.

In: a learner between two epochs. Out: its state as a checkpoint holds it, and back; what tells a run from others.
Stage: walking.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from loopwise.learn.files.checkpoint import Run, checksum, identify
from loopwise.walk.learning.updates import WalkWeights

if TYPE_CHECKING:
    from loopwise.walk.learning.learner import Learner
    from loopwise.walk.plan import WalkPlan

States = Sequence[list[int] | None]  # where the last walk over each document ended


def described_run(learner: Learner, plan: WalkPlan, shards: int) -> Run:
    """What tells a call of ``fit`` from others, for a learner as it is before the call."""
    state = learner.state
    return {
        "learner": type(learner).__name__,
        "model": f"{type(learner.model).__name__} of {learner.model.size} weights",
        "proposal": identify(learner.proposal),
        "metric": identify(learner.metric),
        "rule": identify(learner.rule),
        "averaging": identify(learner.averaging),
        "documents": described_all(plan.documents),
        "steps": identify(plan.steps),
        "start": identify(plan.start),
        "seed": str(plan.seed),
        "shuffle": str(plan.shuffle),
        "shards": str(shards),
        "beginning": f"epoch {learner.epochs} (checksum {checksum(state.values, state.sums, state.squares)})",
    }


def described_all(documents: Sequence[Any]) -> str:
    """Documents for comparison: how many, and a checksum of all that is in them."""
    total = 0
    for document in documents:
        total = zlib.crc32(identify(document).encode(), total)
    return f"{len(documents)} documents (checksum {total:08x})"


def pack_weights(weights: WalkWeights) -> dict[str, Any]:
    """Weights as a checkpoint holds them."""
    arrays = {"values": weights.values, "sums": weights.sums, "squares": weights.squares}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return {**tensors, "time": weights.time, "since": weights.since}


def unpack_weights(state: Mapping[str, Any], size: int) -> WalkWeights:
    """The weights that :func:`pack_weights` had; a ValueError if they are not ``size`` many."""
    values, sums, squares = (state[name].numpy().copy() for name in ("values", "sums", "squares"))
    if values.shape != (size,) or sums.shape != (size,) or squares.shape not in ((0,), (size,)):
        raise ValueError(
            f"a state of {len(values)} weights does not fit a model of {size}; "
            "go on with the model that it was saved from"
        )
    return WalkWeights(values, sums, squares, int(state["time"]), int(state["since"]))


def pack_states(states: States) -> dict[str, Any]:
    """Labels of all documents, one after another, and how many each has, -1 for a document without."""
    lengths = [-1 if labels is None else len(labels) for labels in states]
    flat = [label for labels in states if labels is not None for label in labels]
    return {"lengths": _integers(lengths), "labels": _integers(flat)}


def unpack_states(state: Mapping[str, Any]) -> list[list[int] | None]:
    """The inverse of :func:`pack_states`."""
    labels, place, found = state["labels"].tolist(), 0, list[list[int] | None]()
    for length in state["lengths"].tolist():
        found.append(None if length < 0 else labels[place : place + length])
        place += max(length, 0)
    return found


def _integers(numbers: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(np.array(numbers, dtype=np.int64))
