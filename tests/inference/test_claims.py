"""What a status claims is so: exact answers are exact, bounds are bounds, and easy models come without warnings.

Models with potentials of tens of nats: beliefs are saturated there, and hide changes of messages that matter.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.reference import Reference
from loopwise.notices import ConvergenceWarning
from oracles.enumeration import enumerate_model

SCHEDULES = {"flooding": lw.inference.Flooding(), "sequential": lw.Sequential(), "residual": lw.inference.Residual()}


def strong_model(graph: lw.FactorGraph, sigma: float, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    tables = {group.name: rng.normal(0, sigma, (group.count, *group.shape)) for group in graph.groups}
    if rng.random() < 0.5:
        tables = {name: np.round(table) for name, table in tables.items()}
    return {name: torch.tensor(table) for name, table in tables.items()}


def answer(method: MessagePassing, graph: lw.FactorGraph, potentials: object) -> tuple[lw.Beliefs, bool]:
    """Beliefs, and whether they came with a warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return method(graph, potentials), bool(told)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tolerance", [1e-6, 1e-10])
def test_chains_are_right_or_come_with_a_warning(schedule: str, tolerance: float) -> None:
    rng, warned, easy = np.random.default_rng(0), 0, 0
    for _ in range(150):
        graph, sigma = lw.chain(int(rng.integers(3, 9))), float(rng.choice([2, 5, 8, 10, 12, 15, 20, 30, 50, 100]))
        potentials = strong_model(graph, sigma, rng)
        beliefs, told = answer(lw.BP(schedule=SCHEDULES[schedule], tolerance=tolerance), graph, potentials)
        truth = lw.Exact()(graph, potentials)
        if beliefs.status.exact or not told:
            assert torch.allclose(beliefs.states, truth.states, atol=1e-4, rtol=0), (sigma, str(beliefs.status))
            assert abs(float(beliefs.log_partition - truth.log_partition)) < 1e-2, (sigma, str(beliefs.status))
        easy += sigma <= 2
        warned += sigma <= 2 and told
    assert easy and not warned


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_trw_calls_a_bound_is_one(schedule: str) -> None:
    rng, warned, easy, claimed = np.random.default_rng(1), 0, 0, 0
    for _ in range(120):
        graph, sigma = lw.graph.complete(int(rng.integers(3, 6))), float(rng.choice([1, 2, 5, 8, 10, 15, 20, 30, 50]))
        potentials = strong_model(graph, sigma, rng)
        beliefs, told = answer(lw.TRW(schedule=SCHEDULES[schedule]), graph, potentials)
        if any("bound" in note for note in beliefs.status.notes):
            claimed += 1
            assert float(beliefs.log_partition) > float(lw.Exact()(graph, potentials).log_partition) - 1e-3
        else:
            assert told and any("estimate" in note for note in beliefs.status.notes)
        easy += sigma <= 2
        warned += sigma <= 2 and told
    assert claimed > 30
    if schedule == "sequential":
        assert warned <= 0.05 * easy


def test_a_saturated_belief_does_not_hide_its_messages() -> None:
    """The smallest case that was called exact: P = 0.881 where 0.999999 is right."""
    found = 0
    rng = np.random.default_rng(5)
    for _ in range(300):
        graph = lw.chain(3)
        potentials = strong_model(graph, 20.0, rng)
        beliefs, told = answer(lw.BP(schedule=lw.inference.Residual()), graph, potentials)
        off = (beliefs.states - lw.Exact()(graph, potentials).states).abs().max()
        found += bool(off > 1e-3) and not told
    assert found == 0


