"""``loopwise dedupe`` from files to files, and what it says of bad ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopwise.apps.dedupe import made_records
from loopwise.cli.main import app
from loopwise.formats.table import csv_line
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with true ids, and a model of it."""
    folder = tmp_path_factory.mktemp("dedupe")
    records, ids = made_records(80, seed=0)
    rows = zip(range(len(ids)), ids, *records.columns, strict=True)
    lines = [csv_line(["key", "who", *records.names]), *(csv_line([f"k{row[0]}", *row[1:]]) for row in rows)]
    (folder / "people.csv").write_text("".join(lines))
    told = succeed(
        "dedupe",
        "train",
        folder / "people.csv",
        "--ids",
        "who",
        "--id",
        "key",
        "--out",
        folder / "m.loopwise",
        "--json",
    )
    summary = json.loads(told.stdout)
    assert (
        summary["blocking"]["recall"] > 0.95
        and summary["kinds"]["born"] == "date"
        and summary["kinds"]["who"] == "ignore"
    )
    return folder


def test_predict_and_evaluate(folder: Path) -> None:
    out, links, one, page = (folder / name for name in ("out.csv", "links.csv", "one.csv", "page.html"))
    told = succeed(
        *("dedupe", "predict", folder / "m.loopwise", folder / "people.csv", "--out", out),
        *("--links", links, "--canonical", one, "--report", page),
    )
    assert "clusters" in told.stdout
    rows = list(csv.DictReader(out.open()))
    assert {"cluster_id", "cluster_confidence", "confidence"} <= set(rows[0])
    assert next(csv.DictReader(links.open()))["id_1"].startswith("k")
    assert one.exists() and "<html" in page.read_text()
    report = json.loads(
        succeed("dedupe", "evaluate", folder / "m.loopwise", folder / "people.csv", "--ids", "who", "--json").stdout
    )
    assert report["b_cubed"] > 0.9
    lines = succeed("dedupe", "evaluate", folder / "m.loopwise", folder / "people.csv", "--ids", "who").stdout
    assert "B-cubed" in lines and lines.count("\n") == 4


def test_labels_are_asked_for_and_teach(folder: Path) -> None:
    answers, pairs = folder / "answers.txt", folder / "pairs.csv"
    answers.write_text("match\nn\n\nunsure\nstop\nmatch\n")
    common = (folder / "people.csv", "--id", "key", "--kind", "who=ignore")
    told = succeed("dedupe", "label", *common, "--out", pairs, "--answers", answers, "--count", 8)
    assert "pairs labelled 3" in told.stdout
    rows = list(csv.DictReader(pairs.open()))
    assert [row["label"] for row in rows] == ["match", "distinct", "unsure"]
    told = succeed("dedupe", "train", *common, "--pairs", pairs, "--out", folder / "few.loopwise")
    assert "saved" in told.stdout


def test_answers_are_kept_where_people_go_away(folder: Path) -> None:
    common = [folder / "people.csv", "--id", "key", "--kind", "who=ignore", "--out", folder / "some.csv"]
    label = ["dedupe", "label", *map(str, common)]
    gone = CliRunner().invoke(app, label, input="y\nwhat\nn\n")  # and no more
    assert gone.exit_code == 0 and "say y, n, u or stop" in gone.stderr
    assert [row["label"] for row in csv.DictReader((folder / "some.csv").open())] == ["match", "distinct"]
    (folder / "some.csv").unlink()
    assert CliRunner().invoke(app, label, input="").exit_code != 0 and not (folder / "some.csv").exists()


