"""``loopwise tagger`` end to end: column files in, a tagger in a file, tags out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopwise.cli.tagger import tagger as app
from loopwise.formats.columns import read_tagged, write_tagged
from oracles.commands import assert_one_sentence, command
from oracles.tagger_text import names

invoke, succeed = command(app)
TEMPLATES = "w[0] w[-1]|w[0] lower[-1] is_title[0] bias"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    write_tagged(folder / "train.conll.gz", *names(120, seed=0))
    write_tagged(folder / "dev.conll", *names(40, seed=1))
    write_tagged(folder / "test.conll", *names(40, seed=2))
    succeed("train", folder / "train.conll.gz", "--templates", TEMPLATES, "--out", folder / "t.loopwise")
    return folder


def test_from_files_to_tags(folder: Path, tmp_path: Path) -> None:
    report = json.loads(succeed("evaluate", folder / "t.loopwise", folder / "test.conll", "--json").stdout)
    assert report["entities"]["f1"] > 0.95 and set(report["types"]) == {"LOC", "PER"}
    lines = succeed("evaluate", folder / "t.loopwise", folder / "test.conll").stdout
    assert f"{report['entities']['f1']:.4f}" in lines and "PER" in lines
    printed = succeed("predict", folder / "t.loopwise", folder / "test.conll").stdout
    succeed("predict", folder / "t.loopwise", folder / "test.conll", "--out", tmp_path / "said.conll")
    assert (tmp_path / "said.conll").read_text() == printed
    said, gold = read_tagged(tmp_path / "said.conll"), read_tagged(folder / "test.conll")
    assert said.sentences() == gold.sentences()
    assert said.tags is not None and gold.tags is not None
    right = sum(one == two for one, two in zip(said.tags, gold.tags, strict=True)) / len(gold.tags)
    assert report["accuracy"] == pytest.approx(right)


def test_predictions_as_json(folder: Path) -> None:
    found = json.loads(succeed("predict", folder / "t.loopwise", folder / "test.conll", "--json").stdout)
    for sentence in found["sentences"]:
        assert len(sentence["words"]) == len(sentence["tags"]) == len(sentence["probabilities"])
        for entity in sentence["entities"]:
            assert sentence["tags"][entity["start"]] == f"B-{entity['type']}"
        for shares in sentence["probabilities"]:
            assert sum(shares) == pytest.approx(1, abs=1e-4) and len(shares) == len(found["labels"])


@pytest.mark.parametrize(
    "options",
    [
        ("--learner", "perceptron", "--epochs", 3),
        ("--learner", "samplerank", "--epochs", 3),
        ("--learner", "svm", "--c", 0.05, "--epochs", 3),
        ("--learner", "erm", "--loss", "token-f1", "--iterations", 5, "--decoder", "posterior"),
        ("--hashing", 4096, "--step-templates", "is_title[0]", "--iterations", 30, "--minimum-count", 1),
    ],
    ids=lambda options: str(options[1]),
)
def test_every_learner(folder: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    arguments = (folder / "train.conll.gz", "--dev", folder / "dev.conll", "--templates", TEMPLATES, *options)
    report = json.loads(succeed("train", *arguments, "--out", tmp_path / "t", "--json").stdout)
    assert report["dev"]["entities"]["f1"] > 0.9 and report["tags"] == 4 and report["history"]["epochs"]
    succeed("train", *arguments, "--out", tmp_path / "u")
    assert (tmp_path / "t").read_bytes() == (tmp_path / "u").read_bytes()


def test_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    train = ("train", folder / "train.conll.gz", "--templates", TEMPLATES, "--checkpoint", tmp_path / "run")
    for out in ("one", "two"):  # the second time there is nothing left to do
        succeed(*train, "--out", tmp_path / out)
        assert (tmp_path / out).read_bytes() == (folder / "t.loopwise").read_bytes()
    assert_one_sentence(invoke(*train, "--l2", 3, "--out", tmp_path / "never"), "another run", "learner")


def test_templates_from_a_file_and_going_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "features").write_text("w[0] # the word\nbias\n")
    train = ("train", folder / "train.conll.gz", "--templates", "features", "--learner", "perceptron", "--epochs", 1)
    said = succeed(*train).stdout
    assert "saved train.loopwise" in said and "sentences" in said
    more = ("train", folder / "train.conll.gz", "--start", "train.loopwise", "--iterations", 5)
    assert_one_sentence(invoke(*more), "the default --out train.loopwise", "the input train.loopwise")
    assert json.loads(succeed(*more, "--out", "more.loopwise", "--json").stdout)["history"]["epochs"]
    assert_one_sentence(invoke(*more, "--out", "new", "--templates", "w[0]"), "--start")


def test_bad_input_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.conll"
    bad.write_text("a O\nb I-PER\nc O\nd B-PER\n")
    result = succeed("train", bad, "--out", tmp_path / "t", "--templates", "w[0]")
    assert "warning: " in result.stderr and "line 2" in result.stderr
    out = tmp_path / "never"
    assert_one_sentence(invoke("train", bad, "--strict", "--out", out), "bad.conll, line 2", "I-PER")
    bad.write_text("a O\nb\n")
    assert_one_sentence(invoke("train", bad, "--out", out), "bad.conll, line 2", "no tag")
    bad.write_text("")
    assert_one_sentence(invoke("evaluate", folder / "t.loopwise", bad), "no token")
    assert_one_sentence(invoke("train", folder / "dev.conll", "--templates", "wrd[0]", "--out", out), "'wrd'")
    assert_one_sentence(invoke("train", folder / "dev.conll", "--l2", -1, "--out", out), "l2")
    assert_one_sentence(invoke("train", tmp_path / "absent", "--out", out), "absent", "no such file")
    assert_one_sentence(invoke("predict", folder / "dev.conll", folder / "dev.conll"), "no file that loopwise saved")
    assert not out.exists()


def test_tokens_without_a_visible_character(folder: Path, tmp_path: Path) -> None:
    bad, model = tmp_path / "bad.conll", folder / "t.loopwise"
    bad.write_text("Ann\tB-PER\n\xa0\tO\nsang\tO\n\tO\n")
    for command_line in (("predict", model, bad), ("evaluate", model, bad), ("train", bad, "--out", tmp_path / "t")):
        assert_one_sentence(invoke(*command_line), "bad.conll, line 2", "--blank-tokens")
        told = succeed(*command_line, "--blank-tokens", "skip").stderr
        assert told.count("warning: ") == 1 and "2 tokens without a visible character were left out" in told
        assert succeed(*command_line, "--blank-tokens", "keep").stderr == ""
    lines = succeed("predict", model, bad, "--blank-tokens", "keep").stdout.split("\n")
    assert [line.split("\t")[0] for line in lines[:4]] == ["Ann", "\xa0", "sang", ""]
    assert len(succeed("predict", model, bad, "--blank-tokens", "skip").stdout.split("\n")) == 4


def test_nothing_stands_for_a_number_that_is_0(folder: Path, tmp_path: Path) -> None:
    train = ("train", folder / "dev.conll", "--out", tmp_path / "never")
    for learner in ("likelihood", "erm"):
        assert_one_sentence(
            invoke(*train, "--learner", learner, "--iterations", 0), "iterations must be a whole number of at least 1"
        )
    assert_one_sentence(
        invoke(*train, "--learner", "svm", "--epochs", 0), "epochs must be a whole number of at least 1"
    )
    assert_one_sentence(invoke(*train, "--outside", "PER,LOC,PER"), "--outside lists 'PER' twice")
    assert not (tmp_path / "never").exists()


def test_lines_of_other_columns_are_named(folder: Path, tmp_path: Path) -> None:
    """A missing tag would make the column before it one."""
    (tmp_path / "f.conll").write_text("EU NNP B-NP B-ORG\nrejects VBZ B-VP\n")
    assert_one_sentence(invoke("train", tmp_path / "f.conll"), "line 2", "3 columns, the first token has 4")
    (tmp_path / "f.txt").write_text("Eva left Bonn\nHe stayed\n")
    assert_one_sentence(invoke("predict", folder / "t.loopwise", tmp_path / "f.txt"), "line 2", "one token a line")


def test_one_tag_is_nothing_to_learn(tmp_path: Path) -> None:
    (tmp_path / "f.conll").write_text("a\tO\nb\tO\n\nc\tO\n")
    told = succeed("train", tmp_path / "f.conll", "--out", tmp_path / "m.loopwise").stdout
    assert "nothing to learn" in told and (tmp_path / "m.loopwise").exists()


def test_a_file_of_another_kind(folder: Path) -> None:
    from loopwise.cli.main import app as whole
    from loopwise.cli.parser import parser

    everything, _ = command(whole)
    words = ("holds a Tagger, not a", "command that saved it")
    assert_one_sentence(everything("predict", folder / "t.loopwise", folder / "test.conll"), *words)
    assert_one_sentence(command(parser)[0]("predict", folder / "t.loopwise", folder / "test.conll"), *words)


def test_options_of_other_learners_are_refused(folder: Path) -> None:
    result = invoke("train", folder / "train.conll.gz", "--learner", "perceptron", "--l2", 3)
    assert_one_sentence(result, "--l2 is for likelihood, erm", "perceptron does not use it")


def test_a_treebank_is_read_as_one(tmp_path: Path) -> None:
    """What a new user types: train on a treebank, then tag and evaluate it."""
    lines = ["1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_", "2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_"]
    (tmp_path / "t.conllu").write_text("".join("\n".join(lines) + "\n\n" for _ in range(5)))
    out = tmp_path / "t.loopwise"
    printed = succeed("train", tmp_path / "t.conllu", "--iterations", 5, "--out", out)
    assert "tags 2," in printed.stdout
    assert succeed("predict", out, tmp_path / "t.conllu").stdout.startswith("the\tDET\ndog\tNOUN\n")
    options = ("--iterations", 5, "--out", out, "--column", "xpos")
    succeed("train", tmp_path / "t.conllu", *options)
    assert "accuracy 1.0000" in succeed("evaluate", out, tmp_path / "t.conllu", "--column", "xpos").stdout
    assert_one_sentence(invoke("train", tmp_path / "t.conllu", "--column", "tags"), "no column is called 'tags'")


def test_several_taggings(folder: Path, tmp_path: Path) -> None:
    """The best few as columns or JSON, and drawn ones, each with its probability."""
    model, text = folder / "t.loopwise", folder / "test.conll"
    best = json.loads(succeed("predict", model, text, "--json").stdout)["sentences"]
    several = json.loads(succeed("predict", model, text, "--k", 3, "--json").stdout)["sentences"]
    for one, found in zip(best, several, strict=True):
        assert found["taggings"][0]["tags"] == one["tags"] and len(found["taggings"]) <= 3
        shares = [tagging["probability"] for tagging in found["taggings"]]
        assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1 + 1e-9
    lines = succeed("predict", model, text, "--k", 2).stdout.splitlines()
    assert lines[0].startswith("# probabilities = 0.") or lines[0].startswith("# probabilities = 1")
    assert [line.split("\t")[0] for line in lines[1 : 1 + len(best[0]["words"])]] == best[0]["words"]
    assert [line.split("\t")[1] for line in lines[1 : 1 + len(best[0]["words"])]] == best[0]["tags"]
    drawn = succeed("predict", model, text, "--samples", 4, "--seed", 1, "--json").stdout
    assert drawn == succeed("predict", model, text, "--samples", 4, "--seed", 1, "--json").stdout
    assert len(json.loads(drawn)["sentences"][0]["taggings"]) == 4
    assert_one_sentence(invoke("predict", model, text, "--k", 2, "--samples", 2), "ask for one of the two")


def test_links_between_equal_words(tmp_path: Path) -> None:
    """What a new user types for a skip chain."""
    sentence = "Mr O\nRose B-PER\nmet O\nRose B-PER\n\n"
    other = "a O\nrose O\nin O\nMay O\n\n"
    (tmp_path / "a.conll").write_text(f"-DOCSTART- O\n\n{sentence}{other}" * 3)
    data, new = tmp_path / "a.conll", ("--l2", 0.1, "--out", tmp_path / "m.loopwise")
    succeed("train", data, "--skip", "w[0]|is_title[0]", "--neighbours", 0, *new)
    assert "accuracy 1.0000" in succeed("evaluate", tmp_path / "m.loopwise", data).stdout
    told = json.loads(succeed("predict", tmp_path / "m.loopwise", data, "--json").stdout)
    assert told["converged"] and not told["exact"]
    (tmp_path / "b.conll").write_text("Rose\nran\n")
    assert json.loads(succeed("predict", tmp_path / "m.loopwise", tmp_path / "b.conll", "--json").stdout)["exact"]
    assert_one_sentence(invoke("predict", tmp_path / "m.loopwise", data, "--k", 2), "train without skip")
    assert_one_sentence(invoke("train", data, "--skip", "w[0]", "--learner", "svm", *new[2:]), "SVM does not go with")
    assert_one_sentence(invoke("train", data, "--neighbours", 3, *new), "--skip")


def test_columns_order_and_beta(tmp_path: Path) -> None:
    """Templates look at the second column of the file, in training, prediction and evaluation."""
    rows = ["the DT O", "Smiths NNP B-PER", "ran VB O", "", "Rome NNP B-PER", "saw VB O", "dogs NN O", ""]
    (tmp_path / "a.conll").write_text("\n".join(rows) + "\n")
    new = ("--out", tmp_path / "m.loopwise")
    succeed("train", tmp_path / "a.conll", "--templates", "column2[0] bias", "--order", 2, "--l2", 0.1, *new)
    assert succeed("predict", tmp_path / "m.loopwise", tmp_path / "a.conll").stdout.split()[1::2] == [
        row.split()[-1] for row in rows if row
    ]
    succeed("evaluate", tmp_path / "m.loopwise", tmp_path / "a.conll")
    erm = ("--learner", "erm", "--loss", "entity-fbeta", "--beta", 3, "--iterations", 3)
    succeed("train", tmp_path / "a.conll", "--templates", "column2[0]", *erm, *new)
    (tmp_path / "b.conll").write_text("the\n")
    assert_one_sentence(invoke("predict", tmp_path / "m.loopwise", tmp_path / "b.conll"), "column 2 is asked for")
