"""The smallest run of the demo."""

from __future__ import annotations

from loopwise.demo.trials import (
    DemoAmounts,
)

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
