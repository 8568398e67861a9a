"""Unroll: the exact gradient of the run that happened, engine against engine and against differences of whole runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwise as lw
from loopwise.testing import check_gradient
from oracles.gradient_cases import (
    SCHEDULES,
    beside,
    engines_gap,
    everything,
    gap,
    gradients,
    marginals_only,
    mixed_graph,
    normal,
    pair_graph,
    tables_of,
    truncated,
)
from oracles.strategies import models

AGREE = 1e-10
SHARED = ("binary", "triple", "oblong")


# ----------------------------------------------------------------------------------------- against differences


@pytest.mark.parametrize("sweeps", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_truncated_runs_have_the_gradient_of_differences(schedule, sweeps, damping) -> None:
    graph = mixed_graph()
    method = truncated(sweeps, schedule=schedule, damping=damping)
    tables = tables_of(graph)
    if isinstance(
        schedule, lw.inference.Residual
    ):  # where the order of updates jumps, there are no differences to compare with
        tables = tables_of(graph, seed=2)
        if sweeps > 3:
            pytest.skip("after so many updates the order jumps nearly everywhere")
    check_gradient(method, graph, tables, everything, tolerance=1e-7)


@pytest.mark.parametrize("sweeps", [1, 3])
def test_the_reference_engine_has_the_gradient_of_differences(schedule, sweeps) -> None:
    graph = pair_graph()
    check_gradient(
        truncated(sweeps, schedule=schedule, engine=lw.inference.Reference()), graph, tables_of(graph), everything
    )


def test_hard_zeros_have_the_gradient_of_differences(schedule) -> None:
    graph = mixed_graph()
    tables = tables_of(graph, zeros=True, seed=2)
    assert sum(int(torch.isneginf(table).sum()) for table in tables.values()) > 5
    check_gradient(truncated(3, schedule=schedule, damping=0.2), graph, tables, everything)


# ------------------------------------------------------------------------------------------ engine against engine


@pytest.mark.parametrize("sweeps", [0, 1, 3])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_engines_agree(schedule, sweeps, damping) -> None:
    graph = mixed_graph()
    assert engines_gap(truncated(sweeps, schedule=schedule, damping=damping), graph, tables_of(graph)) < AGREE


@pytest.mark.parametrize(
    ("kind", "shared"),
    [("flooding", ()), ("flooding", SHARED), ("sequential", SHARED)],
    ids=["flooding", "flooding, shared tables", "sequential, shared tables"],
)
def test_engines_agree_on_batches_that_stop_early(kind, shared) -> None:
    """Examples of one block stop at different sweeps; each has the gradient of its own run."""
    graph = mixed_graph()
    tables = tables_of(graph, 40, shared=shared, scale=0.7)
    method = lw.BP(iterations=60, tolerance=1e-2, schedule=SCHEDULES[kind], damping=0.1)
    sweeps = method(graph, tables).status.sweeps
    assert len(set(sweeps.tolist())) > 1
    assert engines_gap(method, graph, tables) < AGREE
    assert engines_gap(replace(method, trace=True), graph, tables) < AGREE


def test_an_example_has_the_same_gradient_alone_and_in_a_batch() -> None:
    graph = mixed_graph()
    tables = tables_of(graph, 40, shared=("binary",))
    method = truncated(4, damping=0.1)

    def weighed(example):
        weights = normal((graph.layout.states,), 9)
        return lambda beliefs: (beliefs.states.reshape(-1, graph.layout.states)[example] * weights).sum()

    alone = {name: table if name == "binary" else table[33] for name, table in tables.items()}
    inside = gradients(method, graph, tables, weighed(33))
    others = {name: part if name in ("binary", "loss") else part[33] for name, part in inside.items()}
    assert gap(others, gradients(method, graph, alone, weighed(0))) < 1e-13
    for name in ("unary", "quad"):
        rest = torch.cat([inside[name][:33], inside[name][34:]])
        assert (rest == 0).all()


@pytest.mark.parametrize("few", [3, 9])
def test_engines_agree_on_several_batch_dimensions(few) -> None:
    """Few examples run one by one, many side by side; the second batch dimension of one group is shared."""
    graph = mixed_graph()
    tables = tables_of(graph, few, 2, shared=("wide",))
    tables["triple"] = tables["triple"][:, :1]
    tables["quad"] = tables["quad"][:1]
    assert engines_gap(truncated(2), graph, tables) < AGREE


def test_engines_agree_in_the_log_domain() -> None:
    graph = mixed_graph()
    method = truncated(3, temperature=0.003, damping=0.1)
    tables = tables_of(graph, zeros=True, seed=2)
    assert method(graph, tables).status.domain == "log"
    assert engines_gap(method, graph, tables) < AGREE


def test_engines_agree_where_only_some_examples_need_the_log_domain() -> None:
    graph = mixed_graph()
    tables = tables_of(graph, 12, shared=("oblong", "wide"))
    tables["binary"][5] *= 400
    method = truncated(3, damping=0.2)
    assert method(graph, tables).status.domain == "probability and log"
    assert engines_gap(method, graph, tables) < AGREE


@pytest.mark.parametrize("varied", [False, True], ids=["same variables", "various variables"])
def test_engines_agree_given_evidence(varied) -> None:
    graph = mixed_graph()
    values = np.full((9, graph.variables), -1)
    values[:, 7] = np.arange(9) % 2
    if varied:
        values[::2, 6], values[::3, 7] = 1, -1
    assert engines_gap(truncated(3), graph, tables_of(graph, 9), evidence=values) < AGREE
    assert engines_gap(truncated(3), graph, tables_of(graph), evidence={7: 1}) < AGREE


@settings(max_examples=12)
@given(models(zeros=True, variables=(1, 5), most_factors=6), st.sampled_from([1, 2, 5]), st.sampled_from([0.0, 0.4]))
def test_engines_agree_on_any_graph(model, sweeps, damping) -> None:
    graph, tables = beside(*model)
    assert engines_gap(truncated(sweeps, damping=damping), graph, tables) < AGREE


@settings(max_examples=12)
@given(models(zeros=True, variables=(2, 5), most_factors=6), st.sampled_from(list(SCHEDULES)))
def test_any_graph_has_the_gradient_of_differences(model, kind) -> None:
    graph, tables = beside(*model)
    check_gradient(truncated(2, schedule=SCHEDULES[kind]), graph, tables)


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_a_variable_in_500_factors(kind) -> None:
    graph = lw.FactorGraph(
        np.full(501, 2) + (np.arange(501) % 5 == 4), {
            "binary": [[0, leaf] for leaf in range(1, 501) if leaf % 5 != 4],
            "oblong": [[0, leaf] for leaf in range(1, 501) if leaf % 5 == 4],
            "triple": [[1, 2, 4]],
        }
    )  # fmt: skip
    tables = tables_of(graph, scale=0.3)
    tables["binary"][:3, 0, 0] = -torch.inf
    assert int(graph.layout.degrees[0]) == 500
    method = truncated(3, schedule=SCHEDULES[kind], damping=0.1)
    check_gradient(method, graph, tables, marginals_only)
    if kind == "flooding":
        assert engines_gap(method, graph, tables) < AGREE


def test_a_loss_may_look_at_every_sweep(engine) -> None:
    """The trace holds the beliefs of shorter runs, and its gradient is the sum of theirs."""
    graph = mixed_graph()
    tables = tables_of(graph)

    def of_sweep(sweep):
        return lambda beliefs: (normal((graph.layout.states,), sweep) * beliefs.states**2).sum()

    def of_all(beliefs):
        assert beliefs.trace is not None
        assert beliefs.trace.shape == (5, graph.layout.states)
        weights = torch.stack([normal((graph.layout.states,), sweep) for sweep in range(5)])
        return (weights * beliefs.trace**2).sum()

    whole = gradients(truncated(4, trace=True, engine=engine), graph, tables, of_all)
    parts = [gradients(truncated(sweep, engine=engine), graph, tables, of_sweep(sweep)) for sweep in range(5)]
    assert gap(whole, {name: torch.stack([part[name] for part in parts]).sum(0) for name in whole}) < 1e-12


def test_adjoints_of_messages_sum_to_zero(engine, schedule) -> None:
    """Messages count up to a factor, so their logarithms' derivatives have no common part."""
    graph = mixed_graph()
    layout = graph.layout
    initial = normal((layout.slots,), 5)
    for sweeps in (0, 1, 2):
        method = truncated(sweeps, schedule=schedule, engine=engine, damping=0.3)
        adjoint = gradients(method, graph, tables_of(graph), initial=initial)["initial"]
        sizes = graph.cardinalities[layout.edge_variable]
        edge = torch.tensor(np.repeat(np.arange(layout.edges), sizes))
        sums = torch.zeros(layout.edges, dtype=torch.float64).index_add(0, edge, adjoint)
        assert float(sums.abs().max()) < 1e-12 * float(adjoint.abs().max())


