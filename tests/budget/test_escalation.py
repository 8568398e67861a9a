"""When a dearer system pays: regression against its closed form, decisions against the price."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]

from loopwise.budget import Escalation


def data(count: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    return features, features @ [0.5, 0.02, -1.0] + 0.1 * rng.normal(size=count)


def test_gains_are_those_of_ridge_regression() -> None:
    features, gains = data()
    scaled = (features - features.mean(0)) / features.std(0)
    other = Ridge(alpha=2.5).fit(scaled, gains)
    rule = Escalation.fit(features, gains, strength=2.5)
    np.testing.assert_allclose(rule.gain(features), other.predict(scaled), atol=1e-10)


def test_the_rule_minimises_what_it_expects_to_pay() -> None:
    features, gains = data()
    rule, costs = Escalation.fit(features, gains), np.random.default_rng(1).random(60)
    for price in (0.0, 0.2, 1.0, 5.0):
        dear = rule.chosen(features, costs, price)
        expected = np.where(dear, price * costs - rule.gain(features), 0.0)
        assert expected.sum() <= min(0.0, (price * costs - rule.gain(features)).sum()) + 1e-12
        assert (expected <= 1e-12).all()
    assert rule.chosen(features, costs, 1e9).sum() == 0


def test_constant_features_and_a_single_example() -> None:
    rule = Escalation.fit([[1.0, 7.0]], [0.4])
    np.testing.assert_allclose(rule.gain([[1.0, 7.0], [1.0, 8.0]]), 0.4)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="a row an example"):
        Escalation.fit([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="one for each of 2 examples"):
        Escalation.fit([[1.0], [2.0]], [0.0])
    with pytest.raises(ValueError, match="no examples"):
        Escalation.fit(np.zeros((0, 2)), [])
    with pytest.raises(ValueError, match="strength must be"):
        Escalation.fit([[1.0]], [0.0], strength=-1.0)
    rule = Escalation.fit([[1.0], [2.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="knows 1 features, but 2"):
        rule.gain([[1.0, 2.0]])
    with pytest.raises(ValueError, match="at least 0, not -1"):
        rule.chosen([[1.0]], [1.0], -1.0)
