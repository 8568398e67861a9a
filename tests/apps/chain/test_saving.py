"""Models with links in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import Tagger
from loopwise.apps.chain import Skip
from loopwise.formats.errors import FormatError
from loopwise.learn.files.container import write_container
from oracles.skip_cases import DOCUMENTS, EXACT, SKIP, fitted


@pytest.mark.parametrize("skip", [SKIP, Skip(SKIP, None, lw.BP(iterations=7, tolerance=0)), EXACT])
def test_saved_and_loaded(skip: Any, tmp_path: Path) -> None:
    tagger = fitted(skip)
    tagger.save(tmp_path / "t.loopwise")
    again = Tagger.load(tmp_path / "t.loopwise")
    assert again._skip == tagger._skip
    for one, two in zip(again.predict_marginals(DOCUMENTS), tagger.predict_marginals(DOCUMENTS), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    tagger = fitted()
    path = tmp_path / "t.loopwise"
    described, tensors = tagger._kept()
    for wrong in ({"equal": [True]}, {"neighbours": 0}, {"inference": 3}, {"equal": "w[0] lower[0]"}):
        told = {**described, "skip": {**described["skip"], **wrong}}
        write_container(path, tensors, {"app": "Tagger", **told})
        with pytest.raises(FormatError):
            Tagger.load(path)


def test_inference_with_weights_of_its_own_is_not_saved(tmp_path: Path) -> None:
    method = lw.BP(iterations=2, tolerance=0, weights=lw.MessageWeights(damping=0.5))
    tagger = fitted(SKIP).set_params(skip=Skip(SKIP, inference=method))
    with pytest.raises(ValueError, match="weights of its own"):
        tagger.save(tmp_path / "t.loopwise")
