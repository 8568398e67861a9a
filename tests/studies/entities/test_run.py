"""The study of entities: labels, rules by hand, and the whole of it in miniature."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.entities import run
from studies.entities.claims import EntityRun, claims_of
from studies.entities.data import PROBLEMS, labelled_pairs
from studies.entities.protocol import AVERAGE, DEDUPE, ENTITIES, IDS, NONE, OURS, PROTOCOLS, SPLINK, EntityJob, jobs
from studies.entities.single import labels_of
from studies.entities.tools import _joined_at
from studies.harness.results import FULL, QUICK
from studies.harness.study import StudyOrder, reproduce

MADE = PROBLEMS["made"](Path())


def test_jobs_cover_all_tables_before_a_second_draw(tmp_path: Path) -> None:
    todo = jobs(PROTOCOLS[FULL])
    assert len({job.path(tmp_path) for job in todo}) == len(todo)
    assert [job.draw for job in todo] == sorted(job.draw for job in todo)
    assert not any(job.setting == NONE and (job.draw or job.tool == DEDUPE) for job in todo)


def test_labels_are_equal_for_all_tools() -> None:
    told = [labels_of(MADE, EntityJob("made", "100", tool, 1)) for tool in (OURS, DEDUPE, SPLINK)]
    for train, labels, test in told:
        assert train is MADE and test is MADE and labels.pairs is not None and labels.match is not None
        assert np.array_equal(labels.pairs, told[0][1].pairs)
        assert np.array_equal(labels.match, MADE.truth[labels.pairs[:, 0]] == MADE.truth[labels.pairs[:, 1]])
    assert not np.array_equal(labelled_pairs(MADE, 100, 0), labelled_pairs(MADE, 100, 1))


def test_entities_of_the_test_half_are_never_trained_on() -> None:
    train, labels, test = labels_of(MADE, EntityJob("made", IDS, OURS, 0))
    assert labels.ids and not set(train.truth.tolist()) & set(test.truth.tolist())
    assert len(train.truth) + len(test.truth) == len(MADE.truth)


def test_pairs_become_components_or_the_best_partners() -> None:
    pairs = np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([0.9, 0.95, 0.4])
    small = replace(MADE, truth=np.arange(4))
    assert _joined_at(small, pairs, 0.5).tolist() == [0, 0, 0, 1]
    two = replace(small, side=np.array([0, 1, 0, 1]))
    assert _joined_at(two, pairs, 0.1).tolist() == [0, 1, 1, 2], "1 and 2 are surest; 0 and 3 are left"


def found(tool: str, setting: str, draw: int, score: float, **ways: float) -> EntityRun:
    scores = {name: {"pairwise_f1": value, "b_cubed": value} for name, value in {tool: score, **ways}.items()}
    return EntityRun(EntityJob("cora", setting, tool, draw), {"scores": scores, "seconds": 1.0, "peak_mb": 9.0})


def decided(runs: list[EntityRun]) -> dict[str, bool | None]:
    protocol = replace(PROTOCOLS[FULL], problems=("cora",), settings=(NONE, "20", IDS))
    return {claim.id: claim.holds for claim in claims_of(runs, protocol)}


def test_best_or_within_noise() -> None:
    ours = [found(OURS, NONE, 0, 0.8), found(OURS, "20", 0, 0.9), found(OURS, "20", 1, 0.8)]
    ours.append(found(OURS, IDS, 0, 0.9, **{AVERAGE: 0.9, ENTITIES: 0.899}))
    others = [found(SPLINK, NONE, 0, 0.801), found(DEDUPE, "20", 0, 0.8), found(DEDUPE, "20", 1, 0.85)]
    assert decided([*ours, *others])["best-cora-b_cubed"] is None, "not every tool was run with each kind of labels"
    others += [found(SPLINK, "20", 0, 0.8), found(SPLINK, IDS, 0, 0.8)]
    others.append(EntityRun(EntityJob("cora", IDS, DEDUPE, 0), {"failed": "out of time"}))
    told = decided([*ours, *others])
    assert told == {"best-cora-pairwise_f1": True, "best-cora-b_cubed": True, "entities": True, "harm": True}
    worse = decided([*ours, found(SPLINK, NONE, 0, 0.81)])
    assert worse["best-cora-b_cubed"] is False
    steady = decided([*ours, found(DEDUPE, "20", 0, 0.91), found(DEDUPE, "20", 1, 0.81)])
    assert steady["best-cora-b_cubed"] is False, "one point in every draw is no noise"
    assert decided(ours[:2])["best-cora-b_cubed"] is None
    assert decided([found(OURS, NONE, 0, 0.8), found(OURS, "20", 0, 0.7)])["harm"] is False
    lost = found(OURS, IDS, 0, 0.9, **{AVERAGE: 0.9, ENTITIES: 0.89})
    assert decided([lost])["entities"] is False


@pytest.mark.parametrize(
    ("code", "errors", "words"),
    [
        (-24, "", "3 minutes of processor time"),
        (-9, "", "3 minutes of processor time"),
        (1, "a\nno splink", "no splink"),
        (1, "a\nMemoryError: no room", "more than 8 GB"),
    ],
)
def test_a_tool_that_fails_has_its_reason(code: int, errors: str, words: str) -> None:
    done = subprocess.CompletedProcess[str]([], code, "", errors)
    assert words in run._read(done, PROTOCOLS[FULL])["failed"]


def test_a_run_that_somebody_stopped_is_no_result() -> None:
    done = subprocess.CompletedProcess[str]([], -15, "", "warning")
    with pytest.raises(RuntimeError, match="SIGTERM"):
        run._read(done, PROTOCOLS[FULL])


def test_the_whole_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, replace(PROTOCOLS[QUICK], settings=(NONE, IDS)))
    order = StudyOrder(tmp_path, data=tmp_path)
    results, complete = reproduce(run.STUDY, order)
    told: dict[str, Any] = json.loads((tmp_path / "results.json").read_text())
    assert complete and told["paper"] == "entities"
    best = results.find("B-cubed F1", "made, half of the ids", OURS)
    assert best is not None and best.ours is not None and best.ours > 0.9
    assert results.find("B-cubed F1", "made, half of the ids", ENTITIES) is not None
    assert {"seconds", "peak MB"} <= set(results.items())
    assert "model of entities" in (tmp_path / "index.md").read_text()
    again, _ = reproduce(run.STUDY, order)  # nothing is left to run
    assert [cell.ours for cell in again.cells] == [cell.ours for cell in results.cells]
