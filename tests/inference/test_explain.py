"""Explanations of runs whose trouble is known beforehand, and whose advice is tried here once more."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.cycles import Ties, sign, strengths
from loopwise.inference.explain import Explanation, written
from loopwise.notices import ChangedError, LoopwiseWarning

DIFFER = torch.tensor([[-1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)


def quiet(method: Any, *given: Any) -> lw.Beliefs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)
        return method(*given)


def antiferromagnet(strength: float = 2.0) -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    """Four that would all differ from each other: every triangle is frustrated, and flooding flips them together."""
    return lw.graph.complete(4), {"unary": torch.tensor([0.0, 0.1]).double(), "pair": strength * DIFFER}


def spin_glass(side: int, strength: float) -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    graph = lw.grid(side, side)
    couplings = torch.from_numpy(np.random.default_rng(0).normal(0, strength, graph.group("pair").count))
    field = torch.tensor([0.0, 0.1]).double().expand(side * side, 2)
    return graph, {"unary": field, "pair": -couplings[:, None, None] * DIFFER}


def test_a_frustrated_model_oscillates_and_the_advice_works() -> None:
    graph, tables = antiferromagnet()
    found = lw.explain(quiet(lw.BP(), graph, tables))
    assert (found.kind, found.period, found.frustrated, found.forecast) == ("oscillates", 2, True, None)
    assert sorted(entry.variable for entry in found.moving) == [0, 1, 2, 3]
    assert all(entry.swing > 0.9 for entry in found.moving)
    assert len(found.cycle) == 3 and len(found.ties) == 5
    assert all(tie.strength == pytest.approx(2.0) for tie in found.ties)
    assert found.advice is not None and found.advice.exact
    truth = lw.Exact()(graph, tables).states
    for trial in found.trials:
        again = quiet(trial.method, graph, tables)
        assert again.status.converged == trial.converged
        assert trial.off == pytest.approx(float((again.states - truth).abs().max()), abs=1e-12)
    codes = {trial.code: trial.converged for trial in found.trials}
    assert codes["lw.BP(iterations=1000, damping=0.5)"] and not codes["lw.BP(iterations=1000)"]
    text = str(found)
    for words in ("oscillate", "every 2 sweeps", "frustrated", "Advice: lw.Exact()", "did not converge in 1000 sweeps"):
        assert words in text, text


def test_a_satisfied_cycle_is_not_called_frustrated() -> None:
    """Of a frustrated ring one coupling is turned round: slow now, since messages go round and round, but at peace."""
    graph = lw.FactorGraph([2] * 4, {"unary": [[0], [1], [2], [3]], "pair": [[0, 1], [1, 2], [2, 3], [3, 0]]})
    unary = torch.tensor([[0.0, 0.5], [0, 0], [0, 0], [0, 0]]).double()
    pair = torch.stack([3 * DIFFER] * 4)
    peaceful = lw.explain(quiet(lw.BP(iterations=20), graph, {"unary": unary, "pair": pair}))
    assert peaceful.kind == "slow" and peaceful.frustrated is False and sorted(peaceful.cycle) == [0, 1, 2, 3]
    pair = pair.clone()
    pair[2] = -pair[2]
    upset = lw.explain(quiet(lw.BP(iterations=20), graph, {"unary": unary, "pair": pair}))
    assert upset.frustrated is True


def test_a_slow_run_says_how_long_it_would_take() -> None:
    graph = lw.FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2], [2, 0]]})
    tables = {"unary": torch.tensor([[0.0, 0.5], [0, 0], [0, 0]]).double(), "pair": -1.5 * DIFFER}
    found = lw.explain(quiet(lw.BP(iterations=8), graph, tables))
    assert found.kind == "slow" and found.forecast is not None and 0 < found.rate < 1
    needed = int(lw.BP(iterations=10_000)(graph, tables).status.sweeps)
    assert 0.5 * needed <= found.forecast <= 2 * needed
    assert "on its way" in str(found)


def test_a_grid_of_strong_couplings() -> None:
    graph, tables = spin_glass(12, 3.0)
    found = lw.explain(quiet(lw.BP(), graph, tables))
    assert found.kind in ("oscillates", "wanders") and len(found.cycle) == 4 and found.frustrated
    moving = {entry.variable for entry in found.moving}
    assert set(found.cycle) <= moving
    couplings = tables["pair"][:, 0, 0].abs()
    inside = [row for row, scope in enumerate(graph.group("pair").scopes) if set(scope.tolist()) <= moving]
    strongest = max(inside, key=lambda row: float(couplings[row]))
    assert found.ties[0].row == strongest and found.ties[0].strength == pytest.approx(float(couplings[strongest]))
    weak = lw.explain(lw.BP()(*spin_glass(12, 0.2)))
    assert weak.kind == "converged" and not weak.moving and "approximate" in str(weak)


def test_evidence_names_and_batches() -> None:
    names = lw.formats.Vocabulary(tuple("abcde"), (("no", "yes"),) * 5)
    scopes = [[0, 1], [0, 2], [1, 2], [2, 3], [3, 4]]
    graph = lw.FactorGraph([2] * 5, {"unary": [[v] for v in range(5)], "pair": scopes}, vocabulary=names)
    strong = torch.stack([4 * DIFFER] * 3 + [0.1 * DIFFER] * 2)
    unary = torch.tensor([[0.0, 0.1]] * 5).double()
    batch = {"unary": unary, "pair": torch.stack([0.01 * strong, strong])}
    beliefs = quiet(lw.BP(iterations=30), graph, batch, {"e": "yes"})
    found = lw.explain(beliefs)
    assert found.example == 1 and found.unsettled == 1 and "example 1" in str(found)
    assert {"a", "b", "c"} <= {entry.name for entry in found.moving} and 4 not in {e.variable for e in found.moving}
    assert sorted(found.cycle) == [0, 1, 2] and all(set(tie.scope) <= {0, 1, 2, 3} for tie in found.ties)
    single = lw.explain(lw.BP(iterations=30)(graph, {"unary": unary, "pair": 0.01 * strong}, {"e": "yes"}))
    assert single.kind == "converged"
    with pytest.raises(ValueError, match="no example 7"):
        lw.explain(beliefs, example=7)


def test_exact_answers_and_other_methods() -> None:
    graph = lw.chain(4)
    tables = lw.TablePotentials.random(graph, seed=0)
    assert lw.explain(lw.BP()(graph, tables)).kind == "exact"
    assert str(lw.explain(lw.infer(graph, tables))).endswith("these beliefs are exact.")
    assert lw.explain(quiet(lw.MeanField(), graph, tables)).kind in ("unknown", "exact")
    stubborn = lw.Auto(cell_limit=1.0, memory_limit=1.0)
    found = lw.explain(quiet(stubborn, *spin_glass(12, 3.0)), trials=False)
    assert isinstance(found, Explanation) and found.trials == () and found.cycle


def test_which_factors_moved_a_belief() -> None:
    """On a tree the belief without a factor is that of the tree without it."""
    graph = lw.chain(4)
    tables = {name: table.detach() for name, table in lw.TablePotentials.random(graph, seed=1)().items()}
    for method in (lw.BP(), lw.Exact(), lw.MeanField()):
        beliefs = quiet(method, graph, tables)
        found = lw.explain(beliefs).moved_by(3, most=20)
        sizes = {(entry.group, entry.row): entry.change for entry in found}
        for name, table in tables.items():
            for row in range(len(table)):
                without = table.clone()
                without[row] = 0.0
                other = quiet(method, graph, {**tables, name: without}).marginal(3)
                expected = float((other - beliefs.marginal(3)).abs().sum()) / 2
                assert sizes[name, row] == pytest.approx(expected, abs=1e-9)
        assert [entry.change for entry in found] == sorted(sizes.values(), reverse=True)
    first = lw.explain(lw.BP()(graph, tables)).moved_by(0, most=1)[0]
    assert 0 in first.scope and "without it" in str(first)
    with pytest.raises(ValueError, match="no variable 9"):
        lw.explain(lw.BP()(graph, tables)).moved_by(9)


def test_structured_factors_and_schedules() -> None:
    scope = list(range(3))
    graph = lw.FactorGraph(
        [2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2], [0, 2]]}, {"one": (lw.ExactlyOne(3), scope)}
    )
    tables = {
        "unary": torch.tensor([[0.0, 0.1]] * 3).double(),
        "pair": torch.stack([6 * DIFFER, 5 * DIFFER, -7 * DIFFER]),
    }
    found = lw.explain(quiet(lw.BP(iterations=5, tolerance=1e-12), graph, tables))
    assert found.kind in ("slow", "oscillates", "wanders") and found.trials
    residual = lw.BP(schedule=lw.inference.Residual(), iterations=5)
    assert lw.explain(quiet(residual, *spin_glass(6, 3.0)), trials=False).moving


def test_what_changed_or_has_no_origin_is_refused() -> None:
    graph, tables = antiferromagnet()
    beliefs = quiet(lw.BP(), graph, tables)
    tables["pair"].mul_(2.0)
    with pytest.raises(ChangedError):
        lw.explain(beliefs)
    beliefs.call = None
    with pytest.raises(ValueError, match="do not say how they were computed"):
        lw.explain(beliefs)


def test_cycles_and_strengths() -> None:
    graph = lw.FactorGraph([2] * 6, {"pair": [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5], [5, 2]]})
    ties = Ties(graph.layout)
    everybody = np.ones(6, dtype=bool)
    assert [sorted(variables) for variables, _ in ties.within(everybody).cycles(0)] == [[0, 1, 2]]
    assert [sorted(variables) for variables, _ in ties.within(everybody).cycles(4)] == [[2, 3, 4, 5]]
    assert ties.within(np.array([True, True, False, True, True, True])).cycles(0) == []
    ((variables, factors),) = ties.within(everybody).cycles(4)
    for place, factor in enumerate(factors):  # each factor joins a variable with the next
        ends = {variables[place], variables[(place + 1) % 4]}
        assert set(graph.group("pair").scopes[ties.named(factor)[1]].tolist()) == ends
    assert ties.within(np.zeros(6, dtype=bool)).cycles(0) == []
    three = torch.zeros(1, 2, 2, 2)
    three[0, 1, 1, 1] = 8.0  # a product of three: its part that no single variable says
    additive = sum(torch.tensor([0.0, 1.0]).reshape(shape) for shape in ([2, 1, 1], [1, 2, 1], [1, 1, 2]))
    torch.testing.assert_close(strengths(three + additive), strengths(three))
    assert sign(DIFFER) == -1 and sign(-DIFFER) == 1 and sign(torch.zeros(2, 2)) == 0


def test_methods_as_one_writes_them() -> None:
    for method in (lw.BP(), lw.BP(damping=0.5, schedule=lw.Sequential()), lw.Exact(), lw.TRW(iterations=7)):
        assert eval(written(method), {"lw": lw}) == method
