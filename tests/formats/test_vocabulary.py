"""Vocabularies of tables."""

from __future__ import annotations

import pytest

from loopwise.formats.table import Vocabulary


def test_vocabularies_are_checked() -> None:
    with pytest.raises(ValueError, match="two variables are called 'a'"):
        Vocabulary(("a", "a"), (("0",), ("0",)))
    with pytest.raises(ValueError, match="two values of variable 'a' are called '0'"):
        Vocabulary(("a",), (("0", "0"),))
    with pytest.raises(ValueError, match="labels for 2"):
        Vocabulary(("a",), (("0",), ("1",)))
