"""The averaged perceptron."""

from __future__ import annotations

from loopwise import walk
from oracles.walk_cases import separable


def test_the_averaged_perceptron() -> None:
    model, documents = separable()
    last = walk.Averaging(last_epoch=True)  # without mistakes in it, and so of one vector
    learner = walk.AveragedPerceptron(model, walk.ExactDecoder(), averaging=last).fit(documents, epochs=15)
    assert learner.mistakes[0] > 0 and learner.mistakes[-1] == 0
    for document in documents:
        assert learner.decode(document).tolist() == document.truth.tolist()
    annealed = walk.AnnealedDecoder(walk.GibbsChange())
    assert learner.decode(documents[0], annealed).tolist() == documents[0].truth.tolist()
