"""Table 3 of the SampleRank paper on made-up names: what is chosen, kept, gone on with, resampled and claimed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopwise import walk
from loopwise.apps.chain.report import compare, sentence_counts
from loopwise.formats.columns import read_tagged, write_tagged
from oracles.tagger_text import names
from studies.harness.page import write_pages
from studies.harness.results import FULL, QUICK, Deadline, Results
from studies.harness.study import StudyOrder
from studies.samplerank import run as samplerank
from studies.samplerank.names import methods as samplerank_table3_methods
from studies.samplerank.names.claims import claims
from studies.samplerank.names.crfsuite import CrfSuite
from studies.samplerank.names.data import CONLL, OPEN, find_names, joined, part_of, read_corpus
from studies.samplerank.names.methods import (
    ALL10,
    CRFSUITE,
    LIKELIHOOD,
    PROTOCOLS,
    PUBLISHED_SET,
    RICHER_SET,
    ROWS,
    SR1,
    SR10,
    SSVM,
    NamesProtocol,
    WalkSetting,
    label_of,
    methods,
)
from studies.samplerank.names.tables import (
    MEAN,
    ONE_FOR_ALL,
    PRINTED,
    SHARE,
    TABLE3,
    TEST_A,
    TEST_B,
    NamesRuns,
    cells,
    compared,
    of_all_corpora,
    run_table3,
    seconds_item,
    share_of_likelihood,
)
from studies.samplerank.names.training import NamesTask, ladders

WIKIGOLD = OPEN[1]
SMALL = NamesProtocol(
    corpora=(OPEN[0].name, WIKIGOLD.name),
    seeds=2,
    epochs=2,
    iterations=5,
    penalties=(0.1, 10.0),
    costs=(1e-4, 0.1),
    starts=("truth", "previous"),
    scales=(1.0,),
    caps=(0.1,),
    sweeps=(2,),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora in the places where the real ones are."""
    top = tmp_path_factory.mktemp("data")
    for number, corpus in enumerate(OPEN):
        (top / "ner" / corpus.folder).mkdir(parents=True)
        for place, file in enumerate(corpus.files):
            path = top / "ner" / corpus.folder / (file + ".gz" if place else file)
            write_tagged(path, *names(60 if len(corpus.files) == 1 else 40 - 10 * place, seed=10 * number + place))
    return top


def test_the_published_protocol() -> None:
    assert PROTOCOLS[FULL].costs[-1] / PROTOCOLS[FULL].costs[0] == pytest.approx(1e5)
    assert PROTOCOLS[FULL].epochs == 10 and len(PROTOCOLS[FULL].corpora) == 5
    rows = {method.row for method in methods(PROTOCOLS[FULL], RICHER_SET)}
    assert set(PRINTED) <= rows <= set(ROWS)
    assert CRFSUITE not in {method.row for method in methods(PROTOCOLS[FULL], PUBLISHED_SET)}  # it has no such features


def test_texts(folder: Path) -> None:
    top = find_names(folder)
    assert top == find_names(top) == folder / "ner"
    texts = read_corpus(top, OPEN[0])
    assert [len(texts.train), len(texts.dev), len(texts.test)] == [40, 30, 20]
    parted = read_corpus(top, WIKIGOLD)
    assert [len(parted.train), len(parted.dev), len(parted.test)] == [36, 12, 12]
    whole = read_tagged(top / WIKIGOLD.folder / WIKIGOLD.files[0])
    again = joined(joined(parted.train, parted.dev), parted.test)
    assert again.words == whole.words and again.tags == whole.tags and again.start.tolist() == whole.start.tolist()
    moved = read_corpus(top, OPEN[2])
    assert [len(moved.train), len(moved.dev), len(moved.test)] == [32, 38, 20]
    assert [len(one) for one in vars(read_corpus(top, OPEN[0], 5)).values()] == [5, 5, 5]
    assert part_of(whole, 3, 5).sentences() == whole.sentences()[3:5]


