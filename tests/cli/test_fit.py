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
from loopwise.cli.main import app
from loopwise.formats import TableModel, write_uai
from loopwise.learn import System
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)
FAST = ("--epochs", 4, "--iterations", 3, "--batch", 32, "--optimizer", "sgd")


def weather(count: int = 64, seed: int = 0, spoil: bool = True) -> str:
    """A table with something to learn: rain makes the grass wet and the sky grey; some cells are empty."""
    rng = np.random.default_rng(seed)
    rain = rng.random(count) < 0.5
    wet, grey = rain ^ (rng.random(count) < 0.05), rain ^ (rng.random(count) < 0.1)
    names = [np.where(rain, "yes", "no"), np.where(wet, "wet", "dry"), np.where(grey, "grey", "blue")]
    rows = [list(row) for row in zip(*names, [""] * count, strict=True)]
    if spoil:
        for row in rng.choice(count, count // 8, replace=False):
            rows[row][rng.integers(0, 3)] = ""
    return "rain,grass,sky,mood\n" + "".join(",".join(row) + "\n" for row in rows)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text(weather())
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.csv").write_text(weather())
    path = folder / "s.loopwise"
    succeed("fit", folder / "train.csv", "--outputs", "rain,grass", "--hidden", "mood", "--out", path, *FAST)
    return path


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


def test_outputs_need_no_column_and_order_does_not_matter(trained: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(weather(seed=2))))
    (tmp_path / "skies.csv").write_text("sky\n" + "".join(f"{row['sky'] or chr(34) * 2}\n" for row in rows))
    said = json.loads(succeed("predict", trained, tmp_path / "skies.csv", "--json").stdout)
    assert said["outputs"] == ["rain", "grass"] and len(said["rows"]) == 64
    for row, given in zip(said["rows"], rows, strict=True):
        for answer in row.values():
            assert sum(answer["probabilities"].values()) == pytest.approx(1)
            assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        if given["sky"]:
            assert row["rain"]["label"] == ("yes" if given["sky"] == "grey" else "no")
    (tmp_path / "full.csv").write_text(weather(seed=2))
    whole = json.loads(succeed("predict", trained, tmp_path / "full.csv", "--json").stdout)
    assert whole == said  # the answers in the table are not looked at


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


def test_f1_of_one_label_among_several(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 96)
    seen = np.where(rng.random(96) < 0.9, kind, rng.integers(0, 3, 96))
    lines = [f"{'abc'[a]},{'xyz'[b]}" for a, b in zip(kind, seen, strict=True)]
    (tmp_path / "t.csv").write_text("kind,seen\n" + "\n".join(lines) + "\n")
    out, fit = tmp_path / "s.loopwise", ("fit", tmp_path / "t.csv", "--outputs", "kind", "--loss", "f1")
    succeed(*fit, "--positive", "b", "--out", out, *FAST, "--rate", 2)
    said = list(csv.DictReader(io.StringIO(succeed("predict", out, tmp_path / "t.csv").stdout)))
    assert all((row["kind"] == "b") == (line[-1] == "y") for row, line in zip(said, lines, strict=True))


