"""Learning that was stopped goes on to the same weights, bit for bit; a checkpoint of another run is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.formats.errors import FormatError
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document

Make = Callable[[], tuple[walk.Learner, list[Any]]]


class StoppedError(Exception):
    """Stands for a process that ends."""


def clusters(kind: Any, **options: Any) -> Make:
    documents = [mention_document(5, seed=seed) for seed in range(4)]
    return lambda: (kind(cluster_model(), walk.MentionMover(), metric=lw.metric.BCubed(), **options), documents)


def chains(kind: Any, **options: Any) -> Make:
    return lambda: (kind(chain_model(), walk.GibbsChange(), metric=lw.metric.Accuracy(), **options), chain_documents())


CASES: dict[str, tuple[Make, dict[str, Any]]] = {
    "clusters": (clusters(walk.SampleRank, step=walk.MIRA()), {}),
    "adagrad": (chains(walk.SampleRank, step=walk.AdaGrad()), {}),
    "last epoch": (chains(walk.SampleRank, averaging=walk.Averaging(last_epoch=True)), {}),
    "previous": (chains(walk.PCD, start=walk.Start.PREVIOUS), {}),
    "previous, shards": (clusters(walk.PCD, start=walk.Start.PREVIOUS), {"shards": 2}),
    "mixed, plain": (chains(walk.Hybrid, start=walk.Start.MIXED, engine=walk.Plain()), {}),
}


def stopped_after(epochs: int, name: str, path: Path) -> None:
    make, options = CASES[name]
    learner, documents = make()

    def stop(epoch: walk.WalkEpoch) -> None:
        if epoch.number == epochs:
            raise StoppedError

    with pytest.raises(StoppedError):
        learner.fit(documents, steps=20, epochs=4, after_epoch=stop, checkpoint=path, **options)


def assert_same(one: walk.Learner, other: walk.Learner) -> None:
    assert np.array_equal(one.raw, other.raw) and np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.state.squares, other.state.squares)
    assert one.tally == other.tally and one.epochs == other.epochs


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_learner_goes_on_to_the_same_weights(name: str, tmp_path: Path) -> None:
    make, options = CASES[name]
    whole, documents = make()
    whole.fit(documents, steps=20, epochs=4, **options)
    assert whole.tally.updates > 0
    path = tmp_path / "run"
    stopped_after(1, name, path)
    again = make()[0]
    with pytest.raises(StoppedError):  # and once more
        again.fit(documents, steps=20, epochs=4, checkpoint=path, after_epoch=_stop_at(3), **options)
    last = make()[0].fit(documents, steps=20, epochs=4, checkpoint=path, **options)
    assert_same(last, whole)
    finished = make()[0].fit(documents, steps=20, epochs=4, checkpoint=path, after_epoch=_never, **options)
    assert_same(finished, whole)
    longer = make()[0].fit(documents, steps=20, epochs=6, checkpoint=path, **options)
    assert_same(longer, make()[0].fit(documents, steps=20, epochs=6, **options))


def _stop_at(number: int) -> Callable[[walk.WalkEpoch], None]:
    def stop(epoch: walk.WalkEpoch) -> None:
        if epoch.number == number:
            raise StoppedError

    return stop


def _never(epoch: walk.WalkEpoch) -> None:
    raise AssertionError("a finished run was repeated")


def test_another_run_is_refused_by_name(tmp_path: Path) -> None:
    path, name = tmp_path / "run", "clusters"
    stopped_after(2, name, path)
    make, _ = CASES[name]
    learner, documents = make()
    for what, options, rest in (
        ("steps", {"steps": 21}, documents),
        ("documents", {"steps": 20}, documents[1:]),
        ("start", {"steps": 20, "start": walk.Start.SINGLETONS}, documents),
        ("shards", {"steps": 20, "shards": 2}, documents),
    ):
        with pytest.raises(FormatError, match=f"another run: its {what} was"):
            make()[0].fit(rest, epochs=4, checkpoint=path, **options)
    for what, other in (
        ("rule", clusters(walk.SampleRank, step=walk.MIRA(), accept_with=walk.Accept.STALE)),
        ("rule", clusters(walk.SampleRank, step=walk.MIRA(0.5))),
        ("seed", clusters(walk.SampleRank, step=walk.MIRA(), seed=1)),
        ("learner", clusters(walk.SampleRankSVM, step=walk.MIRA())),
    ):
        with pytest.raises(FormatError, match=f"another run: its {what} was"):
            other()[0].fit(documents, steps=20, epochs=4, checkpoint=path)
    learner.set_weights(np.ones(learner.model.size))
    with pytest.raises(FormatError, match="another run: its beginning was"):
        learner.fit(documents, steps=20, epochs=4, checkpoint=path)


def test_states_of_another_model_are_refused() -> None:
    one, other = CASES["clusters"][0]()[0], CASES["adagrad"][0]()[0]
    with pytest.raises(ValueError, match="does not fit"):
        one.load_state_dict(other.state_dict())


def test_a_stopped_perceptron_goes_on(tmp_path: Path) -> None:
    documents = chain_documents((3, 6, 4))  # a token alone has no pair, which exact decoding asks for

    def make() -> walk.AveragedPerceptron:
        return walk.AveragedPerceptron(chain_model(), walk.ExactDecoder(), seed=3)

    whole = make().fit(documents, epochs=4)
    make().fit(documents, epochs=2, checkpoint=tmp_path / "run")
    last = make().fit(documents, epochs=4, checkpoint=tmp_path / "run")
    assert np.array_equal(last.weights, whole.weights) and last.mistakes == whole.mistakes and whole.mistakes[0] > 0
    with pytest.raises(FormatError, match="its documents was"):
        make().fit(documents[:-1], epochs=4, checkpoint=tmp_path / "run")
