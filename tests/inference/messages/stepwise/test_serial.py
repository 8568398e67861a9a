"""Messages sent one after another, in the compiled engine, with structured factors and without: equal to the reference
engine in values, gradients and counts, at every number of sweeps; maxima too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Schedule

BOTH = (None, Reference())


def mixed() -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    """A loop of tables of two and three variables through a parity check, a chain and an at-most-one."""
    graph = lw.FactorGraph(
        [2, 2, 2, 3, 3, 2],
        {"unary": [[0], [1], [2], [5]], "pair": [[0, 1], [1, 2]], "mixed": [[2, 3], [5, 4]], "three": [[0, 2, 5]]},
        {"check": (lw.Parity(3), [0, 1, 5]), "one": (lw.AtMostOne(3), [0, 2, 5]), "chain": (lw.Chain(2, 3), [3, 4])},
    )
    rng = np.random.default_rng(5)
    tables = {g.name: torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in graph.groups}
    chain = graph.structured_group("chain")
    assert chain is not None
    tables["three"][0, 1, 0, 1] = -torch.inf
    return graph, {**tables, "chain": torch.tensor(rng.normal(size=chain.factors[0].potentials_shape))}


def tables_only() -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    graph = lw.FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b": [[0, 2], [2, 3], [3, 0]], "three": [[0, 1, 3]]})
    return graph, dict(lw.TablePotentials.random(graph, seed=2)())


def gradients(method: lw.BP, graph: lw.FactorGraph, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    own = {name: table.detach().clone().requires_grad_() for name, table in given.items()}
    beliefs = method(graph, own)
    loss = (beliefs.states**2).sum() + beliefs.log_partition + beliefs.messages.exp().square().sum()
    return [beliefs.states.detach(), beliefs.status.sweeps, *torch.autograd.grad(loss, list(own.values()))]


def assert_same(mine: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10, check_dtype=False)


class TestSumProduct:
    @pytest.mark.parametrize("case", [mixed, tables_only])
    @pytest.mark.parametrize("schedule", [lw.Sequential(), lw.Residual(), lw.inference.RandomSequential(seed=3)])
    def test_both_engines_agree_at_every_number_of_sweeps(self, schedule: Schedule, case: object) -> None:
        graph, given = case()  # type: ignore[operator]
        for count, damping in ((1, 0.0), (2, 0.25), (5, 0.0)):
            options = {"iterations": count, "tolerance": 0.0, "damping": damping, "schedule": schedule}
            found = [gradients(lw.BP(engine=engine, **options), graph, given) for engine in BOTH]  # type: ignore[arg-type]
            assert_same(*found)
        assert lw.BP(schedule=schedule, iterations=3, tolerance=0)(graph, given).status.engine == "compiled"

    def test_reweighted_and_batched_runs_agree(self) -> None:
        graph, given = mixed()
        given = {name: torch.stack([table, 0.5 * table.clamp(min=-20)]) for name, table in given.items()}
        for schedule in (lw.Sequential(), lw.inference.RandomSequential(seed=1)):
            found = [
                gradients_of_batch(
                    lw.TRW(rho=0.7, schedule=schedule, iterations=80, tolerance=1e-3, engine=e), graph, given
                )
                for e in BOTH
            ]
            assert_same(*found)

    def test_damping_and_counting_numbers_are_trained_alike(self) -> None:
        graph, given = tables_only()
        found = []
        for engine in BOTH:
            damping = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
            method = lw.BP(
                schedule=lw.inference.RandomSequential(), iterations=3, tolerance=0, damping=damping, engine=engine
            )
            found.append(torch.autograd.grad(method(graph, given).states.square().sum(), damping)[0])
        assert abs(float(found[0] - found[1])) < 1e-10

    def test_a_traced_run_and_second_derivatives_agree(self) -> None:
        graph, given = mixed()
        found = []
        for engine in BOTH:
            own = given["pair"].clone().requires_grad_()
            method = lw.BP(schedule=lw.Sequential(), iterations=2, tolerance=0, trace=True, engine=engine)
            beliefs = method(graph, {**given, "pair": own})
            assert beliefs.trace is not None
            (first,) = torch.autograd.grad(beliefs.trace.square().sum(), own, create_graph=True)
            found.append([first.detach(), *torch.autograd.grad(first.square().sum(), own)])
        assert_same(*found)

    def test_the_gradient_at_a_fixed_point_agrees(self) -> None:
        graph, given = mixed()
        given = {name: 0.4 * table for name, table in given.items()}  # few sweeps
        for schedule in (lw.Sequential(), lw.Residual(), lw.inference.RandomSequential()):
            options = {"schedule": schedule, "iterations": 400, "tolerance": 1e-12, "gradient": lw.FixedPoint()}
            found = [gradients(lw.BP(engine=engine, **options), graph, given) for engine in BOTH]  # type: ignore[arg-type]
            for one, two in zip(*found, strict=True):
                torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7, check_dtype=False)


def gradients_of_batch(method: lw.TRW, graph: lw.FactorGraph, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    own = {name: table.detach().clone().requires_grad_() for name, table in given.items()}
    beliefs = method(graph, own)
    loss = (beliefs.states**2).sum() + beliefs.log_partition.sum()
    return [beliefs.states.detach(), beliefs.status.sweeps, *torch.autograd.grad(loss, list(own.values()))]


class TestMaxProduct:
    @pytest.mark.parametrize(
        "schedule",
        [
            lw.inference.Flooding(), lw.Sequential(), lw.Residual(), lw.inference.RandomSequential(),
            lw.Groups(("pair", "mixed", "three", "check", "one", "chain")),
        ],
    )  # fmt: skip
    def test_maxima_agree_with_the_reference_engine(self, schedule: Schedule) -> None:
        graph, given = mixed()
        for count in (1, 3):
            found = [
                lw.BP(temperature=0, schedule=schedule, iterations=count, tolerance=0, engine=engine)(graph, given)
                for engine in BOTH
            ]
            assert found[0].status.engine == "compiled"
            assert_same([found[0].states, found[0].messages], [found[1].states, found[1].messages])
            assert found[0].assignment.tolist() == found[1].assignment.tolist()


class TestImpossible:
    def test_a_contradiction_is_one_sentence(self) -> None:
        graph = lw.FactorGraph([2, 2], {"unary": [[0], [1]]}, {"check": (lw.Parity(2), [0, 1])})
        never = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
        for schedule in (lw.Sequential(), lw.inference.RandomSequential(), lw.Residual()):
            with pytest.raises(lw.notices.ImpossibleError):
                lw.BP(schedule=schedule)(graph, {"unary": never})


def test_a_message_to_a_variable_that_others_decide_has_a_gradient() -> None:
    """The table makes the edge 1 -> 2 certain; what the tree says of it still depends on the scores of the others."""
    tree = lw.ProjectiveTree(2)
    graph = lw.FactorGraph([2] * 4, {"edge": [[0], [1], [2], [3]], "pair": [[0, 2]]}, {"tree": (tree, range(4))})
    pair = torch.zeros(1, 2, 2, dtype=torch.float64)
    pair[0, :, 0] = -torch.inf
    found = []
    for engine in (None, Reference()):
        score = torch.tensor([[0.0, 0.3], [0.0, -0.4], [0.0, 0.1], [0.0, 0.7]], dtype=torch.float64, requires_grad=True)
        beliefs = lw.BP(1, 0, schedule=lw.Sequential(), engine=engine)(graph, {"edge": score, "pair": pair})
        (found_slope,) = torch.autograd.grad(beliefs.messages[8:10].sum(), score)
        found.append(found_slope)
    assert float(found[1].abs().max()) > 0.01
    torch.testing.assert_close(found[0], found[1], atol=1e-10, rtol=0)