@pytest.mark.parametrize("loss", ["f1", "mse", "l1", "hamming"])
def test_every_loss(loss: str, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.loopwise"
    arguments = ("fit", train, "--outputs", "rain", "--hidden", "mood", "--out", out, "--json", *FAST)
    report = json.loads(succeed(*arguments, "--loss", loss, "--rate", 2).stdout)
    losses = [epoch["loss"] for epoch in report["history"]["epochs"]]
    assert losses[-1] < losses[0] and report["hidden"] == 1 and report["outputs"] == 1 and report["rows"] == 64
    assert json.loads(succeed("evaluate", out, train, "--json").stdout)["measures"]["accuracy"] > 0.8


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


def test_bad_tables_are_one_sentence(train: Path, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "never.loopwise"
    fit = ("--outputs", "rain", "--hidden", "mood", "--out", out)
    bad = tmp_path / "bad.csv"
    bad.write_text("rain,grass,sky,mood\nyes,wet,grey,\nno,dry\n")
    assert_one_sentence(invoke("fit", bad, *fit), "bad.csv, line 3", "2 cells")
    assert_one_sentence(invoke("predict", trained, bad), "bad.csv, line 3", "2 cells")
    bad.write_text("rain,grass,sky,mood\nyes,,grey,\nno,,blue,\n")
    assert_one_sentence(invoke("fit", bad, *fit), "column 'grass' has no value in any row", "hidden")
    bad.write_text("rain,cloud\nyes,1\n")
    assert_one_sentence(invoke("predict", trained, bad), "no variable 'cloud'")
    bad.write_text("sky\ngrey\n")
    assert_one_sentence(invoke("evaluate", trained, bad), "nothing is scored")
    assert_one_sentence(invoke("fit", train, "--outputs", "rain,mood", "--hidden", "mood"), "'mood'", "both")
    assert_one_sentence(invoke("fit", train, "--outputs", "rian", "--hidden", "mood"), "did you mean 'rain'?")
    assert_one_sentence(invoke("fit", train, "--outputs", "", "--hidden", "mood"), "no output is named")
    assert_one_sentence(invoke("fit", train, "--outputs", "rain", "--hidden", "moon"), "no column 'moon'")
    assert_one_sentence(invoke("fit", tmp_path / "absent.csv", *fit), "absent.csv", "no such file")
    assert not out.exists()


def test_unseen_labels_count_as_missing(train: Path, trained: Path, tmp_path: Path) -> None:
    """One strange cell does not lose the rest of the table: of an input, of an output, in all commands."""
    rows = weather(seed=1, spoil=False).splitlines()
    strange, plain = tmp_path / "strange.csv", tmp_path / "plain.csv"
    changed = [rows[0], "maybe,wet,grey,", "yes,wet,gray,", *rows[3:]]
    strange.write_text("\n".join(changed) + "\n")
    plain.write_text("\n".join([rows[0], ",wet,grey,", "yes,wet,,", *rows[3:]]) + "\n")
    for verb in (("evaluate", "--json"), ("predict",), ("predict", "--json")):
        told = succeed(verb[0], trained, strange, *verb[1:])
        assert told.stderr.count("warning: ") == 1 and "2 cells hold labels that training did not see" in told.stderr
        assert "line 2 ('maybe' in column 'rain'; the values are 'no', 'yes')" in told.stderr
        assert told.stdout == succeed(verb[0], trained, plain, *verb[1:]).stdout
    options = ("--outputs", "rain", "--hidden", "mood", "--out", tmp_path / "d.loopwise", *FAST)
    assert "2 cells hold labels" in succeed("fit", train, "--dev", strange, *options).stderr
    strange.write_text("rain,grass,sky\nmaybe,damp,grey\n")
    nothing = invoke("evaluate", trained, strange)
    assert nothing.exit_code == 2 and "nothing is scored" in nothing.stderr


def test_names_listed_twice(train: Path, trained: Path) -> None:
    fit = ("fit", train, "--hidden", "mood")
    assert_one_sentence(invoke(*fit, "--outputs", "rain, grass,rain"), "--outputs lists 'rain' twice")
    assert_one_sentence(
        invoke("fit", train, "--outputs", "rain", "--hidden", "mood,mood"), "--hidden lists 'mood' twice"
    )
    assert_one_sentence(invoke(*fit, "--outputs", "rain", "--ignore", "sky,sky"), "--ignore lists 'sky' twice")
    for verb in ("predict", "evaluate"):
        assert_one_sentence(invoke(verb, trained, train, "--ignore", "sky,sky"), "--ignore lists 'sky' twice")


def test_endless_words_are_not_printed_whole(train: Path) -> None:
    fit = ("fit", train, "--hidden", "mood")
    for options in (("--outputs", "x" * 5000), ("--outputs", "rain", "--structure", "grid:" + "9" * 5000 + "x1")):
        result = invoke(*fit, *options)
        assert_one_sentence(result, "…' (50")
        assert len(result.stderr) < 400


def test_bad_options_are_one_sentence(train: Path) -> None:
    fit = ("fit", train, "--outputs", "rain", "--hidden", "mood")
    assert_one_sentence(invoke(*fit, "--structure", "ring"), "no structure 'ring'", "complete, outputs, chain")
    assert_one_sentence(invoke(*fit, "--structure", "grid:3x2"), "6 places", "4 columns")
    assert_one_sentence(invoke(*fit, "--epochs", 0), "epochs must be at least 1")
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


def test_columns_that_are_no_variables(train: Path, tmp_path: Path) -> None:
    """A name for each row: warned of, left out on demand, in training and in use."""
    rows = train.read_text().splitlines()
    train.write_text("\n".join(f"{f'row{place}' if place else 'id'},{row}" for place, row in enumerate(rows)) + "\n")
    options = ("--outputs", "rain", "--hidden", "mood", "--out", tmp_path / "s.loopwise", *FAST)
    assert "column 'id' has 64 different values in 64 rows" in succeed("fit", train, *options).stderr
    assert "'id'" not in succeed("fit", train, "--ignore", "id", *options).stderr
    assert_one_sentence(invoke("predict", tmp_path / "s.loopwise", train), "there is no variable 'id'", "ignore")
    assert succeed("predict", tmp_path / "s.loopwise", train, "--ignore", "id").stdout.count("\n") == 65
    assert "rows" in succeed("evaluate", tmp_path / "s.loopwise", train, "--ignore", "id", "--json").stdout
    assert_one_sentence(invoke("fit", train, "--ignore", "name", *options), "no column 'name' to ignore")


def test_another_separator(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n0;1\n")
    assert_one_sentence(invoke("fit", tmp_path / "t.csv", "--outputs", "a"), "separated by ';'")


def test_options_without_effect_are_refused(train: Path) -> None:
    options = ("fit", train, "--outputs", "rain", "--hidden", "mood")
    assert_one_sentence(invoke(*options, "--inference", "exact", "--iterations", 5), "--iterations is for bp, trw")
    assert_one_sentence(invoke(*options, "--positive", "yes"), "--positive is for f1; loglik does not use it")


def test_a_target_that_cannot_be_is_noticed_before_training(
    train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwise.cli.fit._train", lambda *_: pytest.fail("trained for nothing"))
    fit = ("fit", train, "--outputs", "rain", "--hidden", "mood", "--out")
    missing = tmp_path / "missing" / "s.loopwise"
    assert_one_sentence(invoke(*fit, missing), str(missing), "folder to write to does not exist")
    assert_one_sentence(invoke(*fit, tmp_path), str(tmp_path), "is a folder")
