"""How claims are decided.

In: comparisons. Out: a :class:`Claim`, undecided while comparisons are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from studies.harness.results import Claim

MISSING = "runs are missing"


def claim_of(name: str, text: str, holds: Sequence[bool], evidence: Sequence[str], wanted: int = 1) -> Claim:
    """Decided once there are as many comparisons as ``wanted``; one that fails decides at once.

    >>> claim_of("order", "A beats B.", [True], ["1 against 2"], wanted=2).holds is None
    True
    """
    decided = False if False in holds else True if len(holds) >= wanted else None
    return Claim(name, text, decided, "; ".join(evidence))
