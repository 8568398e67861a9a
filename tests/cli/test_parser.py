"""``loopwise parser`` end to end: sentences in, a parser in a file, trees, scores and pictures out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from loopwise.cli.parser import parser
from loopwise.formats.conllu import check_tree, read_conllu, write_conllu
from oracles.toy_language import toy_sentences

app = typer.Typer()
app.add_typer(parser, name="parser")
runner = CliRunner()
FAST = ("--epochs", 3, "--rate", 0.1, "--size", 50_000, "--cutoff", 1, "--iterations", 2, "--threads", 1)


def invoke(*arguments: object, text: str | None = None) -> Result:
    return runner.invoke(app, ["parser", *map(str, arguments)], input=text)


def succeed(*arguments: object, text: str | None = None) -> Result:
    result = invoke(*arguments, text=text)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def assert_one_sentence(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.exception
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training data, development data, and a parser trained on them."""
    path = tmp_path_factory.mktemp("parser")
    write_conllu(path / "train.conllu", toy_sentences(50, seed=1))
    write_conllu(path / "dev.conllu.gz", toy_sentences(20, seed=2))
    report = succeed(
        "train", path / "train.conllu", "--dev", path / "dev.conllu.gz", "--out", path / "p.loopwise", "--json", *FAST
    )
    told = json.loads(report.stdout)
    assert told["dev"]["uas"] > 0.9 and len(told["history"]["epochs"]) == 3 and 0.9 < told["pruning"]["oracle"] <= 1
    return path


def test_from_sentences_to_scores(folder: Path) -> None:
    gold, out = folder / "dev.conllu.gz", folder / "out.conllu"
    done = succeed("predict", folder / "p.loopwise", gold, "--out", out, "--confidence")
    assert "20 sentences" in done.stderr
    for sentence in read_conllu(out):
        check_tree(sentence, single_root=True)
        assert all("ArcConfidence=" in word[9] for word in sentence.words)
    scores = json.loads(succeed("evaluate", gold, out, "--json", "--lengths").stdout)
    assert scores["uas"] > 0.9 and scores["uas_no_punctuation"] > 0.9 and scores["by_length"][0]["length"] == "root"
    shown = succeed("evaluate", gold, out, "--lengths").stdout
    assert f"UAS {100 * scores['uas']:.2f}" in shown and "CoNLL 2006" in shown and "length   root" in shown


def test_standard_streams_and_json(folder: Path) -> None:
    sentence = read_conllu(folder / "dev.conllu.gz")[0]
    text = "# kept\n" + "\n".join(sentence.lines) + "\n\n"
    printed = succeed("predict", folder / "p.loopwise", "-", text=text).stdout
    assert printed.startswith("# kept\n") and printed.endswith("\n\n")
    row = json.loads(succeed("predict", folder / "p.loopwise", "-", "--json", text=text).stdout)
    heads = [int(line.split("\t")[6]) for line in printed.splitlines()[1:] if line]
    assert row["heads"] == heads and row["words"] == sentence.forms
    assert all(0 < value <= 1 + 1e-9 for value in row["confidence"])
    fewer = json.loads(succeed("predict", folder / "p.loopwise", "-", "--json", "--iterations", 1, text=text).stdout)
    assert fewer["confidence"] != row["confidence"]


def test_pictures(folder: Path) -> None:
    out = folder / "tree.svg"
    succeed("show", folder / "dev.conllu.gz", "--model", folder / "p.loopwise", "--out", out, "--sentence", 2)
    svg = out.read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "opacity=" in svg
    for form in read_conllu(folder / "dev.conllu.gz")[1].forms:
        assert f">{form}<" in svg
    told = succeed("show", folder / "dev.conllu.gz", "--out", folder / "page.html", "--json")
    assert json.loads(told.stdout)["sentences"] == 20
    assert (folder / "page.html").read_text(encoding="utf-8").count("<svg") == 20


