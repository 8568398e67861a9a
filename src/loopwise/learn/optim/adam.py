"""The optimiser of those who name none: Adam, at a rate that a probe finds and a schedule brings to an end.

In: parameters, the losses of a few batches, where a stage of training stands. Out: an optimiser, its rate. Stage:
learning.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.learn.optim.probe import probe
from loopwise.learn.optim.steps import Loss
from loopwise.learn.optim.untraced import Untraced

logger = logging.getLogger(__name__)

START, FACTOR, TRIALS = 0.1, 3.0, 5  # rates that a probe tries: 0.1, 0.3, ... while they help, then 0.03, 0.01, ...
STEPS = 8  # of each trial, on as many batches as there are
SAFETY = 0.5  # the best rate for a few steps is too high for many

_adam_step = inspect.unwrap(torch.optim.Adam.step)


class DenseAdam(Untraced, torch.optim.Adam):
    """Torch's Adam to the last bit, for sparse gradients too: its moments are dense in any case.

    >>> weights = torch.zeros(3, 1, requires_grad=True)
    >>> optimizer = DenseAdam([weights], lr=0.1)
    >>> weights.grad = torch.sparse_coo_tensor([[1]], [[2.0]], (3, 1))
    >>> optimizer.step()
    >>> [round(value, 6) for value in weights[:, 0].tolist()]
    [0.0, -0.1, 0.0]
    """

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """One step; ``closure`` as for any optimiser of torch."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None and param.grad.is_sparse:
                    param.grad = param.grad.to_dense()
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return _adam_step(self, closure)


class VectorAdam:
    """Adam on a vector whose gradient compiled code gives (Kingma and Ba 2015).

    >>> adam = VectorAdam(2)
    >>> [round(value, 3) for value in adam.step(np.zeros(2), np.array([4.0, -0.1]), rate=0.5).tolist()]
    [-0.5, 0.5]
    """

    def __init__(self, size: int, betas: tuple[float, float] = (0.9, 0.99), tiny: float = 1e-8) -> None:
        self.betas, self.tiny, self.steps = betas, tiny, 0
        self.mean, self.square = np.zeros(size), np.zeros(size)

    def step(self, point: NDArray[np.float64], gradient: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
        """The next point."""
        first, second = self.betas
        self.steps += 1
        self.mean += (1 - first) * (gradient - self.mean)
        self.square += (1 - second) * (gradient * gradient - self.square)
        size = np.sqrt(self.square / (1 - second**self.steps)) + self.tiny
        return point - rate / (1 - first**self.steps) * self.mean / size

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "mean": torch.from_numpy(self.mean.copy()),
            "square": torch.from_numpy(self.square.copy()),
            "steps": self.steps,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what :meth:`state` gave."""
        self.mean, self.square = state["mean"].numpy().copy(), state["square"].numpy().copy()
        self.steps = int(state["steps"])


def find_rate(params: Sequence[Tensor], batches: Sequence[Loss]) -> float:
    """The rate at which Adam's first steps on ``batches`` (at most :data:`STEPS` are used) lead furthest, halved.

    Parameters are put back, whatever happens. Cost: about :data:`TRIALS` times :data:`STEPS` gradients.

    >>> theta = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
    >>> round(find_rate([theta], [lambda: theta.square().sum()]), 3), theta.item()
    (1.35, 4.0)
    """
    used = list(batches)[:STEPS]
    found = probe(
        params,
        lambda owned, rate: DenseAdam(owned, lr=rate),
        used,
        start=START,
        factor=FACTOR,
        trials=TRIALS,
        passes=max(1, STEPS // len(used)),
        safety=SAFETY,
    )
    logger.info("rate %g for Adam: the best of %s, halved", found.rate, ", ".join(f"{r:g}" for r, _ in found.tried))
    return found.rate


def cosine(done: int, whole: int) -> float:
    r"""What part of the rate is left after ``done`` of ``whole`` epochs: :math:`\tfrac12(1+\cos(\pi\,t/T))`
    (Loshchilov and Hutter 2017, without restarts).

    >>> [round(cosine(epoch, 4), 2) for epoch in range(5)]
    [1.0, 0.85, 0.5, 0.15, 0.0]
    """
    return 0.5 * (1.0 + math.cos(math.pi * min(done, whole) / max(1, whole)))
