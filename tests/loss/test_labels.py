"""F1 of labels against scikit-learn and through changes; numbers of right variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw


def samples(values: int, shape: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, values, shape), generator.integers(0, values, shape)


@pytest.mark.parametrize("macro", [True, False])
def test_values_against_scikit_learn(macro: bool) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    mine, gold = samples(5, (6, 7))
    named = (1, 2, 4)
    metric = lw.metric.ValueF1(values=named, macro=macro)
    expected = sklearn.f1_score(
        gold.reshape(-1), mine.reshape(-1), labels=list(named), average="macro" if macro else "micro", zero_division=1
    )
    assert float(metric(torch.tensor(mine), torch.tensor(gold))) == pytest.approx(expected)
    each = sklearn.f1_score(gold.reshape(-1), mine.reshape(-1), labels=list(named), average=None, zero_division=1)
    assert metric.per_label(torch.tensor(mine), torch.tensor(gold)).tolist() == pytest.approx(each.tolist())


@pytest.mark.parametrize("macro", [True, False])
def test_variables_against_scikit_learn(macro: bool) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    mine, gold = samples(2, (9, 5))
    mine[:, 4] = gold[:, 4] = 0  # a label that nothing has
    metric = lw.metric.VariableF1(variables=5, macro=macro)
    average = "macro" if macro else "micro"
    expected = sklearn.f1_score(gold, mine, average=average, zero_division=1)
    assert float(metric(torch.tensor(mine), torch.tensor(gold))) == pytest.approx(expected)
    each = sklearn.f1_score(gold, mine, average=None, zero_division=1)
    assert metric.per_label(torch.tensor(mine), torch.tensor(gold)).tolist() == pytest.approx(each.tolist())


METRICS = (
    lw.metric.Accuracy(),
    lw.metric.HammingError(),
    lw.metric.Correct(),
    lw.metric.F1Score(positive=(1, 2)),
    lw.metric.FBetaScore(beta=2.0),
    lw.metric.ValueF1(values=(0, 1, 2)),
    lw.metric.ValueF1(values=(1, 2), macro=False),
    lw.metric.VariableF1(variables=6),
    lw.metric.VariableF1(variables=6, macro=False, beta=0.5),
)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: type(metric).__name__)
def test_changes(metric: Any) -> None:
    generator = np.random.default_rng(1)
    gold = generator.integers(0, 3, 6)
    gold[2] = -1
    state = generator.integers(0, 3, 6)
    tracker = metric.track(gold.tolist(), state.tolist())
    sign = 1 if metric.higher_is_better else -1

    def value(values: np.ndarray) -> float:
        return sign * float(metric(torch.tensor(values), torch.tensor(gold)))

    best = np.where(gold < 0, 0, gold)
    for _ in range(60):
        assert tracker.value() == pytest.approx(value(state))
        assert tracker.gap() == pytest.approx(value(best) - value(state))
        changes, after = [], state.copy()
        for place in generator.choice(6, generator.integers(1, 3), replace=False).tolist():
            new = int(generator.integers(0, 3))
            changes.append((place, int(after[place]), new))
            after[place] = new
        assert tracker.gain(changes) == pytest.approx(value(after) - value(state), abs=1e-12)
        for change in changes:
            tracker.change(*change)
        state = after


def test_right_variables_are_counted() -> None:
    metric = lw.metric.Correct()
    assert float(metric(torch.tensor([[0, 1, 2], [1, 1, 1]]), torch.tensor([[0, 1, 1], [1, -1, 0]]))) == 1.5


def test_misfits() -> None:
    with pytest.raises(ValueError, match="of 3 variables, the answer has 2"):
        lw.metric.VariableF1(variables=3)(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="at least 1"):
        lw.metric.VariableF1(variables=0)
