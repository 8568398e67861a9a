"""``loopwise decode``: from files to files, and one sentence for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.decoder import Flips
from loopwise.cli.main import app
from loopwise.formats.shots import read_bits, write_bits
from oracles.codes import toric
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = toric()
    np.savetxt(tmp_path / "toric.txt", code.checks.matrix.toarray(), "%d")
    np.savetxt(tmp_path / "loops.txt", code.observables.toarray(), "%d")
    shots = Flips(code).draw(300, np.random.default_rng(0))
    assert shots.errors is not None and shots.flips is not None
    write_bits(tmp_path / "s.b8", shots.syndromes)
    write_bits(tmp_path / "e.01", shots.errors)
    write_bits(tmp_path / "f.npy", shots.flips)
    return tmp_path


def test_train_run_evaluate(folder: Path) -> None:
    out = folder / "toric.loopwise"
    given = ("decode", "train", folder / "toric.txt", "--observables", folder / "loops.txt", "--p", 0.05)
    told = succeed(*given, "--sweeps", 8, "--steps", 20, "--legs", 2, "--out", out, "--checkpoint", folder / "c")
    assert "failures on held-out shots" in told.stdout and out.exists() and (folder / "c.1").exists()
    told = succeed("decode", "run", out, folder / "s.b8", "--out", folder / "c.01")
    assert "syndromes explained" in told.stdout
    corrections = read_bits(folder / "c.01", 32)
    told = succeed("decode", "run", out, folder / "s.b8", "--out", folder / "p.npy", "--predict", "--json")
    assert json.loads(told.stdout)["shots"] == 300
    np.testing.assert_array_equal(read_bits(folder / "p.npy", 2), toric().flips(corrections))
    rows = []
    for options in (("--errors", folder / "e.01"), ("--flips", folder / "f.npy")):
        told = succeed("decode", "evaluate", out, "--syndromes", folder / "s.b8", *options, "--json")
        rows.append(json.loads(told.stdout))
    assert rows[0]["errors"] == rows[1]["errors"] and rows[0]["shots"] == 300 and rows[0]["low"] <= rows[0]["rate"]


def test_counts_add_up(folder: Path) -> None:
    given = ("decode", "evaluate", folder / "toric.txt", "--observables", folder / "loops.txt", "--p", 0.05, "--osd", 2)
    for seed in (1, 2):
        succeed(*given, "--shots", 200, "--seed", seed, "--out", folder / f"{seed}.csv")
    succeed(*given, "--shots", 100, "--sweeps", 3, "--out", folder / "3.csv")
    told = succeed("decode", "combine", *(folder / f"{seed}.csv" for seed in (1, 2, 3)), "--json")
    assert [row["shots"] for row in json.loads(told.stdout)] == [400, 100]
    assert all(row["unexplained"] == 0 for row in json.loads(told.stdout))
    assert_one_sentence(
        invoke("decode", "combine", folder / "1.csv", folder / "2.csv", folder / "1.csv"),
        "stands in",
        "count its shots",
    )
    told = succeed("decode", "combine", folder / "1.csv")
    assert told.stdout == (folder / "1.csv").read_text()


def test_counts_of_different_numbers_stay_apart(folder: Path) -> None:
    """Decoders of the same name and settings, trained or not, and shots from files or drawn."""
    out = folder / "toric.loopwise"
    for steps in (10, 20):
        given = ("decode", "train", folder / "toric.txt", "--p", 0.05, "--sweeps", 4, "--rule", "sum-product")
        succeed(*given, "--rate", 0.05, "--steps", steps, "--loss", "bits", "--out", out)
        succeed("decode", "evaluate", out, "--shots", 100, "--out", folder / f"{steps}.csv")
    seen = ("--syndromes", folder / "s.b8", "--errors", folder / "e.01")
    succeed("decode", "evaluate", out, *seen, "--out", folder / "seen.csv")
    told = succeed("decode", "combine", *(folder / f"{name}.csv" for name in (10, 20, "seen")), "--json")
    assert [row["shots"] for row in json.loads(told.stdout)] == [100, 100, 300]


def test_settings_that_nothing_uses_are_refused(folder: Path) -> None:
    code, out = folder / "toric.txt", folder / "toric.loopwise"
    succeed("decode", "train", code, "--p", 0.05, "--steps", 1, "--out", out)
    for option in (("--sweeps", 3), ("--rule", "min-sum"), ("--scale", 0.8), ("--layered",)):
        assert_one_sentence(
            invoke("decode", "evaluate", out, "--shots", 5, *option),
            f"{option[0]} is for codes; a saved decoder does not use it",
        )
    given = ("decode", "evaluate", code, "--p", 0.05, "--rule", "sum-product", "--offset", 0.1, "--shots", 5)
    assert_one_sentence(invoke(*given), "--offset is for min-sum; sum-product does not use it")
    given = ("decode", "evaluate", out, "--shots", 5, "--errors", folder / "e.01")
    assert_one_sentence(invoke(*given), "--errors is for --syndromes, --received; --shots does not use it")
    noise = ("--decibels", 4, "--p", 0.1)
    for given in (("evaluate", code, "--shots", 5), ("evaluate", out, "--shots", 5), ("train", code, "--steps", 1)):
        assert_one_sentence(invoke("decode", *given, *noise), "--p is for flips; --decibels does not use it")
    given = ("decode", "train", code, "--steps", 1, "--decibels", 4, "--noisier", 2)
    assert_one_sentence(invoke(*given), "--noisier is for flips; --decibels does not use it")
    np.save(folder / "r.npy", np.full((4, 32), 2.0))
    given = ("decode", "run", code, folder / "r.npy", "--received", "--out", folder / "w.01", "--p", 0.1)
    assert_one_sentence(invoke(*given), "--p is for syndromes; --received does not use it")
    given = ("decode", "evaluate", code, "--received", folder / "r.npy", "--errors", folder / "w.01", "--p", 0.1)
    assert_one_sentence(invoke(*given), "--p is for --shots, --syndromes; --received does not use it")


def test_received_words(folder: Path) -> None:
    np.save(folder / "r.npy", np.full((4, 32), 2.0))
    given = ("decode", "run", folder / "toric.txt", folder / "r.npy", "--received", "--out", folder / "w.01")
    assert "4 of 4 syndromes explained" in succeed(*given).stdout
    assert not read_bits(folder / "w.01", 32).any()
    told = succeed("decode", "evaluate", folder / "toric.txt", "--decibels", 6, "--shots", 100, "--json")
    assert json.loads(told.stdout)["shots"] == 100


def test_received_words_of_a_file_are_judged(folder: Path) -> None:
    """Words that are sent and words that came: a row is a codeword of the code, with every log-odds right but two."""
    code = folder / "toric.txt"
    stars = np.array([[0, 3, 16, 28]] * 4)  # flips of these bits break no check
    sent = np.zeros((4, 32), np.uint8)
    np.put_along_axis(sent, stars, 1, 1)
    odds = np.where(sent == 0, 2.0, -2.0)
    odds[0, 5], odds[1] = -0.5, -odds[1]
    np.save(folder / "r.npy", odds)
    write_bits(folder / "w.b8", sent)
    given = ("decode", "evaluate", code, "--received", folder / "r.npy")
    told = json.loads(succeed(*given, "--errors", folder / "w.b8", "--json").stdout)
    assert (told["shots"], told["errors"], told["settings"]["received"]) == (4, 1, "r.npy")
    assert_one_sentence(invoke(*given), "--received alone says nothing of failures; give --errors")
    assert_one_sentence(invoke(*given, "--flips", folder / "f.npy"), "--flips is for --syndromes")
    assert_one_sentence(invoke(*given, "--errors", folder / "e.01"), "e.01 has 300 rows", "r.npy has 4")
    write_bits(folder / "w.01", np.eye(4, 32, dtype=np.uint8))
    assert_one_sentence(invoke(*given, "--errors", folder / "w.01"), "w.01: row 0 is no codeword")
    odds[2, 7] = np.nan
    np.save(folder / "r.npy", odds)
    assert_one_sentence(invoke(*given, "--errors", folder / "w.b8"), "r.npy: the log-odds of shot 2 hold NaN")
    given = ("decode", "run", code, folder / "r.npy", "--received", "--out", folder / "o.npy")
    assert_one_sentence(invoke(*given), "r.npy: the log-odds of shot 2 hold NaN")


def test_bad_input(folder: Path) -> None:
    code, out = folder / "toric.txt", folder / "o.b8"
    assert_one_sentence(invoke("decode", "train", code), "toric.txt says nothing of how likely flips are; give --p")
    assert_one_sentence(invoke("decode", "train", code, "--p", 0), "the prior is 0; it must be above 0 and below 1")
    assert_one_sentence(invoke("decode", "train", code, "--p", 0.1, "--out", code), "is the same as the input")
    (folder / "empty.txt").write_text("1 1\n0 0\n")
    assert_one_sentence(
        invoke("decode", "train", folder / "empty.txt", "--p", 0.1), "empty.txt: row 1 of the check matrix is empty"
    )
    assert_one_sentence(
        invoke("decode", "run", code, folder / "e.01", "--p", 0.1, "--out", out), "not one for each of 16 bits"
    )
    assert_one_sentence(
        invoke("decode", "run", code, folder / "s.dat", "--p", 0.1, "--out", out), "does not say how rows of bits"
    )
    assert_one_sentence(
        invoke("decode", "run", code, folder / "s.b8", "--p", 0.1, "--out", out, "--predict"), "--predict needs a code"
    )
    assert_one_sentence(invoke("decode", "evaluate", code, "--p", 0.1), "give either --shots")
    assert_one_sentence(
        invoke("decode", "evaluate", code, "--p", 0.1, "--syndromes", folder / "s.b8"), "give --errors or --flips"
    )
    assert_one_sentence(invoke("decode", "combine", code), "line 1: the file does not begin with the columns")
    given = (folder / "f.npy", folder / "s.b8", "--p", 0.1, "--out", out)  # a matrix of another kind
    assert_one_sentence(invoke("decode", "run", *given), "of the check matrix is empty")
    for name in ("s.b8", "weird.xyz"):
        (folder / "weird.xyz").write_text("hm")
        given = (folder / name, folder / "s.b8", "--p", 0.1, "--out", out)
        assert_one_sentence(
            invoke("decode", "run", *given), "the name does not say how a code is laid out: .stim, .dem"
        )
    (folder / "cut.loopwise").write_text("hm")
    assert_one_sentence(invoke("decode", "run", folder / "cut.loopwise", folder / "s.b8", "--out", out), "cut off")
    assert not out.exists()
