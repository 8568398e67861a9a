"""A tagger trained once."""

from __future__ import annotations

import pytest

from loopwise.apps.chain import Tagger
from oracles.tagger_text import TEMPLATES, TRAIN


@pytest.fixture(scope="session")
def fitted() -> Tagger:
    return Tagger(TEMPLATES, "is_title[0]").fit(*TRAIN)
