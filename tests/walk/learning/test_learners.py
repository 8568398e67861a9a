"""What learners promise: MIRA's equality, exact averages, rankings, likelihood gradients, structured SVMs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import loopwise as lw
from loopwise import walk
from loopwise.walk.models.model import dot
from oracles.walk_cases import chain_model, separable


@pytest.mark.parametrize("step", [walk.Unit(), walk.MIRA(np.inf)])
def test_separable_data_ends_without_violations(step: walk.Step) -> None:
    model, documents = separable()
    learner = walk.SampleRank(model, walk.UniformChange(), metric=lw.metric.Correct(), step=step)
    learner.fit(documents, steps=2000, epochs=10)
    before = learner.tally
    learner.fit(documents, steps=2000)
    assert learner.tally.violated == before.violated
    assert learner.tally.ranked > before.ranked
    assert learner.evaluate(documents, raw=True, steps=500) == 5.0  # all tokens of all documents
    _check_telescoping(model, documents[0], learner.raw)


def _check_telescoping(model: walk.GraphModel, document: walk.GraphDocument, weights: np.ndarray) -> None:
    """Margins of single right corrections add up to that of the whole way to the truth (section 1 of the paper)."""
    truth = document.truth.tolist()
    best = dot(model.features(model.world_of(document, truth)), weights.tolist())
    for labels in product(range(3), repeat=5):
        wrong = sum(label != gold for label, gold in zip(labels, truth, strict=True))
        score = dot(model.features(model.world_of(document, labels)), weights.tolist())
        assert best - score >= wrong - 1e-9


def test_contrastive_divergence_with_a_perfect_sampler_has_the_gradient_of_the_likelihood() -> None:
    """One variable: a Gibbs draw forgets the past, so updates average to the truth's features less the expected."""
    graph = lw.FactorGraph([4], {"unary": [[0]]})
    model = walk.GraphModel(lw.TablePotentials(graph))
    document = walk.GraphDocument(graph, [2])
    weights = np.array([0.3, -0.5, 0.9, 0.1])
    exact = np.eye(4)[2] - np.exp(weights) / np.exp(weights).sum()
    total, count = np.zeros(4), 4000
    for seed in range(count):
        learner = walk.CD(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.Unit(), seed=seed)
        learner.set_weights(weights)
        state, _ = learner.engine.open(model, [document], learner.proposal, learner.metric).learn(
            learner.rule, learner.state, [_visit()], seed
        )
        total += state.values - weights
    error = 5 * np.sqrt(0.25 / count)
    assert np.abs(total / count - exact).max() < error


def _visit() -> Any:
    from loopwise.walk.sessions import Visiting

    return Visiting(0, 1, walk.Start.TRUTH, 0)


class WorstRival(walk.Proposal):
    """Exhaustive: of all labellings the one that violates its margin most, always accepted."""

    def __init__(self, differences: dict[bytes, tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]]) -> None:
        self.differences = differences

    def propose(self, walker: walk.Walker) -> walk.Proposed:
        world = walker.world
        assert isinstance(world, walk.Labelling)
        rivals, rows, margins = self.differences[world.document.truth.tobytes()]  # type: ignore[attr-defined]
        worst = rivals[int(np.argmax(margins - rows @ np.array(walker.weights)))]
        changes = [
            (item, old, new) for item, (old, new) in enumerate(zip(world.labels(), worst, strict=True)) if old != new
        ]
        return walk.Proposed(walk.Move(changes) if changes else None, walk.ALWAYS)


def contradictions(alike: bool) -> tuple[walk.GraphModel, list[walk.GraphDocument]]:
    """Texts with the same words and other tags, two of them or (``alike``) all: no weights meet all margins."""
    generator = np.random.default_rng(2)
    documents = []
    for number in range(4):
        words = np.array([0, 3, 6]) if number % 2 else np.array([1, 4, 0] if alike or number else [2, 5, 8])
        tags = generator.integers(0, 3, 3)
        documents.append(walk.GraphDocument.of_chain(3, tags, lw.potentials.Features.of_table(words[:, None])))
    assert len({document.truth.tobytes() for document in documents}) == 4
    return chain_model(pair_features=1), documents


def rivals_of(
    model: walk.GraphModel, document: walk.GraphDocument
) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """All labellings; features of the truth less theirs, and their Hamming losses."""

    def dense(labels: Any) -> np.ndarray:
        vector = np.zeros(model.size)
        for key, value in model.features(model.world_of(document, labels)).items():
            vector[key] += value
        return vector

    rivals = list(product(range(3), repeat=len(document.truth)))
    truth = dense(document.truth.tolist())
    rows = np.array([truth - dense(labels) for labels in rivals])
    margins = np.array([float((np.array(labels) != document.truth).sum()) for labels in rivals])
    return rivals, rows, margins


