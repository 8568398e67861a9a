"""``loopwise coref`` end to end: files in, a model in a file, entities out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopwise.apps.coref import Coref, CorefReport, by_rule, made_documents
from loopwise.cli.coref import CorefLearnerName
from loopwise.cli.coref import coref as app
from loopwise.formats.coref import read_coref, write_coref
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coref")
    made = made_documents(12, seed=1, mentions=24)
    write_coref(folder / "train.conllu.gz", made[:8])
    write_coref(folder / "test.conllu", made[8:])
    succeed("train", folder / "train.conllu.gz", "--rounds", 2, "--steps", 1500, "--out", folder / "m.loopwise")
    return folder


def test_a_stopped_training_goes_on(folder: Path, tmp_path: Path) -> None:
    def train(rounds: int, out: str) -> bytes:
        named = ("--checkpoint", tmp_path / "run", "--out", tmp_path / out)
        succeed("train", folder / "train.conllu.gz", "--rounds", rounds, "--steps", 1500, *named)
        return (tmp_path / out).read_bytes()

    train(1, "part")
    assert train(2, "whole") == (folder / "m.loopwise").read_bytes()
    other = ("--steps", 100, "--checkpoint", tmp_path / "run", "--out", tmp_path / "never")
    assert_one_sentence(invoke("train", folder / "train.conllu.gz", *other), "another run", "steps")
    beside = ("--checkpoint", tmp_path / "m", "--out", tmp_path / "m-bare")
    assert_one_sentence(invoke("train", folder / "train.conllu.gz", *beside), "m-bare is the same as")


def test_from_files_to_entities(folder: Path, tmp_path: Path) -> None:
    report = json.loads(succeed("evaluate", folder / "m.loopwise", folder / "test.conllu", "--json").stdout)
    assert report["model"]["mean"]["b_cubed"] > report["head match"]["mean"]["b_cubed"]
    assert list(report) == ["model", "rule", "head match", "all alone"]
    ruled = [by_rule(document) for document in read_coref(folder / "test.conllu")]
    assert report["rule"] == CorefReport.of(read_coref(folder / "test.conllu"), ruled).to_json()
    assert report["all alone"]["mean"]["precision"] == 1 and len(report["model"]["documents"]) == 4
    lines = succeed("evaluate", folder / "m.loopwise", folder / "test.conllu").stdout
    assert f"{report['model']['mean']['b_cubed']:.4f}" in lines and "head match" in lines
    printed = succeed("predict", folder / "m.loopwise", folder / "test.conllu").stdout
    succeed("predict", folder / "m.loopwise", folder / "test.conllu", "--out", tmp_path / "said.conllu")
    assert (tmp_path / "said.conllu").read_text() == printed
    said = read_coref(tmp_path / "said.conllu")
    found = json.loads(succeed("predict", folder / "m.loopwise", folder / "test.conllu", "--json").stdout)
    for document, entry in zip(said, found["documents"], strict=True):
        assert entry["name"] == document.name and len(entry["entities"]) == len(set(document.entities()))
        texts = [document.text(m) for m, e in zip(document.mentions, document.entities(), strict=True) if e == 0]
        assert [mention["text"] for mention in entry["entities"][0]] == texts


@pytest.mark.parametrize("name", [name.value for name in CorefLearnerName])
def test_every_learner(folder: Path, tmp_path: Path, name: str) -> None:
    arguments = (folder / "train.conllu.gz", "--learner", name, "--rounds", 1, "--steps", 600, "--decode-steps", 2000)
    told = json.loads(
        succeed("train", *arguments, "--dev", folder / "test.conllu", "--out", tmp_path / "m", "--json").stdout
    )
    assert told["dev"]["mean"]["b_cubed"] > 0.4 and told["steps"] == 8 * 600 and told["updates"] > 0
    succeed("train", *arguments, "--out", tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_options_and_default_names(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--rounds", 1, "--steps", 300, "--pairs-only", "--no-types", "--jobs", 2, "--seed", 4)
    said = succeed("train", folder / "train.conllu.gz", *options).stdout
    assert "saved train.loopwise" in said and said.startswith("SampleRank (MIRA): documents 8")
    first = succeed("predict", "train.loopwise", folder / "test.conllu").stdout
    assert succeed("predict", "train.loopwise", folder / "test.conllu", "--seed", 4).stdout == first
    assert Coref.load("train.loopwise").bare_weights_ is not None
    succeed("train", folder / "train.conllu.gz", *options, "--no-bare")
    assert Coref.load("train.loopwise").bare_weights_ is None


def test_bad_input_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.conll", tmp_path / "never"
    bad.write_text("# begin document a\n0\tx\t(1\n1\ty\t2)\n# end document\n")
    assert_one_sentence(invoke("train", bad, "--out", out), "bad.conll, line 3", "2) closes")
    bad.write_text("# begin document a\n0\tx\t(1\n1\ty\t_\n# end document\n")
    assert_one_sentence(invoke("train", bad, "--out", out), "bad.conll, line 2", "not closed")
    assert_one_sentence(invoke("predict", folder / "m.loopwise", bad, "--out", out), "line 2")
    bad.write_text("# begin document a\n0\tx\t(1)\n# end document\n")
    assert_one_sentence(invoke("train", bad, "--out", out), "two mentions")
    bad.write_text("")
    assert_one_sentence(invoke("evaluate", folder / "m.loopwise", bad), "no mentions")
    assert_one_sentence(invoke("train", folder / "test.conllu", "--steps", 0, "--out", out), "steps", "0")
    assert_one_sentence(invoke("train", folder / "test.conllu", "--jobs", 0, "--out", out), "--jobs")
    assert_one_sentence(invoke("train", tmp_path / "absent", "--out", out), "absent", "no such file")
    assert_one_sentence(
        invoke("predict", folder / "test.conllu", folder / "test.conllu"), "no file that loopwise saved"
    )
    assert not out.exists()
