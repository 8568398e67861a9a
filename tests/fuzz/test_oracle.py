"""A slice of the random models, the enumeration against another one, and that wrong answers are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from fuzz import oracle
from fuzz.campaign import Budget, Tally
from fuzz.truth import SHAPES, Shape, Truth
from oracles.enumeration import enumerate_model

SEED = 19
FEW = ("chain of 2", "mixed tree", "complete of 2", "tangle")


def some_shapes() -> list[Shape]:
    return [shape for shape in SHAPES if shape.name in FEW]


def test_the_shapes_cover_what_they_should() -> None:
    assert {len(scope) for shape in SHAPES for rows in shape.groups.values() for scope in rows} == set(range(6))
    assert {size for shape in SHAPES for size in shape.cardinalities} == set(range(1, 8))
    assert {shape.is_forest for shape in SHAPES} == {True, False}
    for shape in SHAPES:
        assert len(shape.configurations) < 5000
        assert oracle.graph_of(shape).layout.is_forest == shape.is_forest


@pytest.mark.parametrize("number", range(6))
def test_the_enumeration_is_that_of_the_other_tests(number: int) -> None:
    case = oracle.make_case(SEED, number, largest=3)
    free = np.full_like(case.evidence, -1)
    truth = Truth(case.shape, {name: table.double().numpy() for name, table in case.tables.items()}, free)
    for example in range(case.batch):
        if not truth.possible[example]:
            continue
        known = enumerate_model(case.graph, {name: table[example] for name, table in case.tables.items()}, 0.5)
        log_z, marginals = truth.at(0.5)
        assert float(log_z[example]) == pytest.approx(known.log_partition, rel=1e-9)
        np.testing.assert_allclose(marginals[example], known.states, atol=1e-9)
        for name, table in known.factors.items():
            np.testing.assert_allclose(truth.factor(name, 0.5)[example], table.reshape(len(table), -1), atol=1e-9)
        assert float(truth.score_of(known.best[None].repeat(case.batch, 0))[example]) == pytest.approx(known.best_score)


def test_no_random_model_is_answered_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few in float32: all that ``make oracle`` asks of them would be as many kernels again."""
    monkeypatch.setattr(oracle, "SINGLE", ())
    tally = Tally("oracle", SEED, tmp_path, quiet=True)
    oracle.go_through(SEED, Budget(None, 150), tally, list(oracle.CHECKS), some_shapes(), largest=5)
    monkeypatch.setattr(oracle, "SINGLE", ("mixed tree",))
    shape = [shape for shape in SHAPES if shape.name == "mixed tree"]
    oracle.go_through(SEED, Budget(None, 20), tally, ["exact", "bp", "mean field"], shape, largest=1)
    assert not tally.failed, tally.failed
    assert tally.passed >= 170


@pytest.mark.usefixtures("literal_sizes")
def test_no_random_model_of_pairs_is_answered_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernels for pairs of one size, messages as vectors."""
    monkeypatch.setattr(oracle, "GRAPHS", {})  # a graph keeps what its kernels are compiled for
    tally = Tally("oracle", SEED, tmp_path, quiet=True)
    shape = [shape for shape in SHAPES if shape.name == "complete of 2"]
    oracle.go_through(SEED, Budget(None, 30), tally, ["bp"], shape, largest=1)
    assert not tally.failed, tally.failed
    assert tally.passed >= 30


def test_what_is_drawn_is_always_the_same() -> None:
    one, other = oracle.make_case(1, 5), oracle.make_case(1, 5)
    assert one.shape is other.shape and all(torch.equal(one.tables[name], other.tables[name]) for name in one.tables)
    kinds = [oracle.make_case(1, number) for number in range(200)]
    assert {case.dtype for case in kinds} == {torch.float32, torch.float64}
    assert any(not case.truth.possible.all() for case in kinds) and any(case.given is not None for case in kinds)
    assert any(case.truth.scale.max() > 1e4 for case in kinds)


class Liar(lw.Exact):
    """Calls itself exact, and halves the first probability."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        beliefs = super().__call__(*given, **options)
        beliefs.states = beliefs.states * torch.tensor([0.5] + [1.0] * (beliefs.states.shape[-1] - 1))
        return beliefs


def test_wrong_answers_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oracle.lw, "Exact", Liar)
    tally = Tally("oracle", SEED, tmp_path, quiet=True)
    oracle.go_through(SEED, Budget(None, 10), tally, ["exact"], some_shapes(), largest=2)
    assert any("marginal is wrong" in signature for signature in tally.failed)
    assert any("not sum to one" in signature for signature in tally.failed)
    folder = next(tmp_path.iterdir())
    assert "evidence" in np.load(folder / "model.npz").files and (folder / "case.json").exists()


def test_false_bounds_and_wrong_gradients_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    higher = oracle.Truth.at

    def lifted(self: Truth, temperature: float = 1.0) -> Any:
        log_z, marginals = higher(self, temperature)
        return log_z + 1e3 + 1e-3 * np.abs(log_z), marginals

    monkeypatch.setattr(oracle.Truth, "at", lifted)
    monkeypatch.setattr(oracle, "claims_upper_bound", lambda status: True)
    shape = [shape for shape in SHAPES if shape.name == "complete of 2"]
    tally = Tally("oracle", SEED, tmp_path, quiet=True)
    oracle.go_through(SEED, Budget(None, 20), tally, ["trw"], shape, largest=2)
    assert any("below log Z" in signature for signature in tally.failed)
    backward = torch.Tensor.backward

    def wrong(self: torch.Tensor, *given: Any, **options: Any) -> None:
        backward(1.01 * self, *given, **options)

    monkeypatch.setattr(torch.Tensor, "backward", wrong)
    tally = Tally("oracle", SEED, tmp_path, quiet=True)
    oracle.go_through(SEED, Budget(None, 60), tally, ["gradient"], some_shapes(), largest=2)
    assert any("central differences" in signature for signature in tally.failed)