def test_errors_are_one_sentence_and_leave_nothing(folder: Path, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.conllu", tmp_path / "out.loopwise"
    row = "{}\tx\t_\tX\t_\t_\t{}\tdep\t_\t_"
    bad.write_text(row.format(1, 2) + "\n" + row.format(2, 1) + "\n")
    assert_one_sentence(invoke("train", bad, "--out", out, *FAST), "line 1", "cycle: 1 -> 2 -> 1")
    bad.write_text(row.format(1, 5) + "\n")
    assert_one_sentence(invoke("predict", folder / "p.loopwise", bad, "--out", out), "line 1", "out of range")
    bad.write_text("")
    assert_one_sentence(invoke("train", bad, "--out", out, *FAST), "no sentence")
    assert_one_sentence(invoke("train", tmp_path / "missing", "--out", out), "missing: no such file")
    assert_one_sentence(invoke("predict", folder / "train.conllu", folder / "dev.conllu.gz"), "no file that loopwise")
    assert_one_sentence(invoke("train", bad, "--factors", "uncle"), "no factor 'uncle'")
    assert_one_sentence(invoke("train", bad, "--probe", "--rate", "0.1"), "use one of them")
    assert_one_sentence(invoke("train", "-"), "--out")
    assert_one_sentence(invoke("show", folder / "train.conllu", "--out", tmp_path / "x.gif"), ".svg or .html")
    assert_one_sentence(
        invoke("show", folder / "train.conllu", "--out", tmp_path / "x.svg", "--sentence", 99), "out of range"
    )
    assert_one_sentence(invoke("evaluate", folder / "train.conllu", folder / "dev.conllu.gz"), "different texts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.conllu"]


@pytest.mark.parametrize(
    "options",
    [
        ("--loss", "cll", "--factors", "grandparent", "--inference", "exact", "--no-labels"),
        ("--loss", "l2+ar", "--nonprojective", "--multi-root", "--factors", "none", "--no-prune"),
    ],
)
def test_other_parsers(folder: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    out = tmp_path / "p.loopwise"
    shown = succeed("train", folder / "train.conllu", "--out", out, *FAST, *options).stdout
    assert "saved" in shown and "pruning leaves" in shown
    trees = succeed("predict", out, folder / "train.conllu").stdout
    assert trees.count("\n\n") == 50


def test_bad_sentences_can_be_skipped(folder: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.conllu"
    row = "{}\tx\t_\tX\t_\t_\t{}\tdep\t_\t_"
    good = (folder / "train.conllu").read_text(encoding="utf-8")
    mixed.write_text(good + row.format(1, 0) + "\n" + row.format(2, 0) + "\n\n", encoding="utf-8")
    done = succeed("train", mixed, "--out", tmp_path / "p.loopwise", "--skip-bad", "--factors", "none", *FAST)
    assert "warning: left out" in done.stderr and "both have the head 0" in done.stderr


def test_models_and_empty_files_are_nothing_to_score(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.conllu").write_text("")
    empty = tmp_path / "empty.conllu"
    assert_one_sentence(invoke("evaluate", folder / "p.loopwise", empty), "is a parser", "two files of trees")
    assert_one_sentence(invoke("evaluate", empty, empty), "no words")


def test_threads_are_at_least_one(tmp_path: Path) -> None:
    write_conllu(tmp_path / "t.conllu", toy_sentences(4, seed=0))
    refused = invoke("train", tmp_path / "t.conllu", "--threads", 0)
    assert_one_sentence(refused, "threads must be at least 1, not 0")


def test_a_target_that_cannot_be_is_noticed_before_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "loopwise.apps.parser.estimator.Parser.fit", lambda *_, **__: pytest.fail("trained for nothing")
    )
    missing = tmp_path / "missing" / "p.loopwise"
    assert_one_sentence(invoke("train", folder / "train.conllu", "--out", missing), str(missing), "does not exist")


def test_plain_text_goes_through_a_tagger(folder: Path, tmp_path: Path) -> None:
    """What a new user types: a tagger and a parser of one treebank, then a line of text."""
    from loopwise.apps import Tagger
    from loopwise.apps.chain import ChainLikelihood

    known = read_conllu(folder / "train.conllu")
    tagger = tmp_path / "upos.loopwise"
    Tagger(learner=ChainLikelihood(iterations=20)).fit(folder / "train.conllu", progress=False).save(tagger)
    words = known[0].forms
    text = tmp_path / "t.txt"
    text.write_text(" ".join(words) + "\n\n" + " ".join(known[1].forms) + "\n")
    printed = succeed("predict", folder / "p.loopwise", text, "--tagger", tagger).stdout
    (tmp_path / "said.conllu").write_text(printed)
    first, second = read_conllu(tmp_path / "said.conllu", trees=True)
    assert first.forms == words and second.forms == known[1].forms and first.coarse_tags == known[0].coarse_tags
    assert_one_sentence(invoke("predict", folder / "p.loopwise", text), "is plain text", "give --tagger")


def test_several_trees_and_heads_that_are_not_known(folder: Path, tmp_path: Path) -> None:
    """``--k`` and ``--samples`` give trees with probabilities; ``train --partial`` learns around heads of ``_``."""
    gold = toy_sentences(5, seed=3)
    write_conllu(tmp_path / "new.conllu", gold)
    told = succeed("predict", folder / "p.loopwise", tmp_path / "new.conllu", "--k", 3).stdout
    rows = [json.loads(line) for line in told.splitlines()]
    for sentence, row in zip(gold, rows, strict=True):
        assert row["words"] == sentence.forms and 1 <= len(row["trees"]) <= 3
        shares = [tree["probability"] for tree in row["trees"]]
        assert shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-9
        for tree in row["trees"]:
            check_tree(sentence.with_tree(tree["heads"]), single_root=True)
    drawn = succeed("predict", folder / "p.loopwise", tmp_path / "new.conllu", "--samples", 2, "--seed", 4).stdout
    assert (
        drawn == succeed("predict", folder / "p.loopwise", tmp_path / "new.conllu", "--samples", 2, "--seed", 4).stdout
    )
    assert_one_sentence(
        invoke("predict", folder / "p.loopwise", tmp_path / "new.conllu", "--k", 2, "--samples", 2), "one of the two"
    )
    some = [sentence.with_tree([-1, *sentence.heads[1:]]) for sentence in toy_sentences(30, seed=5)]
    write_conllu(tmp_path / "some.conllu", some)
    new = ("--out", tmp_path / "some.loopwise", *FAST)
    assert_one_sentence(invoke("train", tmp_path / "some.conllu", *new), "has no head")
    assert "saved" in succeed("train", tmp_path / "some.conllu", "--partial", *new).stdout
