"""What the compiled sessions do not know goes to others."""

from __future__ import annotations

import pytest

from loopwise import walk
from loopwise.loss.labels import Correct, VariableF1
from loopwise.walk.models.label_sets import LabelSets, label_documents, label_model
from oracles.label_cases import make_problem


def test_what_it_does_not_know_goes_to_others() -> None:
    problem = make_problem(4, labels=3)
    model, documents = label_model(problem), label_documents(problem)
    metric = VariableF1(variables=3)
    assert isinstance(
        LabelSets().open(model, documents, walk.GibbsChange(), metric), walk.compiled_session.CompiledSession
    )
    learner = walk.SampleRank(model, walk.GibbsChange(), metric=Correct(), step=walk.AdaGrad(), engine=LabelSets())
    with pytest.raises(ValueError, match="AdaGrad"):
        learner.fit(documents, steps=3)
    answers = walk.SampleRank(model, walk.GibbsChange(), metric=Correct(), engine=LabelSets()).decode_all(
        documents, steps=9
    )
    assert all(answer.shape == (3,) for answer in answers)
