"""Visits to variables, against products written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import ANY_POWER, SQUARE_ROOT, U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.plan import Span, new_scratch
from loopwise.inference.messages.kernels.variables import rescale, visit_variables
from oracles.kernel_cases import KernelCase


@kernel
def visited(run, here, span, order, pull, static):
    scratch = new_scratch(run.plan, run.messages.m, static.lanes)
    visit_variables(run, here, span, order, pull, True, scratch, static)
    return scratch.lowest[0]


@kernel
def rescaled(values, plan, static):
    scratch = new_scratch(plan, values, ())
    rescale(values, U(values.shape[0]), scratch, static)
    return scratch.spent[0]


@pytest.mark.parametrize("log", [False, True])
def test_messages_and_beliefs_of_all_variables(log: bool) -> None:
    case = KernelCase(log=log)
    run = case.run(case.start, case.heard)
    visited(run, case.here, Span(U(0), U(case.graph.variables)), None, None, case.static)
    sent = case.to_factors(case.unary, case.start)
    torch.testing.assert_close(torch.from_numpy(run.messages.n), torch.from_numpy(case.numbers(sent)))
    expected = case.beliefs(case.unary, case.start).exp()
    torch.testing.assert_close(torch.from_numpy(run.messages.beliefs), expected)


def test_a_span_of_an_order_visits_only_its_variables() -> None:
    case = KernelCase()
    run = case.run(case.start, case.heard)
    order = np.array([3, 0, 5, 1, 2, 4])
    visited(run, case.here, Span(U(1), U(3)), order, None, case.static)
    sent = case.to_factors(case.unary, case.start)
    for edge in case.edges:
        expected = sent[edge.place] if edge.variable in (0, 5) else case.heard[edge.place]
        torch.testing.assert_close(torch.from_numpy(run.messages.n[edge.place]), expected.exp())


@pytest.mark.parametrize("power", [SQUARE_ROOT, ANY_POWER], ids=["square root", "any power"])
def test_powers_of_messages(power: tuple[int, ...]) -> None:
    case = KernelCase()
    run = case.run(case.start, case.heard)
    exponents = np.full(len(case.edges), 0.5)
    if power == ANY_POWER:
        exponents = np.random.default_rng(0).random(len(case.edges)) + 0.2
    run = run._replace(plan=run.plan._replace(exponents=exponents))
    whole = Span(U(0), U(case.graph.variables))
    visited(run, case.here, whole, None, None, case.static._replace(power=power))
    places = case.layout.variable_edges  # the plan counts edges variable by variable
    total = [case.unary[case.of_variable(variable)] for variable in range(case.graph.variables)]
    for exponent, edge in zip(exponents, places, strict=True):
        total[case.edges[edge].variable] = (
            total[case.edges[edge].variable] + exponent * case.start[case.edges[edge].place]
        )
    for edge in case.edges:
        expected = total[edge.variable] - case.start[edge.place]
        torch.testing.assert_close(torch.from_numpy(run.messages.n[edge.place]), expected.exp())


def test_rescaling_says_what_it_took_out() -> None:
    case = KernelCase()
    values = np.array([1e-200, 3e-200])
    assert rescaled(values, case.run(case.start, case.heard).plan, case.static) == pytest.approx(4e-200)
    np.testing.assert_allclose(values, [0.25, 0.75])
