"""An estimator trained once."""

from __future__ import annotations

import pytest

from loopwise.apps.coref import Coref
from loopwise.apps.coref.mentions import Mentions, describe
from loopwise.formats.coref import CorefDocument, parse_documents
from oracles.coref_cases import TRAIN
from oracles.mention_cases import TREE, TYPES


@pytest.fixture(scope="session")
def fitted() -> Coref:
    return Coref(rounds=3, steps=1500, decode_steps=3000, seed=3).fit(TRAIN, progress=False)


@pytest.fixture(scope="session")
def document() -> CorefDocument:
    return next(iter(parse_documents(TREE)))


@pytest.fixture(scope="session")
def mentions(document: CorefDocument) -> Mentions:
    return describe(document, TYPES)