def test_corpora_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWISE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="UNER_Danish"):
        find_names(None)
    with pytest.raises(ValueError, match="wikigold"):
        read_corpus(tmp_path, WIKIGOLD)


def test_counts_of_sentences_add_up() -> None:
    random, labels = np.random.default_rng(0), ("O", "B-X", "I-X", "B-Y", "I-Y")
    start = np.array([0, 7, 7, 20, 40])
    gold, said = random.integers(0, 5, 40), random.integers(0, 5, 40)
    said[::2] = gold[::2]
    report, counts = compare(gold, said, start, labels), sentence_counts(gold, said, start, labels)
    assert report.entities is not None and counts.shape == (4, 3) and counts[1].tolist() == [0, 0, 0]
    assert counts.sum(axis=0).tolist() == [report.entities.right, report.entities.decided, report.entities.gold]
    assert counts[0].tolist() == sentence_counts(gold[:7], said[:7], start[:2], labels)[0].tolist()
    assert report.entities.right > 0


def test_a_small_table_in_two_goes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, SMALL)
    runs, told = tmp_path / "runs", list[str]()

    class Soon(Deadline):
        """Passed after seven runs."""

        @property
        def passed(self) -> bool:
            return sum(" s, " in what for what in told) >= 7

    order = StudyOrder(tmp_path / "out", data=folder, runs=runs)
    results = Results.open(tmp_path / "out", samplerank.STUDY.name, QUICK, 0)
    done, of = run_table3(results, replace(order, tell=lambda what, done: told.append(what)), Soon(None))
    assert done == 7 and of == sum(ladder.total for ladder in ladders(SMALL, folder / "ner"))
    first = {path: path.read_text() for path in runs.glob("published*.json")}
    assert run_table3(results, order, Deadline(None)) == (of, of)
    assert len(first) == 7 and all(path.read_text() == text for path, text in first.items())
    for item in (PUBLISHED_SET.item, RICHER_SET.item):
        rows = {cell.row for cell in results.of_item(item)}
        assert rows - {CRFSUITE} == set(ROWS) - {CRFSUITE}
        assert all(cell.ours is None or 40 < cell.ours <= 100 for cell in results.of_item(item))
    cell = results.find(PUBLISHED_SET.item, SR10, TEST_B)
    assert cell is not None and cell.ours is None and cell.published == 85.1
    write_pages(samplerank.page(results), results)
    page = (tmp_path / "out" / "index.md").read_text()
    assert "table3.png" in page and "in place of CoNLL-2003" in page and "91.3" in page and "0.0417" in page
    assert all(claim.holds is not None for claim in results.claims if claim.id != "table3-crfsuite")
    other = NamesProtocol(**{**vars(SMALL), "epochs": 1})
    monkeypatch.setitem(PROTOCOLS, QUICK, other)
    run_table3(results, order, Soon(None))
    assert not any(path.exists() for path in first)  # runs of another protocol must not mix


def test_settings_are_chosen_by_development_data(folder: Path, tmp_path: Path) -> None:
    ladder = next(one for one in ladders(SMALL, folder / "ner") if one.method.row == SSVM)
    assert ladder.chosen(tmp_path) is None and len(list(ladder.jobs(tmp_path))) == 2
    for job, dev, test in zip(ladder.first(), (0.5, 0.7), (0.9, 0.1), strict=True):
        job.path(tmp_path).write_text(json.dumps({"dev": dev, "test": test}))
    assert ladder.chosen(tmp_path) == 0.1  # though the other is better in test
    assert [job.seed for job in ladder.jobs(tmp_path)] == [0, 0, 1] and len(ladder.final(tmp_path)) == 1


