"""Images that are restored."""

from __future__ import annotations

import numpy as np

from loopwise.demo.image import ImageAmounts, restore
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
)


def test_images_are_restored_by_a_model_that_never_saw_them() -> None:
    amounts = ImageAmounts(side=24, epochs=10)
    likely, lossy = (restore(goal, amounts, seed=0) for goal in (LIKELIHOOD, LOSS))
    np.testing.assert_array_equal(likely.noisy, lossy.noisy)  # both get the same
    assert likely.white.shape == likely.truth.shape == (24, 24)
    for found in (likely, lossy):
        assert 0 < found.wrong < 0.5 and found.loss < 0.25  # better than to know nothing
    assert likely.wrong != lossy.wrong
