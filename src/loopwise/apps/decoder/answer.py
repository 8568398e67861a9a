"""What a decoder makes of some shots.

In: corrections and how they were come by. Out: :class:`Answer`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.inference.families.parity import Bits, Floats


@dataclass(frozen=True)
class Answer:
    """What a decoder made of some shots.

    corrections: flips that it found, ``[shots, bits]``. explained: whether they have the syndrome; where they have not,
    they are the last decisions, and right only by chance. sweeps: of all legs, and of a decimation. leg: the one whose
    solution was taken, -1 for a second stage or none. log_odds: of no flip against a flip after the last sweep, no rows
    unless asked for. flips: of observables, None where the code has none. second: how many shots a second stage was
    needed for.
    """

    corrections: Bits
    explained: NDArray[np.bool_]
    sweeps: NDArray[np.int64]
    leg: NDArray[np.int64]
    log_odds: Floats
    flips: Bits | None
    second: int

    @property
    def probabilities(self) -> Floats:
        """The probability of a flip, as the last sweep has it; no rows unless soft output was asked for."""
        found: Floats = 1 / (1 + np.exp(np.clip(self.log_odds, -700, 700)))
        return found

    def __len__(self) -> int:
        return len(self.corrections)

    @property
    def status(self) -> str:
        """In words."""
        done = int(self.explained.sum())
        later = f", {self.second} by a second stage" if self.second else ""
        each = self.sweeps.mean() if len(self) else 0.0
        return f"{done} of {len(self)} syndromes explained{later}; {each:.1f} sweeps a shot"
