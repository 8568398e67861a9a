"""What a system costs on examples, by a cost model and by the clock.

In: a system, examples. Out: numbers an example. Stage: budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.budget.calibration import median_seconds
from loopwise.budget.cost import Cost, MessageCost
from loopwise.budget.gating.chosen_messages import ChosenMessages
from loopwise.budget.gating.evidence_gates import ByEvidence
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.schedules import Residual
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.system import CHUNK, System, answering


class Spent(NamedTuple):
    """Means over examples, and what each of them took."""

    cost: float
    sweeps: float
    costs: Tensor  # [examples]


def spend(system: System, examples: Corpus, cost: Cost | None = None) -> Spent:
    """What the system's runs cost on ``examples``, each with its own number of sweeps, on the graph it has; of a
    template, whose examples have a graph each, likewise."""
    model = MessageCost() if cost is None else cost
    costs, sweeps = [], []
    examples = system.examples(examples)
    order = examples.batch_indices(CHUNK, by_pattern=True)
    if not order:
        raise ValueError("there are no examples to spend anything on; give at least one")
    with answering(system), ignored_convergence():
        for part in (examples[rows] for rows in order):
            beliefs = system.beliefs(part)
            costs.append(_cost_of(system.inference, model, beliefs, part).expand(len(part)))
            sweeps.append(beliefs.status.sweeps.double().expand(len(part)))
    each = torch.cat(costs)[torch.from_numpy(np.argsort(np.concatenate(order), kind="stable"))]
    return Spent(float(each.mean()), float(torch.cat(sweeps).mean()), each)


def _cost_of(inference: Inference, model: Cost, beliefs: Beliefs, part: Corpus) -> Tensor:
    """By messages that were really sent, where these are chosen, or counted one by one (as many as an example of the
    part sends on average)."""
    if isinstance(inference, ChosenMessages | ByEvidence):
        return inference.cost(model, beliefs.status.sweeps.expand(len(part)), part.evidence)
    if (
        isinstance(inference, MessagePassing)
        and isinstance(inference.schedule, Residual)
        and isinstance(model, MessageCost)
    ):
        return torch.tensor(beliefs.status.messages / max(1, len(part)), dtype=torch.float64)
    return model.of(beliefs, part.evidence)


def seconds_each(
    system: System,
    examples: Corpus,
    *,
    batch: int = CHUNK,
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measured seconds of inference an example, the median of ``repeats`` passes over all of them. ``clock``: such as
    ``time.process_time``, which leaves out what other processes take (and adds up over threads)."""
    parts: list[Corpus] = list(system.examples(examples).batches(batch, by_pattern=True))
    with answering(system), ignored_convergence():
        tables = [system.tables(part) for part in parts]

        def run() -> None:
            for part, values in zip(parts, tables, strict=True):
                system.inference(system.graph_for(part), values, part.evidence)

        run()  # it may compile
        return median_seconds(run, repeats, clock) / max(1, len(examples))
