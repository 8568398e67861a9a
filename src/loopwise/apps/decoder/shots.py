"""Shots to decode, to train on and to judge by, and where they come from.

In: a code, a channel. Out: :class:`Shots`; samplers that draw them. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from loopwise.apps.decoder.code import Code, checked_priors
from loopwise.arguments import checked_array, checked_kind
from loopwise.inference.families.parity import CERTAIN, Bits, Floats

_FIELDS = ("syndromes", "errors", "flips", "log_odds")


@dataclass(frozen=True, eq=False)
class Shots:
    """Syndromes with what is known beside them.

    ``errors``: the flips that happened. ``flips``: what these did to observables. ``log_odds``: of 0 against 1 for each
    bit of each shot, as a channel with soft outputs gives them, in place of the code's own.
    """

    syndromes: Bits  # [shots, detectors]
    errors: Bits | None = None  # [shots, bits]
    flips: Bits | None = None  # [shots, observables]
    log_odds: Floats | None = None  # [shots, bits]

    def __post_init__(self) -> None:
        for name, one in zip(_FIELDS, self.columns, strict=True):
            if one is not None:
                array = checked_array(f"the {name} of shots", one)
                if array.ndim != 2:
                    raise ValueError(f"the {name} of shots are of shape {array.shape}; give a row for each shot")
                object.__setattr__(self, name, array)
        for name, one in zip(_FIELDS, self.columns, strict=True):
            if one is not None and len(one) != len(self.syndromes):
                raise ValueError(f"there are {len(self.syndromes)} syndromes, but {len(one)} rows of {name}")

    def check(self, code: Code) -> None:
        """Raises unless these can be shots of a code."""
        observables = 0 if code.observables is None else code.observables.shape[0]
        widths = code.detector_count, code.bits, observables, code.bits
        for name, one, width in zip(_FIELDS, self.columns, widths, strict=True):
            if one is not None and one.shape[1:] != (width,):
                raise ValueError(
                    f"the {name} of these shots are of shape {one.shape}, but rows of {width} are this code's; are "
                    "they of another one?"
                )
        for name, bits in zip(_FIELDS, self.columns[:3], strict=False):
            if bits is not None and not ((bits == 0) | (bits == 1)).all():
                raise ValueError(f"the {name} of these shots must be 0 or 1")
        if self.log_odds is not None:
            check_odds(self.log_odds)

    def __len__(self) -> int:
        return len(self.syndromes)

    @property
    def columns(self) -> tuple[Any, Any, Any, Any]:
        """All fields."""
        return self.syndromes, self.errors, self.flips, self.log_odds

    def take(self, which: Any) -> Shots:
        """Some of them."""
        return Shots(*(None if one is None else one[which] for one in self.columns))  # type: ignore[arg-type]

    @staticmethod
    def joined(parts: list[Shots]) -> Shots:
        """One after another."""
        columns = zip(*(part.columns for part in parts), strict=True)
        return Shots(*(None if one[0] is None else np.concatenate(one) for one in columns))  # type: ignore[arg-type]


def check_odds(odds: Floats) -> None:
    """Raises where log-odds of shots are no numbers."""
    wrong = np.isnan(odds).any(1)
    if wrong.any():
        raise ValueError(f"the log-odds of shot {np.flatnonzero(wrong)[0]} hold NaN")


@runtime_checkable
class ShotSampler(Protocol):
    """Something that draws shots."""

    def draw(self, count: int, random: np.random.Generator) -> Shots:
        """So many shots."""


def check_source(source: Any) -> None:
    """Raises unless these are shots or something that draws them."""
    checked_kind(
        "the source", source, (Shots, ShotSampler), "shots, or a sampler that draws them (Flips, Gaussian, ...)"
    )


class Flips:
    """Independent flips, with the code's own probabilities or others.

    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1)
    >>> Flips(code).draw(5, np.random.default_rng(0)).syndromes.shape
    (5, 2)
    """

    def __init__(self, code: Code, priors: ArrayLike | None = None) -> None:
        self.code = code
        self.priors = code.priors if priors is None else checked_priors(priors, code.bits)

    def draw(self, count: int, random: np.random.Generator) -> Shots:
        """Errors, and what is seen of them."""
        errors = (random.random((count, self.code.bits), dtype=np.float32) < self.priors).astype(np.uint8)
        seen = np.zeros((count, self.code.detector_count), np.uint8)
        where = slice(None) if self.code.detectors is None else self.code.detectors
        seen[:, where] = self.code.checks.syndromes(errors)
        return Shots(seen, errors, None if self.code.observables is None else self.code.flips(errors))


class Gaussian:
    """The all-zero codeword over a channel with white Gaussian noise (BPSK), which stands for any codeword, since
    channel and decoder treat 0 and 1 alike.

    Parameters
    ----------
    code: the code.
    decibels: the ratio Eb/N0; several are drawn from alike.
    rate: information bits for each bit sent; by default that of full-rank checks.

    >>> shots = Gaussian(Code.of([[1, 1, 0], [0, 1, 1]], 0.1), 6.0).draw(4, np.random.default_rng(0))
    >>> shots.log_odds.shape, int(shots.errors.sum())
    ((4, 3), 0)
    """

    def __init__(self, code: Code, decibels: float | ArrayLike, rate: float | None = None) -> None:
        self.code, self.rate = code, 1 - code.checks.count / code.bits if rate is None else rate
        self.decibels = np.atleast_1d(checked_array("decibels", decibels)).astype(np.float64)
        if not 0 < self.rate <= 1 or not self.decibels.size or not np.isfinite(self.decibels).all():
            raise ValueError(
                f"a Gaussian channel needs a rate above 0 and finite decibels, not {self.rate!r} and {decibels!r}"
            )

    def draw(self, count: int, random: np.random.Generator) -> Shots:
        """Log-odds of what was received."""
        ratio = 10 ** (random.choice(self.decibels, (count, 1)) / 10)
        sigma = 1 / np.sqrt(2 * self.rate * ratio)
        received = 1 + sigma * random.standard_normal((count, self.code.bits))
        zeros = np.zeros((count, self.code.bits), np.uint8)
        return Shots(np.zeros((count, self.code.detector_count), np.uint8), zeros, None, awgn(received, sigma))


def awgn(received: ArrayLike, sigma: ArrayLike) -> Floats:
    """Log-odds of 0 against 1 from what BPSK (0 is sent as +1) receives with noise of standard deviation ``sigma``.

    >>> awgn([0.5, -1.0], 1.0).tolist()
    [1.0, -2.0]
    """
    spread = checked_array("sigma", sigma)
    if not (np.isfinite(spread) & (spread > 0)).all():
        raise ValueError(f"the standard deviation sigma must be a number above 0, not {sigma!r}")
    found: Floats = 2 * checked_array("what was received", received).astype(np.float64) / spread**2
    return found


def bsc(received: ArrayLike, probability: float) -> Floats:
    """Log-odds from bits of a binary symmetric channel that flips them with this probability.

    >>> bsc([0, 1], 0.1).round(3).tolist()
    [2.197, -2.197]
    """
    bits = checked_array("what was received", received)
    if not ((bits == 0) | (bits == 1)).all():
        raise ValueError("bits of a binary symmetric channel must be 0 or 1; bits that were lost are for erasures()")
    share = checked_priors(probability, 1, "the probability of a flip")[0]
    size = float(np.log1p(-share) - np.log(share))
    return np.where(bits == 0, size, -size)


def erasures(received: ArrayLike) -> Floats:
    """Log-odds from bits of an erasure channel: 0 and 1 are certain, anything else (-1, NaN) was erased.

    >>> erasures([0, -1, 1]).tolist()
    [50.0, 0.0, -50.0]
    """
    bits = checked_array("what was received", received)
    return np.where(bits == 0, CERTAIN, np.where(bits == 1, -CERTAIN, 0.0))