@pytest.mark.parametrize("engine", [Reference(), Compiled()], ids=["reference", "compiled"])
class TestExactOnForests:
    def test_a_structured_factor_of_one_variable_is_heard_a_sweep_later(self, engine: object) -> None:
        graph = lw.FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 2]]}, {"one": (lw.ExactlyOne(1), [0])})
        potentials = dict(lw.TablePotentials.random(graph, seed=3)())
        found, wanted = lw.BP(engine=engine)(graph, potentials), lw.Exact()(graph, potentials)  # type: ignore[arg-type]
        assert found.status.exact
        assert torch.allclose(found.states, wanted.states, atol=1e-6)

    def test_flooding_needs_as_many_sweeps_as_the_longest_path(self, engine: object) -> None:
        graph = lw.chain(6)
        potentials = lw.TablePotentials.random(graph, seed=0, scale=2.0)
        statuses = [
            lw.BP(iterations=count, tolerance=0.0, engine=engine)(graph, potentials).status  # type: ignore[arg-type]
            for count in range(1, 8)
        ]
        assert [status.exact for status in statuses] == [False] * 4 + [True] * 3

    def test_it_stops_there(self, engine: object) -> None:
        graph = lw.chain(6)
        potentials = lw.TablePotentials.random(graph, seed=0, scale=2.0)
        flooding = lw.BP(engine=engine)(graph, potentials).status  # type: ignore[arg-type]
        sequential = lw.BP(schedule=lw.Sequential(), engine=engine)(graph, potentials).status  # type: ignore[arg-type]
        assert (int(flooding.sweeps), int(sequential.sweeps)) == (5, 1)
        assert flooding.exact and sequential.exact
        assert float(flooding.residual) == float(sequential.residual) == 0.0

    def test_damping_is_never_called_exact(self, engine: object) -> None:
        graph = lw.chain(4)
        beliefs = lw.BP(damping=0.3, engine=engine)(graph, lw.TablePotentials.random(graph, seed=0))  # type: ignore[arg-type]
        assert beliefs.status.converged and not beliefs.status.exact

    def test_an_early_stop_is_not(self, engine: object) -> None:
        graph = lw.chain(40)
        weak = {"unary": torch.zeros(2, dtype=torch.float64), "pair": 0.01 * torch.eye(2, dtype=torch.float64)}
        weak["unary"][0] = 1.0
        status = lw.BP(engine=engine)(graph, weak).status  # type: ignore[arg-type]
        assert status.converged and not status.exact
        assert int(status.sweeps) < graph.layout.depth

    def test_each_example_of_a_batch_counts(self, engine: object) -> None:
        """One that stopped early makes the whole answer less than exact."""
        graph = lw.chain(30)
        pair = torch.stack([0.001 * torch.eye(2, dtype=torch.float64), 3 * torch.eye(2, dtype=torch.float64)])
        unary = torch.zeros(2, graph.variables, 2, dtype=torch.float64)
        unary[:, 0, 0] = 2.0
        status = lw.BP(engine=engine)(graph, {"unary": unary, "pair": pair[:, None]}).status  # type: ignore[arg-type]
        assert status.converged and not status.exact
        assert int(status.sweeps[0]) < 29 == int(status.sweeps[1])


@pytest.mark.parametrize("seed", range(12))
def test_depth_against_paths_by_hand(seed: int) -> None:
    """After so many sweeps, and not before, messages that began anywhere stand still."""
    rng = np.random.default_rng(seed)
    cardinalities, scopes = [2], []
    while len(cardinalities) < 9:
        new = list(range(len(cardinalities), len(cardinalities) + int(rng.integers(1, 4))))
        cardinalities += [2 for _ in new]
        scopes.append([int(rng.integers(0, new[0])), *new])
    by_arity: dict[str, list[list[int]]] = {}
    for scope in scopes:
        by_arity.setdefault(f"of{len(scope)}", []).append(scope)
    graph = lw.FactorGraph(cardinalities, by_arity)
    potentials = lw.TablePotentials.random(graph, seed=seed)

    def after(sweeps: int, start: float) -> torch.Tensor:
        initial = torch.linspace(-start, 0, graph.layout.slots, dtype=torch.float64)
        return lw.BP(iterations=sweeps, tolerance=0.0, engine=Reference())(graph, potentials, initial=initial).messages

    depth = graph.layout.depth
    assert torch.allclose(after(depth, 3.0), after(depth, 0.0), atol=1e-12)
    assert not torch.allclose(after(depth - 1, 3.0), after(depth - 1, 0.0), atol=1e-12)


