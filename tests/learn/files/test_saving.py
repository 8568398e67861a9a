"""Saving and loading: every known class comes back and answers the same; broken files say what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loopwise as lw
from loopwise import decode
from loopwise.formats.errors import FormatError
from loopwise.formats.table import Vocabulary
from loopwise.learn import Examples, System
from loopwise.learn.files.fields import Record
from loopwise.learn.files.saving import build_system, describe_system
from loopwise.potentials.features import Features
from loopwise.potentials.neural import NeuralPotentials
from oracles.saving_cases import (
    GRAPH,
    HIDDEN,
    INPUT,
    OUTPUT,
    POTENTIALS,
    examples_of,
    parameter,
    saved,
    sparse_system,
    spread_rho,
    structured_system,
    systems,
)


def assert_same(first: System, second: System, examples: Examples) -> None:
    """Same structure, same numbers, and bit-identical answers."""
    assert first.graph == second.graph and repr(first) == repr(second)
    mine, theirs = first.state_dict(), second.state_dict()
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype
        assert torch.equal(tensor.nan_to_num(7.0), theirs[name].nan_to_num(7.0))
    assert torch.equal(first.predict_marginals(examples), second.predict_marginals(examples))
    if type(getattr(getattr(first.decoder, "loss", None), "reduction", None)) in (type(None), lw.loss.Each):
        assert torch.equal(first.predict(examples), second.predict(examples))
    assert torch.equal(first(examples).states, second(examples).states)


@pytest.mark.parametrize("system", systems(), ids=lambda system: f"{type(system.inference).__name__}")
@pytest.mark.filterwarnings("ignore::loopwise.notices.ConvergenceWarning")
def test_a_loaded_system_answers_the_same(system: System, tmp_path: Path) -> None:
    path = tmp_path / "system.loopwise"
    system.save(path)
    again = System.load(path)
    assert_same(system, again, examples_of(GRAPH))
    again.save(tmp_path / "again.loopwise")
    assert path.read_bytes() == (tmp_path / "again.loopwise").read_bytes()


def test_structured_factors_are_kept(tmp_path: Path) -> None:
    system = structured_system()
    system.save(tmp_path / "system.loopwise")
    again = System.load(tmp_path / "system.loopwise")
    assert again.graph == system.graph
    again.save(tmp_path / "again.loopwise")
    assert (tmp_path / "system.loopwise").read_bytes() == (tmp_path / "again.loopwise").read_bytes()


def test_sparse_potentials_come_back(tmp_path: Path) -> None:
    system = sparse_system()
    features = {
        name: Features.of_table(np.arange(6)[:, None] % count, batch=(6,))
        for name, count in (("a", 4), ("b, c.d", 3), ("free", 5))
    }
    system.save(tmp_path / "s")
    again = System.load(tmp_path / "s")
    assert_same(system, again, examples_of(GRAPH, features=features))
    assert len(list(again.parameters())) == len(list(system.parameters()))


def test_tied_and_trained_parameters_stay_so(tmp_path: Path) -> None:
    shared = parameter(0.3)
    rho = {"a": shared, "b, c.d": shared, "ring": 0.9}
    system = System(POTENTIALS, lw.BP(iterations=2, tolerance=0, counting=lw.inference.Reweighted(rho)))
    system.save(tmp_path / "s")
    again = System.load(tmp_path / "s")
    assert isinstance(again.inference, lw.BP) and isinstance(again.inference.counting, lw.inference.Reweighted)
    kept = again.inference.counting.rho
    assert isinstance(kept, dict) and kept["a"] is kept["b, c.d"]
    assert isinstance(kept["a"], nn.Parameter) and any(kept["a"] is one for one in again.parameters())


def test_graph_and_vocabulary_come_back(tmp_path: Path) -> None:
    graph = lw.FactorGraph.from_scopes([2, 3, 2], [[0], [0, 1], [2], [1, 2], [0, 1]])
    names = Vocabulary(("färbe", "b", 'c"'), (("x",), ("1", "2", "3"), ("", "ja")))
    system = System(lw.TablePotentials(graph), lw.BP(), vocabulary=names, roles=[INPUT, OUTPUT, HIDDEN])
    system.save(tmp_path / "s.loopwise.gz")
    again = System.load(tmp_path / "s.loopwise.gz")
    assert again.roles is not None and again.roles.tolist() == [INPUT, OUTPUT, HIDDEN]
    assert again.vocabulary == names
    assert [again.graph.locate(factor) for factor in range(5)] == [graph.locate(factor) for factor in range(5)]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: System(NeuralPotentials(GRAPH, nn.Linear(2, 2)), lw.BP()), "potentials is of class NeuralPotentials"),
        (lambda: System(POTENTIALS, Mine()), "inference is of class Mine"),
        (lambda: System(POTENTIALS, lw.BP(counting=MyCounting())), "inference.counting is of class MyCounting"),
        (lambda: System(POTENTIALS, lw.BP(), decode.MBR(lambda a, b: a[:, 0])), "decoder.loss is .*lambda"),
    ],
)
def test_classes_of_one_s_own_cannot_be_saved(make: Any, named: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(ValueError, match=named + r".*cannot be saved.*state_dict\(\)"):
        make().save(path)
    assert not path.exists()


class Mine(lw.BP):
    pass


class MyCounting(lw.inference.Bethe):
    pass


def test_damaged_tensors(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(FormatError, match="tensors in the file are damaged"):
        System.load(path)


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        System(POTENTIALS, lw.BP(iterations=1)).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_another_process_loads_it_without_pickle(tmp_path: Path) -> None:
    path = saved(tmp_path)
    code = (
        "import sys, json, pickle\n"
        "sys.path.append(sys.argv[2])\n"
        "from loopwise.learn import System\n"
        "from oracles import few_kernels\n"
        "few_kernels.in_this_process()\n"  # the same ones here as there
        "def refuse(*a, **k): raise SystemExit('pickle was used')\n"
        "kept = pickle.load, pickle.loads, pickle.Unpickler\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "system = System.load(sys.argv[1])\n"
        "pickle.load, pickle.loads, pickle.Unpickler = kept  # compiled code is kept by pickle\n"
        "print(json.dumps(system.predict([[0, -1, -1, -1]]).tolist()))\n"
    )
    command = [sys.executable, "-c", code, str(path), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == System.load(path).predict([[0, -1, -1, -1]]).tolist()


def test_names_of_earlier_versions_are_read() -> None:
    counting = lw.inference.ExplicitCounting(spread_rho(), np.zeros(()))
    tensors, description = describe_system(System(POTENTIALS, lw.BP(counting=counting)))
    old = json.loads(json.dumps(description).replace("ExplicitCounting", "Given"))
    assert old != description
    assert repr(build_system(Record(old, tensors)).inference) == repr(
        build_system(Record(description, tensors)).inference
    )
