"""Tables that commands read."""

from __future__ import annotations

from pathlib import Path

from oracles.commands import assert_one_sentence
from oracles.fit_tables import FAST, invoke, succeed


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
