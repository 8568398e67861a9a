"""Plain and compiled walks take the same steps, bit for bit, whatever the learner, the proposal and the metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.kernels.gibbs import next_uniform, seed_stream
from loopwise.walk.randomness import Stream
from walk_cases import chain_documents, chain_model, cluster_model, mention_document, mixed_graph

TAGS = ("O", "B-X", "I-X")
LABEL_METRICS = (
    lw.metric.Accuracy(),
    lw.metric.HammingError(),
    lw.metric.Correct(),
    lw.metric.F1(positive=(1, 2)),
    lw.metric.ValueF1(values=(1, 2)),
    lw.metric.ValueF1(values=(0, 2), macro=False),
    lw.metric.VariableF1(variables=6),
    lw.metric.EntityF1(tags=TAGS),
)
CLUSTER_METRICS = (lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed())
LEARNERS = (
    walk.SampleRank,
    walk.SampleRankSVM,
    walk.SampleRankSVM1,
    walk.CD,
    walk.PCD,
    walk.Hybrid,
)


class Tracing(walk.Engine):
    """An engine that keeps every step."""

    def __init__(self, engine: walk.Engine) -> None:
        self.engine, self.trace = engine, list[tuple[int, int, int, bool]]()

    def open(self, *arguments: Any) -> Any:
        session = self.engine.open(*arguments)
        session.trace = self.trace
        return session


def assert_alike(
    kind: type[walk.Learner], model: walk.Model, proposal: walk.Proposal, metric: Any, documents: list[Any],
    steps: int = 60, **options: Any,
) -> None:  # fmt: skip
    fit = options.pop("fit", {})
    found = []
    for engine in (walk.Plain(), walk.Compiled()):
        tracing = Tracing(engine)
        learner = kind(model, proposal, metric=metric, engine=tracing, seed=5, **options)  # type: ignore[arg-type]
        learner.fit(documents, steps=steps, epochs=2, **fit)
        found.append((learner, list(tracing.trace)))
    (plain, steps_taken), (compiled, others) = found
    assert steps_taken == others
    assert plain.tally == compiled.tally
    assert np.array_equal(plain.raw, compiled.raw) and np.array_equal(plain.state.sums, compiled.state.sums)
    assert np.any(plain.raw)
    mine, theirs = (learner.search(documents, steps=steps) for learner, _ in found)
    assert [best.labels for best in mine] == [best.labels for best in theirs]
    assert np.allclose([best.score for best in mine], [best.score for best in theirs], atol=1e-9)


def test_random_streams() -> None:
    words = np.zeros(4, dtype=np.uint64)
    for seed, number in ((0, 0), (7, 3), (2**40 + 1, (5 << 32) | 9)):
        seed_stream(words, seed, number)
        stream = Stream(seed, number)
        assert [stream.uniform() for _ in range(20)] == [next_uniform(words) for _ in range(20)]


@pytest.mark.parametrize("metric", LABEL_METRICS, ids=lambda metric: type(metric).__name__)
def test_metrics_of_labels(metric: Any) -> None:
    for proposal in (walk.Gibbs(), walk.AllValues()):
        assert_alike(walk.SampleRank, chain_model(), proposal, metric, chain_documents(), step=walk.MIRA())


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_learners_of_labels(kind: type[walk.Learner]) -> None:
    for proposal in (walk.UniformChange(), walk.ForcedFlip(), walk.Gibbs(scan=True)):
        assert_alike(kind, chain_model(), proposal, lw.metric.Accuracy(), chain_documents())


@pytest.mark.parametrize("step", [walk.Unit(0.5), walk.Decaying(2.0), walk.AdaGrad(), walk.MIRA(0.2)])
def test_steps_margins_acceptance(step: walk.Step) -> None:
    for margin in (walk.ScaledMargin(5.0), walk.ConstantMargin()):
        for accept_with in walk.Accept:
            assert_alike(
                walk.SampleRank, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(),
                step=step, margin=margin, accept_with=accept_with, temperature=0.7,
            )  # fmt: skip
    assert_alike(walk.Hybrid, chain_model(), walk.Gibbs(), lw.metric.F1(), chain_documents(), step=step, on_ties=True)


@pytest.mark.parametrize("start", [walk.Start.RANDOM, walk.Start.PREVIOUS, walk.Start.MIXED])
def test_starts(start: walk.Start) -> None:
    labels, mentions = chain_documents(), [mention_document(size) for size in (1, 2, 7)]
    for kind in (walk.SampleRank, walk.PCD):
        assert_alike(kind, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), labels, start=start)
        assert_alike(kind, cluster_model(), walk.MentionMover(), lw.metric.PairwiseAccuracy(), mentions, start=start)


def test_far_from_the_truth_and_back() -> None:
    for count in (2, 5):
        assert_alike(
            walk.CD, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(), steps_away=count
        )


def test_tables_tied_tables_columns_and_evidence() -> None:
    graph = mixed_graph()
    free = np.array([True, True, False, True])
    documents = [walk.GraphDocument(graph, [0, 2, 1, 1], free=free), walk.GraphDocument(graph, [1, 0, -1, 0])]
    for potentials in (lw.TablePotentials(graph), lw.potentials.TiedTables(graph)):
        model = walk.GraphModel(potentials)
        assert_alike(walk.SampleRank, model, walk.Gibbs(), lw.metric.Accuracy(), documents)
        assert_alike(walk.SampleRankSVM, model, walk.Gibbs(), lw.metric.Accuracy(), documents[:1])
    tied = lw.SparsePotentials(
        {
            "unary": lw.potentials.SparseGroup((3,), 12, columns=(-1, 0, 1), table="shared"),
            "pair": lw.potentials.SparseGroup((3, 3), 12, columns=(0, 1, 1, 1, 0, 1, 1, 1, -1), table="shared"),
        }
    )
    chains = chain_documents(pair_features=12)
    assert_alike(walk.SampleRank, walk.GraphModel(tied), walk.AllValues(), lw.metric.Accuracy(), chains)


@pytest.mark.parametrize("setwise", [False, True])
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("metric", CLUSTER_METRICS, ids=lambda metric: type(metric).__name__)
def test_clusterings(metric: Any, two_sided: bool, setwise: bool) -> None:
    model = cluster_model(setwise=setwise, two_sided=two_sided, links=setwise)
    documents = [mention_document(size, setwise=setwise, values=True, links=setwise) for size in (1, 2, 5, 8)]
    for kind in LEARNERS if setwise else LEARNERS[:1]:
        assert_alike(kind, model, walk.MentionMover(), metric, documents)


def test_fetching_ahead_changes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents too large for a near cache, as all are said to be here."""
    from loopwise.walk import cluster_arrays, graph_arrays

    monkeypatch.setattr(cluster_arrays, "_NEAR", -1)
    monkeypatch.setattr(graph_arrays, "_NEAR", -1)
    mentions = [mention_document(size, setwise=True, values=True, links=True) for size in (1, 2, 5, 8)]
    model = cluster_model(setwise=True, links=True)
    assert_alike(walk.SampleRank, model, walk.MentionMover(), lw.metric.BCubed(), mentions)
    for proposal in (walk.Gibbs(), walk.AllValues(), walk.ForcedFlip()):
        assert_alike(walk.SampleRank, chain_model(), proposal, lw.metric.Accuracy(), chain_documents())


def test_the_difference_to_the_truth_is_rebuilt_alike() -> None:
    from dataclasses import replace

    documents = [mention_document(6, values=True)]
    found = []
    for engine in (walk.Plain(), walk.Compiled()):
        learner = walk.PCD(cluster_model(), walk.MentionMover(), metric=lw.metric.BCubed(), engine=engine)
        learner.rule = replace(learner.rule, rebuild=7)
        found.append(learner.fit(documents, steps=100).raw)
    assert np.array_equal(*found)


def test_an_unknown_metric_walks_plain() -> None:
    metric = walk.WholeWorld(lambda world: -float(sum(world.values)))
    learner = walk.SampleRank(chain_model(), walk.Gibbs(), metric=metric)
    documents = [
        walk.GraphDocument(document.graph, document.truth * 0, document.features) for document in chain_documents()
    ]
    learner.fit(documents, steps=50)
    assert learner.tally.updates > 0
    with pytest.raises(ValueError, match=r"engine=lw\.walk\.Plain"):
        walk.SampleRank(chain_model(), walk.Gibbs(), metric=metric, engine=walk.Compiled()).fit(documents, steps=5)
