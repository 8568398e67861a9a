"""Steps, margins and acceptance."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model
from oracles.walk_engines import assert_alike


@pytest.mark.parametrize("step", [walk.Unit(0.5), walk.Decaying(2.0), walk.AdaGrad(), walk.MIRA(0.2)])
def test_steps_margins_acceptance(step: walk.Step) -> None:
    for margin in (walk.ScaledMargin(5.0), walk.ConstantMargin()):
        for accept_with in walk.Accept:
            assert_alike(
                walk.SampleRank, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(),
                step=step, margin=margin, accept_with=accept_with, temperature=0.7,
            )  # fmt: skip
    assert_alike(
        walk.Hybrid, chain_model(), walk.GibbsChange(), lw.metric.F1Score(), chain_documents(), step=step, on_ties=True
    )
