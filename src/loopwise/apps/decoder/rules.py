"""What checks compute: the sum-product, or the min-sum with its corrections.

In: options. Out: objects for ``lw.apps.Decoder(rule=...)``. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwise.arguments import checked_number


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
        checked_number("the scale of the min-sum", self.scale)
        checked_number("the offset of the min-sum", self.offset, above=False)


Rule = SumProduct | MinSum
