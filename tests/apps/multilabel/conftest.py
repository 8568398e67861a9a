"""Data with label sets, and an estimator fitted on them once."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.multilabel import (
    MultiLabel,
)
from oracles.label_cases import FAST, make_data


@pytest.fixture(scope="session")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_data(200, labels=4, seed=3)


@pytest.fixture(scope="session")
def fitted(data: tuple[np.ndarray, np.ndarray]) -> MultiLabel:
    return MultiLabel(FAST).fit(data[0][:150], data[1][:150])
