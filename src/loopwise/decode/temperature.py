"""Temperatures of soft decoders: fixed, following a schedule, or trained.

In: numbers. Out: the temperature to use, at a step of training. Stage: decision. A schedule has no state: whoever
trains says which step it is (:meth:`Decoder.at <loopwise.decode.base.Decoder.at>`), so a resumed run needs only that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from loopwise.arguments import checked_whole

DEFAULT_TEMPERATURE = 0.5  # halfway between beliefs (1) and the maximum (0); the toolkit's example, 1/t = 2


class TemperatureSchedule(ABC):
    """A temperature for each step of training."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """The temperature at ``step`` (0, 1, ...); the last one for all later steps."""


@dataclass(frozen=True)
class _BetweenEnds(TemperatureSchedule):
    """``steps`` temperatures from ``start`` to ``end``, both included."""

    start: float = 1.0
    end: float = 0.05
    steps: int = 10

    def __post_init__(self) -> None:
        _check_ends(self.start, self.end, self.steps)


@dataclass(frozen=True)
class Geometric(_BetweenEnds):
    r""":math:`t_k = t_0 (t_n / t_0)^{k/n}`: ``steps`` temperatures from ``start`` to ``end``, both included.

    >>> [round(Geometric(1.0, 0.25, steps=3)(step), 3) for step in range(5)]
    [1.0, 0.5, 0.25, 0.25, 0.25]
    """

    def __call__(self, step: int) -> float:
        return self.start * float((self.end / self.start) ** _share(step, self.steps))


@dataclass(frozen=True)
class Linear(_BetweenEnds):
    """``steps`` temperatures in equal distances from ``start`` to ``end``, both included."""

    def __call__(self, step: int) -> float:
        return self.start + (self.end - self.start) * _share(step, self.steps)


@dataclass(frozen=True)
class Listed(TemperatureSchedule):
    """The temperatures given, one after another; the last one stays."""

    temperatures: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.temperatures:
            raise ValueError("a schedule needs at least one temperature; give one or more positive numbers")
        for temperature in self.temperatures:
            _check_positive("a temperature of the schedule", temperature)

    def __call__(self, step: int) -> float:
        return self.temperatures[min(max(step, 0), len(self.temperatures) - 1)]


class Trained(nn.Module):
    """A temperature that is learnt; its logarithm is the parameter, so it stays positive."""

    def __init__(self, start: float = DEFAULT_TEMPERATURE) -> None:
        super().__init__()
        _check_positive("temperature", start)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(start), dtype=torch.float64))

    def forward(self) -> Tensor:
        return self.log_temperature.exp()


Temperature = float | TemperatureSchedule | Trained | Tensor


def checked_temperature(temperature: Temperature) -> Temperature:
    """Refuses what can never be a temperature."""
    if isinstance(temperature, TemperatureSchedule | Trained):
        return temperature
    if isinstance(temperature, Tensor) and temperature.ndim:
        raise ValueError(f"a temperature is one number, not a tensor of shape {tuple(temperature.shape)}")
    current_temperature(temperature)
    return temperature


def temperature_at(temperature: Temperature, step: int) -> Temperature:
    """The temperature to use at ``step``: a schedule becomes a number, all else stays."""
    return temperature(step) if isinstance(temperature, TemperatureSchedule) else temperature


def current_temperature(temperature: Temperature) -> float | Tensor:
    """The number; of a schedule that nobody advanced, its first."""
    if isinstance(temperature, Trained):
        value: Tensor = temperature()
        return value
    if isinstance(temperature, TemperatureSchedule):
        return temperature(0)
    if isinstance(temperature, Tensor):
        remedy = "; train it as lw.decode.Trained(), which stays positive"
        _check_positive("temperature", temperature.item(), remedy)
    else:
        _check_positive("temperature", temperature)
    return temperature


def _check_positive(name: str, value: float, remedy: str = "") -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a positive number, not {value}{remedy or '; for temperature 0 use Max()'}")


def _check_ends(start: float, end: float, steps: int) -> None:
    _check_positive("start", start)
    _check_positive("end", end)
    checked_whole("steps", steps)


def _share(step: int, steps: int) -> float:
    return 1.0 if steps == 1 else min(max(step, 0), steps - 1) / (steps - 1)
