r"""The stopping policy: stop as soon as :math:`w\cdot\phi_t>0`.

In: features of a run's sweeps. Out: scores, one a sweep and example. Stage: budget (Eisner & Stoyanov 2011, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from loopwise.budget.features import STANDARD, Bias, Course, Feature, stacked

CONSTANT = 1e-9  # a feature that varies less is left as it is


class Policy(nn.Module):
    r""":math:`w\cdot\frac{\phi_t-\mu}{\sigma}` with trained weights :math:`w`; :math:`\mu,\sigma` are set by
    :meth:`standardise`.

    ``features``: what is looked at. ``stops``: how probable it is at first to stop after any one sweep, when thresholds
    have width 1: weights are 0 but for the bias.

    >>> policy = Policy(stops=0.25)
    >>> round(torch.sigmoid(policy.weights.detach()[0]).item(), 6)
    0.25
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self, features: Sequence[Feature] = STANDARD, *, stops: float = 0.1, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        if not self.features:
            raise ValueError("a policy needs at least one feature to look at, such as lw.budget.Bias()")
        wrong = next((feature for feature in self.features if not isinstance(feature, Feature)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is no feature of a policy; give objects such as lw.budget.LargestChange()")
        if not 0 < stops < 1:
            raise ValueError(f"stops must be a probability between 0 and 1, not {stops}")
        start = [math.log(stops / (1 - stops)) if isinstance(feature, Bias) else 0.0 for feature in self.features]
        self.weights = nn.Parameter(torch.tensor(start, dtype=dtype))
        self.register_buffer("centre", torch.zeros(len(start), dtype=dtype))
        self.register_buffer("scale", torch.ones(len(start), dtype=dtype))

    def forward(self, course: Course, *, detach: bool = False) -> Tensor:
        """Scores ``[sweeps, *batch]``; ``detach``: without the gradient that goes through the features."""
        values = stacked(self.features, course)
        values = (values.detach() if detach else values) - self.centre
        return (values / self.scale) @ self.weights.to(values.dtype)

    @torch.no_grad()
    def standardise(self, values: Tensor) -> None:
        """Sets centre and scale to the mean and standard deviation of features ``[..., features]``.

        A feature that does not vary (the bias) stays as it is.
        """
        rows = values.reshape(-1, len(self.features)).to(self.centre)
        spread = rows.std(0, correction=0)
        constant = spread < CONSTANT
        self.centre.copy_(torch.where(constant, 0.0, rows.mean(0)))
        self.scale.copy_(torch.where(constant, 1.0, spread))

    def extra_repr(self) -> str:
        pairs = zip(self.features, self.weights.tolist(), strict=True)
        return ", ".join(f"{type(feature).__name__} {weight:.3g}" for feature, weight in pairs)
