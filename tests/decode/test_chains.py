"""Decoders of chains, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.chain import Posterior
from oracles.crf_cases import STATES, fitted, small


def test_answers_are_those_of_enumeration() -> None:
    crf, oracle = fitted(l2=0.1)
    x, y = small()
    marginals, said, logs = crf.predict_marginals(x), crf.predict(x), crf.log_likelihood(x, y)
    by_element = crf.set_params(decoder=Posterior(valid=False)).predict(x)
    for number in range(len(x)):
        shares, paths = oracle.distribution(crf.weights_.vector, number), oracle.paths[number]
        right = np.stack([(shares[:, None] * (paths == state)).sum(0) for state in range(STATES)], axis=1)
        np.testing.assert_allclose(marginals[number], right, atol=1e-10)
        np.testing.assert_array_equal(said[number], paths[shares.argmax()])
        np.testing.assert_array_equal(by_element[number], right.argmax(1))
        assert logs[number] == pytest.approx(np.log(shares[(paths == y[number]).all(1)][0]), abs=1e-9)
    np.testing.assert_array_equal(crf.predict_proba(x)[0], marginals[0])
    assert crf.score(x, y) == np.mean(np.concatenate(by_element) == np.concatenate(y))
