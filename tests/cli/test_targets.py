"""No command writes over what it reads, or over its other output, however the paths are written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loopwise.apps.grid_crf import GridCRF
from loopwise.cli.main import app
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)

UAI = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"
CSV = "a,b\n0,1\n1,0\n1,1\n0,0\n"
OTHER = "what the file held"

# A command, and the places of its inputs and outputs: every input is tried at every output.
COMMANDS: list[tuple[str, list[str], list[str]]] = [
    ("infer {} --evidence {} --out {}", ["a.uai", "a.evid"], ["o"]),
    ("compare-gradients {} --evidence {} --plot {}", ["a.uai", "a.evid"], ["o"]),
    ("fit {} {} --outputs b --dev {} --out {} --checkpoint {}", ["a.uai", "t.csv", "d.csv"], ["o", "c"]),
    ("predict {} {} --out {}", ["m.loopwise", "t.csv"], ["o"]),
    ("parser train {} --dev {} --tagger {} --fine-tagger {} --out {} --checkpoint {}",
     ["t.conllu", "d.conllu", "t1.loopwise", "t2.loopwise"], ["o", "c"]),
    ("parser predict {} {} --tagger {} --fine-tagger {} --out {}",
     ["m.loopwise", "t.conllu", "t1.loopwise", "t2.loopwise"], ["o"]),
    ("parser show {} --model {} --out {}", ["t.svg", "m.svg"], ["o.svg"]),
    ("tagger train {} --dev {} --start {} --out {} --checkpoint {}", ["t.txt", "d.txt", "m.loopwise"], ["o", "c"]),
    ("tagger train {} --templates {} --out {} --checkpoint {}", ["t.txt", "features"], ["o", "c"]),
    ("tagger predict {} {} --out {}", ["m.loopwise", "t.txt"], ["o"]),
    ("multilabel train {} --labels {} --dev {} --out {} --checkpoint {}", ["t.arff", "l.xml", "d.arff"], ["o", "c"]),
    ("multilabel predict {} {} --out {}", ["m.loopwise", "t.arff"], ["o"]),
    ("coref train {} --dev {} --out {} --checkpoint {}", ["t.conllu", "d.conllu"], ["o", "c"]),
    ("coref predict {} {} --out {}", ["m.loopwise", "t.conllu"], ["o"]),
    ("decode train {} --observables {} --p 0.1 --out {} --checkpoint {}", ["t.txt", "l.txt"], ["o", "c"]),
    ("decode run {} {} --observables {} --out {}", ["m.loopwise", "s.b8", "l.txt"], ["o.b8"]),
    ("decode evaluate {} --syndromes {} --errors {} --flips {} --out {}",
     ["m.loopwise", "s.b8", "e.b8", "f.b8"], ["o"]),
    ("decode combine {} {} --out {}", ["a.csv", "b.csv"], ["o"]),
    ("denoise train {} {} --masks {} --out {}", ["x.npy", "y.npy", "z.npy"], ["o"]),
]  # fmt: skip


def spelled(path: Path) -> str:
    return os.path.join(".", os.path.relpath(path))


def linked(path: Path) -> str:
    link = path.with_name(f"link-{path.name}")
    link.symlink_to(path)
    return str(link)


def hard_linked(path: Path) -> str:
    link = path.with_name(f"hard-{path.name}")
    os.link(path, link)
    return str(link)


@pytest.mark.parametrize("way", [str, spelled, linked, hard_linked])
@pytest.mark.parametrize("case", COMMANDS, ids=[case[0].split(" {")[0] for case in COMMANDS])
def test_no_output_is_an_input(
    case: tuple[str, list[str], list[str]],
    way: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line, inputs, outputs = case
    for name in inputs:
        (tmp_path / name).write_text(UAI if name.endswith(".uai") else CSV if name.endswith(".csv") else OTHER)
    before = {name: (tmp_path / name).read_bytes() for name in inputs}
    for name in inputs:
        said = way(tmp_path / name)
        for output in outputs:
            chosen = [said if other == output else other for other in outputs]
            result = invoke(*line.format(*inputs, *chosen).split())
            assert_one_sentence(result, f"the input {name}", "would destroy")
    assert {name: (tmp_path / name).read_bytes() for name in inputs} == before


@pytest.mark.parametrize(
    "line",
    [case[0] for case in COMMANDS if "--checkpoint" in case[0] and "--start" not in case[0]],
)
def test_model_and_checkpoint_are_two_files(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = [str(number) for number in range(line.count("{}") - 2)]
    for name in inputs:
        (tmp_path / name).write_text(OTHER)
    result = invoke(*line.format(*inputs, "both", "./both").split())
    assert_one_sentence(result, "--checkpoint both", "--out both")
    assert sorted(os.listdir(tmp_path)) == inputs


@pytest.mark.parametrize(
    "line",
    ["fit t.csv --outputs b --dev t.loopwise", "parser train t.loopwise", "tagger train t.loopwise",
     "multilabel train t.loopwise", "coref train t.loopwise", "decode train t.loopwise",
     "denoise train t.loopwise t.loopwise"],
)  # fmt: skip
def test_default_names_are_no_inputs_either(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.loopwise").write_text(CSV)
    assert_one_sentence(invoke(*line.split()), "the default --out", "t.loopwise", "would destroy")
    assert (tmp_path / "t.loopwise").read_text() == CSV


def test_a_file_on_standard_input_is_an_input(tmp_path: Path) -> None:
    path = tmp_path / "a.uai"
    path.write_text(UAI)
    line = [sys.executable, "-m", "loopwise", "infer", "-", "--out", str(path)]
    with path.open() as stdin:
        ended = subprocess.run(line, stdin=stdin, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "the input <stdin>" in ended.stderr
    assert path.read_text() == UAI


def test_devices_and_standard_output_go_on(tmp_path: Path) -> None:
    path = tmp_path / "a.uai"
    path.write_text(UAI)
    for out in ("-", "/dev/null"):
        succeed("infer", path, "--out", out)
    assert path.read_text() == UAI


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of two pictures, and a model of two weights that were never trained."""
    (tmp_path / "noisy").mkdir()
    for number in range(2):
        Image.fromarray(np.full((3, 4), 99, dtype=np.uint8)).save(tmp_path / "noisy" / f"{number}.png")
    model = GridCRF(states=2)
    model.begin(1)
    model.save(tmp_path / "m.loopwise")
    return tmp_path


