"""Max-product messages of exactly one and at most one."""

from __future__ import annotations

import pytest

import loopwise as lw
from oracles.automaton_cases import check_max_messages, hard, on


@pytest.mark.parametrize("kind", [lw.ExactlyOne, lw.AtMostOne])
def test_max_product_messages_of_one_of(kind: type[lw.ExactlyOne]) -> None:
    check_max_messages(kind(4), hard(on(4) == 1 if kind is lw.ExactlyOne else on(4) <= 1))