def oscillating() -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    pair = torch.tensor([[-9.0, 9.0], [9.0, -9.0]], dtype=torch.float64)
    return lw.graph.complete(8), {"unary": torch.tensor([0.1, 0.0], dtype=torch.float64), "pair": pair}


def test_a_run_that_did_not_converge_says_what_its_value_is_not() -> None:
    graph, potentials = oscillating()
    with pytest.warns(ConvergenceWarning, match="an estimate, not an upper bound"):
        beliefs = lw.TRW(iterations=3)(graph, potentials)
    assert any(note.startswith("log-partition is an estimate") for note in beliefs.status.notes)
    assert not any(
        "estimate" in note for note in lw.TRW(rho=0.5, tolerance=0, iterations=3)(graph, potentials).status.notes
    )


class TestBracket:
    def test_encloses_log_z(self) -> None:
        rng = np.random.default_rng(2)
        graph = lw.graph.complete(5)
        for sigma in (0.5, 2.0, 5.0):
            potentials = strong_model(graph, sigma, rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                lower, upper = lw.BP()(graph, potentials).log_partition_bounds
            truth = float(
                enumerate_model(graph, {name: table.numpy() for name, table in potentials.items()}).log_partition
            )
            assert float(lower) - 1e-9 <= truth <= float(upper) + 1e-4

    def test_is_a_point_where_the_answer_is_exact(self) -> None:
        graph = lw.chain(4)
        beliefs = lw.BP()(graph, lw.TablePotentials.random(graph, seed=0))
        lower, upper = beliefs.log_partition_bounds
        assert lower == upper == beliefs.log_partition

    def test_with_evidence_and_a_batch(self) -> None:
        graph = lw.grid(3, 3)
        potentials = {name: torch.randn(2, group.count, *group.shape, dtype=torch.float64) for name, group in
                      ((group.name, group) for group in graph.groups)}  # fmt: skip
        lower, upper = lw.TRW(schedule=lw.Sequential())(graph, potentials, {0: 1}).log_partition_bounds
        truth = lw.Exact()(graph, potentials, {0: 1}).log_partition
        assert lower.shape == upper.shape == (2,)
        assert bool((lower <= truth + 1e-9).all()) and bool((truth <= upper + 1e-4).all())

    def test_at_another_temperature(self) -> None:
        graph = lw.grid(3, 3)
        potentials = lw.TablePotentials.random(graph, seed=3)
        lower, upper = lw.BP(temperature=2.0)(graph, potentials).log_partition_bounds
        assert bool(lower < lw.Exact(temperature=2.0)(graph, potentials).log_partition < upper)

    def test_hard_zeros_get_a_note(self) -> None:
        graph = lw.graph.complete(6)
        implies = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]], dtype=torch.float64)
        status = lw.BP()(graph, {"unary": torch.zeros(2, dtype=torch.float64), "pair": implies}).status
        assert any("hard zeros in 25% of table cells" in note for note in status.notes)
        plain = lw.BP()(graph, lw.TablePotentials.random(graph, seed=0, scale=0.1)).status
        assert not any("hard zeros" in note for note in plain.notes)


