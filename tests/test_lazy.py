"""Names that are imported when first used."""

from __future__ import annotations

import sys

import pytest

from loopwise.lazy import value_of

HOME = {"math": ("pi", ("root", "sqrt")), "loopwise.formats.lines": ("is_blank",)}


def test_names_and_other_names() -> None:
    import math

    assert value_of("here", HOME, "pi") == math.pi and value_of("here", HOME, "root") is math.sqrt


def test_a_module_is_imported_when_a_name_of_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "loopwise.formats.lines", raising=False)
    value_of("here", HOME, "pi")
    assert "loopwise.formats.lines" not in sys.modules
    assert value_of("here", HOME, "is_blank")(" \t")


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'here' has no attribute 'sqrt'"):
        value_of("here", HOME, "sqrt")
