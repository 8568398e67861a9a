"""``loopwise denoise``: train, predict and evaluate on folders of pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from loopwise.apps.grid_crf import GridCRF
from loopwise.cli.denoise import denoise

runner = CliRunner()


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Noisy squares, three small pictures of two sizes, black and white labels."""
    rng = np.random.default_rng(0)
    for name in ("noisy", "clean", "masks"):
        (tmp_path / name).mkdir()
    for number, size in enumerate([(10, 12), (10, 12), (9, 8)]):
        clean = np.zeros(size, dtype=bool)
        clean[2:7, 2:7] = True
        noisy = np.clip(0.3 + 0.4 * clean + rng.normal(0, 0.2, size), 0, 1)
        mask = rng.random(size) < 0.9
        for folder, array in (("noisy", 255 * noisy), ("clean", 255 * clean), ("masks", 255 * mask)):
            Image.fromarray(array.astype(np.uint8)).save(tmp_path / folder / f"{number}.png")
    return tmp_path


def run(*arguments: object) -> str:
    result = runner.invoke(denoise, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_from_folders_to_measures(folders: Path) -> None:
    model, values = folders / "model.loopwise", ["--label-values", "0,255"]
    masks = ["--masks", folders / "masks"]
    options = ["--loss", "error", "--iterations", 8, "--out", model, "--json"]
    told = json.loads(run("train", folders / "noisy", folders / "clean", *values, *masks, *options))
    assert told["images"] == 3 and told["weights"] == 8 and {entry["stage"] for entry in told["history"]["epochs"]}
    said = run("predict", model, folders / "noisy", folders / "out", "--marginals")
    assert "6 files" in said
    trained = GridCRF.load(model)
    for number in range(3):
        noisy = np.asarray(Image.open(folders / "noisy" / f"{number}.png"))
        answer = np.asarray(Image.open(folders / "out" / f"{number}.png"))
        np.testing.assert_array_equal(answer, 255 * trained.predict([noisy])[0])
        marginals = np.load(folders / "out" / f"{number}.npz")["marginals"]
        np.testing.assert_allclose(marginals, trained.predict_marginals([noisy])[0], atol=1e-6)
    measured = json.loads(run("evaluate", model, folders / "noisy", folders / "clean", *masks, "--json"))
    counts = np.array(measured["confusion"])
    pixels = sum(int((np.asarray(Image.open(folders / "masks" / f"{k}.png")) > 0).sum()) for k in range(3))
    assert counts.sum() == pixels
    assert measured["measures"]["error"] == pytest.approx(1 - np.trace(counts) / pixels)
    assert measured["measures"]["error"] < 0.2
    lines = run("evaluate", model, folders / "noisy", folders / "clean")
    assert "recall of label 1" in lines


@pytest.mark.parametrize(
    "options",
    [
        ["--inference", "bp", "--gradient", "fixed-point", "--loss", "clique", "--tolerance", "1e-8"],
        ["--inference", "meanfield", "--gradient", "perturbation", "--neighbours", 8, "--pair", "directed"],
        ["--unary", "conv", "--pair", "contrast", "--loss", "likelihood", "--gradient", "unroll", "--l2", 0.01],
    ],
)
def test_every_kind_of_model(folders: Path, options: list[object]) -> None:
    out = folders / "new.loopwise"
    common = ["--label-values", "0,255", "--iterations", 2, "--out", out]
    assert f"saved {out}" in run("train", folders / "noisy", folders / "clean", *common, *options)
    assert run("predict", out, folders / "noisy", folders / "out", "--json")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["train", "noisy", "clean"], "has the label 255; labels are 0 to 1"),
        (["train", "noisy", "clean", "--label-values", "0,x"], "whole numbers"),
        (["train", "noisy", "clean", "--label-values", "0,1,255"], "3 numbers for --states 2"),
        (["train", "noisy", "nowhere"], "no such file"),
        (["train", "noisy", "clean", "--label-values", "0,255", "--neighbours", "5"], "neighbours must be 4 or 8"),
        (["train", "noisy", "clean", "--label-values", "0,255", "--neighbours", "0"], "neighbours must be 4 or 8"),
        (["predict", "noisy/0.png", "noisy", "out"], "no file that loopwise saved"),
    ],
)
def test_errors_are_one_sentence(folders: Path, arguments: list[str], words: str) -> None:
    paths = [str(folders / word) if "/" in word or word in ("noisy", "clean", "nowhere", "out") else word
             for word in arguments]  # fmt: skip
    result = runner.invoke(denoise, paths)
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1
    assert not (folders / "noisy.loopwise").exists() and not (folders / "out").exists()