class TestLazyParts:
    """What is computed when first read is computed from what inference was given, or not at all."""

    @pytest.mark.parametrize("method", [lw.BP(), lw.BP(engine=Reference()), lw.Exact(), lw.TRW(), lw.MeanField()])
    def test_potentials_changed_in_place_are_noticed(self, method: lw.inference.Inference) -> None:
        graph = lw.grid(2, 2)
        potentials = {group.name: torch.randn(group.count, *group.shape, dtype=torch.float64) for group in graph.groups}
        read, unread = method(graph, potentials), method(graph, potentials)
        value = float(read.log_partition)
        potentials["pair"] += 1.0
        assert float(read.log_partition) == value  # what was read stays
        with pytest.raises(lw.notices.ChangedError, match=r"group 'pair' were changed in place"):
            _ = unread.log_partition
        with pytest.raises(lw.notices.ChangedError):
            unread.factor("unary")

    def test_with_evidence(self) -> None:
        graph = lw.grid(2, 2)
        potentials = {group.name: torch.zeros(group.count, *group.shape, dtype=torch.float64) for group in graph.groups}
        beliefs = lw.BP()(graph, potentials, {0: 1})
        potentials["unary"][1] = 3.0
        with pytest.raises(lw.notices.ChangedError, match="'unary'"):
            _ = beliefs.log_partition

    def test_a_step_of_an_optimiser_counts(self) -> None:
        graph = lw.grid(2, 2)
        potentials = lw.TablePotentials.random(graph, seed=0)
        optimizer = torch.optim.SGD(potentials.parameters(), lr=0.1)
        beliefs = lw.BP()(graph, potentials)
        beliefs.states[0].backward()
        optimizer.step()
        with pytest.raises(lw.notices.ChangedError):
            _ = beliefs.log_partition

    def test_arrays_and_inference_mode_are_copied(self) -> None:
        graph = lw.grid(2, 2)
        tables = {
            group.name: np.random.default_rng(0).normal(size=(group.count, *group.shape)) for group in graph.groups
        }
        wanted, beliefs = float(lw.BP()(graph, tables).log_partition), lw.BP()(graph, tables)
        tables["pair"] += 5.0
        assert float(beliefs.log_partition) == wanted
        with torch.inference_mode():
            inside = {name: torch.tensor(table) for name, table in tables.items()}
            wanted, beliefs = float(lw.BP()(graph, inside).log_partition), lw.BP()(graph, inside)
            inside["pair"] += 5.0
            assert float(beliefs.log_partition) == wanted


