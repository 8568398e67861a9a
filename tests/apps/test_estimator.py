"""What all estimators share: options of options, clones."""

from __future__ import annotations

from typing import Any

import pytest

import loopwise as lw
from loopwise.apps import ChainCRF, GridCRF, MRFClassifier, MultiLabel
from loopwise.apps.multilabel import ERM, Perceptron
from loopwise.apps.table import Grid, ToOutputs
from loopwise.apps.tagger import SVM

base = pytest.importorskip("sklearn.base")


def test_options_of_options() -> None:
    model = MRFClassifier(loss=lw.loss.FBeta(beta=2.0), inference=lw.BP(iterations=5))
    options = model.get_params()
    assert options["loss__beta"] == 2.0 and options["inference__iterations"] == 5
    assert "loss__beta" not in model.get_params(deep=False) and "loss__beta" not in repr(model)
    before = model.inference
    model.set_params(inference__iterations=3, loss__beta=0.5, l2=2.0)
    assert (model.inference.iterations, model.loss.beta, model.l2, before.iterations) == (3, 0.5, 2.0, 5)
    model.set_params(inference=lw.TRW(), inference__iterations=7)
    assert isinstance(model.inference, lw.TRW) and model.inference.iterations == 7
    nested = MultiLabel(ERM()).set_params(learner__inference__iterations=2, learner__begin__l2=3.0)
    assert nested.learner.inference.iterations == 2 and nested.learner.begin.l2 == 3.0
    for wrong, words in (
        ({"loss__gamma": 1}, "FBeta has no parameter 'gamma'"),
        ({"structure__rows": 1}, "structure is None"),
        ({"colour": 1}, "no parameter 'colour'"),
    ):
        with pytest.raises(ValueError, match=words):
            model.set_params(**wrong)
    with pytest.raises(ValueError, match="iterations must be"):
        model.set_params(inference__iterations=-1)


@pytest.mark.parametrize(
    "model",
    [
        MRFClassifier(ToOutputs(), loss=lw.loss.F1(), class_weight={0: 2.0}, inference=lw.BP(iterations=3)),
        MRFClassifier(Grid(2, 3), decoder=lw.decode.SoftArgmax(0.3), hidden=(2,)),
        ChainCRF(learner=SVM(), class_weight="balanced", l2=0.3),
        MultiLabel(Perceptron(2), seed=4),
        GridCRF(states=3, class_weight="balanced", prior=lw.prior.L2(0.1)),
    ],
)
def test_clones(model: Any) -> None:
    twin = base.clone(model)
    assert type(twin) is type(model) and twin is not model
    shallow = model.get_params(deep=False)
    assert {name: repr(value) for name, value in twin.get_params(deep=False).items()} == {
        name: repr(value) for name, value in shallow.items()
    }
