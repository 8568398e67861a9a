"""Undoing visits to variables, against autograd through messages written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.plan import Seeds, Span, new_undo_scratch
from loopwise.inference.messages.kernels.variable_adjoints import (
    ADD,
    ADD_AND_CLEAR,
    WRITE,
    damping_back,
    enter_seeds,
    exponents_back,
    variables_back,
)
from loopwise.inference.messages.kernels.views import Message
from oracles.kernel_cases import KernelCase, wanting


@kernel
def undone(run, span, adjoint, how, static):
    variables_back(run, span, None, U(0), adjoint, how, new_undo_scratch(run.plan, adjoint.m, static.lanes), static)


@kernel
def entered(run, span, m, adjoint, adding, static):
    return enter_seeds(run, span, U(0), 4, Message(m, U(0)), adjoint, adding, static)


@kernel
def of_exponents(run, span, m, adjoint, static):
    exponents_back(run, span, Message(m, U(0)), adjoint, static)


@kernel
def of_damping(before, after, span, adjoint, kept, semiring):
    damping_back(Message(before, U(0)), Message(after, U(0)), span, adjoint, kept, semiring)


@pytest.mark.parametrize("how", [WRITE, ADD, ADD_AND_CLEAR])
def test_visits_undone(how: int) -> None:
    case = KernelCase()
    of_m, of_n = case.balanced(1), case.balanced(2)
    adjoint, run = case.adjoint(of_m, of_n, np.zeros(0)), case.linearised(case.run(case.start, case.heard))
    undone(run, Span(U(0), U(case.graph.variables)), adjoint, how, case.static)
    unary, m = wanting(case.unary, case.start)
    of_unary, expected = torch.autograd.grad(case.to_factors(unary, m), [unary, m], of_n)
    torch.testing.assert_close(torch.from_numpy(adjoint.unary), of_unary)
    torch.testing.assert_close(torch.from_numpy(adjoint.m), expected if how == WRITE else of_m + expected)
    assert bool((adjoint.n == (0 if how == ADD_AND_CLEAR else of_n.numpy())).all())


@pytest.mark.parametrize("last", [4, 3])
def test_what_the_loss_says_enters_where_an_example_stopped(last: int) -> None:
    case = KernelCase()
    random = torch.randn(case.layout.states, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.cat([random[case.of_variable(v)] - random[case.of_variable(v)].mean() for v in range(6)])
    of_m, of_n = case.balanced(1), case.balanced(2)
    seeds = Seeds(weights.numpy(), of_m.numpy(), of_n.numpy(), np.zeros(0), np.array([last]))
    run = case.linearised(case.run(case.start, case.heard))._replace(seeds=seeds)
    adjoint = case.adjoint(torch.full_like(of_m, 7.0), torch.zeros_like(of_n), np.zeros(0))
    added = entered(run, Span(U(0), U(6)), case.numbers(case.start), adjoint, False, case.static)
    assert added == (last == 4)
    if last == 4:
        unary, m = wanting(case.unary, case.start)
        of_unary, expected = torch.autograd.grad(case.beliefs(unary, m), [unary, m], weights)
        torch.testing.assert_close(torch.from_numpy(adjoint.unary), of_unary)
        torch.testing.assert_close(torch.from_numpy(adjoint.m), expected + of_m)
        torch.testing.assert_close(torch.from_numpy(adjoint.n), of_n)
    else:
        assert bool((adjoint.m == 7).all()) and not adjoint.unary.any()


def test_adjoints_of_powers() -> None:
    case = KernelCase()
    of_n, run = case.balanced(2), case.run(case.start, case.heard)
    adjoint = case.adjoint(torch.zeros_like(of_n), of_n, np.zeros(0))._replace(exponents=np.zeros(len(case.edges)))
    of_exponents(case.linearised(run), Span(U(0), U(6)), run.messages.m, adjoint, case.static)
    powers = torch.ones(len(case.edges), dtype=torch.float64, requires_grad=True)
    totals = [case.unary[case.of_variable(variable)] for variable in range(6)]
    for power, edge in zip(powers, case.edges, strict=True):
        totals[edge.variable] = totals[edge.variable] + power * case.start[edge.place]
    sent = torch.cat([totals[edge.variable] - case.start[edge.place] for edge in case.edges])
    (expected,) = torch.autograd.grad(sent, powers, of_n)
    # The plan counts edges variable by variable.
    torch.testing.assert_close(torch.from_numpy(adjoint.exponents), expected[case.layout.variable_edges])


@pytest.mark.parametrize("log", [False, True])
def test_adjoint_of_the_damping(log: bool) -> None:
    case = KernelCase(log=log)
    damping = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    told = torch.cat([case.told(edge, case.theta, case.heard) for edge in case.edges])
    new, seed = case.normalised((1 - damping) * told + damping * case.start), case.balanced(3)
    (expected,) = torch.autograd.grad(new, damping, seed)
    adjoint = case.adjoint(seed, torch.zeros_like(seed), np.zeros(0))
    before, after = case.numbers(case.start), case.numbers(new)
    of_damping(before, after, Span(U(0), U(len(seed))), adjoint, 0.3, (0, 0) if log else ())
    assert adjoint.damping[0] == pytest.approx(float(expected), rel=1e-12)
