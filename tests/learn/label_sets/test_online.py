"""The perceptron is that of walks."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwise import walk
from loopwise.apps.multilabel import (
    Enumeration,
    LabelPerceptron,
)
from loopwise.walk.models.label_sets import label_documents, label_model
from oracles.label_cases import learn, make_problem


def test_the_perceptron_is_that_of_walks() -> None:
    problem = make_problem(12, labels=3, features=2)

    def decoder(model: walk.Model, document: Any, weights: Any) -> list[int]:
        number = next(place for place, known in enumerate(documents) if known is document)
        inputs = problem.inputs[[number]]
        best: list[int] = Enumeration().decide(problem.start().like(weights), inputs)[0].tolist()
        return best

    documents = label_documents(problem)
    plain = walk.AveragedPerceptron(label_model(problem), decoder, seed=5).fit(documents, epochs=3)
    np.testing.assert_allclose(learn(LabelPerceptron(epochs=3), problem, seed=5).vector, plain.weights, atol=1e-12)
