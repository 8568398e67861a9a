"""The whole run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loopwise.demo.findings import DemoProgress, run_demo
from loopwise.demo.image import ImageAmounts
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    trials,
)
from oracles.demo_cases import TINY


@pytest.mark.usefixtures("literal_sizes")  # the same kernels in all processes
def test_the_whole_run_tells_of_every_step_and_processes_find_the_same() -> None:
    told: list[DemoProgress] = []
    image = ImageAmounts(side=16, epochs=1)
    small = replace(TINY, epochs=4, horizon=2)
    alone = run_demo(small, image, 3, told.append, workers=1)
    steps = 2 + len(trials(small)) + 2
    assert [each.done for each in told] == list(range(steps + 1)) and {each.of for each in told} == {steps}
    together = run_demo(small, image, 3, lambda progress: None, workers=2)
    assert (alone.workers, together.workers) == (1, 2)
    for findings in (alone, together):
        assert {each.trial for each in findings.outcomes} == set(trials(small))
    for goal, budget in ((TRUTH, 0), (LIKELIHOOD, 5), (LOSS, 2)):
        np.testing.assert_array_equal(alone.losses(goal, budget), together.losses(goal, budget))
    for goal in (LIKELIHOOD, LOSS):
        np.testing.assert_array_equal(alone.image_of(goal).white, together.image_of(goal).white)
