"""Parts of a union stop one by one: as each would alone, in sweeps, rules, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.parts import _Course
from loopwise.inference.messages.reference import Reference

pytestmark = pytest.mark.filterwarnings("ignore::loopwise.notices.ConvergenceWarning")
ANY = lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-6))


def sentences(structured: bool) -> list[lw.FactorGraph]:
    """Chains with skips, trees and a variable alone; with a parity check over the first three if ``structured``."""
    rng, graphs = np.random.default_rng(0), []
    for size in (6, 1, 4, 7, 3, 5):
        skips = [(i, j) for i in range(size) for j in range(i + 2, size) if rng.random() < 0.4]
        scopes = {
            "tag": np.arange(size)[:, None],
            "step": np.array([(i, i + 1) for i in range(size - 1)]).reshape(-1, 2),
            "same": np.array(skips, dtype=int).reshape(-1, 2),
        }
        checks = {"check": (lw.Parity(3), [0, 1, 2])} if structured and size > 3 else {}
        graphs.append(lw.FactorGraph([2] * size, scopes, checks))
    return graphs


def case(structured: bool) -> tuple[lw.graph.Union, dict[str, torch.Tensor]]:
    union, rng = lw.graph.union(sentences(structured)), np.random.default_rng(4)
    tables = {g.name: 1.3 * torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in union.graph.groups}
    return union, {name: table.requires_grad_() for name, table in tables.items()}


def loss(beliefs: lw.Beliefs) -> torch.Tensor:
    total = beliefs.states.square().sum() + beliefs.log_partition.sum() + beliefs.messages.exp().square().sum()
    return total + sum(beliefs.factor(name).square().sum() for name in ("step", "same"))


@pytest.fixture(params=["as large graphs", "as small ones"])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sweeps are taken step by step, parts that stopped are taken out at once, or left in."""
    if request.param == "as large graphs":
        monkeypatch.setattr("loopwise.inference.messages.parts.WORTH_IT", 0)


