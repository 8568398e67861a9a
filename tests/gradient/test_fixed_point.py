"""FixedPoint and OneStep: adjoint sweeps at convergence against the unrolled run, and refusals elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.testing import check_gradient
from oracles.gradient_cases import (
    ENGINES,
    SCHEDULES,
    calm,
    gap,
    gradients,
    marginals_only,
    mixed_graph,
    normal,
    pair_graph,
    tables_of,
)

# Converged so far that the unrolled run, whose gradient lags behind its beliefs, has arrived as well.
TIGHT = {"iterations": 3000, "tolerance": 1e-14}


# --------------------------------------------------------------------------------------------- against other ways


@pytest.mark.parametrize("anderson", [0, 3])
def test_at_convergence_it_is_the_unrolled_gradient(engine, schedule, anderson) -> None:
    graph = pair_graph()
    tables = calm(graph)
    fixed = lw.FixedPoint(tolerance=1e-13, anderson=anderson)
    expected = gradients(lw.BP(engine=engine, gradient=lw.Unroll(), schedule=schedule, **TIGHT), graph, tables)
    found = gradients(lw.BP(engine=engine, gradient=fixed, schedule=schedule, **TIGHT), graph, tables)
    # By residuals, updates below the tolerance are never made, and their share of the gradient is left out.
    assert gap(found, expected) < (1e-6 if isinstance(schedule, lw.inference.Residual) else 1e-9)


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_batches_converge_example_by_example(kind) -> None:
    graph = pair_graph()
    tables = calm(graph, 40, shared=("pair",))
    options = {"schedule": SCHEDULES[kind], "damping": 0.1, "iterations": 3000, "tolerance": 1e-13}
    assert len(set(lw.BP(**options)(graph, tables).status.sweeps.tolist())) > 1
    found = gradients(lw.BP(gradient=lw.FixedPoint(tolerance=1e-13), **options), graph, tables)
    expected = gradients(lw.BP(**options), graph, tables)
    assert gap(found, expected) < 1e-8


@pytest.mark.parametrize("gradient", [lw.FixedPoint(), lw.FixedPoint(anderson=2), lw.gradient.OneStep()], ids=str)
def test_lanes_that_no_example_fills_do_not_matter(monkeypatch, gradient) -> None:
    """40 examples leave lanes of their last block unused: whatever memory holds there must not be read."""

    class Poisoned:
        def __getattr__(self, name):
            return getattr(np, name)

        def empty_like(self, values):
            return np.full_like(values, np.nan)

    monkeypatch.setattr("loopwise.inference.messages.kernel_run.np", Poisoned())
    graph = pair_graph()
    method = lw.BP(iterations=500, tolerance=1e-10, gradient=gradient)
    found = gradients(method, graph, calm(graph, 40, shared=("pair",)))
    assert all(torch.isfinite(part).all() for part in found.values())


def test_larger_factors_and_counting_numbers(engine) -> None:
    graph = mixed_graph()
    tables = calm(graph)
    tables["triple"][0, 0, 0] = -torch.inf
    method = {"engine": engine, "rho": 0.7, "schedule": lw.Sequential(), **TIGHT}
    found = gradients(lw.TRW(gradient=lw.FixedPoint(tolerance=1e-13), **method), graph, tables)
    assert gap(found, gradients(lw.TRW(**method), graph, tables)) < 1e-9


def test_the_log_domain() -> None:
    """A table that spans 900 nats, and still one fixed point."""
    graph = pair_graph()
    tables = calm(graph)
    tables["pair"][0, 0, 1] = -900.0
    methods = [
        lw.BP(gradient=gradient, schedule=lw.Sequential(), engine=engine, **TIGHT)
        for gradient in (lw.FixedPoint(tolerance=1e-13), lw.Unroll())
        for engine in ENGINES.values()
    ]
    assert methods[1](graph, tables).status.domain == "log"
    first, *others = [gradients(method, graph, tables) for method in methods]
    assert max(gap(other, first) for other in others) < 1e-9


def test_pairs_of_many_states_have_the_gradient_of_differences() -> None:
    """Pairs of a size that has no kernel of its own."""
    graph = lw.grid(2, 3, states=7)
    check_gradient(lw.BP(gradient=lw.FixedPoint(tolerance=1e-12)), graph, calm(graph))


def test_it_is_the_gradient_of_differences(engine) -> None:
    graph = pair_graph()
    check_gradient(lw.BP(engine=engine, gradient=lw.FixedPoint(tolerance=1e-12)), graph, calm(graph))


def test_other_estimators_agree() -> None:
    graph = pair_graph()
    tables = calm(graph)
    found = {
        type(gradient).__name__: gradients(lw.BP(gradient=gradient, **TIGHT), graph, tables, marginals_only)
        for gradient in (lw.Unroll(), lw.FixedPoint(tolerance=1e-13), lw.gradient.LinearSolve(), lw.Perturbation())
    }
    assert gap(found["FixedPoint"], found["Unroll"]) < 1e-9
    assert gap(found["LinearSolve"], found["Unroll"]) < 1e-9
    assert gap(found["Perturbation"], found["Unroll"]) < 1e-6


def test_one_step_is_the_first_term_only(engine, schedule) -> None:
    """Near the truth where messages hardly depend on one another, elsewhere not; both engines drop the same terms."""
    graph = pair_graph()

    def error(scale):
        tables = tables_of(graph, scale=scale)
        expected = gradients(lw.BP(engine=engine, schedule=schedule, **TIGHT), graph, tables)
        method = lw.BP(engine=engine, schedule=schedule, gradient=lw.gradient.OneStep(), **TIGHT)
        return gap(gradients(method, graph, tables), expected)

    assert error(0.3) > 1e-5
    assert error(0.01) < error(0.3) / 10


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_engines_drop_the_same_terms(kind) -> None:
    graph, method = pair_graph(), {"gradient": lw.gradient.OneStep(), "schedule": SCHEDULES[kind], **TIGHT}
    plain, fast = (gradients(lw.BP(engine=each, **method), graph, calm(graph)) for each in ENGINES.values())
    assert gap(fast, plain) < 1e-10


def test_damping_does_not_move_the_fixed_point(engine) -> None:
    graph, fixed = pair_graph(), lw.FixedPoint(tolerance=1e-13)
    found = [
        gradients(lw.BP(engine=engine, gradient=fixed, damping=damping, **TIGHT), graph, calm(graph))
        for damping in (0.0, 0.5)
    ]
    assert gap(found[1], found[0]) < 1e-9


def test_initial_messages_are_forgotten(engine) -> None:
    graph = pair_graph()
    method = lw.BP(engine=engine, gradient=lw.FixedPoint(), **TIGHT)
    found = gradients(method, graph, calm(graph), initial=normal((graph.layout.slots,), 3))
    assert (found["initial"] == 0).all()


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("gradient", [lw.FixedPoint(), lw.FixedPoint(anderson=2), lw.gradient.OneStep()], ids=str)
def test_a_run_that_did_not_converge_is_refused(engine, schedule, gradient) -> None:
    graph = pair_graph()
    method = lw.BP(iterations=1, tolerance=0, engine=engine, schedule=schedule, gradient=gradient)
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    loss = marginals_only(method(graph, leaves))  # no complaint before a gradient is asked for
    with pytest.raises(
        lw.notices.GradientError, match=f"{type(gradient).__name__} is only valid at a fixed point.*use Unroll"
    ):
        loss.backward()


def test_one_example_that_did_not_converge_is_enough() -> None:
    graph = pair_graph()
    tables = calm(graph, 9)
    tables["pair"][4] *= 10
    method = lw.BP(iterations=20, tolerance=1e-6, gradient=lw.FixedPoint())
    with pytest.warns(lw.notices.ConvergenceWarning):
        beliefs = method(graph, {name: table.requires_grad_() for name, table in tables.items()})
    assert [example for example in range(9) if beliefs.status.residual[example] > 1e-6] == [4]
    with pytest.raises(lw.notices.GradientError, match="did not converge"):
        marginals_only(beliefs).backward()


@pytest.mark.parametrize("gradient", [lw.FixedPoint(), lw.gradient.OneStep()], ids=str)
def test_earlier_sweeps_have_no_gradient_at_the_fixed_point(engine, gradient) -> None:
    graph = pair_graph()
    method = lw.BP(engine=engine, gradient=gradient, trace=True, **TIGHT)
    with pytest.raises(lw.notices.GradientError, match=r"trace.*Unroll"):
        gradients(method, graph, calm(graph), lambda beliefs: beliefs.trace.square().sum())


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="tolerance must be positive"):
        lw.FixedPoint(tolerance=0)
    with pytest.raises(ValueError, match="at least 1"):
        lw.FixedPoint(iterations=0)
    with pytest.raises(ValueError, match="negative"):
        lw.FixedPoint(anderson=-1)
    with pytest.raises(lw.notices.GradientError, match="Exact cannot be differentiated by FixedPoint"):
        lw.Exact(gradient=lw.FixedPoint())
