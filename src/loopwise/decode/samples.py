"""Where posterior samples come from, for decoders that weigh losses by sampling.

In: beliefs, how many, a seed. Out: assignments ``[count, *batch, variables]``. Stage: decision.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.graph.evidence import FREE
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import reduce_variables

#: A loss on integer assignments: predictions and truths ``[pairs, variables]`` in, ``[pairs]`` out. Variables that are
#: not outputs hold :data:`~loopwise.graph.FREE` in both.
AssignmentLoss = Callable[[Tensor, Tensor], Tensor]


class Sampler(Protocol):
    """Draws assignments from the posterior that beliefs describe."""

    def __call__(self, beliefs: Beliefs, count: int, seed: int) -> Tensor:
        """int64 ``[count, *batch, variables]``."""
        ...


@dataclass(frozen=True)
class Joint:
    """Samples of the joint posterior, from beliefs that can be sampled (those of :class:`~loopwise.Exact`)."""

    def __call__(self, beliefs: Beliefs, count: int, seed: int) -> Tensor:
        draw: Any = getattr(beliefs, "sample", None)
        if draw is None:
            raise ValueError(
                f"beliefs of {beliefs.status.method} cannot be sampled jointly; use lw.Exact(), give samples of your "
                "own as lw.decode.Drawn(samples), or settle for lw.decode.Independent()"
            )
        samples: Tensor = draw(count, seed)
        return samples


@dataclass(frozen=True)
class Independent:
    """Each variable from its own belief: right marginals, no correlations; works with all beliefs."""

    def __call__(self, beliefs: Beliefs, count: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)

        def draw(block: Tensor) -> Tensor:
            flat = block.reshape(-1, block.shape[-1])
            if not len(flat):
                return torch.zeros(count, *block.shape[:-1], dtype=torch.int64)
            values = torch.multinomial(flat, count, replacement=True, generator=generator)
            return values.T.reshape(count, *block.shape[:-1])

        drawn = reduce_variables(beliefs.graph, draw, beliefs.states.detach().cpu())
        return drawn.to(beliefs.states.device, torch.int64)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples that you drew (:func:`~loopwise.inference.gibbs_sample`), ``[at least count, *batch, variables]``."""

    samples: Tensor

    def __call__(self, beliefs: Beliefs, count: int, seed: int) -> Tensor:
        wanted = (*beliefs.batch_shape, beliefs.graph.variables)
        if tuple(self.samples.shape[1:]) != wanted or len(self.samples) < count:
            raise ValueError(
                f"samples of shape {tuple(self.samples.shape)} do not fit: {count} are needed, each of shape {wanted}"
            )
        return self.samples[:count].to(beliefs.states.device, torch.int64)


def check_takes(name: str, function: object, *arguments: str) -> None:
    """Raises unless the option ``name`` is something to be called with these arguments.

    Other classes of this library may be called with as many, but other things: their first one tells by its name."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
        signature.bind(*arguments)
        fits = next(iter(signature.parameters)) not in ("graph", "measure", "step")
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(f"{name} must be a function of {', '.join(arguments)}, not {function!r}")


def one_by_one(function: Callable[[Tensor, Tensor], float]) -> AssignmentLoss:
    """An :data:`AssignmentLoss` from a loss of one prediction and one truth, each ``[variables]``; slow but simple."""

    def pairs(predictions: Tensor, truths: Tensor) -> Tensor:
        values = [float(function(guess, truth)) for guess, truth in zip(predictions, truths, strict=True)]
        return torch.tensor(values, dtype=torch.float64)

    return pairs


def expected_loss(loss: AssignmentLoss, prediction: Tensor, samples: Tensor, outputs: Tensor | None) -> Tensor:
    """Mean of ``loss(prediction, sample)`` over samples ``[count, *batch, variables]``: float64 ``[*batch]``."""
    if outputs is not None:
        prediction, samples = prediction.where(outputs, FREE), samples.where(outputs, FREE)
    width = samples.shape[-1]
    pairs = prediction.expand(samples.shape).reshape(-1, width)
    values = torch.as_tensor(loss(pairs, samples.reshape(-1, width)))
    if values.shape != (len(pairs),):
        raise ValueError(
            f"the loss gave shape {tuple(values.shape)} for {len(pairs)} pairs of assignments; it must give one number "
            "a pair (wrap a loss of one pair in lw.decode.one_by_one)"
        )
    return values.double().reshape(samples.shape[:-1]).mean(0)


def check_samples(count: int) -> None:
    """Refuses to estimate from nothing."""
    checked_whole("count", count)
