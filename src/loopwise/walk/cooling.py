"""Temperatures of a search.

In: nothing. Out: a small option object. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Cooling:
    r"""Temperatures of a search: :math:`T_k = T_0 (T_1 / T_0)^{k/S}` at step k of S (Kirkpatrick et al. 1983)."""

    first: float = 1.0
    last: float = 0.01

    def __post_init__(self) -> None:
        for name, value in (("first", self.first), ("last", self.last)):
            if not 0 < value < math.inf:
                raise ValueError(f"the {name} temperature must be positive and finite, not {value}")
