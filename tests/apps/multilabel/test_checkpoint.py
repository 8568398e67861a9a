"""A training that was stopped goes on to the same weights, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise import walk
from loopwise.apps.multilabel import (
    LabelCD,
    LabelERM,
    LabelLearner,
    LabelLikelihood,
    LabelPegasos,
    LabelPerceptron,
    LabelSampleRank,
    LabelSampleRankSVM,
    MultiLabel,
)
from loopwise.formats.errors import FormatError
from oracles.interruptions import StoppedError, always_written, stop_at
from oracles.label_cases import make_data

LEARNERS: dict[str, LabelLearner] = {
    "samplerank": LabelSampleRank(epochs=4, sweeps=3),
    "svm, previous": LabelSampleRankSVM(epochs=4, sweeps=3, start=walk.Start.PREVIOUS),
    "cd": LabelCD(epochs=4, sweeps=3),
    "perceptron": LabelPerceptron(4),
    "pegasos": LabelPegasos(0.1, 4),
    "likelihood": LabelLikelihood(iterations=6),
    "erm": LabelERM(iterations=3, begin=LabelLikelihood(iterations=3)),
}


@pytest.fixture(autouse=True)
def _always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    always_written(monkeypatch)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stopped_training_ends_with_the_same_weights(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, dev, path = make_data(30), make_data(20, seed=3), tmp_path / "run"
    whole = MultiLabel(LEARNERS[name], seed=2).fit(*data, dev=dev, progress=False)
    for moment in (3, 4):  # stopped twice
        with monkeypatch.context() as patched, pytest.raises(StoppedError):
            stop_at(moment, patched)
            MultiLabel(LEARNERS[name], seed=2).fit(*data, dev=dev, progress=False, checkpoint=path)
    again = MultiLabel(LEARNERS[name], seed=2).fit(*data, dev=dev, progress=False, checkpoint=path)
    assert np.array_equal(again.weights_.vector, whole.weights_.vector)
    assert again.history_.losses == whole.history_.losses and again.history_.dev == whole.history_.dev
    with monkeypatch.context() as patched:
        stop_at(1, patched)  # what is finished is not done again
        finished = MultiLabel(LEARNERS[name], seed=2).fit(*data, dev=dev, progress=False, checkpoint=path)
    assert np.array_equal(finished.weights_.vector, whole.weights_.vector)


@pytest.mark.parametrize("changed", ["learner", "training data", "seed", "development data"])
def test_another_training_is_refused(changed: str, tmp_path: Path) -> None:
    path, data, dev = tmp_path / "run", make_data(30), make_data(20, seed=3)
    MultiLabel(LabelPerceptron(2)).fit(*data, dev=dev, progress=False, checkpoint=path)
    learner = LabelPerceptron(3 if changed == "learner" else 2)
    if changed == "training data":
        data = make_data(30, seed=8)
    if changed == "development data":
        dev = make_data(20, seed=9)
    with pytest.raises(FormatError, match=f"its {changed} was"):
        MultiLabel(learner, seed=int(changed == "seed")).fit(*data, dev=dev, progress=False, checkpoint=path)
