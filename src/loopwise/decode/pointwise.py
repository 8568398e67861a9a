"""Decoders that look at one belief at a time: identity, maximum, soft maximum.

In: beliefs. Out: decisions on variables, and on factors where asked for. Stage: decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from loopwise.decode.base import BeliefDecoder
from loopwise.decode.temperature import (
    DEFAULT_TEMPERATURE,
    Temperature,
    checked_temperature,
    current_temperature,
    temperature_at,
)
from loopwise.graph.rows import Rows
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import map_variables, point_masses
from loopwise.inference.decision import Decision


class Pointwise(BeliefDecoder):
    """A decoder that looks at one variable or factor at a time, so that examples of a union do not disturb others."""

    def decide_parts(self, beliefs: Beliefs, outputs: Tensor, rows: Rows) -> Decision:
        return self.decide(beliefs, outputs)


@dataclass(frozen=True)
class Identity(Pointwise):
    """:math:`d = b`: the beliefs themselves, in training and testing (Stoyanov et al. 2011, frac-MSE)."""

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        return Decision(beliefs, beliefs.states, beliefs.factor)

    def soft(self) -> Identity:
        return self

    def hard(self) -> Identity:
        return self


@dataclass(frozen=True, eq=False)
class Max(Pointwise):
    r"""One-hot at :math:`\arg\max_x b(x)`: least expected Hamming loss under the beliefs.

    Joint where inference was (max-product, exact MAP): the decision is ``beliefs.assignment``. A factor's decision is
    its most probable cell, which need not agree with its variables. ``training`` is the soft form; to train its
    temperature, give the soft decoder itself to whatever holds the parameters.
    """

    training: BeliefDecoder | None = None  # SoftArgmax(0.5)

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        states = point_masses(beliefs.graph, beliefs.assignment, beliefs.states)
        return Decision(beliefs, states, lambda name: on_factors(beliefs, name, one_hot_at_maximum), hard=True)

    def soft(self) -> BeliefDecoder:
        return SoftArgmax() if self.training is None else self.training.soft()

    def hard(self) -> Max:
        return self

    def at(self, step: int) -> Max:
        return self if self.training is None else Max(self.training.at(step))


class SoftArgmax(Pointwise, nn.Module):
    r""":math:`d(x) = b(x)^{1/t} / \sum_{x'} b(x')^{1/t} = \mathrm{softmax}(\log b / t)` (Stoyanov et al. 2011).

    ``temperature``: a number, a :class:`~loopwise.decode.temperature.TemperatureSchedule`, a scalar ``nn.Parameter``,
    or :class:`~loopwise.decode.temperature.Trained`. Temperature 1 gives the beliefs; towards 0 it becomes :class:`Max`
    (ties share). Impossible values stay impossible and pass no gradient. The hard form is :class:`Max`.
    """

    temperature: Temperature

    def __init__(self, temperature: Temperature = DEFAULT_TEMPERATURE) -> None:
        super().__init__()
        self.temperature = checked_temperature(temperature)

    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        temperature = current_temperature(self.temperature)

        def soften(block: Tensor) -> Tensor:
            return soft_maximum(block, temperature)

        states = map_variables(beliefs.graph, soften, beliefs.states)
        return Decision(beliefs, states, lambda name: on_factors(beliefs, name, soften))

    def soft(self) -> SoftArgmax:
        return self

    def hard(self) -> Max:
        return Max(self)

    def at(self, step: int) -> SoftArgmax:
        temperature = temperature_at(self.temperature, step)
        return self if temperature is self.temperature else SoftArgmax(temperature)

    def extra_repr(self) -> str:
        return "" if isinstance(self.temperature, nn.Module) else f"temperature={self.temperature}"


def soft_maximum(probabilities: Tensor, temperature: float | Tensor, among: Tensor | None = None) -> Tensor:
    """``softmax(log p / t)`` along the last axis, over the values ``among`` (bool, all by default).

    The logarithm is taken of possible values only and infinities enter as constants, so neither the values nor their
    gradients (the temperature's included) hold NaN. Where none of the values among which to choose is possible they
    share evenly; where there is no value to choose from the result is 0.
    """
    possible = probabilities > 0 if among is None else (probabilities > 0) & among
    scaled = torch.where(possible, probabilities, 1.0).log() / temperature
    scores = torch.where(possible, scaled, -torch.inf)
    if among is None:
        return scores.softmax(-1)
    nothing = ~possible.any(-1, keepdim=True)
    return torch.where(among, torch.where(nothing, 0.0, scores), -torch.inf).softmax(-1).where(among, 0.0)


def one_hot_at_maximum(probabilities: Tensor) -> Tensor:
    """1 at the (first) largest entry along the last axis, 0 elsewhere."""
    best = probabilities.argmax(-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter_(-1, best, 1.0)


def on_factors(beliefs: Beliefs, name: str, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function`` of each factor's cells, as one axis; ``[*batch, factors, *shape]``."""
    table = beliefs.factor(name)
    group = beliefs.graph.group(name)
    flat = table.reshape(*table.shape[: table.ndim - group.arity], group.cells)
    return function(flat).reshape(table.shape)
