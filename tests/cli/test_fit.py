"""``loopwise fit``, ``predict`` and ``evaluate`` end to end: a table in, a system in a file, predictions out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from loopwise.apps.table import MRFClassifier
from loopwise.formats import TableModel, write_uai
from loopwise.learn import System
from oracles.commands import assert_one_sentence
from oracles.fit_tables import FAST, invoke, succeed, weather


def test_from_a_table_to_predictions(trained: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text(weather(seed=1))
    report = json.loads(succeed("evaluate", trained, test, "--json").stdout)
    assert report["rows"] == 64 and report["measures"]["accuracy"] > 0.8
    assert set(report["accuracy_of"]) == {"rain", "grass"} and report["accuracy_of"]["rain"] > 0.8
    printed = succeed("predict", trained, test).stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert list(rows[0]) == ["rain", "grass"] and len(rows) == 64
    known = list(csv.DictReader(io.StringIO(weather(seed=1))))
    for name, share in report["accuracy_of"].items():
        pairs = [(row[name], truth[name]) for row, truth in zip(rows, known, strict=True) if truth[name]]
        assert share == pytest.approx(np.mean([said == true for said, true in pairs]))
    succeed("predict", trained, test, "--out", tmp_path / "said.csv")
    assert (tmp_path / "said.csv").read_text() == printed
    lines = succeed("evaluate", trained, test).stdout
    assert f"{report['measures']['f1']:.4f}" in lines and "accuracy of grass" in lines


def test_what_the_file_keeps(trained: Path) -> None:
    system = System.load(trained)
    assert system.vocabulary is not None and system.roles is not None
    assert system.vocabulary.names == ("rain", "grass", "sky", "mood")
    assert system.vocabulary.labels[:3] == (("no", "yes"), ("dry", "wet"), ("blue", "grey"))
    assert system.graph.factors == 4 + 6 and system.inference.iterations == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("inference", ["trw", "meanfield", "exact"])
def test_every_inference(inference: str, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.loopwise"
    fit = ("fit", train, "--outputs", "rain", "--hidden", "mood", "--loss", "mse", "--inference", inference)
    fast = [option for option in FAST if inference != "exact" or option not in ("--iterations", 3)]
    succeed(*fit, "--out", out, *fast, "--rate", 2)
    kind = {"trw": "TRW", "meanfield": "MeanField", "exact": "Exact"}[inference]
    assert type(System.load(out).inference).__name__ == kind  # the one in training is the one in use
    (tmp_path / "test.csv").write_text(weather(seed=1))
    report = json.loads(succeed("evaluate", out, tmp_path / "test.csv", "--json").stdout)
    assert report["measures"]["accuracy"] > 0.8


def test_staged_hybrid_training_with_dev_and_checkpoint(train: Path, tmp_path: Path) -> None:
    dev, out, path = tmp_path / "dev.csv", tmp_path / "s.loopwise", tmp_path / "run"
    dev.write_text(weather(seed=3))
    arguments = (
        "fit", train, "--outputs", "rain", "--hidden", "mood", "--loss", "l1", "--staged", "--hybrid", "--dev", dev,
        "--checkpoint", path, "--out", out, *FAST, "--epochs", 6, "--json", "--structure", "chain",
    )  # fmt: skip
    first = json.loads(succeed(*arguments).stdout)["history"]
    assert [epoch["stage"] for epoch in first["epochs"]] == [0, 0, 0, 1, 2, 3]
    assert all(epoch["dev"] is not None for epoch in first["epochs"])
    saved = out.read_bytes()
    out.unlink()
    assert json.loads(succeed(*arguments).stdout)["history"] == first  # finished: nothing is run again
    assert out.read_bytes() == saved
    assert_one_sentence(invoke(*arguments, "--seed", 5), "of another run", "seed")


def test_a_structure_file(train: Path, tmp_path: Path) -> None:
    model = TableModel.of([2] * 4, [((0, 1), np.ones((2, 2))), ((1, 2), np.ones((2, 2))), ((3, 0), np.ones((2, 2)))])
    write_uai(tmp_path / "m.uai", model)
    arguments = ("--outputs", "rain", "--hidden", "mood", "--out", tmp_path / "s.loopwise", *FAST)
    said = succeed("fit", tmp_path / "m.uai", train, *arguments).stdout
    assert "factors 3" in said and f"saved {tmp_path / 's.loopwise'}" in said
    system = System.load(tmp_path / "s.loopwise")
    assert [group.scopes.tolist() for group in system.graph.groups] == [[[0, 1], [1, 2], [3, 0]]]
    assert_one_sentence(invoke("fit", tmp_path / "m.uai", train, *arguments, "--structure", "chain"), "--structure")
    assert_one_sentence(invoke("fit", train, tmp_path / "m.uai", *arguments), "the last file must be a .csv table")
    write_uai(tmp_path / "small.uai", TableModel.of([2] * 3, [((0, 1), np.ones((2, 2)))]))
    assert_one_sentence(
        invoke("fit", tmp_path / "small.uai", train, *arguments), "4 columns, the structure has 3 variables"
    )


@pytest.mark.parametrize(("structure", "pairs"), [("chain", 3), ("grid:2x2", 4), ("complete", 6)])
def test_structures_over_the_columns(structure: str, pairs: int, train: Path, tmp_path: Path) -> None:
    arguments = ("--outputs", "rain", "--hidden", "mood", "--out", tmp_path / "s.loopwise", *FAST, "--epochs", 1)
    report = json.loads(succeed("fit", train, *arguments, "--structure", structure, "--json").stdout)
    assert report["factors"] == 4 + pairs


def test_the_seed_decides(train: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.loopwise" for number in range(3)]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        succeed("fit", train, "--outputs", "rain", "--hidden", "mood", "--out", file, "--seed", seed, *FAST)
    one, two, three = (file.read_bytes() for file in files)
    assert one == two != three


def test_bad_options_are_one_sentence(train: Path) -> None:
    fit = ("fit", train, "--outputs", "rain", "--hidden", "mood")
    assert_one_sentence(invoke(*fit, "--structure", "ring"), "no structure 'ring'", "complete, outputs, chain")
    assert_one_sentence(invoke(*fit, "--structure", "grid:3x2"), "6 places", "4 columns")
    assert_one_sentence(invoke(*fit, "--epochs", 0), "epochs must be a whole number of at least 1")
    assert_one_sentence(invoke(*fit, "--iterations", -1), "iterations")
    assert_one_sentence(invoke(*fit, "--optimizer", "lbfgs", "--rate", 1), "--rate", "lbfgs")
    assert_one_sentence(invoke(*fit, "--patience", 2), "patience is about development data")
    assert_one_sentence(invoke(*fit, "--loss", "f1", "--positive", "maybe"), "'rain' has no label 'maybe'")
    assert_one_sentence(invoke(*fit, "--hybrid"), "SurrogateLikelihood cannot be mixed")
    assert_one_sentence(invoke(*fit[:2], train, train, *fit[2:]), "not 3 files")


def test_bad_system_files_are_one_sentence(train: Path, trained: Path, tmp_path: Path) -> None:
    import torch

    data, bad = trained.read_bytes(), tmp_path / "bad.loopwise"
    bad.write_bytes(data[: len(data) // 2])
    assert_one_sentence(invoke("predict", bad, train), "bad.loopwise", "cut off")
    bad.write_bytes(b"PK\x03\x04 a zip archive, perhaps, and longer than a header")
    assert_one_sentence(invoke("evaluate", bad, train), "no file that loopwise saved")
    save_file({"weight": torch.zeros(2)}, bad)
    assert_one_sentence(invoke("predict", bad, train), "some other safetensors file")
    bad.write_bytes(data.replace(b'\\"loopwise\\": 1', b'\\"loopwise\\": 9'))
    assert_one_sentence(invoke("predict", bad, train), "newer loopwise", "upgrade")
    assert_one_sentence(invoke("predict", tmp_path / "absent", train), "absent", "no such file")


def test_numbers_are_cut_as_the_estimator_cuts_them(tmp_path: Path) -> None:
    """What a new user types: a table of measurements, then rows with numbers that training has not seen."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 12)).round(3)
    label = np.where(rows[:, 0] + rows[:, 1] > 0, "up", "down")
    names = [f"m{place}" for place in range(12)]
    lines = [",".join([*names, "label"])] + [
        ",".join([*map(str, row), own]) for row, own in zip(rows, label, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "s.loopwise"
    printed = succeed("fit", tmp_path / "t.csv", "--outputs", "label", "--out", out, "--epochs", 8, "--bins", 4)
    assert "factors 25" in printed.stdout and not printed.stderr  # each column, and each with the output
    vocabulary = System.load(out).vocabulary
    assert vocabulary is not None
    estimator = MRFClassifier(bins=4, iterations=1).fit(rows, label, progress=False)
    assert vocabulary.labels[:12] == estimator.system_.vocabulary.labels[:12]
    (tmp_path / "new.csv").write_text("m0,m1\n9.75,8\n-7.125,-1e3\n,\n")
    said = succeed("predict", out, tmp_path / "new.csv")
    assert said.stdout.split()[:3] == ["label", "up", "down"] and not said.stderr
    with_labels = ("fit", tmp_path / "t.csv", "--outputs", "label", "--out", out, "--epochs", 1)
    succeed(*with_labels, "--numbers", "m0,m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11")
    assert_one_sentence(invoke(*with_labels, "--numbers", "m99"), "no column 'm99'")
    assert_one_sentence(invoke(*with_labels, "--bins", 1), "bins must be a number from 2")


def test_options_without_effect_are_refused(train: Path) -> None:
    options = ("fit", train, "--outputs", "rain", "--hidden", "mood")
    assert_one_sentence(invoke(*options, "--inference", "exact", "--iterations", 5), "--iterations is for bp, trw")
    assert_one_sentence(invoke(*options, "--positive", "yes"), "--positive is for f1; loglik does not use it")


def test_a_target_that_cannot_be_is_noticed_before_training(
    train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwise.learn.fit", lambda *_, **__: pytest.fail("trained for nothing"))
    fit = ("fit", train, "--outputs", "rain", "--hidden", "mood", "--out")
    missing = tmp_path / "missing" / "s.loopwise"
    assert_one_sentence(invoke(*fit, missing), str(missing), "folder to write to does not exist")
    assert_one_sentence(invoke(*fit, tmp_path), str(tmp_path), "is a folder")


def test_the_prior_of_a_small_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out rows choose it, and the report says which it is; 0 is plain likelihood; not with --dev, nor for many."""
    train = tmp_path / "train.csv"
    coins = np.random.default_rng(0).integers(0, 2, (24, 4))
    train.write_text("a,b,c,d\n" + "".join(",".join(map(str, row)) + "\n" for row in coins.tolist()))
    made = [tmp_path / f"{number}.loopwise" for number in range(4)]
    options = ("fit", train, "--outputs", "d", "--structure", "complete", "--iterations", 3, "--json", "--out")
    chosen = json.loads(succeed(*options, made[0]).stdout)["l2"]
    assert chosen >= 1 / 24
    assert json.loads(succeed(*options, made[1], "--l2", chosen).stdout)["l2"] == chosen
    assert made[0].read_bytes() == made[1].read_bytes()
    monkeypatch.setattr("loopwise.learn.prior_choice.choose_l2", lambda *_, **__: pytest.fail("chosen for nothing"))
    assert json.loads(succeed(*options, made[2], "--l2", 0).stdout)["l2"] == 0
    succeed(*options, made[3], "--dev", train)
    assert "--l2 0.25\n" in succeed(*options[:-2], "--l2", 0.25, "--out", made[3]).stdout
    monkeypatch.setattr("loopwise.cli.fit.FEW_ROWS", 23)
    assert json.loads(succeed(*options, made[3]).stdout)["l2"] == 0
    assert made[2].read_bytes() == made[3].read_bytes() != made[0].read_bytes()
