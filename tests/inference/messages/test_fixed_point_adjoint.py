"""Adjoint sweeps at a fixed point: how far they got."""

from __future__ import annotations

import pytest

import loopwise as lw
from oracles.gradient_cases import (
    marginals_only,
    pair_graph,
    tables_of,
)

# Converged so far that the unrolled run, whose gradient lags behind its beliefs, has arrived as well.
TIGHT = {"iterations": 3000, "tolerance": 1e-14}


# ------------------------------------------------------------------------------------------------ what it reports


def report_of(gradient, engine, **options):
    graph = pair_graph()
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph, scale=0.5).items()}
    beliefs = lw.BP(engine=engine, gradient=gradient, **{**TIGHT, **options})(graph, leaves)
    marginals_only(beliefs).backward()
    return beliefs.gradient


def test_the_report_says_how_far_the_adjoint_got(engine) -> None:
    plain = report_of(lw.FixedPoint(tolerance=1e-10), engine)
    assert plain.estimator == "FixedPoint"
    assert plain.residual <= 1e-10
    assert 1 < plain.iterations < 1000
    assert report_of(lw.FixedPoint(tolerance=1e-10, anderson=4), engine).iterations < plain.iterations
    assert report_of(lw.FixedPoint(tolerance=1e-10), engine, schedule=lw.Sequential()).iterations <= plain.iterations
    assert report_of(lw.gradient.OneStep(), engine).iterations == 1


def test_adjoint_sweeps_that_stop_short_are_a_warning(engine) -> None:
    with pytest.warns(lw.notices.GradientWarning, match="more iterations, or use Unroll"):
        report = report_of(lw.FixedPoint(tolerance=1e-12, iterations=2), engine)
    assert report.residual > 1e-12
