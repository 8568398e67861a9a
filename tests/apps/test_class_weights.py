"""Weights of classes are repetitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import MRFClassifier
from loopwise.apps.class_weights import ClassWeighted, ClassWeightedObjective
from loopwise.graph.evidence import FREE
from oracles.table_cases import weather

EXACT = lw.Exact()  # whose kernels, unlike those of BP, are the same for all sizes: less to compile


def test_class_weights_are_repetitions() -> None:
    """Rows of weight 3 are rows that come three times: in likelihood and in losses of answers."""
    x, y = weather(70, seed=2)
    y = np.where(y[:, 0] == 1, "walk", "stay")
    again = np.concatenate([np.arange(70), *[np.flatnonzero(y == "walk")] * 2])
    for loss in (None, lw.loss.MSE(), lw.loss.UnivariateLikelihood()):
        options = {"loss": loss, "inference": EXACT, "tolerance": 1e-14, "iterations": 400}
        heavy = MRFClassifier(class_weight={"walk": 3.0}, l2=1.0, **options).fit(x, y)
        if loss is not None:  # weighted means are over the sum of weights, and the penalty is over rows
            options["l2"] = len(again) / 70
        more = MRFClassifier(**options).fit(x[again], y[again])
        np.testing.assert_allclose(heavy.predict_proba(x), more.predict_proba(x), atol=2e-4)
        assert (
            np.abs(heavy.predict_proba(x) - MRFClassifier(loss=loss, inference=EXACT).fit(x, y).predict_proba(x)).max()
            > 0.02
        )


def test_weighted_losses_by_hand() -> None:
    x, y = weather(30, seed=3)
    partial = y.astype(float)
    partial[4, 0] = partial[5, 1] = partial[6] = np.nan
    model = MRFClassifier(inference=EXACT, class_weight=[{0: 0.5, 1: 2.0}, "balanced"], iterations=5).fit(x, partial)
    codes = model._answers.encode(partial)
    weights = model._state_weights(codes)
    ones = np.nansum(partial[:, 1])
    known = 28  # answers of the second output
    by_output = [np.array([0.5, 2.0]), np.array([known / (2 * (known - ones)), known / (2 * ones)])]
    start = model.system_.graph.layout.state_start
    for place in range(2):
        np.testing.assert_allclose(weights[start[3 + place] : start[4 + place]], by_output[place])
    examples = model._examples(model._columns.codes(x), codes)
    shares = model.predict_proba(x)
    top = bottom = 0.0
    for row, place in product(range(30), range(2)):
        if codes[row, place] != FREE:
            weight = by_output[place][codes[row, place]]
            top += weight * (1 - shares[place][row, codes[row, place]]) ** 2  # of two values: half the distance
            bottom += weight
    loss = ClassWeighted(loss=lw.loss.MSE(), weights=weights)
    assert loss(model.system_.beliefs(examples), examples.targets).item() == pytest.approx(top / bottom, abs=1e-12)
    objective = ClassWeightedObjective(lw.loss.SurrogateLikelihood(), weights)
    system = model.system_
    plain = lw.loss.SurrogateLikelihood().per_example(
        system.inference, system.graph, system.tables(), examples.evidence
    )
    product_of = [
        np.prod([by_output[place][codes[row, place]] for place in range(2) if codes[row, place] != FREE])
        for row in range(30)
    ]
    mine = objective.per_example(system.inference, system.graph, system.tables(), examples.evidence)
    np.testing.assert_allclose(mine.detach().numpy(), plain.detach().numpy() * np.array(product_of), atol=1e-12)
