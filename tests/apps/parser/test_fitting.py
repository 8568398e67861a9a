"""Training: patience, the search for a rate, going on from another parser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.parser.objectives import AnnealedRisk, SquaredDistance
from loopwise.inference.messages.message_passing import BP
from oracles.toy_language import DEV, TRAIN, small


def test_training_goes_on_from_another_parser() -> None:
    options = {"epochs": 2, "rate": 0.1, "labels": False}
    data = small().prepare(TRAIN[:30], DEV)
    first, second, staged = (small(("sibling",), BP(iterations=1)) for _ in range(3))
    first.fit(data, loss=SquaredDistance(), **options)
    second.fit(data, loss=AnnealedRisk(), start=first, **options)
    history = staged.fit(data, loss=(SquaredDistance(), AnnealedRisk()), **options)
    assert np.array_equal(staged.model.weights, second.model.weights)
    assert history.dev == first.history.dev + second.history.dev
    harmed = small(("sibling",), BP(iterations=1))
    history = harmed.fit(data, loss=AnnealedRisk(), epochs=1, rate=1e4, labels=False, start=first)
    assert max(history.dev) < max(first.history.dev)  # so the start was better, and stays
    assert history.best == 0 and np.array_equal(harmed.model.weights, first.model.weights)
    staged = small(("sibling",), BP(iterations=1))
    with pytest.raises(ValueError, match="other words, tags or features"):
        staged.fit(TRAIN[30:], start=first)
    with pytest.raises(ValueError, match="not trained"):
        staged.fit(data, start=small())


def test_a_prior_is_gentle_to_the_weights_training_starts_from() -> None:
    """At a rate at which nothing is learnt, one epoch shrinks them by what the prior asks for, no more."""
    data = small().prepare(TRAIN[:30])
    first, second = (small(("sibling",), BP(iterations=1)) for _ in range(2))
    first.fit(data, loss=SquaredDistance(), epochs=1, rate=0.1, labels=False)
    second.fit(data, loss=SquaredDistance(), epochs=1, rate=1e-6, l2=10.0, start=first, labels=False)
    before, after = first.model.weights, second.model.weights
    np.testing.assert_allclose(after[before != 0], before[before != 0], atol=1e-4)


def test_patience_means_nothing_without_development_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.learn.files import ledger

    written, left = ledger.write_checkpoint, [4]  # two of the pruning model, two of the trees

    def interrupted(*arguments: object) -> None:
        written(*arguments)  # type: ignore[arg-type]
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    options = {"epochs": 5, "patience": 1, "rate": 0.1, "labels": False, "checkpoint": tmp_path / "run.checkpoint"}
    monkeypatch.setattr(ledger, "write_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small(()).fit(TRAIN[:10], **options)
    assert len(small(()).fit(TRAIN[:10], **options)) == 5


def test_patience_and_the_search_for_a_rate() -> None:
    parser = small((), BP(iterations=1))
    history = parser.fit(TRAIN, dev=TRAIN[:5], epochs=30, patience=2, rate=None, labels=False)
    assert len(history) < 30 and "no better on the development data for 2 epochs" in history.ended
    assert parser.evaluate(DEV).uas > 0.9
