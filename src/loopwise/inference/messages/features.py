r"""What a stopping policy looks at after each sweep: features of the computation, differentiable in the beliefs.

In: a :class:`Course`, the beliefs of consecutive sweeps. Out: numbers ``[sweeps, *batch]``. Stage: inference
(cost-aware spec, section 2.1). Residuals are changes of variable beliefs, which every engine keeps and differentiates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.parts import Parts
from loopwise.inference.by_variable import reduce_variables

LEAST = 1e-8  # added to residuals before their logarithm


@dataclass(frozen=True, eq=False)
class Course:
    """Beliefs of consecutive sweeps of one run.

    ``trace``: ``[sweeps + 1, *batch, states]``; row 0 is what was there before sweep number ``first``. ``watched``:
    bool ``[*b, variables]``, the variables whose beliefs matter (outputs). ``limit``: sweeps at most. ``last``: the
    largest change of the sweep before the first, if there was one, ``[*batch]``. ``known``: the largest change of each
    sweep, ``[sweeps, *batch]``, where it is known already. ``parts``: of a union, whose parts are the examples; the
    trace then is ``[sweeps + 1, states]``, and all else has the parts for its batch.
    """

    graph: FactorGraph
    trace: Tensor
    watched: Tensor
    limit: int
    first: int = 1
    last: Tensor | None = None
    known: Tensor | None = None
    parts: Parts | None = None

    @property
    def sweeps(self) -> Tensor:
        """The number of each sweep, ``[sweeps, 1, ...]``, broadcastable to the batch."""
        numbers = torch.arange(self.first, self.first + len(self.trace) - 1, dtype=self.trace.dtype)
        return numbers.to(self.trace.device).reshape(-1, *[1] * (self.trace.ndim - 2 + (self.parts is not None)))

    @property
    def now(self) -> Tensor:
        """Beliefs after each sweep, ``[sweeps, *batch, states]``."""
        return self.trace[1:]

    def every(self, values: Tensor) -> Tensor:
        """``values`` for each sweep and example."""
        return values.expand(self.now.shape[:-1] if self.parts is None else (len(self.now), self.parts.count))

    def mean(self, values: Tensor) -> Tensor:
        """The mean of ``[sweeps, *batch, variables]`` over the watched variables; 0 where nothing is watched."""
        weight = self.watched.to(values.dtype)
        if self.parts is not None:
            part = self.parts.variable_part
            return self._summed(values * weight, part) / self._summed(weight[None], part).clamp_min(1.0)
        if self._all_watched:
            return values.mean(-1)
        return (values * weight).sum(-1) / weight.sum(-1).clamp_min(1.0)

    def _summed(self, values: Tensor, part: Integers) -> Tensor:
        """Numbers ``[sweeps, ...]`` added up part by part, ``[sweeps, parts]``."""
        assert self.parts is not None
        return values.new_zeros(len(values), self.parts.count).index_add(-1, _tensor(part, values), values)

    def over_states(self, values: Tensor) -> Tensor:
        """The mean of ``[sweeps, *batch, states]`` over all states."""
        if self.parts is None:
            return values.mean(-1)
        part = self.parts.state_part
        return self._summed(values, part) / self._summed(torch.ones_like(values[:1]), part).clamp_min(1.0)

    def by_state(self, values: Tensor) -> Tensor:
        """Numbers of examples ``[sweeps, *batch]`` as they meet states."""
        return values[..., None] if self.parts is None else values[:, _tensor(self.parts.state_part, values)]

    @cached_property
    def _all_watched(self) -> bool:
        return bool(self.watched.all()) and self.watched.shape[-1] > 0

    @cached_property
    def changes(self) -> Tensor:
        """How much each state changed in each sweep, ``[sweeps, *batch, states]``."""
        return (self.trace[1:] - self.trace[:-1]).abs()

    @cached_property
    def largest(self) -> Tensor:
        """The largest of them, ``[sweeps, *batch]``."""
        if self.known is not None:
            return self.known
        if self.parts is not None:
            part = _tensor(self.parts.state_part, self.changes).expand(self.changes.shape)
            none = self.changes.new_zeros(len(self.changes), self.parts.count)
            return none.scatter_reduce(-1, part, self.changes, "amax")
        return self.changes.amax(-1) if self.changes.shape[-1] else self.changes.sum(-1)  # 0 where nothing is free


class Feature(ABC):
    """A number that says how far a run is."""

    @abstractmethod
    def __call__(self, course: Course) -> Tensor:
        """``[sweeps, *batch]``."""


@dataclass(frozen=True)
class Bias(Feature):
    """1."""

    def __call__(self, course: Course) -> Tensor:
        return course.every(course.trace.new_ones(()))


@dataclass(frozen=True)
class SweepShare(Feature):
    r""":math:`t/t_{max}`."""

    def __call__(self, course: Course) -> Tensor:
        return course.every(course.sweeps / course.limit)


@dataclass(frozen=True)
class LogSweep(Feature):
    r""":math:`\ln t`."""

    def __call__(self, course: Course) -> Tensor:
        return course.every(course.sweeps.log())


@dataclass(frozen=True)
class LargestChange(Feature):
    r""":math:`\log_{10}(10^{-8}+r)`, with :math:`r` the largest change of a belief in the sweep.

    ``smooth``: the smooth maximum :math:`\frac1\kappa\log\frac1n\sum e^{\kappa r}` with that :math:`\kappa` instead,
    whose gradient reaches all beliefs.
    """

    smooth: float | None = None

    def __post_init__(self) -> None:
        if self.smooth is not None and not (self.smooth > 0 and math.isfinite(self.smooth)):
            raise ValueError(f"smooth must be a positive number or None, not {self.smooth}")

    def __call__(self, course: Course) -> Tensor:
        return torch.log10(LEAST + self.residual(course))

    def residual(self, course: Course) -> Tensor:
        """The maximum over states."""
        if self.smooth is None:
            return course.largest
        top = course.largest.detach()
        return (
            top
            + course.over_states(torch.exp(self.smooth * (course.changes - course.by_state(top)))).log() / self.smooth
        )


@dataclass(frozen=True)
class MeanChange(Feature):
    r""":math:`\log_{10}(10^{-8}+\bar r)`, with the mean over states."""

    def __call__(self, course: Course) -> Tensor:
        return torch.log10(LEAST + course.over_states(course.changes))


@dataclass(frozen=True)
class Slowing(Feature):
    r""":math:`\log_{10}(r_t/r_{t-1})`: below 0 where the run settles; 0 in the first sweep."""

    def __call__(self, course: Course) -> Tensor:
        sizes = torch.log10(LEAST + course.largest)
        before = sizes[:1] if course.last is None else torch.log10(LEAST + course.last)[None]
        return sizes - torch.cat([before, sizes[:-1]])


@dataclass(frozen=True)
class Entropy(Feature):
    """The mean entropy of watched beliefs, in nats."""

    def __call__(self, course: Course) -> Tensor:
        return course.mean(reduce_variables(course.graph, _entropy, course.now))


@dataclass(frozen=True)
class Confident(Feature):
    """The share of watched variables with a belief above ``level``; a step, so without a gradient."""

    level: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must be between 0 and 1, not {self.level}")

    def __call__(self, course: Course) -> Tensor:
        top = reduce_variables(course.graph, _largest, course.now.detach())
        return course.mean((top > self.level).to(course.trace.dtype))


@dataclass(frozen=True)
class Undecided(Feature):
    """The share of watched variables whose most probable value changed in the sweep; without a gradient."""

    def __call__(self, course: Course) -> Tensor:
        best = reduce_variables(course.graph, _best, course.trace.detach())
        return course.mean((best[1:] != best[:-1]).to(course.trace.dtype))


STANDARD: tuple[Feature, ...] = (
    Bias(), LargestChange(), MeanChange(), Slowing(), SweepShare(), LogSweep(), Entropy(), Confident(), Undecided(),
)  # fmt: skip


def stacked(features: tuple[Feature, ...], course: Course) -> Tensor:
    """All features, ``[sweeps, *batch, features]``."""
    return torch.stack([feature(course) for feature in features], -1)


def _tensor(places: Integers, like: Tensor) -> Tensor:
    return torch.from_numpy(places).to(like.device)


def _entropy(block: Tensor) -> Tensor:
    if not block.requires_grad:
        each: Tensor = torch.special.entr(block)
        return each.sum(-1)
    safe = torch.where(block > 0, block, 1.0)
    return -(safe * safe.log()).sum(-1)


def _largest(block: Tensor) -> Tensor:
    return block.amax(-1)


def _best(block: Tensor) -> Tensor:
    if block.shape[-1] == 2:  # many times faster than argmax
        return block[..., 1] > block[..., 0]
    return block.argmax(-1)
