"""Plain and compiled walks take the same steps, bit for bit, whatever the learner, the proposal and the metric."""

from __future__ import annotations

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model
from oracles.walk_engines import assert_alike


def test_far_from_the_truth_and_back() -> None:
    for count in (2, 5):
        assert_alike(
            walk.CD, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(), steps_away=count
        )
