"""Texts that fit a model, and those that do not."""

from __future__ import annotations

import pytest

from loopwise.apps.chain.features.text import Text, tag_numbers


def test_texts_that_do_not_fit_are_named() -> None:
    text = Text.of([["a", "b"], ["c"]])
    assert tag_numbers([["O", "X"], ["O"]], text, ("O", "X")).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="sentence 1 has 1 words but 2 tags"):
        tag_numbers([["O", "O"], ["O", "O"]], text, ("O",))
    with pytest.raises(ValueError, match="2 sentences but tags of 1"):
        tag_numbers([["O", "O"]], text, ("O",))
    with pytest.raises(ValueError, match=r"sentence 1 has the tag 'B-PRE'.*did you mean 'B-PER'"):
        tag_numbers([["O", "O"], ["B-PRE"]], text, ("O", "B-PER"))
    with pytest.raises(ValueError, match="sentence 1 is the text 'a b'"):
        Text.of([["a"], "a b"])
