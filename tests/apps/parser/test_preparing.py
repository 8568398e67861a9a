"""Prepared data, and bad sentences."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.parser.options import Templates
from loopwise.formats import FormatError
from loopwise.formats.conllu import make_sentence
from loopwise.inference.messages.message_passing import BP
from loopwise.notices import LoopwiseWarning
from oracles.toy_language import DEV, TRAIN, small


def test_prepared_data_are_shared_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.learn.hashed import HashedObjective

    options = {"epochs": 2, "rate": 0.1, "labels": False, "seed": 3}
    path = tmp_path / "pruning.checkpoint"
    data = small(()).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)
    for factors in ((), ("sibling",)):
        alone, shared = small(factors, BP(iterations=1)), small(factors, BP(iterations=1))
        history = alone.fit(TRAIN[:30], dev=DEV, **options)
        assert shared.fit(data, **options).dev == history.dev
        assert np.array_equal(alone.model.weights, shared.model.weights)
        assert np.array_equal(alone.pruner.weights, shared.pruner.weights)
    monkeypatch.setattr(HashedObjective, "round", lambda *_, **__: pytest.fail("trained again"))
    again = small(()).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)
    assert np.array_equal(again.arcs.heads, data.arcs.heads) and np.array_equal(again.dev_arcs.mods, data.dev_arcs.mods)
    for other, words in [
        (small((), projective=False), "other trees"),
        (small((), pruning=None), "other pruning"),
        (small((), templates=Templates(size=50_000, cutoff=2)), "other cutoff"),
    ]:
        with pytest.raises(ValueError, match=words):
            other.fit(data)
    with pytest.raises(ValueError, match="development sentences of their own"):
        small(()).fit(data, dev=DEV)
    with pytest.raises(FormatError, match="another run: its pruning was"):
        small((), pruning=None).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)


def test_bad_sentences_stop_training_or_are_left_out() -> None:
    bad = make_sentence(["a", "b"], ["X", "X"], heads=[2, 1])
    with pytest.raises(FormatError, match="cycle"):
        small().fit([*TRAIN[:5], bad])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopwiseWarning)
        small(()).fit([*TRAIN[:5], bad], epochs=1, rate=0.1, skip_bad=True, labels=False)
    assert "left out" in str(caught[0].message) and "cycle: 1 -> 2 -> 1" in str(caught[0].message)
    with pytest.raises(ValueError, match="no sentence with words to train on"):
        small().fit([make_sentence([], [])])
    with pytest.raises(ValueError, match="no sentence with words in the development data"):
        small().fit(TRAIN[:5], dev=[])
    with pytest.raises(ValueError, match="not trained"):
        small().parse(DEV)
