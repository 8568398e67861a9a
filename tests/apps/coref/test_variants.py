"""Every way of learning learns."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.coref import Coref, CorefReport, published_variants, singletons
from oracles.coref_cases import TEST, TRAIN


@pytest.mark.parametrize("way", published_variants(), ids=lambda way: way.name)
def test_every_way_learns(way: object, fitted: Coref) -> None:
    featuriser = fitted.featuriser_
    train, test = [featuriser(document) for document in TRAIN], [featuriser(document) for document in TEST]
    coref = Coref(way, rounds=1, steps=1000, decode_steps=3000).fit_prepared(featuriser, train, progress=False)  # type: ignore[arg-type]
    alone = CorefReport.of(TEST, [singletons(document) for document in TEST]).mean.b_cubed
    assert CorefReport.of(TEST, coref.predict_prepared(test)).mean.b_cubed > alone
    assert coref.training_.tally.updates > 0 and np.isfinite(coref.weights_).all()