def least_slack(groups: list[tuple[np.ndarray, np.ndarray]], size: int) -> float:
    """The minimum over weights of the sum of slacks, one a group of constraints: a linear program."""
    count = len(groups)
    above, right = [], []
    for number, (rows, margins) in enumerate(groups):
        slack = np.zeros((len(rows), count))
        slack[:, number] = -1.0
        above.append(np.hstack([-rows, slack]))
        right.append(-margins)
    cost = np.concatenate([np.zeros(size), np.ones(count)])
    bounds = [(None, None)] * size + [(0, None)] * count
    found = linprog(cost, np.vstack(above), np.concatenate(right), bounds=bounds)
    assert found.status == 0
    return float(found.fun)


@pytest.mark.parametrize("alike", [False, True])
def test_an_svm_with_exhaustive_proposals_reaches_the_exact_objective(alike: bool) -> None:
    r"""The structured SVM's :math:`\sum_i\max_y[\Delta-\theta\cdot D]_+` on contradictory data, where it is not 0."""
    model, documents = contradictions(alike)
    known = {document.truth.tobytes(): rivals_of(model, document) for document in documents}
    exact = least_slack([(rows, margins) for _, rows, margins in known.values()], model.size)
    assert exact > 1.0

    def objective(weights: np.ndarray) -> float:
        return sum(max(0.0, float((margins - rows @ weights).max())) for _, rows, margins in known.values())

    learner = walk.SampleRankSVM(
        model,
        WorstRival(known),
        metric=lw.metric.Correct(),
        step=walk.Decaying(0.3),
        averaging=walk.Averaging(burn_in=400),
    )
    assert objective(learner.raw) > 1.4 * exact
    learner.fit(documents, steps=1, epochs=1500)
    assert exact - 1e-9 <= objective(learner.weights) <= 1.02 * exact


def test_an_svm_with_random_proposals_reaches_the_mean_over_rivals() -> None:
    """So hot a walk that rivals are uniform: the mean hinge over all labellings is what it minimises, also not 0."""
    model, documents = contradictions(alike=True)
    groups = []
    for document in documents:
        _, rows, margins = rivals_of(model, document)
        groups += [(rows[place : place + 1], margins[place : place + 1]) for place in range(len(rows))]
    exact = least_slack(groups, model.size) / len(groups)
    rows, margins = np.vstack([row for row, _ in groups]), np.concatenate([margin for _, margin in groups])
    learner = walk.SampleRankSVM(
        model,
        walk.UniformChange(),
        metric=lw.metric.Correct(),
        step=walk.Decaying(0.3),
        temperature=1e6,
        averaging=walk.Averaging(burn_in=50_000),
    )
    learner.fit(documents, steps=10, epochs=10_000)
    reached = float(np.maximum(0.0, margins - rows @ learner.weights).mean())
    assert exact > 0.1 and exact - 1e-9 <= reached <= 1.02 * exact


def test_an_svm_meets_all_margins_where_weights_can() -> None:
    """Separable: the exact objective is 0, and is reached."""
    model, documents = separable()
    document = documents[0]
    _, rows, margins = rivals_of(model, document)
    assert least_slack([(rows, margins)], model.size) == pytest.approx(0.0, abs=1e-9)
    learner = walk.SampleRankSVM(
        model, walk.UniformChange(), metric=lw.metric.Correct(), step=walk.MIRA(np.inf), temperature=50.0
    )  # so hot that every labelling is proposed again and again
    learner.fit([document], steps=60_000, epochs=2)
    assert np.maximum(0.0, margins - rows @ learner.raw).max() == pytest.approx(0.0, abs=1e-9)
    before = learner.tally
    learner.fit([document], steps=20_000)
    assert learner.tally.violated - before.violated < 5


def test_learners_learn() -> None:
    """Every learner decodes what it was trained on far better than the start does."""
    model, documents = separable()
    exact = walk.ExactDecoder()
    learners = [
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.MIRA()),
        walk.SampleRank(model, walk.AllValues(), metric=lw.metric.Accuracy(), step=walk.AdaGrad()),
        walk.SampleRankSVM(model, walk.GibbsChange(), metric=lw.metric.Accuracy()),
        walk.SampleRankSVM1(model, walk.GibbsChange(), metric=lw.metric.Accuracy()),
        walk.CD(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), steps_away=5),
        walk.PCD(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), start=walk.Start.PREVIOUS),
        walk.Hybrid(model, walk.ForcedFlip(), metric=lw.metric.Accuracy()),
    ]
    for learner in learners:
        learner.fit(documents, steps=walk.Sweeps(40), epochs=5)
        assert learner.evaluate(documents, lw.metric.Accuracy(), decoder=exact) > 0.95, type(learner).__name__


def test_trained_weights_go_into_the_potentials() -> None:
    model, documents = separable()
    learner = walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.MIRA())
    learner.fit(documents, steps=500)
    model.write(learner.weights)
    assert np.array_equal(model.read(), learner.weights)
    document = documents[0]
    score = lw.Exact(temperature=0)(document.graph, model.tables(document)).log_partition
    best = walk.ExactDecoder()(model, document, learner.weights)
    assert float(score) == pytest.approx(dot(model.features(model.world_of(document, best)), learner.weights.tolist()))
