"""Table 1 of the SampleRank paper: folds and parts, averages and tests, claims that can fail, going on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loopwise.apps.coref import made_documents, published_variants
from studies.harness.page import write_pages
from studies.harness.results import FULL, QUICK, Deadline, Results
from studies.harness.study import StudyOrder, reproduce
from studies.samplerank import run as samplerank
from studies.samplerank.coref import constraints as violations
from studies.samplerank.coref.claims import claims
from studies.samplerank.coref.data import cut, find_gum, folds, held_out, split_documents
from studies.samplerank.coref.tables import (
    ACTIVE,
    F1,
    LEARNERS,
    LONGER,
    PRINTED,
    SECONDS,
    CorefRuns,
    cells,
    paired,
    run_table1,
)
from studies.samplerank.coref.training import (
    ALONE,
    CUT,
    HEADS,
    INNER,
    PROTOCOLS,
    WHOLE,
    CorefJob,
    CorefProtocol,
    StepSetting,
    chosen_setting,
    jobs,
    settings,
    varied,
)

TINY = CorefProtocol(
    items=(CUT,), made=6, most=40, folds=2, rounds=1, steps=200, decode_steps=400, sweeps=10, factors=(1.0,)
)
FEW = violations.ConstraintsProtocol(sizes=(5, 20, 80), repeats=2, fresh=300, documents=3, mentions=10, restart=10)


def test_the_published_protocol() -> None:
    full = PROTOCOLS[FULL]
    assert (full.rounds, full.steps, full.decode_steps, full.folds) == (4, 4000, 8000, 3)
    assert full.count is None and set(LEARNERS) == set(PRINTED)
    assert len(jobs(full)) == 2 * 3 * 8 + 3 * 18 * 3  # and settings: 18 kinds of steps in each fold, of three sizes


def test_parts_are_whole_sentences_and_lose_nothing() -> None:
    document = made_documents(1, mentions=90)[0]
    parts = cut(document, 25)
    assert len(parts) == -(-len(document.mentions) // 25)
    assert sum((part.words for part in parts), ()) == document.words
    assert sum(len(part.mentions) for part in parts) == len(document.mentions)
    assert max(len(part.mentions) for part in parts) <= 25 + 2  # a sentence has two mentions
    offset, number = 0, 0
    for part in parts:
        assert part.sentence_start[0] == 0 and part.sentence_start[-1] == len(part.words)
        assert [word for tree in part.trees for word in tree.forms] == list(part.words)
        for mention in part.mentions:
            whole = document.mentions[number]
            assert (mention.first + offset, mention.last + offset, mention.entity) == (
                whole.first,
                whole.last,
                whole.entity,
            )
            number += 1
        offset += len(part.words)
    assert cut(document, 1000) == [document]


def test_folds_are_a_partition_of_documents() -> None:
    whole = made_documents(7, mentions=50)
    parts = folds(len(whole), 3, seed=1)
    assert sorted(place for fold in parts for place in fold) == list(range(7))
    assert folds(7, 3, seed=1) == parts != folds(7, 3, seed=2)
    train, test = split_documents(whole, parts[0], 20)
    names = {document.name.split(".")[0] for document in test}
    assert names == {whole[place].name for place in parts[0]}
    assert names.isdisjoint(document.name.split(".")[0] for document in train)


def test_settings_are_chosen_on_training_documents_of_the_fold(tmp_path: Path) -> None:
    pcd = next(way for way in published_variants() if way.name == "PCD")
    tried = settings(pcd, PROTOCOLS[FULL].factors)
    assert len(tried) == 9 and {each.kind for each in tried} == {"constant", "decaying", "AdaGrad"}
    places = held_out(20, 4, seed=0, fold=1)
    assert len(places) == 5 and places == held_out(20, 4, 0, 1) != held_out(20, 4, 0, 2) and max(places) < 20
    for fold, best in enumerate((4, 0)):
        for place, each in enumerate(tried):
            score = 0.8 if place == best else 0.7
            CorefJob(INNER, fold, "PCD", each).path(tmp_path).write_text(json.dumps({"mean": score}))
    assert [chosen_setting(tmp_path, PROTOCOLS[FULL], fold, pcd) for fold in (0, 1)] == [tried[4], tried[0]]
    order = jobs(PROTOCOLS[FULL])
    for place, job in enumerate(order):  # all settings are tried before they are needed
        if job.item != INNER and job.way in LEARNERS:
            way = next(way for way in published_variants() if way.name == job.way)
            wanted = settings(way, PROTOCOLS[FULL].factors)
            assert all(CorefJob(INNER, job.fold, job.way, each) in order[:place] for each in wanted)


def test_kinds_of_steps_of_each_way() -> None:
    kinds = {
        way.name: list(dict.fromkeys(each.kind for each in settings(way, (1.0, 10.0)))) for way in published_variants()
    }
    rated = ["constant", "decaying", "AdaGrad"]
    assert kinds == {
        "SampleRank (MIRA)": ["MIRA"], "SampleRank": rated, "SampleRank-SVM-1": [*rated, "MIRA"], "CD-1": rated,
        "SampleRank-SVM": [*rated, "MIRA"], "PCD": rated,
    }  # fmt: skip
    for way in published_variants():
        own = {"Unit": "constant", "Decaying": "decaying", "MIRA": "MIRA"}[type(way.step).__name__]
        assert varied(way, StepSetting(own)) == way  # as published, where a factor is 1
        for each in settings(way, (10.0,)):
            made = varied(way, each)
            assert made != way and made.learner is way.learner and made.metric == way.metric
            if each.kind == "MIRA":
                assert made.margin is not None and made.margin.constant == 100.0
            else:
                assert made.margin == way.margin and made.step.numbers[0] == (1.0 if each.kind == "AdaGrad" else 10.0)


def put(runs: Path, item: str, way: str, fold: int, scores: dict[str, float], **more: float) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    rows = {name: [value, 1.0, 1.0, 1.0] for name, value in scores.items()}
    entry: dict[str, Any] = {"seconds": 1.0, "active": 10.0, "weights": 500, "scores": rows, "longer": rows, **more}
    CorefJob(item, fold, way).path(runs).write_text(json.dumps(entry))


def made_study(runs: Path, better: bool) -> CorefRuns:
    """Runs for which all claims hold, or none does."""
    random = np.random.default_rng(0)
    base = 0.6 + 0.02 * random.random(30)
    for item in (CUT, WHOLE):
        for place, way in enumerate((*LEARNERS, HEADS, ALONE)):
            lift = 0.2 if place < 2 else 0.05 if way in LEARNERS else 0.0
            if not better:
                lift = 0.02 * place
            values = base + lift + 0.002 * random.standard_normal(30)
            scores = {f"d{number}": float(value) for number, value in enumerate(values)}
            active = 300.0 if better and way in ("SampleRank-SVM", "PCD") else 10.0
            put(runs, item, way, 0, scores, active=active, seconds=9.0 if (way == "PCD") == better else 2.0)
    return CorefRuns(runs, CorefProtocol(folds=1))


def test_claims_hold_or_not(tmp_path: Path) -> None:
    good = {claim.id: claim for claim in claims(made_study(tmp_path / "good", better=True))}
    assert all(claim.rule for claim in good.values())
    assert all(claim.holds for claim in good.values()), [claim for claim in good.values() if not claim.holds]
    bad = {claim.id: claim for claim in claims(made_study(tmp_path / "bad", better=False))}
    assert not any(claim.holds for claim in bad.values()), [claim for claim in bad.values() if claim.holds]
    assert all(claim.holds is None for claim in claims(CorefRuns(tmp_path / "none", PROTOCOLS[FULL])))


def test_means_errors_and_t_tests(tmp_path: Path) -> None:
    put(tmp_path, CUT, LEARNERS[0], 0, {"a": 0.9, "b": 0.7}, seconds=2.0, active=20.0)
    put(tmp_path, CUT, LEARNERS[0], 1, {"c": 0.5}, seconds=4.0, active=30.0)
    put(tmp_path, CUT, LEARNERS[1], 0, {"a": 0.8, "b": 0.65})
    put(tmp_path, CUT, LEARNERS[1], 1, {"c": 0.51})
    study = CorefRuns(tmp_path, CorefProtocol(items=(CUT,), folds=2))
    found = {(cell.row, cell.column): cell for cell in cells(study)}
    first = found[LEARNERS[0], F1]
    assert first.ours == pytest.approx(70) and first.n == 3 and first.published == 80.04
    assert first.stderr == pytest.approx(np.std([90, 70, 50], ddof=1) / 3**0.5)
    assert found[LEARNERS[0], SECONDS].ours == 3.0 and found[LEARNERS[0], ACTIVE].ours == 25.0
    assert found[LEARNERS[0], LONGER].published is None
    test = paired(study, CUT, LEARNERS[0], LEARNERS[1])
    assert test is not None and test[0] == pytest.approx((10 + 5 - 1) / 3) and test[2] == 3
    assert test[1] == pytest.approx(stats.ttest_1samp([10, 5, -1], 0).pvalue)
    assert found[LEARNERS[1], F1].more["p"] == test[1]
    assert paired(study, CUT, LEARNERS[0], "PCD") is None


def test_data_are_found_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWISE_DATA", raising=False)
    assert find_gum(None) is None
    with pytest.raises(ValueError, match="gum-train"):
        find_gum(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "gum-train.conllu.gz").touch()
    assert find_gum(tmp_path) == tmp_path / "sub"
    monkeypatch.setenv("LOOPWISE_DATA", str(tmp_path))
    assert find_gum(None) == tmp_path / "sub"


def test_a_tiny_table_in_two_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWISE_DATA", raising=False)
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    monkeypatch.setitem(violations.PROTOCOLS, QUICK, FEW)
    runs, told = tmp_path / "runs", []
    order = StudyOrder(tmp_path / "out", runs=runs)

    class Soon(Deadline):
        """Passed after three runs."""

        @property
        def passed(self) -> bool:
            return len(told) >= 6

    results = Results.open(tmp_path / "out", samplerank.STUDY.name, QUICK, 0)
    half = run_table1(results, replace(order, tell=lambda what, done: told.append(what)), Soon(None))
    assert half == (3, 16 + 36 + 1)
    kept = CorefJob(INNER, 0, LEARNERS[0], StepSetting("MIRA")).path(runs)
    first = kept.read_text()
    assert run_table1(results, order, Deadline(None)) == (53, 53)
    assert kept.read_text() == first
    rows = {cell.row for cell in results.of_item(CUT)}
    assert rows == {*LEARNERS, HEADS, ALONE} and len(results.claims) == 10
    for cell in results.of_item(CUT):
        if cell.column == SECONDS:
            way = next(way for way in published_variants() if way.name == cell.row)
            assert cell.more["settings"] == [str(chosen_setting(runs, TINY, fold, way)) for fold in range(2)]
    documents = {cell.n for cell in results.of_item(CUT) if cell.column == F1}
    assert len(documents) == 1  # every row was tested on the same documents
    results.note("a note")
    write_pages(samplerank.page(results), results)
    page = (tmp_path / "out" / "index.md").read_text()
    assert (
        "violations.png" in page
        and "made-up documents" in page
        and "table1.png" in page
        and "a note" in page
        and "80" in page
    )
    assert (tmp_path / "out" / "page.html").exists()
    monkeypatch.setitem(PROTOCOLS, QUICK, replace(TINY, steps=201))
    run_table1(results, order, Soon(None))
    assert not kept.exists()  # runs of another protocol must not mix


def test_unknown_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--table 9"):
        reproduce(samplerank.STUDY, StudyOrder(tmp_path, parts=("table 9",)))


# --- Samples against violated constraints ----------------------------------------------------------------------------


def test_the_bound_is_inverted() -> None:
    for weights in (5, 500):
        for size in (10_000, 100_000):
            epsilon = violations.bound(size, weights)
            assert (weights * np.log(1 / epsilon) + np.log(20)) / epsilon == pytest.approx(size, rel=1e-6)
        assert violations.bound(100_000, weights) < violations.bound(10_000, weights)


def test_all_sampled_constraints_are_met_and_fresh_ones_less_often() -> None:
    source = violations.SampledConstraints(FEW, 0)
    drawn = source.draw(60, 1)
    assert len(drawn) == 60 and all(sum(v * source.hidden[k] for k, v in delta.items()) > 0 for delta in drawn)
    weights, left = source.learn(drawn, 2000)
    assert left == 0 == violations.violated(drawn, weights)
    fresh = source.draw(400, 2)
    assert violations.violated(fresh, weights) < 0.5 < violations.violated(fresh, [0.0] * len(weights))
    assert source.draw(5, 1) == drawn[:5]


def test_the_claim_about_samples_can_fail(tmp_path: Path) -> None:
    def claim(*means: float, left: float = 0.0) -> bool | None:
        points = [(10 ** (1 + n), mean, 0.0, 0.9 * 0.5**n, left) for n, mean in enumerate(means)]
        return violations._claim(points).holds

    assert claim(0.5, 0.06, 0.005) is True
    assert claim(0.2, 0.19, 0.18) is False and claim(0.95, 0.06, 0.005) is False
    assert claim(0.5, 0.06, 0.005, left=0.1) is None and claim(0.5, 0.1) is None
