"""The smallest run of the demo."""

from __future__ import annotations

import numpy as np

from loopwise.demo.findings import Findings
from loopwise.demo.image import ImageAmounts, Restored
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    DemoAmounts,
    DemoOutcome,
    trials,
)
from loopwise.loss.calibration import reliability

TINY = DemoAmounts(
    side=4,
    given=0.25,
    hidden=0.25,
    models=2,
    train=64,
    test=32,
    burn_in=50,
    epochs=8,
    budgets=(5, 2),
    watched=2,
    horizon=4,
)


# --- What is said of it ----------------------------------------------------------------------------------------------


def made_up(likely: tuple[float, ...], lossy: tuple[float, ...]) -> Findings:
    """Findings with these losses on two models under every budget; the true model has 0.1."""
    outcomes = []
    events = reliability([0.2, 0.4, 0.9], [0, 1, 1])
    after = dict.fromkeys((*range(TINY.horizon + 1), *TINY.budgets), 0.2)
    paths = np.linspace(0.1, 0.9, 3 * (TINY.horizon + 1)).reshape(-1, 3)
    for trial in trials(TINY):
        loss = {TRUTH: (0.1, 0.1), LIKELIHOOD: likely, LOSS: lossy}[trial.goal][trial.model]
        outcomes.append(DemoOutcome(trial, loss, loss, events, after, paths, [0.3, loss], 1.0))
    grey = np.full((4, 4), 0.5)
    restored = [
        Restored(goal, np.eye(4, dtype=np.int64), grey, grey, losses[0], losses[0])
        for goal, losses in ((LIKELIHOOD, likely), (LOSS, lossy))
    ]
    return Findings(TINY, ImageAmounts(), 0, outcomes, restored, 1.0)
