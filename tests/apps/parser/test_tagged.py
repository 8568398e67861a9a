"""Parsing text whose tags come from our own tagger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from loopwise.apps import Tagger
from loopwise.cli.parser import parser
from loopwise.formats.conllu import Sentence, read_conllu, write_conllu
from oracles.toy_language import toy_sentences

app = typer.Typer()
app.add_typer(parser, name="parser")
FAST = ("--epochs", 2, "--rate", 0.1, "--size", 50_000, "--cutoff", 1, "--iterations", 1, "--threads", 1)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["parser", *map(str, arguments)])


def untagged(sentences: list[Sentence]) -> list[Sentence]:
    return [sentence.with_tags(["_"] * len(sentence)) for sentence in sentences]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tagged")
    train, test = toy_sentences(50, seed=1), toy_sentences(20, seed=2)
    write_conllu(path / "train.conllu", train)
    write_conllu(path / "gold.conllu", test)
    write_conllu(path / "bare.conllu", untagged(test))
    forms = [sentence.forms for sentence in train]
    Tagger("w[0] w[-1] bias").fit(forms, [s.coarse_tags for s in train]).save(path / "coarse.loopwise")
    Tagger("w[0] w[-1] bias").fit(forms, [s.fine_tags for s in train]).save(path / "fine.loopwise")
    done = invoke("train", path / "train.conllu", "--out", path / "p.loopwise", *FAST)
    assert done.exit_code == 0, done.output
    return path


def uas(folder: Path, out: Path) -> float:
    scores = json.loads(invoke("evaluate", folder / "gold.conllu", out, "--json").stdout)
    return float(scores["uas"])


def test_tags_of_a_tagger_serve_as_well_as_gold_ones(folder: Path, tmp_path: Path) -> None:
    bare, tagged, gold = (tmp_path / name for name in ("bare.conllu", "tagged.conllu", "gold.conllu"))
    taggers = ("--tagger", folder / "coarse.loopwise", "--fine-tagger", folder / "fine.loopwise")
    for source, target, options in (
        ("bare.conllu", bare, ()),
        ("bare.conllu", tagged, taggers),
        ("gold.conllu", gold, ()),
    ):
        done = invoke("predict", folder / "p.loopwise", folder / source, "--out", target, *options)
        assert done.exit_code == 0, done.output
    right, found = read_conllu(folder / "gold.conllu"), read_conllu(tagged)
    assert [s.coarse_tags for s in found] == [s.coarse_tags for s in right]  # the little language is unambiguous
    assert [s.fine_tags for s in found] == [s.fine_tags for s in right]
    assert [s.heads for s in found] == [s.heads for s in read_conllu(gold)]
    assert uas(folder, tagged) > uas(folder, bare) + 0.05


def test_coarse_tags_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.conllu"
    done = invoke(
        "predict", folder / "p.loopwise", folder / "bare.conllu", "--out", out, "--tagger", folder / "coarse.loopwise"
    )
    assert done.exit_code == 0, done.output
    (first, *_) = read_conllu(out)
    assert {word[4] for word in first.words} == {"_"} and "NOUN" in first.coarse_tags


def test_a_fine_tagger_needs_a_coarse_one(folder: Path) -> None:
    done = invoke("predict", folder / "p.loopwise", folder / "bare.conllu", "--fine-tagger", folder / "fine.loopwise")
    assert done.exit_code == 2 and "give that too" in done.output