def test_a_folder_of_answers_spares_the_folder_of_images(pictures: Path) -> None:
    before = {path: path.read_bytes() for path in (pictures / "noisy").iterdir()}
    model, noisy = pictures / "m.loopwise", pictures / "noisy"
    (pictures / "link").symlink_to(noisy)
    for out in (noisy, pictures / "link", pictures / "noisy" / "." / ".." / "noisy"):
        assert_one_sentence(invoke("denoise", "predict", model, noisy, out), "the input", "would destroy")
    (pictures / "out").mkdir()
    os.link(noisy / "1.png", pictures / "out" / "1.png")
    assert_one_sentence(invoke("denoise", "predict", model, noisy, pictures / "out"), "out/1.png", "noisy/1.png")
    assert {path: path.read_bytes() for path in noisy.iterdir()} == before
    train = ("denoise", "train", noisy, noisy, "--out", noisy / "1.png")
    assert_one_sentence(invoke(*train), "noisy/1.png", "would destroy")
    assert {path: path.read_bytes() for path in noisy.iterdir()} == before
    succeed("denoise", "predict", model, noisy, pictures / "new", "--marginals")
    assert sorted(os.listdir(pictures / "new")) == ["0.npz", "0.png", "1.npz", "1.png"]


@pytest.mark.parametrize("name", ["../stray", "/stray", "a/b"])
def test_names_of_images_stay_in_the_folder(name: str, pictures: Path) -> None:
    np.savez(pictures / "images.npz", **{name: np.zeros((3, 4))})
    result = invoke("denoise", "predict", pictures / "m.loopwise", pictures / "images.npz", pictures / "out")
    assert_one_sentence(result, "not be in the folder")
    assert not (pictures / "out").exists() and not (pictures / "stray.png").exists()


def test_what_could_not_be_loaded_is_refused_before_training() -> None:
    from loopwise.cli import targets
    from loopwise.learn.files import fields

    assert targets.MOST_ITERATIONS == fields.MOST_ITERATIONS
    result = invoke("fit", "t.csv", "--outputs", "b", "--iterations", 10**9)
    assert result.exit_code == 2 and "10000000" in result.stderr


def test_functions_that_go_from_file_to_file_spare_the_source(tmp_path: Path) -> None:
    from loopwise.apps import Coref, Parser, Tagger

    source = tmp_path / "text"
    source.write_text(OTHER)
    for call in (Parser().parse_file, Tagger().tag_file, Coref().resolve_file):
        with pytest.raises(ValueError, match=r"the same as the input .*, which writing would destroy"):
            call(source, linked(source))
        (tmp_path / "link-text").unlink()
    assert source.read_text() == OTHER