@pytest.fixture(params=["compiled, as large graphs", "compiled, as small ones", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Reference | None:
    """The engines; the reference engine judges parts itself, and takes none out."""
    if request.param == "compiled, as large graphs":
        monkeypatch.setattr("loopwise.inference.messages.parts.WORTH_IT", 0)
    return Reference() if request.param == "reference" else None


def mixed(sizes: tuple[int, int]) -> tuple[lw.graph.Union, dict[str, torch.Tensor]]:
    """Rings with a factor of three variables and one alone; variables have two sizes in turn."""
    rng, graphs = np.random.default_rng(2), []
    for length in (4, 2, 6):
        ring = np.array([(i, (i + 1) % length) for i in range(0, length, 2)])
        back = np.array([(i, (i + 1) % length) for i in range(1, length, 2)])
        scopes = {"step": ring, "same": back, "three": np.array([(0, 1, 2)][: length > 2], dtype=int).reshape(-1, 3)}
        graphs.append(lw.FactorGraph([*sizes] * (length // 2), scopes))
    union = lw.graph.union(graphs)
    tables = {g.name: torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in union.graph.groups}
    return union, {name: table.requires_grad_() for name, table in tables.items()}


def assert_as_alone(method: MessagePassing, structured: bool = False) -> lw.Beliefs:
    """Runs a union and each of its parts, and compares; the beliefs of the union."""
    return assert_equal_to_alone(method, *case(structured))


def assert_equal_to_alone(method: MessagePassing, union: lw.graph.Union, tables: dict[str, torch.Tensor]) -> lw.Beliefs:
    """The same of any union."""
    found = method(union.graph, tables)
    with torch.no_grad():
        plain = method(union.graph, tables)
    alone = [method(part, mine) for part, mine in zip(union.parts, union.split(tables), strict=True)]
    for mine in (found.status, plain.status):
        assert mine.sweeps.tolist() == [int(each.status.sweeps) for each in alone]
        assert mine.stopped is not None
        assert mine.stopped.tolist() == [int(each.status.stopped) for each in alone]  # type: ignore[arg-type]
        assert mine.messages == sum(each.status.messages for each in alone)
        assert mine.exact == all(each.status.exact for each in alone)
        assert mine.converged == all(each.status.converged for each in alone)
    states = torch.cat([each.states for each in alone])
    torch.testing.assert_close(found.states, states, rtol=0, atol=1e-10)
    torch.testing.assert_close(plain.states, states, rtol=0, atol=1e-10)
    torch.testing.assert_close(plain.log_partition, sum(each.log_partition for each in alone).detach())
    mine = torch.autograd.grad(loss(found), list(tables.values()))
    theirs = torch.autograd.grad(sum(map(loss, alone)), list(tables.values()))
    for one, two in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-10)
    return found


class TestAsAlone:
    @pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential(), lw.Groups(("step", "same"))])
    def test_a_tolerance_stops_each_part(self, schedule: object, engine: object) -> None:
        found = assert_as_alone(lw.BP(schedule=schedule, engine=engine, iterations=60))  # type: ignore[arg-type]
        assert len(set(found.status.sweeps.tolist())) > 2

    def test_reweighted_and_damped_runs(self) -> None:
        assert_as_alone(lw.TRW(iterations=80, damping=0.2))

    def test_residual_and_random_orders(self, engine: object) -> None:
        assert_as_alone(lw.BP(schedule=lw.Residual(), iterations=60, engine=engine))  # type: ignore[arg-type]
        assert_as_alone(lw.BP(schedule=lw.Residual(), iterations=3, tolerance=0, engine=engine))  # type: ignore[arg-type]
        assert_as_alone(lw.BP(schedule=lw.inference.RandomSequential(seed=2), iterations=30, engine=engine))  # type: ignore[arg-type]

    def test_structured_factors_and_other_rules(self, engine: object) -> None:
        found = assert_as_alone(lw.BP(iterations=40, stop=ANY, engine=engine), structured=True)  # type: ignore[arg-type]
        assert set(found.status.stopped.tolist()) >= {0}  # type: ignore[union-attr]
        few = lw.BP(schedule=lw.Sequential(), iterations=6, tolerance=0.03, engine=engine)  # type: ignore[arg-type]
        assert len(set(assert_as_alone(few, structured=True).status.sweeps.tolist())) > 2

    @pytest.mark.usefixtures("_size")
    def test_a_policy_stops_each_part(self) -> None:
        policy = lw.budget.Policy([lw.budget.Bias(), lw.budget.LargestChange()])
        policy.weights.data.copy_(torch.tensor([-2.0, -1.0]))
        found = assert_as_alone(lw.BP(iterations=20, stop=lw.budget.StopByPolicy(policy)))
        assert len(set(found.status.sweeps.tolist())) > 2

    @pytest.mark.usefixtures("_size")
    def test_weighted_messages_and_memory(self) -> None:
        weights = lw.MessageWeights(
            messages=torch.nn.Parameter(torch.linspace(0.8, 1.0, 12, dtype=torch.float64)[:, None]), memory=[0.2]
        )
        assert_as_alone(lw.BP(iterations=12, tolerance=1e-3, weights=weights), structured=True)
        found = []
        union, tables = case(True)
        for engine in (None, Reference()):
            method = lw.BP(iterations=12, tolerance=1e-3, weights=weights, engine=engine)
            assert weights.messages is not None
            found.append(torch.autograd.grad(loss(method(union.graph, tables)), weights.messages)[0])  # type: ignore[arg-type]
        torch.testing.assert_close(*found, rtol=0, atol=1e-10)

    def test_the_gradient_at_fixed_points(self) -> None:
        union, tables = case(False)
        method = lw.BP(iterations=400, tolerance=1e-12, gradient=lw.FixedPoint())
        mine = torch.autograd.grad(method(union.graph, tables).states.square().sum(), list(tables.values()))
        alone = [method(part, own) for part, own in zip(union.parts, union.split(tables), strict=True)]
        theirs = torch.autograd.grad(sum(each.states.square().sum() for each in alone), list(tables.values()))
        for one, two in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-7)

    @pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
    @pytest.mark.parametrize("sizes", [(5, 5), (2, 3), (12, 7)])
    def test_any_cardinalities_and_arities(self, sizes: tuple[int, int], schedule: object) -> None:
        union, tables = mixed(sizes)
        method = lw.BP(iterations=50, schedule=schedule, damping=0.1)  # type: ignore[arg-type]
        assert_equal_to_alone(method, union, tables)
        assert_equal_to_alone(lw.BP(iterations=50, schedule=schedule), union, tables)  # type: ignore[arg-type]

    @pytest.mark.parametrize("tape", [lw.gradient.Recompute(), lw.gradient.Checkpoints(3), lw.gradient.Store()])
    @pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
    def test_any_tape(self, schedule: object, tape: lw.gradient.Tape) -> None:
        union, tables = case(False)
        method = lw.BP(iterations=60, schedule=schedule, gradient=lw.Unroll(tape))  # type: ignore[arg-type]
        assert_equal_to_alone(method, union, tables)

    def test_trained_damping(self) -> None:
        union, tables = case(False)
        given = {name: table.detach() for name, table in tables.items()}
        found = []
        for engine in (None, Reference()):
            damping = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
            method = lw.BP(iterations=60, damping=damping, engine=engine)
            found.append(torch.autograd.grad(loss(method(union.graph, given)), damping)[0])
        torch.testing.assert_close(*found, rtol=0, atol=1e-9)

    def test_second_derivatives(self) -> None:
        union, tables = case(False)
        values = list(tables.values())
        rng = np.random.default_rng(1)
        along = [torch.tensor(rng.normal(size=value.shape)) for value in values]

        def product(beliefs: list[lw.Beliefs]) -> tuple[torch.Tensor, ...]:
            first = torch.autograd.grad(sum(map(loss, beliefs)), values, create_graph=True)  # type: ignore[arg-type]
            dot = sum((one * two).sum() for one, two in zip(first, along, strict=True))
            return torch.autograd.grad(dot, values)  # type: ignore[arg-type]

        method = lw.BP(iterations=60)
        alone = [method(part, mine) for part, mine in zip(union.parts, union.split(tables), strict=True)]
        for one, two in zip(product([method(union.graph, tables)]), product(alone), strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-9)

    def test_a_loss_of_every_sweep(self) -> None:
        found = []
        for engine in (None, Reference()):
            union, tables = case(False)
            beliefs = lw.BP(iterations=40, trace=True, engine=engine)(union.graph, tables)
            assert beliefs.trace is not None
            found.append(torch.autograd.grad(beliefs.trace.square().sum(), list(tables.values())))
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
    def test_gradients_of_a_batch_of_unions(self, schedule: object) -> None:
        """Tables that examples share get the sum of what each says, others their own."""
        union, tables = case(False)
        scale = torch.tensor([1.0, 0.4, 0.7], dtype=torch.float64)
        method = lw.BP(iterations=50, schedule=schedule)  # type: ignore[arg-type]

        def given(rows: torch.Tensor) -> dict[str, torch.Tensor]:
            return {**tables, "step": rows.reshape(-1, 1, 1, 1) * tables["step"]}

        both = method(union.graph, given(scale))
        rows = [method(union.graph, {n: t.squeeze(0) for n, t in given(one[None]).items()}) for one in scale]
        assert both.status.sweeps.tolist() == [row.status.sweeps.tolist() for row in rows]
        mine = torch.autograd.grad(loss(both).sum(), list(tables.values()))
        theirs = torch.autograd.grad(sum(map(loss, rows)), list(tables.values()))  # type: ignore[arg-type]
        for one, two in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-10)

    def test_traces_keep_the_last_beliefs_of_a_part(self) -> None:
        union, tables = case(False)
        found = lw.BP(iterations=40, trace=True)(union.graph, tables)
        assert found.trace is not None and len(found.trace) == int(found.status.sweeps.max()) + 1
        other = lw.BP(iterations=40, trace=True, engine=Reference())(union.graph, tables)
        assert other.trace is not None
        torch.testing.assert_close(found.trace, other.trace, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("structured", [False, True])
    def test_maxima(self, structured: bool) -> None:
        union, tables = case(structured)
        with torch.no_grad():
            found = lw.BP(temperature=0, iterations=30)(union.graph, tables)
            alone = [
                lw.BP(temperature=0, iterations=30)(part, own)
                for part, own in zip(union.parts, union.split(tables), strict=True)
            ]
        assert found.status.sweeps.tolist() == [int(each.status.sweeps) for each in alone]
        torch.testing.assert_close(found.states, torch.cat([each.states for each in alone]), rtol=0, atol=1e-10)

    def test_a_batch_of_unions_has_a_row_of_parts_each(self) -> None:
        union, tables = case(False)
        both = {name: torch.stack([table, 0.4 * table]).detach() for name, table in tables.items()}
        found = lw.BP(iterations=50)(union.graph, both)
        for row in range(2):
            mine = lw.BP(iterations=50)(union.graph, {name: table[row] for name, table in both.items()})
            assert mine.status.sweeps.tolist() == found.status.sweeps[row].tolist()
            torch.testing.assert_close(mine.states, found.states[row], rtol=0, atol=1e-12)
            torch.testing.assert_close(mine.log_partition, found.log_partition[row])

    def test_observed_variables_leave_each_part_as_it_is_alone(self) -> None:
        union, tables = case(False)
        seen = np.full(union.graph.variables, -1)
        seen[[0, 8, 12]] = 1
        found = lw.BP(iterations=60)(union.graph, tables, seen)
        own = np.split(seen, union.variable_start[1:-1])
        alone = [
            lw.BP(iterations=60)(part, mine, values)
            for part, mine, values in zip(union.parts, union.split(tables), own, strict=True)
        ]
        assert found.status.sweeps.tolist() == [int(each.status.sweeps) for each in alone]
        torch.testing.assert_close(found.states, torch.cat([each.states for each in alone]), rtol=0, atol=1e-10)

    def test_messages_too_small_for_probabilities(self) -> None:
        graphs = [lw.chain(4), lw.grid(2, 2)]
        union = lw.graph.union(graphs)
        tables = {g.name: torch.zeros(g.count, *g.shape, dtype=torch.float64) for g in union.graph.groups}
        tables["pair"][:, 0, 1] = tables["pair"][:, 1, 0] = -590.0
        tables["unary"][0, 1] = 500.0
        tables["unary"][1, 0] = 550.0
        found = lw.BP(iterations=30)(union.graph, tables)
        alone = [lw.BP(iterations=30)(part, own) for part, own in zip(graphs, union.split(tables), strict=True)]
        torch.testing.assert_close(found.states, torch.cat([each.states for each in alone]), rtol=0, atol=1e-10)
        assert found.status.sweeps.tolist() == [int(each.status.sweeps) for each in alone]


class TestFreedCompute:
    def test_parts_that_stopped_are_taken_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of what runs step by step, at least half is alive again whenever some have been taken out."""
        union, tables = case(True)
        running: list[tuple[int, int]] = []
        select = _Course._select

        def counted(self: _Course, chosen: np.ndarray, before: object) -> None:
            select(self, chosen, before)  # type: ignore[arg-type]
            slots = self.parts.slots
            running.append((int(slots[self.running].sum()), int(slots[chosen].sum())))

        monkeypatch.setattr(_Course, "_select", counted)
        monkeypatch.setattr("loopwise.inference.messages.parts.WORTH_IT", 0)
        with torch.no_grad():
            lw.BP(iterations=60)(union.graph, tables)
        assert all(ran == living for ran, living in running)
        assert len(running) > 1 and running[-1][0] <= running[0][0] / 2


@pytest.mark.parametrize("engine", [None, Reference()])
def test_a_part_is_judged_by_exponents_and_damping_of_its_own(engine: object) -> None:
    """Messages of the second part enter its variables with a third of the power: it may stop sooner, alone or not."""
    graphs = [
        lw.grid(3, 3),
        lw.FactorGraph(
            [2] * 9, {"unary": lw.grid(3, 3).group("unary").scopes, "weak": lw.grid(3, 3).group("pair").scopes}
        ),
    ]
    tables = [
        {name: 2 * table.detach() for name, table in lw.TablePotentials.random(g, seed=3)().items()} for g in graphs
    ]
    union = lw.graph.union(graphs)
    for stop in (
        lw.inference.Tolerance(1e-4),
        lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-4)),
    ):
        for options in (
            {"method": lw.TRW, "rho": {"pair": 0.9, "weak": 0.3}},
            {"method": lw.BP, "weights": lw.MessageWeights(damping={"pair": 0.6})},
        ):
            make = {**options, "iterations": 200, "stop": stop, "engine": engine}
            method = make.pop("method")
            whole = method(**make)(union.graph, union.join(tables)).status
            for place, (graph, given, name) in enumerate(zip(graphs, tables, ("pair", "weak"), strict=True)):
                mine = {**make, "rho": {name: make["rho"][name]}} if "rho" in make else make
                if name == "weak" and "weights" in make:
                    mine = {**make, "weights": lw.MessageWeights(damping={"weak": 0.0})}
                alone = method(**mine)(graph, given).status
                assert int(whole.sweeps[place]) == int(alone.sweeps)
                assert float(whole.residual[place]) == pytest.approx(float(alone.residual), abs=1e-9)


@pytest.mark.parametrize("engine", [None, Reference()])
def test_a_part_that_a_rule_ended_when_it_was_exact_has_no_residual(engine: object) -> None:
    graphs = [lw.chain(2), lw.grid(3, 3)]
    union = lw.graph.union(graphs)
    tables = union.join([lw.TablePotentials.random(graph, seed=0)() for graph in graphs])
    status = lw.BP(3, stop=lw.inference.Satisfied(), engine=engine)(union.graph, tables).status
    assert float(status.residual[0]) == 0 < float(status.residual[1])
