"""An estimator fitted once, and what it finds."""

from __future__ import annotations

import pytest

from loopwise.apps import Dedupe
from loopwise.apps.dedupe import Resolution
from oracles.dedupe_cases import IDS, RECORDS, TEST


@pytest.fixture(scope="session")
def fitted() -> Dedupe:
    return Dedupe().fit(RECORDS, ids=IDS)


@pytest.fixture(scope="session")
def found(fitted: Dedupe) -> Resolution:
    return fitted.predict(TEST)
