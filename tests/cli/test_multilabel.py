"""``loopwise multilabel`` end to end: ARFF files in, a model in a file, labels out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from loopwise.cli.multilabel import multilabel as app
from oracles.commands import assert_one_sentence, command
from oracles.label_cases import make_data

invoke, succeed = command(app)
NAMES = ("sun", "sea", "snow")


def write(path: Path, examples: int, seed: int, *, labels: bool = True, scant: bool = False) -> None:
    x, y = make_data(examples, labels=3, features=3, seed=seed)
    lines = ["@relation r", *(f"@attribute x{place} numeric" for place in range(3))]
    lines += [f"@attribute {name} {{0,1}}" for name in NAMES] if labels else []
    table = np.column_stack([x.round(4), y]) if labels else x.round(4)
    rows = []
    for row in table.tolist():
        cells = [f"{value:g}" for value in row]
        rows.append(
            "{" + ",".join(f"{place} {cell}" for place, cell in enumerate(cells) if cell != "0") + "}"
            if scant
            else ",".join(cells)
        )
    path.write_text("\n".join([*lines, "@data", *rows]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multilabel")
    write(folder / "train.arff", 150, 0)
    write(folder / "dev.arff", 60, 1)
    write(folder / "test.arff", 80, 2, scant=True)
    write(folder / "new.arff", 80, 2, labels=False)
    names = "".join(f'<label name="{name}"/>' for name in NAMES)
    (folder / "labels.xml").write_text(f"<labels>{names}</labels>")
    succeed("train", folder / "train.arff", "--labels", folder / "labels.xml", "--epochs", 3, "--out", folder / "m")
    return folder


def test_from_files_to_labels(folder: Path, tmp_path: Path) -> None:
    report = json.loads(succeed("evaluate", folder / "m", folder / "dev.arff", "--json").stdout)
    assert report["hamming_error"] < 0.25 and list(report["labels"]) == list(NAMES)
    lines = succeed("evaluate", folder / "m", folder / "dev.arff").stdout
    assert f"{report['hamming_error']:.4f}" in lines and "sea" in lines
    printed = succeed("predict", folder / "m", folder / "new.arff").stdout
    succeed("predict", folder / "m", folder / "new.arff", "--out", tmp_path / "said.csv")
    assert (tmp_path / "said.csv").read_text() == printed
    header, *rows = csv.reader(io.StringIO(printed))
    assert header == list(NAMES) and len(rows) == 80
    said = np.array(rows).astype(int)
    found = json.loads(succeed("predict", folder / "m", folder / "new.arff", "--json").stdout)
    for row, example in zip(said, found["examples"], strict=True):
        assert example["labels"] == [name for name, on in zip(NAMES, row, strict=True) if on]
    shares = succeed("predict", folder / "m", folder / "new.arff", "--probabilities").stdout.splitlines()[1:]
    np.testing.assert_allclose(
        [list(map(float, line.split(","))) for line in shares],
        [example["probabilities"] for example in found["examples"]],
        atol=1e-6,
    )
    gold = make_data(80, labels=3, features=3, seed=2)[1]
    sparse = json.loads(succeed("evaluate", folder / "m", folder / "test.arff", "--json").stdout)
    assert sparse["examples"] == 80 and np.abs((said != gold).mean() - report["hamming_error"]) < 0.15


@pytest.mark.parametrize(
    "options",
    [
        ("samplerank", "--proposal", "all-values"),
        ("hybrid", "--proposal", "forced-flip", "--decoder", "annealed"),
        ("samplerank-svm-1",),
        ("cd",),
        ("pcd", "--rate", 0.05, "--no-standardize"),
        ("perceptron", "--decoder", "enumeration"),
        ("pegasos", "--strength", 0.1, "--epochs", 1),
        ("likelihood", "--epochs", 10, "--decoder", "bp"),
        ("erm", "--loss", "f1", "--epochs", 5),
    ],
    ids=lambda options: str(options[0]),
)
def test_every_learner(folder: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    fixed = ("--labels", folder / "labels.xml", "--dev", folder / "dev.arff", "--epochs", 3)
    walks = () if options[0] in ("perceptron", "pegasos", "likelihood", "erm") else ("--sweeps", 5)
    arguments = (folder / "train.arff", *fixed, *walks, "--learner", *options)
    report = json.loads(succeed("train", *arguments, "--out", tmp_path / "m", "--json").stdout)
    assert report["dev"]["hamming_error"] < 0.3 and report["labels"] == 3 and report["history"]["epochs"]
    said = succeed("train", *arguments, "--out", tmp_path / "n").stdout
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes() and "Hamming error" in said
    succeed("evaluate", tmp_path / "m", folder / "dev.arff")


def test_bad_input_is_one_sentence(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "never"
    train = ("train", folder / "train.arff", "--out", out)
    assert_one_sentence(invoke(*train), "which attributes are labels")
    (tmp_path / "bad.xml").write_text("<labels>")
    assert_one_sentence(invoke(*train, "--labels", "bad.xml"), "bad.xml, line 1", "no XML")
    (tmp_path / "other.xml").write_text("<labels><label name='rain'/></labels>")
    assert_one_sentence(invoke(*train, "--labels", "other.xml"), "'rain'")
    named = ("--labels", folder / "labels.xml")
    assert_one_sentence(invoke(*train, *named, "--cap", 0), "cap")
    assert_one_sentence(invoke(*train, *named, "--sweeps", 0), "sweeps")
    for learner in ("samplerank-svm", "cd", "perceptron", "pegasos", "likelihood", "erm"):
        assert_one_sentence(invoke(*train, *named, "--learner", learner, "--epochs", 0), "--epochs must be at least 1")
    (tmp_path / "odd.xml").write_text("<?xml version='1.0' encoding='klingon'?><labels><label name='sun'/></labels>")
    assert_one_sentence(invoke(*train, "--labels", "odd.xml"), "odd.xml", "'klingon' cannot be read")
    assert_one_sentence(invoke("train", "absent.arff", *named), "absent.arff", "no such file")
    (tmp_path / "bad.arff").write_text("@relation r\n@attribute x numeric\n@data\none\n")
    assert_one_sentence(invoke("train", "bad.arff", *named), "bad.arff, line 4", "'one' is no number")
    assert_one_sentence(invoke("evaluate", folder / "m", "bad.arff"), "bad.arff, line 4")
    assert_one_sentence(invoke("evaluate", folder / "m", folder / "new.arff"), "'sun'", "label")
    assert_one_sentence(invoke("predict", folder / "train.arff", folder / "new.arff"), "no file that loopwise saved")
    assert not out.exists()
