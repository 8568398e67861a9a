"""What checks compute: the sum-product, or the min-sum with its corrections.

In: options. Out: objects for ``lw.apps.Decoder(rule=...)``. Stage: use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SumProduct:
    """Belief propagation as it is: products of hyperbolic tangents."""


@dataclass(frozen=True)
class MinSum:
    """The least of the other messages, less ``offset``, times ``scale``: cheaper, and overconfident unless corrected.

    Parameters
    ----------
    scale: the normalisation, 1 for none; usually 0.6 to 1.
    offset: what is subtracted from the size of a message, 0 for nothing.

    >>> MinSum(scale=0.8)
    MinSum(scale=0.8, offset=0.0)
    """

    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"the scale of the min-sum must be a number above 0, not {self.scale!r}")
        if not (math.isfinite(self.offset) and self.offset >= 0):
            raise ValueError(f"the offset of the min-sum must be a number of at least 0, not {self.offset!r}")


Rule = SumProduct | MinSum
