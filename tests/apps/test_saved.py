"""Saved files of every kind answer as before; damaged ones are refused in one sentence that names the field."""

from __future__ import annotations

import copy
import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from loopwise.formats.errors import FormatError
from loopwise.learn import System
from loopwise.learn.files.container import read_container
from loopwise.learn.files.fields import MOST_ITERATIONS
from loopwise.notices import ConvergenceWarning
from oracles import saved_models
from oracles.saved_models import KINDS, Saved

EARLIER = Path(saved_models.__file__).with_name("files_of_e75d428.zip")  # KINDS, saved and asked by that commit

VALUES = ("x", -1, 10**9, True, None, [], float("nan"), 1e300)
REMOVED = object()
Tensors = dict[str, torch.Tensor]


def write(path: Path, tensors: Tensors, description: Any) -> None:
    """As ``write_container`` does, but whatever it is."""
    contiguous = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    path.write_bytes(safetensors.torch.save(contiguous, {"description": json.dumps(description)}))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something to change: every field, of lists the first member."""
    members = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def changed(description: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(description)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if value is REMOVED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


def damages(tensor: torch.Tensor) -> Iterator[torch.Tensor | None]:
    """Other shapes, types and numbers; None: gone."""
    yield None
    yield tensor.reshape(-1)[:-1]
    yield tensor[None]
    yield tensor.to(torch.complex64)
    if tensor.is_floating_point() and tensor.numel():
        for value in (float("nan"), float("inf")):
            other = tensor.clone()
            other.view(-1)[-1] = value
            yield other


def load(kind: Saved, path: Path) -> str | None:
    """What is wrong with the file; None where it was read."""
    try:
        kind.load(path)
    except FormatError as problem:
        said = str(problem)
        assert said.startswith(str(path)) and "\n" not in said and len(said) < 600, said
        return said
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_files_of_every_kind(name: str, folder: Path) -> None:
    kind, path, bad = KINDS[name], folder / name, folder / "damaged"
    kind.save(path)
    first = kind.load(path)
    for mine, theirs in zip(kind.answer(first), kind.answer(kind.load(path)), strict=True):
        np.testing.assert_array_equal(np.asarray(mine, dtype=object), np.asarray(theirs, dtype=object))
    tensors, description = read_container(path)
    for number, place in enumerate(places(description)):
        for value in (VALUES[number % len(VALUES)], VALUES[(number + 3) % len(VALUES)], REMOVED):
            write(bad, tensors, changed(description, place, value))
            said = load(kind, bad)
            if isinstance(value, float) and not np.isfinite(value):
                assert said is not None and "NaN" in said, (place, value)
    for own, tensor in tensors.items():
        for other in damages(tensor):
            rest = {key: value for key, value in tensors.items() if key != own}
            write(bad, rest if other is None else {**rest, own: other}, description)
            said = load(kind, bad)
            if other is not None and other.is_floating_point() and not torch.isfinite(other).all():
                assert said is not None and repr(own) in said, own


@pytest.mark.parametrize(
    ("name", "place", "value", "field"),
    [
        ("system, BP", ("system", "inference", "options", "iterations"), "3", "system.inference.iterations"),
        ("system, BP", ("system", "inference", "options", "iterations"), True, "system.inference.iterations"),
        ("system, BP", ("system", "inference", "options", "iterations"), 10**9, "system.inference.iterations"),
        ("system, BP", ("system", "inference", "options", "tolerance"), "x", "system.inference.tolerance"),
        ("system, BP", ("system", "inference", "options", "schedule"), 3, "system.inference.schedule"),
        ("system, TRW", ("system", "inference", "options", "rho"), -0.5, "system.inference.rho"),
        ("system, TRW", ("system", "decoder", "options", "positive"), [7], "system.decoder.positive"),
        ("system, BP", ("vocabulary", "names"), "abc", "vocabulary.names"),
        ("system, BP", ("roles",), [0, "1", 1], "roles[1]"),
        ("tagger", ("minimum_count",), -1, "minimum_count"),
        ("tagger", ("labels",), ["O", 3], "labels"),
        ("tagger", ("decoder", "valid"), "yes", "decoder.valid"),
        ("grid", ("states",), 3, "unary.options.states"),
        ("grid", ("inference",), "TRW", "inference"),
        ("grid, convolution", ("unary", "options", "hidden"), [True], "unary.options.hidden"),
        ("labels", ("standardize",), 1, "standardize"),
        ("labels", ("features",), 10**9, "unary"),
        ("coref", ("restarts",), 10**6, "restarts"),
        ("coref", ("cooling",), [1.0, 0.0], "cooling[1]"),
        ("parser", ("inference", "iterations"), 10**9, "inference.iterations"),
        ("parser", ("templates", "full"), "no", "templates.full"),
        ("chains", ("type",), "<U999999999", "type"),
        ("chains", ("type",), "O", "type"),
        ("table", ("columns", 0, "cuts"), ["x"], "columns[0].cuts"),
        ("policy", ("stopping", "features"), [["Nonsense", {}]], "stopping.features[0]"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_field_is_named(name: str, place: tuple[Any, ...], value: Any, field: str, folder: Path) -> None:
    path = folder / name
    if not path.exists():
        KINDS[name].save(path)
    tensors, description = read_container(path)
    write(folder / "damaged", tensors, changed(description, place, value))
    said = load(KINDS[name], folder / "damaged")
    assert said is not None and f"'{field}" in said, said


def plain(answers: Any) -> Any:
    """Arrays as nested lists, as JSON has them."""
    if isinstance(answers, np.ndarray | np.generic):
        return answers.tolist()
    return [plain(each) for each in answers] if isinstance(answers, list | tuple) else answers


def assert_alike(found: Any, wanted: Any) -> None:
    """Texts, labels and integers are equal, numbers to 1e-9."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            assert_alike(mine, theirs)
    else:
        assert found == (pytest.approx(wanted, abs=1e-9) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"dedupe"}))
def test_files_of_an_earlier_version_answer_as_they_did(kind: str, tmp_path: Path) -> None:
    name = kind.replace(", ", "_").replace(" ", "_") + ".loopwise"
    with zipfile.ZipFile(EARLIER) as files:
        wanted = json.loads(files.read("answers.json"))[kind]
        path = Path(files.extract(name, tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_alike(plain(KINDS[kind].answer(KINDS[kind].load(path))), wanted)


def test_a_few_weights_for_many_cells(tmp_path: Path) -> None:
    import loopwise as lw
    from loopwise.potentials.sparse import SparseGroup, SparsePotentials

    model = SparsePotentials({"pair": SparseGroup((30, 30), 1, columns=tuple([0, *[-1] * 29, -1] * 29 + [0]))})
    model.graph = lw.FactorGraph([30, 30], {"pair": [[0, 1]]})
    System(model, lw.BP()).save(tmp_path / "m")
    assert System.load(tmp_path / "m").potentials.groups == model.groups


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    import loopwise as lw

    system = System(lw.TablePotentials(lw.chain(3)), lw.BP(iterations=MOST_ITERATIONS + 1))
    with pytest.raises(ValueError, match=r"inference.iterations.*10000000"):
        system.save(tmp_path / "never")
    assert not (tmp_path / "never").exists()
