"""Errors of formats."""

from __future__ import annotations

import pickle

from loopwise.formats import FormatError


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(FormatError("a.uai", 3, "too short")))
    assert (str(error), error.path, error.line) == ("a.uai, line 3: too short", "a.uai", 3)
