"""A training that was stopped goes on to the same weights, bit for bit, whatever the learner and the moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.chain import (
    ChainERM,
    ChainLearner,
    ChainLikelihood,
    ChainPerceptron,
    ChainSampleRank,
    ChainSVM,
    Tagger,
)
from loopwise.formats.errors import FormatError
from oracles.interruptions import StoppedError, always_written, stop_at
from oracles.tagger_text import names

LEARNERS: dict[str, ChainLearner] = {
    "likelihood": ChainLikelihood(l2=0.3, iterations=12, tolerance=1e-12),
    "converged": ChainLikelihood(l2=3.0, iterations=100, tolerance=1e-3),
    "seen only": ChainLikelihood(l2=0.3, iterations=12, memory=2, seen_only=True),
    "erm": ChainERM(l2=0.3, iterations=5, begin=ChainLikelihood(l2=0.3, iterations=6)),
    "perceptron": ChainPerceptron(5),
    "svm": ChainSVM(0.1, 5),
    "samplerank": ChainSampleRank(5),
    "samplerank, previous": ChainSampleRank(5, start=lw.walk.Start.PREVIOUS, proposal=lw.walk.GibbsChange(scan=True)),
}
TEMPLATES = "w[0] is_title[0] lower[-1]|lower[0] bias"


@pytest.fixture(autouse=True)
def _always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    always_written(monkeypatch)


def make(learner: ChainLearner, steps: str = "") -> Tagger:
    return Tagger(TEMPLATES, steps, learner=learner, threads=1, seed=2)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stopped_training_ends_with_the_same_weights(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, steps = LEARNERS[name], "w[0]" if name in ("likelihood", "perceptron") else ""
    text, dev = names(30), names(10, seed=1)
    whole = make(learner, steps).fit(*text, dev=dev)
    rounds = len(whole.history_.epochs)
    assert rounds >= 4
    for moment in {2, rounds // 2 + 1, rounds}:
        path = tmp_path / str(moment)
        with monkeypatch.context() as patched, pytest.raises(StoppedError):
            stop_at(moment, patched)
            make(learner, steps).fit(*text, dev=dev, checkpoint=path)
        again = make(learner, steps).fit(*text, dev=dev, checkpoint=path)
        assert np.array_equal(again.weights_.vector, whole.weights_.vector), moment
        assert again.history_.losses == whole.history_.losses and again.history_.dev == whole.history_.dev
        assert (again.history_.best, again.history_.ended) == (whole.history_.best, whole.history_.ended)
    with monkeypatch.context() as patched:
        stop_at(1, patched)
        finished = make(learner, steps).fit(*text, dev=dev, checkpoint=path)  # nothing is done again
    assert np.array_equal(finished.weights_.vector, whole.weights_.vector)
    assert finished.history_.losses == whole.history_.losses


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from oracles.tagger_text import names
from loopwise.apps.chain import ChainPerceptron, Tagger

replace, count = os.replace, [0]

def third_time(*paths):  # the new file is written, the old one not yet replaced
    count[0] += 1
    if count[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = third_time
from loopwise.learn.files import ledger
ledger.Ledger.keep.__globals__["time"].perf_counter = lambda: 0.0  # writing takes no time
Tagger("w[0] bias", learner=ChainPerceptron(6), threads=1).fit(*names(30), checkpoint=sys.argv[2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal here")
def test_a_process_killed_while_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, str(Path(__file__).parents[2]), str(path)], timeout=300)
    assert done.returncode == -signal.SIGKILL
    heard: list[int] = []
    again = Tagger("w[0] bias", learner=ChainPerceptron(6), threads=1)
    again.fit(*names(30), checkpoint=path, callback=lambda epoch: heard.append(epoch.number))
    whole = Tagger("w[0] bias", learner=ChainPerceptron(6), threads=1).fit(*names(30))
    assert heard == [3, 4, 5, 6]  # two epochs were kept
    assert np.array_equal(again.weights_.vector, whole.weights_.vector)


def test_a_training_without_a_checkpoint_is_the_same(tmp_path: Path) -> None:
    text = names(20)
    for learner in (ChainLikelihood(iterations=8), ChainPerceptron(3)):
        one, other = make(learner).fit(*text), make(learner).fit(*text, checkpoint=tmp_path / type(learner).__name__)
        assert np.array_equal(one.weights_.vector, other.weights_.vector)


def test_another_training_is_refused_by_name(tmp_path: Path) -> None:
    path, text = tmp_path / "run", names(20)
    learner = ChainSampleRank(2)
    make(learner).fit(*text, checkpoint=path)
    others = {
        "learner": (make(ChainSampleRank(2, start=lw.walk.Start.RANDOM)), text, None),
        "training data": (make(learner), names(20, seed=5), None),
        "seed": (make(learner).set_params(seed=9), text, None),
        "development data": (make(learner), text, names(5)),
    }
    for what, (tagger, words, dev) in others.items():
        with pytest.raises(FormatError, match=f"another run: its {what} was"):
            tagger.fit(*words, dev=dev, checkpoint=path)
