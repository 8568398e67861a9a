"""How often a decoder fails, with what is known of that from so many shots.

In: a decoder, shots. Out: :class:`Counts`, which add up over runs. Stage: use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.decoder.shots import Shots, ShotSampler, check_source
from loopwise.arguments import checked_whole

if TYPE_CHECKING:
    from loopwise.apps.decoder.answer import Answer
    from loopwise.apps.decoder.decoder import Decoder

_DRAWN = 8192  # shots drawn at a time
_NORMAL = 1.959963984540054  # of a 95 % interval
_ONE_SIDED = 1.6448536269514722


def interval(errors: int, shots: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate.

    >>> [round(limit, 4) for limit in interval(5, 1000)]
    [0.0021, 0.0117]
    """
    if shots == 0:
        return 0.0, 1.0
    rate, square = errors / shots, _NORMAL**2
    middle = rate + square / (2 * shots)
    spread = _NORMAL * math.sqrt(rate * (1 - rate) / shots + square / (4 * shots**2))
    scale = 1 + square / shots
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


@dataclass(frozen=True)
class Counts:
    """Failures of so many shots; counts of several runs add up.

    >>> Counts(1000, 5, 2, 0, 4000, 0.5) + Counts(1000, 7, 1, 0, 4100, 0.5)
    Counts(2000 shots, 12 failures: 0.006, 0.00344 to 0.0105; 3 unexplained; 4.0 sweeps a shot)
    """

    shots: int
    errors: int  # shots whose correction fails
    unexplained: int
    bit_errors: int  # bits that are wrong, where each bit is to be right
    sweeps: int
    seconds: float

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def rate(self) -> float:
        return self.errors / self.shots if self.shots else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate."""
        return interval(self.errors, self.shots)

    def __repr__(self) -> str:
        low, high = self.interval
        each = self.sweeps / self.shots if self.shots else 0.0
        return (
            f"Counts({self.shots} shots, {self.errors} failures: {self.rate:.3g}, {low:.3g} to {high:.3g}; "
            f"{self.unexplained} unexplained; {each:.1f} sweeps a shot)"
        )


def failed(decoder: Decoder, shots: Shots, answer: Answer) -> NDArray[np.bool_]:
    """Which shots fail: unexplained, or with a wrong observable; without observables, with a wrong bit."""
    shots.check(decoder.code)
    if shots.flips is not None and answer.flips is not None:
        return np.asarray((answer.flips != shots.flips).any(1) | ~answer.explained)
    if shots.errors is None:
        raise ValueError("shots say neither what flips nor what observables were, so failures cannot be counted")
    return decoder.code.failures(shots.errors, answer.corrections)


def wrong_bits(shots: Shots, answer: Answer) -> NDArray[np.int64]:
    """How many bits of each shot are wrong."""
    if shots.errors is None:
        raise ValueError("shots do not say what flips were, so wrong bits cannot be counted")
    return np.asarray((shots.errors != answer.corrections).sum(1))


def is_lower(after: NDArray[Any], before: NDArray[Any]) -> bool:
    """Whether what is counted on the same shots is lower than before by more than chance: one-sided, 5 %.

    >>> is_lower(np.zeros(8), np.array([1, 1, 1, 0, 0, 0, 0, 0])), is_lower(np.zeros(8), np.eye(8)[0])
    (True, False)
    """
    gain = np.asarray(before, dtype=np.float64) - after
    return bool(gain.sum() > _ONE_SIDED * math.sqrt((gain**2).sum()))


def count_failures(decoder: Decoder, source: Shots | ShotSampler, shots: int | None, seed: int) -> Counts:
    """Counts over given shots, or over so many drawn; what is not compiled is compiled before the clock starts."""
    counts = Counts(0, 0, 0, 0, 0, 0.0)
    for number, part in enumerate(_parts(source, shots, seed)):
        if not number:
            decoder.warm(part.syndromes, log_odds=part.log_odds)
        since = time.perf_counter()
        answer = decoder.run(part.syndromes, log_odds=part.log_odds)
        seconds = time.perf_counter() - since
        wrong, unexplained = failed(decoder, part, answer), ~answer.explained
        bits = 0 if part.errors is None else int(wrong_bits(part, answer).sum())
        counts += Counts(len(part), int(wrong.sum()), int(unexplained.sum()), bits, int(answer.sweeps.sum()), seconds)
    return counts


def _parts(source: Shots | ShotSampler, shots: int | None, seed: int) -> Iterator[Shots]:
    """Some shots at a time: those given, or so many of them, or so many drawn."""
    check_source(source)
    if shots is not None:
        checked_whole("shots", shots)
    if isinstance(source, Shots):
        chosen = source if shots is None else source.take(slice(shots))
        yield from (chosen.take(slice(begin, begin + _DRAWN)) for begin in range(0, len(chosen), _DRAWN))
    elif shots is None:
        raise ValueError("a sampler draws any number of shots; say how many: evaluate(sampler, 10_000)")
    else:
        random = np.random.default_rng([seed, 1])
        yield from (source.draw(min(_DRAWN, shots - begin), random) for begin in range(0, shots, _DRAWN))
