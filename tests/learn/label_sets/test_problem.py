"""Problems with label sets."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.learn.label_sets.problem import LabelProblem
from oracles.label_cases import LEARNERS, learn, make_problem


@pytest.mark.parametrize("name", ["svm", "pegasos", "perceptron", "likelihood"])
def test_sparse_inputs_give_what_dense_ones_do(name: str) -> None:
    scant = make_problem(40, labels=4, scant=True)
    dense = LabelProblem(np.ascontiguousarray(scant.inputs.toarray()), scant.gold)
    one, other = (learn(LEARNERS[name], problem).vector for problem in (scant, dense))
    np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
