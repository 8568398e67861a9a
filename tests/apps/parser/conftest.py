"""A parser trained once."""

from __future__ import annotations

import pytest

from loopwise.apps import Parser
from loopwise.inference.messages.message_passing import BP
from oracles.toy_language import DEV, TRAIN, small


@pytest.fixture(scope="session")
def trained() -> Parser:
    parser = small(("grandparent", "sibling"), BP(iterations=2))
    parser.fit(TRAIN, dev=DEV, epochs=4, rate=0.1, threads=1)
    return parser
