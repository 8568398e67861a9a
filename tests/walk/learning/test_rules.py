"""What learners do at each step, as a description: what makes no sense is refused."""

from __future__ import annotations

from typing import Any

import pytest

from loopwise import walk
from loopwise.walk.learning.rules import REBUILD, Accept, LearningRule, Towards


def test_the_default_is_the_published_learner() -> None:
    rule = LearningRule()
    assert (rule.atomic, rule.accept_with, rule.towards, rule.rebuild) == (True, Accept.UPDATED, Towards.NONE, REBUILD)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "temperature must be positive and finite, not 0.0"),
        ({"temperature": float("inf")}, "temperature must be positive"),
        ({"tolerance": -1.0}, "tolerance must not be negative, but is -1.0"),
        ({"every": 0}, "every 1 step or more, not every 0"),
        ({"towards": Towards.ALWAYS, "step": walk.MIRA()}, "MIRA needs a margin, and contrastive divergence has none"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LearningRule(**options)