def test_walks_are_refined_from_the_best_start_and_margin(folder: Path, tmp_path: Path) -> None:
    ladder = next(one for one in ladders(SMALL, folder / "ner") if one.method.row == SR10)
    assert ladder.total == 5 and [label_of(job.size) for job in ladder.jobs(tmp_path)] == [
        "truth, margin x 1, sweeps 1",
        "previous, margin x 1, sweeps 1",
    ]
    for job, dev in zip(ladder.first(), (0.5, 0.7), strict=True):
        job.path(tmp_path).write_text(json.dumps({"dev": dev, "test": 0.5}))
    more = ladder.second(tmp_path)
    assert ladder.chosen(tmp_path) is None and [label_of(job.size) for job in more] == [
        "previous, margin x 1, sweeps 2",
        "previous, margin x 1, sweeps 1, cap 0.1",
    ]
    for job, dev in zip(more, (0.6, 0.8), strict=True):
        job.path(tmp_path).write_text(json.dumps({"dev": dev, "test": 0.5}))
    assert ladder.chosen(tmp_path) == WalkSetting("previous", 1.0, 1, 0.1)
    learner = ladder.method.make(WalkSetting("random", 20.0, 3, 0.1))  # type: ignore[misc]
    assert learner.start is walk.Start.RANDOM and learner.margin(2.0) == 40.0 and learner.sweeps == 3  # type: ignore[attr-defined]
    assert learner.step.cap == pytest.approx(2.0)  # type: ignore[attr-defined]
    one = next(one for one in ladders(NamesProtocol(), folder / "ner") if one.method.row == SR1)
    assert {job.size.start for job in one.first()} == {"truth", "random"}  # type: ignore[union-attr]


def test_one_setting_for_all_corpora(folder: Path, tmp_path: Path) -> None:
    """Means over corpora of each setting of the first round, where all corpora have it."""
    study = NamesRuns(tmp_path, ladders(SMALL, folder / "ner"))
    mine = [one for one in study.ladders if (one.features, one.method.row) == (RICHER_SET, ALL10)]
    assert len(mine) > 1 and of_all_corpora(study) == []
    for number, ladder in enumerate(mine):
        for place, job in enumerate(ladder.first()):
            job.path(tmp_path).write_text(json.dumps({"dev": 0.5 + 0.1 * number + 0.01 * place, "test": 0.9}))
    cells = of_all_corpora(study)
    assert [cell.row for cell in cells] == ["truth, margin x 1", "previous, margin x 1"]
    assert {cell.column for cell in cells} == {f"richer, {ALL10}"} and {cell.n for cell in cells} == {len(mine)}
    assert cells[1].ours == pytest.approx(51 + 5 * (len(mine) - 1)) and TABLE3.owns(ONE_FOR_ALL)
    mine[0].first()[1].path(tmp_path).unlink()
    assert [cell.row for cell in of_all_corpora(study)] == ["truth, margin x 1"]


