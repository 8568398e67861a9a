"""F as a loss and as a metric: hand-worked counts, micro and macro, sets, the empty case."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise import decode, loss
from loopwise.loss import metric
from oracles.made_beliefs import beliefs_of, by_hand, random_beliefs, random_values


def counts(prediction: list[int], gold: list[int], positive: set[int]) -> tuple[int, int, int]:
    """Agreed, decided, gold, in a loop over scored variables."""
    pairs = [(p, g) for p, g in zip(prediction, gold, strict=True) if g >= 0]
    agreed = sum(p == g and g in positive for p, g in pairs)
    return agreed, sum(p in positive for p, _ in pairs), sum(g in positive for _, g in pairs)


def f(agreed: float, decided: float, gold: float, beta: float = 1.0) -> float:
    size = beta**2 * gold + decided
    return 1.0 if size == 0 else (1 + beta**2) * agreed / size


def test_soft_by_hand() -> None:
    beliefs = by_hand(lw.chain(4), [[0.8, 0.2], [0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])
    y = torch.tensor([0, 1, 1, -1])
    assert float(loss.F1()(beliefs, y)) == pytest.approx(1 - 2 * (0.7 + 0.6) / (2 + 0.2 + 0.7 + 0.6))
    assert float(loss.FBeta(beta=3)(beliefs, y)) == pytest.approx(1 - 10 * 1.3 / (9 * 2 + 1.5))


@given(st.integers(0, 200), st.sampled_from([(1,), (1, 2), (0,)]), st.sampled_from([0.5, 1.0, 2.0]))
def test_hard_micro_and_macro(seed: int, positive: tuple[int, ...], beta: float) -> None:
    graph = lw.chain(5, states=3)
    beliefs, values = random_beliefs(graph, (4,), seed), random_values(graph, (4,), seed, hidden=0.4)
    decision = decode.Max()(beliefs)
    rows = [counts(p, g, set(positive)) for p, g in zip(decision.assignment.tolist(), values.tolist(), strict=True)]
    macro = sum(f(*row, beta) for row in rows) / 4
    micro = f(*(sum(column) for column in zip(*rows, strict=True)), beta)
    options = {"beta": beta, "positive": positive}
    assert float(loss.FBeta(**options)(decision, values)) == pytest.approx(1 - macro)
    assert float(loss.FBeta(reduction=loss.Pooled(), **options)(decision, values)) == pytest.approx(1 - micro)
    for answer in (decision, beliefs, decision.assignment):  # a metric takes integers too
        assert float(metric.FBetaScore(**options)(answer, values)) == pytest.approx(macro)
        assert float(metric.FBetaScore(reduction=loss.Pooled(), **options)(answer, values)) == pytest.approx(micro)
        each = metric.FBetaScore(**options).per_example(answer, values)
        assert each.tolist() == pytest.approx([f(*row, beta) for row in rows])


def test_nothing_positive_is_perfect_and_has_no_slope() -> None:
    states = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    value = loss.F1()(beliefs_of(lw.chain(2), states), [0, 0])
    assert value.item() == 0
    value.backward()
    assert states.grad.tolist() == [0, 0, 0, 0]
    assert float(metric.F1Score()(torch.tensor([0, 0]), torch.tensor([0, 0]))) == 1


def test_sets_count_as_gold_as_far_as_found() -> None:
    graph = lw.chain(3, states=3)
    beliefs = by_hand(graph, [[0.1, 0.6, 0.3], [0.2, 0.5, 0.3], [0.7, 0.2, 0.1]])
    sets = {0: {1, 2}, 1: {0, 2}, 2: 0}
    agreed, decided, gold = 0.9 + 0.3, 0.9 + 0.8 + 0.3, 1 + 0.3
    assert float(loss.F1(positive=(1, 2))(beliefs, sets)) == pytest.approx(1 - f(agreed, decided, gold))
    targets = loss.Targets.of(graph, sets)
    hard = decode.Max()(beliefs)
    assert hard.assignment.tolist() == [1, 1, 0]
    expected = 1 - float(loss.F1(positive=(1, 2))(hard, targets))
    assert float(metric.F1Score(positive=(1, 2))(hard.assignment, targets)) == pytest.approx(expected) == f(1, 2, 1)


def test_a_corpus_in_pieces() -> None:
    graph = lw.chain(4)
    beliefs, values = random_beliefs(graph, (7,)), random_values(graph, (7,), hidden=0.3)
    for measure in (loss.F1(), loss.F1(reduction=loss.Pooled()), loss.MSE(), loss.MSE(reduction=loss.Pooled())):
        pieces = [
            measure.statistics(beliefs_of(graph, beliefs.states[part]), values[part])
            for part in (slice(0, 3), slice(3, 7))
        ]
        assert all(piece.shape[-1] == measure.columns for piece in pieces)
        torch.testing.assert_close(measure.combine(torch.cat(pieces)), measure(beliefs, values))
    pooled = loss.L1(reduction=loss.Pooled())(beliefs, values)
    wrong = 1 - beliefs.variables.gather(-1, values.clamp_min(0)[..., None])[..., 0]
    torch.testing.assert_close(pooled, wrong[values >= 0].mean())
    total = loss.L1(reduction=loss.Sum())(beliefs, values)
    torch.testing.assert_close(total, loss.L1().per_example(beliefs, values).sum())


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="beta must be positive, not 0"):
        loss.FBeta(beta=0)
    with pytest.raises(ValueError, match="at least one"):
        metric.F1Score(positive=())
    with pytest.raises(ValueError, match="positive label 2"):
        loss.F1(positive=2)(random_beliefs(lw.chain(2)), [0, 0])
    with pytest.raises(ValueError, match="integer assignment"):
        metric.Accuracy()(torch.tensor([0.5]), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"shape \(2,\) does not fit targets: .* each of 3 variables"):
        metric.Accuracy()(torch.tensor([0, 1]), torch.tensor([0, 1, 1]))
    with pytest.raises(ValueError, match="do not fit assignments"):
        metric.Accuracy()(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(4, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="must be integers"):
        metric.Accuracy()(torch.tensor([0]), torch.tensor([0.5]))