def test_two_tables_may_number_their_rows_alike(folder: Path) -> None:
    tables = folder / "one.csv", folder / "two.csv"
    records, _ = made_records(80, seed=5)
    rows = enumerate(zip(*records.columns, strict=True))
    text = "".join([csv_line(["key", *records.names]), *(csv_line([row, *cells]) for row, cells in rows)])
    for path in tables:
        path.write_text(text)
    answers, pairs, links = folder / "yes.txt", folder / "yes.csv", folder / "links.csv"
    answers.write_text("y\n" * 3)
    common = (tables[0], "--other", tables[1], "--id", "key")
    succeed("dedupe", "label", *common, "--out", pairs, "--answers", answers, "--count", 3)
    succeed("dedupe", "train", *common, "--pairs", pairs, "--out", folder / "two.loopwise")
    succeed("dedupe", "predict", folder / "two.loopwise", *common[:3], "--out", folder / "x.csv", "--links", links)
    found = list(csv.DictReader(links.open()))
    assert sum(row["id_1"] == row["id_2"] for row in found) == len(records)


def test_semicolons_are_read_in_tables_and_labels(folder: Path, tmp_path: Path) -> None:
    rows = list(csv.reader((folder / "people.csv").open()))
    table, pairs = tmp_path / "people.csv", tmp_path / "pairs.csv"
    table.write_text("".join(";".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    pairs.write_text("a;b;label\nk0;k1;distinct\n")
    common = ("--id", "key", "--kind", "who=ignore", "--out", tmp_path / "m.loopwise", "--json")
    told = json.loads(succeed("dedupe", "train", table, "--pairs", pairs, *common).stdout)
    assert told["labelled"] == 1 and told["records"] == len(rows) - 1 and told["kinds"]["born"] == "date"
    assert told["pull"] is None and told["held_out"] == {}
    told_lines = succeed("dedupe", "train", table, "--pairs", pairs, *common[:-1]).stdout
    assert "labels: 1 pairs, with which nothing is seen to be better" in told_lines


def test_bad_input_is_one_sentence_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    people, model, out = folder / "people.csv", folder / "m.loopwise", tmp_path / "x"

    def refused(*arguments: object, words: str) -> None:
        assert_one_sentence(invoke("dedupe", *arguments), words)
        assert not out.exists()

    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    refused("train", file("empty.csv", b""), "--out", out, words="the file is empty")
    refused("train", file("head.csv", b"a,b\n"), "--out", out, words="has no rows")
    refused("train", file("latin.csv", b"name\nJos\xe9\nAnn\n"), "--out", out, words="is not UTF-8")
    refused("train", file("ragged.csv", b"a,b\n1\n"), "--out", out, words="line 2")
    refused("train", file("same.csv", b"a\nx\nx\n"), "--out", out, words="no column to compare")
    twice = file("twice.csv", b"id,name\n1,a\n1,b\n")
    refused("train", twice, "--id", "id", "--out", out, words="is that of rows 0 and 1")
    refused("train", people, "--ids", "key", "--out", out, words="different in every row")
    refused("train", people, "--ids", "nobody", "--out", out, words="no column 'nobody'")
    refused("train", people, "--kind", "name", "--out", out, words="must be COLUMN=KIND")
    refused("train", people, "--kind", "name=words", "--out", out, words="cannot be of kind 'words'")
    wrong = file("pairs.csv", b"a,b,label\nk0,k1,match\nk1,k2,match\nk2,k0,distinct\n")
    refused("train", people, "--id", "key", "--pairs", wrong, "--out", out, words="'k0' = 'k1' = 'k2'")
    refused("predict", people, people, "--out", out, words="no file that loopwise saved")
    refused("predict", model, people, "--out", people, words="--out")
    refused("predict", model, file("other.csv", b"a,b\n1,2\n3,4\n"), "--out", out, words="no column")
    refused("predict", model, people, "--other", people, "--out", out, words="trained on one table")
    refused("train", people, "--other", file("b.csv", b"x,y\n1,2\n"), "--out", out, words="have no column in common")
    refused("train", people, "--method", "entity", "--out", out, words="method must be one of average")
    refused("label", people, "--model", model, "--id", "key", "--out", out, words="are those of the --model")
    refused("label", people, "--out", out, "--answers", file("say.txt", b"perhaps\n"), words="line 1: 'perhaps'")
