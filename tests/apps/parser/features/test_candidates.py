"""Pairs of arcs, by the definition."""

from __future__ import annotations

import pytest

from oracles.parser_beliefs import (
    GRANDPARENTS,
    PROJECTIVE,
    SIBLINGS,
    SINGLE_ROOT,
    reference_pairs,
)
from oracles.parser_tasks import Case

PAIRS = GRANDPARENTS | SIBLINGS


KINDS = [PROJECTIVE | SINGLE_ROOT, PROJECTIVE, SINGLE_ROOT, 0]


@pytest.mark.parametrize("structure", KINDS)
def test_pairs_are_those_of_the_definition(structure: int) -> None:
    case = Case(4, structure | PAIRS, seed=1)
    assert sorted(case.pairs) == sorted(reference_pairs(case.arcs, structure | PAIRS))
    grandparents = case.pairs[: case.grandparents]
    assert sorted(grandparents) == sorted(reference_pairs(case.arcs, structure | GRANDPARENTS))
