"""What a change gains is the metric after it less the metric before it, worked out from the whole answer."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.loss.incremental import Change, CountTracker, HammingTracker, Tracker


def f_beta(truth: list[int], state: list[int], labels: dict[int, int], count: int, step: int, beta: float) -> float:
    """The mean of F over labels, straight from the definition."""
    total = 0.0
    for label in range(count):
        agreed = decided = gold = 0
        for item, (right, value) in enumerate(zip(truth, state, strict=True)):
            if right < 0:
                continue
            said = value in labels and labels[value] + item * step == label
            should = right in labels and labels[right] + item * step == label
            decided, gold, agreed = decided + said, gold + should, agreed + (said and should)
        size = beta**2 * gold + decided
        total += 1.0 if size == 0 else (1 + beta**2) * agreed / size
    return total / count


def walked(tracker: Tracker, state: list[int], values: int, rng: np.random.Generator) -> list[tuple[float, list[int]]]:
    """Gains of random changes, of one item and of two, each then made."""
    seen = []
    for _ in range(40):
        items = rng.choice(len(state), rng.integers(1, 3), replace=False)
        changes: list[Change] = [(int(k), state[k], int(rng.integers(values))) for k in items]
        seen.append((tracker.gain(changes), list(state)))
        for item, old, new in changes:
            tracker.change(item, old, new)
            state[item] = new
    return seen


@pytest.mark.parametrize("share", [True, False])
def test_hamming(share: bool) -> None:
    rng = np.random.default_rng(0)
    truth, state = rng.integers(-1, 3, 9).tolist(), rng.integers(0, 3, 9).tolist()
    scored = [k for k, gold in enumerate(truth) if gold >= 0]

    def metric(values: list[int]) -> float:
        wrong = sum(values[k] != truth[k] for k in scored)
        return 1.0 - wrong / (len(scored) if share else 1)

    tracker = HammingTracker(truth, state, share=share)
    assert tracker.value() == pytest.approx(metric(state))
    seen = walked(tracker, state, 3, rng)
    after = [*(values for _, values in seen[1:]), state]
    for (gain, before), then in zip(seen, after, strict=True):
        assert gain == pytest.approx(metric(then) - metric(before))
    assert tracker.gap() == pytest.approx(1.0 - metric(state))


@pytest.mark.parametrize(("count", "step"), [(2, 0), (9, 1)])
@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_counts(count: int, step: int, beta: float) -> None:
    rng = np.random.default_rng(1)
    labels = {1: 0, 2: 1} if step == 0 else {1: 0}
    values = 3 if step == 0 else 2
    truth, state = rng.integers(-1, values, 9).tolist(), rng.integers(0, values, 9).tolist()

    def metric(answer: list[int]) -> float:
        return f_beta(truth, answer, labels, count, step, beta)

    tracker = CountTracker(truth, state, labels, count, step, beta)
    assert tracker.value() == pytest.approx(metric(state))
    seen = walked(tracker, state, values, rng)
    after = [*(answer for _, answer in seen[1:]), state]
    for (gain, before), then in zip(seen, after, strict=True):
        assert gain == pytest.approx(metric(then) - metric(before), abs=1e-12)
    assert tracker.gap() == pytest.approx(1.0 - metric(state))
