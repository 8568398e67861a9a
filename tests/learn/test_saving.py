"""Saving and loading: every known class comes back and answers the same; broken files say what is wrong."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import loopwise as lw
from loopwise import decode
from loopwise.formats.errors import FormatError
from loopwise.formats.table import Vocabulary
from loopwise.gradient.linear_solve import Saddle, Schur
from loopwise.gradient.perturbation import CubeRoot, EqualSweeps, SquareRoot, ToTolerance
from loopwise.gradient.solvers import Direct, Minres
from loopwise.gradient.unroll import Fitting
from loopwise.learn import Examples, System
from loopwise.learn.container import VERSION, read_container, write_container
from loopwise.learn.fields import Record
from loopwise.learn.known import KNOWN
from loopwise.learn.saving import build_system, describe_system
from loopwise.potentials.features import Features
from loopwise.potentials.neural import NeuralPotentials
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.potentials.tied import TiedTables

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
GRAPH = lw.FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b, c.d": [[1, 2]], "ring": [[0, 2], [2, 3]], "free": [[3]]})
POTENTIALS = lw.TablePotentials.random(GRAPH, seed=0)


def parameter(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


def spread_rho() -> dict[str, Any]:
    return {"a": 0.7, "b, c.d": np.array([0.9]), "ring": torch.tensor([0.6, 0.8], dtype=torch.float64)}


INFERENCES: list[lw.Inference] = [
    lw.BP(iterations=3, tolerance=0.0, damping=0.1, schedule=lw.Sequential(), engine=lw.Compiled(threads=1)),
    lw.BP(iterations=2, tolerance=0, temperature=0.5, engine=lw.Reference(), trace=True),
    lw.BP(iterations=4, tolerance=0, schedule=lw.Residual(), gradient=lw.Unroll(lw.Checkpoints(every=2))),
    lw.BP(iterations=3, tolerance=0, schedule=lw.Groups(("ring", "a", "b, c.d"), uniform_start=True)),
    lw.BP(iterations=2, tolerance=0, counting=lw.Bethe(), gradient=lw.Unroll(lw.Store())),
    lw.BP(iterations=2, tolerance=0, counting=lw.Reweighted(spread_rho()), gradient=lw.Unroll(lw.Recompute())),
    lw.BP(
        iterations=2, tolerance=0, counting=lw.inference.ExplicitCounting(spread_rho(), np.zeros(())),
        gradient=lw.Unroll(Fitting(1e6)),
    ),
    lw.BP(iterations=2, damping=parameter(0.2), counting=lw.Reweighted(spread_rho() | {"a": parameter(0.8)})),
    lw.BP(iterations=2, tolerance=0, gradient=lw.FixedPoint(anderson=2), schedule=lw.Flooding()),
    lw.BP(iterations=2, tolerance=0, gradient=lw.OneStep()),
    lw.TRW(iterations=3, tolerance=0, rho=lw.SpanningTrees(trees=7)),
    lw.TRW(iterations=3, tolerance=0, rho=lw.MonotonicChains(), gradient=lw.LinearSolve(Schur(), Minres(1e-9))),
    lw.TRW(iterations=3, tolerance=0, rho=spread_rho(), gradient=lw.LinearSolve(Saddle(), Direct())),
    lw.TRW(iterations=3, tolerance=0, rho=0.5, gradient=lw.Perturbation(step=CubeRoot(), stopping=ToTolerance(1e-12))),
    lw.MeanField(iterations=200, restarts=2, gradient=lw.Perturbation(step=SquareRoot(), stopping=EqualSweeps())),
    lw.Exact(temperature=0.7, gradient=lw.Covariance()),
    lw.Exact(memory_limit=float("inf")),
    lw.Gibbs(samples=400, burn_in=50, chains=8, seed=2**40),
    lw.Auto(otherwise=lw.BP(schedule=lw.Sequential(), damping=0.3)),
    lw.BP(iterations=3, schedule=lw.RandomSequential(3), stop=lw.AnyOf(lw.Satisfied(), lw.Tolerance(1e-3))),
    lw.BP(iterations=2, tolerance=0, schedule=lw.Groups(("ring", "a", "b, c.d")), weights=lw.MessageWeights(
        GRAPH, messages={"ring": parameter(0.9)}, damping=lw.BelowOne(parameter(0.1)),
        memory=lw.Tied(torch.nn.Parameter(torch.tensor([0.1, -0.2])), np.arange(GRAPH.variables) % 2),
    )),
]  # fmt: skip

DECODERS: list[decode.Decoder] = [
    decode.Identity(),
    decode.Max(),
    decode.Max(training=decode.SoftArgmax(decode.Trained(0.3))),
    decode.SoftArgmax(0.7),
    decode.SoftArgmax(decode.Geometric(1.0, 0.1, 5)),
    decode.SoftArgmax(decode.Linear(1.0, 0.1, 5)),
    decode.SoftArgmax(decode.Listed((1.0, 0.5))),
    decode.SoftArgmax(decode.Trained(0.6)),
    decode.SoftArgmax(parameter(0.4)),
    decode.SoftArgmax(torch.tensor(0.4)),
    decode.ApproximateF(decode.PerExample(), positive=[1, 2]),
    decode.ApproximateF(decode.PerCorpus(), decode.Trained(0.2)),
    decode.SoftApproximateF(decode.Fixed(0.3), 0.9),
    decode.ApproximateF(decode.LeastExpectedLoss(decode.Independent(), count=20, seed=4, beta=2.0)),
    decode.ApproximateF(
        decode.LeastExpectedLoss(decode.Independent(), count=9, loss=lw.metric.Accuracy(reduction=lw.loss.Each()))
    ),
    decode.FactorVote(decode.Max(), groups=("ring",)),
    decode.MBR(lw.metric.HammingError(reduction=lw.loss.Each()), count=30, seed=1),
    decode.MBR(lw.metric.F1(reduction=lw.loss.Each()), decode.Independent(), count=30, training=decode.Identity()),
    decode.MBR(
        lw.metric.FBeta(beta=2.0, positive={1, 2}, reduction=lw.loss.Each()),
        decode.Drawn(torch.zeros(5, 6, 4, dtype=torch.int64)),
        count=5,
    ),
]


def systems() -> list[System]:
    found = [System(POTENTIALS, inference, decode.Max()) for inference in INFERENCES]
    for decoder in DECODERS:
        system = System(POTENTIALS, lw.Exact(), decoder)
        system.refresh(examples_of(GRAPH))
        found.append(system)
    found.append(System(TiedTables.random(GRAPH, {"ring": [1, 0]}, seed=0, dtype=torch.float32), lw.BP()))
    # Reductions other than Each make no loss of pairs, but a class is a class.
    others = [decode.MBR(lw.metric.F1(reduction=kind())) for kind in (lw.loss.Mean, lw.loss.Sum, lw.loss.Pooled)]
    return found + [System(POTENTIALS, lw.Exact(), other) for other in others]


def examples_of(graph: lw.FactorGraph, **inputs: Any) -> Examples:
    values = np.random.default_rng(0).integers(0, graph.cardinalities, (6, graph.variables))
    return Examples.of(graph, values, [OUTPUT, INPUT, OUTPUT, HIDDEN], **inputs)


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


def test_every_known_class_is_tried() -> None:
    named: set[str] = set()

    def collect(json: Any) -> None:
        if isinstance(json, dict):
            named.update([json["class"]] if "class" in json else [])
            json = list(json.values())
        if isinstance(json, list):
            for member in json:
                collect(member)

    for system in [*systems(), sparse_system(), structured_system()]:
        collect(describe_system(system)[1])
    # Temperature schedules, tapes and the like are classes too: all of them must have come by.
    assert {known.name for known in KNOWN} - named == set()


def test_names_of_earlier_versions_are_read() -> None:
    counting = lw.inference.ExplicitCounting(spread_rho(), np.zeros(()))
    tensors, description = describe_system(System(POTENTIALS, lw.BP(counting=counting)))
    old = json.loads(json.dumps(description).replace("ExplicitCounting", "Given"))
    assert old != description
    assert repr(build_system(Record(old, tensors)).inference) == repr(
        build_system(Record(description, tensors)).inference
    )


def structured_system() -> System:
    """Every structured factor there is, over one row of binary variables."""
    grammar = lw.Hypergraph((2, 2), ((1, (0,), ((0, 1),)), (0, (), ((1, 1),))), 1, (0, 0))
    factors: list[lw.StructuredFactor] = [
        lw.ProjectiveTree(2), lw.Tree(2, single_root=False), lw.Chain(3, 2), lw.ExactlyOne(3), lw.AtMostOne(2), grammar,
        lw.Parity(3, odd=None), lw.Count.at_least(4, 2), lw.Or(3, (1,)), lw.And(3, output=True), lw.Implies(2),
    ]  # fmt: skip
    structured = {f"{type(factor).__name__}.": (factor, np.arange(factor.arity)) for factor in factors}
    return System(lw.TablePotentials(lw.FactorGraph([2] * 4, {"pair": [[0, 1]]}, structured)), lw.BP(iterations=2))


def test_structured_factors_are_kept(tmp_path: Path) -> None:
    system = structured_system()
    system.save(tmp_path / "system.loopwise")
    again = System.load(tmp_path / "system.loopwise")
    assert again.graph == system.graph
    again.save(tmp_path / "again.loopwise")
    assert (tmp_path / "system.loopwise").read_bytes() == (tmp_path / "again.loopwise").read_bytes()


def sparse_system() -> System:
    groups = {
        "a": SparseGroup((2, 3), 4, table="shared"),
        "b, c.d": SparseGroup((3, 2), 4, table="shared"),
        "ring": SparseGroup((2, 2), 1, columns=(0, -1, -1, 0)),
        "free": SparseGroup((2,), 5),
    }
    potentials = SparsePotentials(groups, dtype=torch.float32, table_dtype=torch.float64)
    with torch.no_grad():
        for weight in potentials.weights:
            weight.normal_(generator=torch.Generator().manual_seed(0))
    return System(potentials, lw.Exact(), decode.Max(), graph=GRAPH)


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
    system = System(POTENTIALS, lw.BP(iterations=2, tolerance=0, counting=lw.Reweighted(rho)))
    system.save(tmp_path / "s")
    again = System.load(tmp_path / "s")
    assert isinstance(again.inference, lw.BP) and isinstance(again.inference.counting, lw.Reweighted)
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


class MyCounting(lw.Bethe):
    pass


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "s.loopwise"
    System(POTENTIALS, lw.BP(), decode.SoftArgmax()).save(path)
    return path


def test_a_file_cut_off_anywhere_says_so(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for length in (0, 5, 8, 9, header // 2, header - 1, header, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match="the file is cut off") as caught:
            System.load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"just some text that is no such file",
        pickle.dumps({"weights": [1.0] * 50}),
        bytes(100),
        (20).to_bytes(8, "little") + b"[1, 2, 3]           " + bytes(10),
        (20).to_bytes(8, "little") + b'{"a": {"no": "tensor"}}',
    ],
)
def test_foreign_files_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="no file that loopwise saved"):
        System.load(path)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for metadata in (None, {"format": "pt"}, {"description": "about me"}, {"description": "{}"}):
        safetensors.torch.save_file({"a": torch.zeros(2)}, path, metadata)
        with pytest.raises(FormatError, match="no file that loopwise saved but some other safetensors file"):
            System.load(path)


def test_versions(tmp_path: Path) -> None:
    path = saved(tmp_path)
    tensors, description = read_container(path)
    assert description["loopwise"] == VERSION
    for version, message in ((VERSION + 1, "newer loopwise .*upgrade"), ("x", "version 'x'"), (0, "version 0")):
        write_container(path, tensors, {**description, "loopwise": version})
        with pytest.raises(FormatError, match=message):
            System.load(path)


def damaged(change: str, tensors: dict[str, Any], description: dict[str, Any]) -> None:
    parts = description["system"]
    if change == "class":
        parts["inference"]["class"] = "os.system"
    elif change == "private":
        parts["inference"]["class"] = "__import__"
    elif change == "field":
        parts["inference"]["options"]["iterations"] = -3
    elif change == "unknown field":
        parts["inference"]["options"]["nonsense"] = 1
    elif change == "part":
        del parts["decoder"]
    elif change == "kind":
        parts["decoder"] = parts["inference"]
    elif change == "tensor":
        del tensors[description["state"][0]]
    elif change == "shape":
        tensors[description["state"][0]] = torch.zeros(1)
    elif change == "scopes":
        tensors["graph.scopes.0"] = torch.tensor([[0, 99]])
    elif change == "value":
        parts["inference"]["options"]["schedule"] = {"odd": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("class", "class 'os.system' that this version"),
        ("private", "class '__import__'"),
        ("field", "iterations must be"),
        ("unknown field", "nonsense"),
        ("part", "'system.decoder' is not there"),
        ("kind", "decoder of a system must be"),
        ("tensor", "names a tensor 'potentials.tables.0' that"),
        ("shape", "'potentials.tables.0' is of shape .* it must be"),
        ("scopes", "names variable 99"),
        ("value", "describes nothing"),
    ],
)
def test_damaged_descriptions(change: str, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path)
    tensors, description = read_container(path)
    damaged(change, tensors, description)
    write_container(path, tensors, description)
    with pytest.raises(FormatError, match=f"damaged: .*{message}") as caught:
        System.load(path)
    assert "\n" not in str(caught.value)


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
        "from loopwise.learn import System, saving\n"
        "def refuse(*a, **k): raise SystemExit('pickle was used')\n"
        "kept = pickle.load, pickle.loads, pickle.Unpickler\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "system = System.load(sys.argv[1])\n"
        "pickle.load, pickle.loads, pickle.Unpickler = kept  # compiled code is kept by pickle\n"
        "print(json.dumps(system.predict([[0, -1, -1, -1]]).tolist()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == System.load(path).predict([[0, -1, -1, -1]]).tolist()
