"""How claims are decided.

In: comparisons. Out: a :class:`Claim`, undecided while comparisons are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from studies.harness.results import Claim

MISSING = "runs are missing"


def claim_of(name: str, text: str, holds: Sequence[bool], evidence: Sequence[str], wanted: int = 1) -> Claim:
    """Decided once there are as many comparisons as ``wanted``; one that fails decides at once.

    >>> claim_of("order", "A beats B.", [True], ["1 against 2"], wanted=2).holds is None
    True
    """
    decided = False if False in holds else True if len(holds) >= wanted else None
    return Claim(name, text, decided, "; ".join(evidence))


def with_rules(claims: Iterable[Claim], rules: Mapping[str, str]) -> list[Claim]:
    """Claims with the rules that decide them. ``rules``: by a claim's id, or by how the ids of several begin; the
    longest beginning counts. A claim that no rule is written for is an error.

    >>> with_rules([claim_of("order", "A beats B.", [], [])], {"ord": "lower mean"})[0].rule
    'lower mean'
    """
    found = []
    for claim in claims:
        known = [name for name in rules if claim.id.startswith(name)]
        if not known:
            raise ValueError(f"no rule is written for the claim {claim.id!r}")
        found.append(replace(claim, rule=rules[max(known, key=len)]))
    return found