def test_offsets_that_cancel_cost_no_digits() -> None:
    graph = lw.grid(3, 3)
    plain = {group.name: torch.randn(group.count, *group.shape, dtype=torch.float64) for group in graph.groups}
    moved = {name: table.clone() for name, table in plain.items()}
    for table in moved.values():
        table[0] += 1e6
        table[1] -= 1e6
    for method in (lw.BP(), lw.BP(engine=Reference()), lw.TRW(), lw.Exact(), lw.MeanField()):
        assert abs(float(method(graph, moved).log_partition - method(graph, plain).log_partition)) < 1e-8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": "3"}, "iterations must be a whole number"),
        ({"iterations": 2.5}, "iterations must be a whole number"),
        ({"iterations": True}, "iterations must be a whole number"),
        ({"engine": "compiled"}, "engine must be None, or an engine"),
        ({"engine": Compiled}, "engine must be None, or an engine"),
        ({"schedule": "flooding"}, "schedule must be"),
        ({"tolerance": "small"}, "tolerance must be a number"),
        ({"damping": "half"}, "damping must be a number"),
        ({"temperature": 1e-300}, "temperature must be 0 or a number from 1e-07 on"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lw.BP(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [lw.Exact, lw.MeanField, lw.Gibbs])
def test_temperatures_that_overflow_are_refused(method: type[lw.inference.Inference]) -> None:
    with pytest.raises(ValueError, match="temperature must be"):
        method(temperature=1e-300)  # type: ignore[call-arg]


@pytest.mark.parametrize("method", [lw.Exact(temperature=1e-3), lw.BP(temperature=1e-3)])
def test_potentials_over_a_small_temperature_that_overflow_are_refused(method: lw.inference.Inference) -> None:
    graph = lw.chain(3)
    potentials = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": torch.zeros(2, 2, 2, dtype=torch.float64)}
    potentials["pair"][1, 0, 1] = -1e301
    with pytest.raises(ValueError, match=r"group 'pair' of up to 1e\+301 over a temperature of 0.001 overflow"):
        method(graph, potentials)


@pytest.mark.parametrize("value", [1e307, -1e307])
def test_potentials_that_overflow_are_refused(value: float) -> None:
    graph = lw.chain(3)
    potentials = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": torch.zeros(2, 2, 2, dtype=torch.float64)}
    potentials["pair"][1, 0, 1] = value
    with pytest.raises(ValueError, match=r"factor 1 of group 'pair'.*it must be a number between -1e\+302 and 1e\+302"):
        lw.Exact()(graph, potentials)


def test_every_assignment_of_a_small_model_agrees_with_the_oracle_of_these_tests() -> None:
    """The junction tree serves as the truth above; here it is held against plain enumeration on the same models."""
    rng = np.random.default_rng(3)
    for sigma in (2.0, 20.0, 100.0):
        graph = lw.graph.complete(4)
        tables = strong_model(graph, sigma, rng)
        every = np.array(list(itertools.product((0, 1), repeat=4)))
        scores = tables["unary"].numpy()[np.arange(4), every].sum(1)
        for pair, (a, b) in zip(tables["pair"].numpy(), itertools.combinations(range(4), 2), strict=True):
            scores = scores + pair[every[:, a], every[:, b]]
        assert float(lw.Exact()(graph, tables).log_partition) == pytest.approx(np.logaddexp.reduce(scores), rel=1e-12)


def test_a_trained_temperature_that_moved_is_noticed() -> None:
    graph = lw.grid(2, 2)
    temperature = torch.tensor(1.0, dtype=torch.float64)
    beliefs = lw.BP(temperature=temperature)(graph, lw.TablePotentials.random(graph, seed=0))
    temperature.fill_(3.0)
    with pytest.raises(lw.notices.ChangedError, match="the temperature was changed in place"):
        _ = beliefs.log_partition


@pytest.mark.parametrize("method", [lw.BP(temperature=0.0), lw.BP(gradient=lw.Perturbation()), lw.MeanField()])
def test_bounds_do_not_depend_on_whether_gradients_are_wanted(method: lw.inference.Inference) -> None:
    graph = lw.grid(3, 3)
    trained = lw.TablePotentials.random(graph, seed=0)
    fixed = {name: table.detach() for name, table in trained().items()}
    for found, wanted in zip(
        method(graph, trained).log_partition_bounds, method(graph, fixed).log_partition_bounds, strict=True
    ):
        assert float(found) == pytest.approx(float(wanted))


@pytest.mark.parametrize("damping", [0.0, 0.9])
def test_engines_judge_alike_at_any_number_of_sweeps(damping: float) -> None:
    graph = lw.grid(3, 3)
    potentials = lw.TablePotentials.random(graph, seed=1, scale=0.5)
    for schedule in (lw.inference.Flooding(), lw.Sequential()):
        for iterations in range(1, 13):
            options = {"iterations": iterations, "tolerance": 0.0, "schedule": schedule, "damping": damping}
            with torch.no_grad():
                one = lw.BP(engine=Compiled(), **options)(graph, potentials).status  # type: ignore[arg-type]
                other = lw.BP(engine=Reference(), **options)(graph, potentials).status  # type: ignore[arg-type]
            assert one.converged == other.converged
            assert float(one.residual) == pytest.approx(float(other.residual), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("engine", [Reference(), Compiled()], ids=["reference", "compiled"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_impossible_chains_are_called_impossible(engine: object, schedule: str) -> None:
    rng, tried = np.random.default_rng(0), 0
    for _ in range(60):
        graph = lw.chain(int(rng.integers(2, 6)))
        potentials = {}
        for group in graph.groups:
            shape = (group.count, *group.shape)
            potentials[group.name] = torch.tensor(np.where(rng.random(shape) < 0.35, -np.inf, rng.normal(size=shape)))
        try:
            lw.Exact()(graph, potentials)
        except lw.notices.ImpossibleError:
            tried += 1
            with pytest.raises(lw.notices.ImpossibleError):
                lw.BP(schedule=SCHEDULES[schedule], engine=engine)(graph, potentials)  # type: ignore[arg-type]
    assert tried > 20
    nothing = {"unary": torch.zeros(2, 2, dtype=torch.float64), "pair": torch.full((1, 2, 2), -torch.inf).double()}
    with pytest.raises(lw.notices.ImpossibleError):
        lw.BP(schedule=SCHEDULES[schedule], engine=engine)(lw.chain(2), nothing)  # type: ignore[arg-type]
