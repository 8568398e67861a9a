"""Steps over batches that are seen once."""

from __future__ import annotations

import numpy as np

from loopwise.learn.optim.stream import StreamAdaGrad, parts, total


def test_steps_by_hand() -> None:
    rule = StreamAdaGrad(2, l2=4.0, rate=0.5)
    vector = np.array([1.0, 0.0])
    value, moved = rule.step(lambda at: (3.0, np.array([2.0, -2.0])), vector, 2)
    slope = (np.array([2.0, -2.0]) + 4.0 * vector) / 2  # all of the two seen so far
    np.testing.assert_allclose(moved, vector - 0.5 * np.sign(slope))
    _, later = rule.step(lambda at: (0.0, np.zeros(2)), moved, 2)
    second = 4.0 * 0.5 * moved / 2
    np.testing.assert_allclose(later, moved - 0.5 * second / np.sqrt(slope**2 + second**2))
    assert value == 3.0


def test_weights_that_move_take_their_sums_along() -> None:
    rule = StreamAdaGrad(2, l2=0.0)
    rule.step(lambda at: (0.0, np.array([1.0, 3.0])), np.zeros(2), 1)
    rule.grown(np.array([2, 0]), 4)
    assert rule.squares.tolist() == [9.0, 0.0, 1.0, 0.0]


def test_means_become_sums_and_examples_slices() -> None:
    value, slope = total(lambda at: (2.0, 3.0 * at), 5)(np.array([1.0, -1.0]))
    assert value == 10.0 and slope.tolist() == [15.0, -15.0]
    assert [(part.start, part.stop) for part in parts(70)] == [(0, 32), (32, 64), (64, 70)]
