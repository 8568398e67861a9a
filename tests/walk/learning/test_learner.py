"""Learners of labels, both engines."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model
from oracles.walk_engines import LEARNERS, assert_alike


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_learners_of_labels(kind: type[walk.Learner]) -> None:
    for proposal in (walk.UniformChange(), walk.ForcedFlip(), walk.GibbsChange(scan=True)):
        assert_alike(kind, chain_model(), proposal, lw.metric.Accuracy(), chain_documents())