def test_the_report_names_the_estimator(engine) -> None:
    graph = mixed_graph()
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    assert str(truncated(2, engine=engine)(graph, leaves).gradient) == "Unroll"


# ------------------------------------------------------------------------------------------------------- refusals


def test_adjoints_that_are_not_finite_are_refused(engine) -> None:
    graph = mixed_graph()
    tables = tables_of(graph)
    tables["unary"][0, 0] = -torch.inf
    with pytest.raises(lw.notices.GradientError, match=r"NaN or infinite adjoints .* clamp"):
        gradients(truncated(2, engine=engine), graph, tables, lambda beliefs: beliefs.states.log().sum())
    clamped = gradients(truncated(2, engine=engine), graph, tables, lambda b: b.states.clamp(min=1e-30).log().sum())
    assert all(torch.isfinite(part).all() for part in clamped.values())


def test_max_product_has_no_gradient(engine) -> None:
    graph = mixed_graph()
    with pytest.raises(lw.notices.GradientError, match="temperature 0"):
        gradients(truncated(2, engine=engine, temperature=0.0), graph, tables_of(graph), marginals_only)
    with torch.no_grad():  # nobody asks for one here
        truncated(2, engine=engine, temperature=0.0)(graph, tables_of(graph))


def test_checkpoints_cannot_be_closer_than_a_sweep() -> None:
    with pytest.raises(ValueError, match="every=0"):
        lw.gradient.Checkpoints(0)
