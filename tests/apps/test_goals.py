"""From the loss a user names to what is trained."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.goals import checked_goal, decoder_for, positive_values
from loopwise.loss.reduction import Mean, Pooled

CLASSES = [np.array(["no", "yes"]), np.array(["no", "yes"])]


def test_labels_become_numbers() -> None:
    assert positive_values(CLASSES, "yes") == [1] and positive_values(CLASSES, ["no", "yes"]) == [0, 1]
    with pytest.raises(ValueError, match="positive is 'maybe', which is no class of y"):
        positive_values(CLASSES, "maybe")
    with pytest.raises(ValueError, match="not the same one in every output"):
        positive_values([CLASSES[0], np.array(["yes", "no"])], "yes")


def test_an_f_measure_of_one_output_is_over_all_rows() -> None:
    alone, several = checked_goal(lw.loss.F1(), CLASSES[:1], "yes"), checked_goal(lw.loss.F1(), CLASSES, "yes")
    assert isinstance(alone.reduction, Pooled) and isinstance(several.reduction, Mean)
    assert list(alone.positive) == [1]


def test_other_goals_stay_as_they_are() -> None:
    loss = lw.loss.MSE()
    assert checked_goal(loss, CLASSES, None) is loss
    assert isinstance(checked_goal(None, CLASSES, None), lw.loss.SurrogateLikelihood)
    with pytest.raises(ValueError, match="positive is about F measures; MSE has no positive class"):
        checked_goal(loss, CLASSES, "yes")
    with pytest.raises(ValueError, match=r"loss must be one of lw\.loss"):
        checked_goal("f1", CLASSES, None)


def test_decoders_that_go_with_losses() -> None:
    assert isinstance(decoder_for(lw.loss.SurrogateLikelihood()), lw.decode.Max)
    assert isinstance(decoder_for(lw.loss.F1()), lw.decode.SoftArgmax)
    assert isinstance(decoder_for(lw.loss.MSE()), lw.decode.Identity)
