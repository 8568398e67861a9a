"""Saved models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Dedupe
from loopwise.apps.dedupe import Resolution
from loopwise.apps.dedupe.saving import kept, rebuilt
from loopwise.apps.dedupe.training import Method, Way
from loopwise.formats.errors import FormatError
from loopwise.learn.files.fields import Record
from oracles.dedupe_cases import TEST


def test_a_saved_model_answers_the_same(fitted: Dedupe, found: Resolution, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.loopwise")
    loaded = Dedupe.load(tmp_path / "model.loopwise")
    again = loaded.predict(TEST)
    np.testing.assert_array_equal(again.clusters, found.clusters)
    np.testing.assert_array_equal(again.confidence, found.confidence)
    loaded.save(tmp_path / "again.loopwise")
    assert (tmp_path / "again.loopwise").read_bytes() == (tmp_path / "model.loopwise").read_bytes()
    (tmp_path / "cut.loopwise").write_bytes((tmp_path / "model.loopwise").read_bytes()[:500])
    with pytest.raises(FormatError, match="cut off"):
        Dedupe.load(tmp_path / "cut.loopwise")


def test_where_a_walk_begins_is_kept_and_older_files_say_nothing_of_it(fitted: Dedupe) -> None:
    told, tensors = kept(fitted)
    again = rebuilt(Dedupe, Record({**told, "method": "walk", "start": "connected", "join": None}, tensors))
    assert again.trained_.way == Way(Method.WALK, fitted.trained_.way.threshold, Method.CONNECTED)
    older = {name: value for name, value in told.items() if name not in ("start", "join")}
    way = rebuilt(Dedupe, Record(older, tensors)).trained_.way
    assert way.start is Method.AVERAGE and way.join is None


@pytest.mark.parametrize("join", [None, 2.5])
def test_at_which_links_clusters_are_joined_is_kept(fitted: Dedupe, join: float | None) -> None:
    told, tensors = kept(fitted)
    assert rebuilt(Dedupe, Record({**told, "join": join}, tensors)).trained_.way.join == join
    assert told["join"] == fitted.trained_.way.join