def test_crfsuite_agrees_with_our_objective(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pycrfsuite")
    from loopwise.learn.chain.likelihood import NegativeLogLikelihood

    task = NamesTask(RICHER_SET, OPEN[0], read_corpus(folder / "ner", OPEN[0]))
    peer = CrfSuite(task.train, 0.6, 30, tmp_path / "model", seen_only=False)
    weights = task.train.start()
    place = {label: number for number, label in enumerate(task.train.labels)}
    for (feature, label), weight in peer.info.state_features.items():
        weights.unary[int(feature), place[label]] = weight
    for (one, two), weight in peer.info.transitions.items():
        weights.pair[0, place[one] * len(place) + place[two]] = weight
    value = NegativeLogLikelihood(task.train)(weights)[0] + 0.3 * float(weights.vector @ weights.vector)
    assert value == pytest.approx(peer.losses[-1], rel=1e-4)
    best, _ = task.train.chains.best(*task.train.scores(weights))
    assert np.array_equal(best, peer.tags(task.train))


# --- Statistics and claims -------------------------------------------------------------------------------------------


def made_study(runs: Path, folder: Path, good: bool) -> NamesRuns:
    """Runs for which all claims hold, or none does."""
    runs.mkdir()
    random, sentences = np.random.default_rng(0), 300
    gold = random.integers(1, 4, sentences)
    found = ladders(NamesProtocol(), folder / "ner")
    for ladder in found:
        row = ladder.method.row
        share = (0.9 if row.startswith("SampleRank") else 0.8) if good else 0.7 if row.startswith("SampleRank") else 0.9
        share -= 0.1 * (row == LIKELIHOOD and not good and ladder.features is RICHER_SET)  # crfsuite is better
        right = random.binomial(gold, share)
        slow = row == LIKELIHOOD if good else row.startswith("SampleRank")
        run: dict[str, Any] = {"dev": 0.5, "test": share, "seconds": 50.0 if slow else 1.0 + (row == SSVM) * good}
        run["counts"] = [right.tolist(), gold.tolist(), gold.tolist()]
        for job in ladder.jobs(runs):
            if job.seed == 0:
                job.path(runs).write_text(json.dumps(run))
    return NamesRuns(runs, found)


def test_claims_hold_or_not(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplerank_table3_methods, "crfsuite_can", lambda features: features is RICHER_SET)
    good = {claim.id: claim for claim in claims(made_study(tmp_path / "good", folder, True))}
    assert all(claim.holds for claim in good.values()), [claim for claim in good.values() if not claim.holds]
    bad = {claim.id: claim for claim in claims(made_study(tmp_path / "bad", folder, False))}
    assert not any(claim.holds for claim in bad.values()), [claim for claim in bad.values() if claim.holds]
    assert all(claim.holds is None for claim in claims(NamesRuns(tmp_path / "none", ladders(NamesProtocol(), None))))


def test_means_errors_and_shares(folder: Path, tmp_path: Path) -> None:
    study = made_study(tmp_path / "runs", folder, True)
    found = {(cell.item, cell.row, cell.column): cell for cell in cells(study)}
    (ladder,) = (one for one in study.ladders if (one.features, one.corpus, one.method.row) == _first(SR10))
    right, decided, gold = np.array(ladder.final(study.runs)[0]["counts"])
    cell = found["Table 3", SR10, OPEN[0].name]
    assert cell.ours == pytest.approx(200 * right.sum() / (decided.sum() + gold.sum()))
    # An independent error: of a ratio of sums, linearised.
    ratio = 2 * right.sum() / (decided + gold).sum()
    spread = 100 * np.sqrt(((2 * right - ratio * (decided + gold)) ** 2).sum()) / (decided + gold).sum()
    assert cell.stderr == pytest.approx(spread, rel=0.1)
    own = [found["Table 3", SR10, corpus.name].ours for corpus in OPEN]
    assert found["Table 3", SR10, MEAN].ours == pytest.approx(np.mean(own))  # type: ignore[arg-type]
    times = found[seconds_item(PUBLISHED_SET), SR1, SHARE]
    assert times.ours == pytest.approx(1 / 50) and times.published == pytest.approx(82 / 15890)
    assert share_of_likelihood(study, PUBLISHED_SET, LIKELIHOOD) == pytest.approx(1.0)
    assert found["Table 3", SR1, TEST_A].published == 88.8 and (RICHER_SET.item, SR1, TEST_A) not in found
    same = compared(study, PUBLISHED_SET, SR10, SR10)
    assert same is not None and same.mean == 0 and same.p == 1
    gap, back = compared(study, PUBLISHED_SET, SR10, SSVM), compared(study, PUBLISHED_SET, SSVM, SR10)
    assert gap is not None and back is not None and gap.mean == pytest.approx(-back.mean) and gap.p == back.p < 0.01


def _first(row: str) -> tuple[object, object, str]:
    return PUBLISHED_SET, OPEN[0], row


def test_the_papers_own_corpus_is_used_where_it_is(folder: Path, tmp_path: Path) -> None:
    assert CONLL not in {ladder.corpus for ladder in ladders(SMALL, folder / "ner")}
    own = tmp_path / CONLL.folder
    own.mkdir()
    for file in CONLL.files:
        (own / file).touch()
    assert CONLL in {ladder.corpus for ladder in ladders(SMALL, tmp_path)}
