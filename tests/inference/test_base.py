"""The call every method shares: what it checks, what it puts back, and the corners of shape."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from loopwise.graph import Evidence, FactorGraph, Role, chain, grid
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.method import Exact
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.message_passing import BP
from loopwise.notices import ImpossibleError
from loopwise.potentials import TablePotentials
from oracles.enumeration import enumerate_model

INF = torch.inf


def random_tables(graph: FactorGraph, *batch: int, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: torch.randn(*batch, group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }


class Recorder(Inference):
    """Keeps the problem it is given."""

    def run(self, problem: Problem) -> Beliefs:
        self.problem = problem
        return Exact().run(problem)


# What a method is given


def test_a_method_never_sees_variables_observed_in_every_example() -> None:
    graph = chain(4)
    recorder = Recorder()
    recorder(graph, random_tables(graph), {1: 0})
    assert recorder.problem.graph.variables == 3
    recorder(graph, random_tables(graph), [[1, -1, 0, -1], [0, 1, 1, -1]])
    assert recorder.problem.graph.variables == 2
    assert tuple(recorder.problem.batch) == (2,)
    assert {group.name for group in recorder.problem.graph.groups} >= {"evidence|2"}


def test_the_slicing_of_a_pattern_is_reused() -> None:
    graph = chain(4)
    recorder = Recorder()
    recorder(graph, random_tables(graph), {1: 0})
    first = recorder.problem.graph
    recorder(graph, random_tables(graph), {1: 1})
    assert recorder.problem.graph is first
    recorder(graph, random_tables(graph), {2: 1})
    assert recorder.problem.graph is not first


def test_threads_with_different_evidence_do_not_mix_up_their_slicing() -> None:
    graph, wrong = chain(6), []
    tables = random_tables(graph)

    def work(variable: int) -> None:
        for _ in range(40):
            beliefs = Exact()(graph, tables, {variable: 1})
            if beliefs.marginal(variable).tolist() != [0.0, 1.0]:
                wrong.append(variable)

    threads = [threading.Thread(target=work, args=(variable,)) for variable in (0, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_evidence_clamps_inputs_only() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    evidence = Evidence.of([1, 0, 1], [Role.INPUT, Role.OUTPUT, Role.MISSING])
    torch.testing.assert_close(Exact()(graph, tables, evidence).states, Exact()(graph, tables, {0: 1}).states)


def test_roles_that_differ_by_example() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    roles = [[Role.INPUT, Role.OUTPUT, Role.HIDDEN], [Role.MISSING, Role.OUTPUT, Role.INPUT]]
    beliefs = Exact()(graph, tables, Evidence.of([[1, 0, 1], [0, 0, 0]], roles))
    torch.testing.assert_close(beliefs.states[0], Exact()(graph, tables, {0: 1}).states)
    torch.testing.assert_close(beliefs.states[1], Exact()(graph, tables, {2: 0}).states)


def test_modules_are_called_and_get_gradients() -> None:
    graph = chain(3)
    potentials = TablePotentials.random(graph, seed=0)
    beliefs = Exact()(graph, potentials, {0: 1})
    beliefs.marginal(1)[0].backward()
    assert all(parameter.grad is not None for parameter in potentials.parameters())


# What is refused


@pytest.mark.parametrize("evidence", [np.zeros((3, 3), dtype=int), np.full((3, 3), -1), [[0, -1, -1]] * 3])
def test_batches_that_do_not_fit_are_named(evidence: object) -> None:
    graph = chain(3)
    with pytest.raises(ValueError, match=r"evidence for \(3,\) examples does not fit potentials for \(2,\)"):
        Exact()(graph, random_tables(graph, 2), evidence)  # type: ignore[arg-type]


def test_impossible_evidence_names_factor_and_variables() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    tables["pair"][1, 0, 1] = -INF
    message = r"impossible evidence: factor 1 of group 'pair' forbids the values observed for .* \[1, 2\]"
    with pytest.raises(ImpossibleError, match=message):
        Exact()(graph, tables, {1: 0, 2: 1})
    with pytest.raises(ImpossibleError, match=message + r" \(example 1\)"):
        Exact()(graph, tables, [[0, 0, 0], [0, 0, 1]])
    tables["unary"][2, 0] = -INF  # now 2 must be 1, which 1 = 0 forbids
    with pytest.raises(ImpossibleError, match=r"variable 2 has no possible value: .* the evidence"):
        Exact()(graph, tables, {1: 0})
    with pytest.raises(ImpossibleError, match=r"variable 2 .*\(example 1\)"):
        Exact()(graph, tables, [[-1, 1, -1], [-1, 0, -1]])


def test_point_masses_on_impossible_values_are_named() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    tables["unary"][2, 0] = -INF
    with pytest.raises(ImpossibleError, match=r"variable 2 has no possible value.*\(example 1\)"):
        Exact()(graph, tables, [[0, -1, -1], [-1, -1, 0]])


def test_contradictions_without_evidence_are_named() -> None:
    graph = FactorGraph([2, 3], {"one": [[1], [1]], "constant": np.zeros((2, 0), int)})
    good = {"one": torch.zeros(2, 3), "constant": torch.zeros(2)}
    bad = torch.tensor([[0.0, -INF, -INF], [-INF, 0.0, 0.0]])
    with pytest.raises(ImpossibleError, match="variable 1 has no possible value: its unary potentials"):
        Exact()(graph, good | {"one": bad})
    dead = torch.tensor([0.0, -INF])
    for evidence in (None, {0: 1}):  # evidence is not to blame for a constant
        with pytest.raises(ImpossibleError, match="factor 1 of group 'constant' is -inf: no configuration"):
            Exact()(graph, good | {"constant": dead}, evidence)


@pytest.mark.parametrize("evidence", [None, {0: 1}])
def test_a_table_of_zeros_only_is_impossible(evidence: dict[int, int] | None) -> None:
    graph = chain(4)
    tables = random_tables(graph)
    tables["pair"][2] = -INF
    for method in (Exact(), BP()):
        with pytest.raises(ImpossibleError):
            method(graph, tables, evidence)


# Corners of shape


def test_everything_observed() -> None:
    graph = grid(2, 3, states=3)
    tables = random_tables(graph)
    values = np.array([0, 1, 2, 2, 1, 0])
    truth = enumerate_model(graph, tables)
    score = truth.scores[(truth.configurations == values).all(1)][0]
    for method in (Exact(), BP(), MeanField()):
        beliefs = method(graph, tables, values)
        assert float(beliefs.log_partition.detach()) == pytest.approx(score, abs=1e-10)
        assert beliefs.assignment.tolist() == values.tolist()
        assert beliefs.variables.tolist() == np.eye(3)[values].tolist()
        assert beliefs.factor("pair").sum() == graph.group("pair").count
        assert beliefs.factor("pair")[0, values[0], values[1]] == 1


@pytest.mark.parametrize("method", [Exact(), BP(), MeanField()])
def test_graphs_without_variables_or_factors(method: Inference) -> None:
    nothing = method(FactorGraph([], {}), {})
    assert nothing.states.shape == (0,)
    assert nothing.variables.shape == (0, 0)
    assert nothing.assignment.shape == (0,)
    assert float(nothing.log_partition) == 0.0
    constants = FactorGraph([], {"constant": np.zeros((2, 0), int)})
    beliefs = method(constants, {"constant": torch.tensor([[1.0, 2.0], [3.0, 4.0]])})
    assert beliefs.log_partition.tolist() == [3.0, 7.0]
    assert beliefs.factor("constant").tolist() == [[1.0, 1.0], [1.0, 1.0]]
    free = FactorGraph([2, 3], {})
    for evidence, values in [(None, 6), ({1: 2}, 2), ({0: 0, 1: 2}, 1)]:
        assert float(method(free, {}, evidence).log_partition) == pytest.approx(np.log(values))
    batched = method(free, {}, [[0, -1], [-1, 2]])
    assert batched.log_partition.tolist() == pytest.approx([np.log(3), np.log(2)])
    assert batched.marginal(1).tolist()[1] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("method", [Exact(), MeanField()])
@pytest.mark.parametrize("evidence", [None, {0: 1}, {0: 1, 1: 0, 2: 1}, np.zeros((0, 3), dtype=int)])
def test_no_examples_give_no_beliefs(method: Inference, evidence: object) -> None:
    graph = chain(3)
    tables = random_tables(graph) | {"unary": torch.zeros(0, 3, 2, dtype=torch.float64)}
    beliefs = method(graph, tables, evidence)  # type: ignore[arg-type]
    assert beliefs.states.shape == (0, 6)
    assert beliefs.variables.shape == (0, 3, 2)
    assert beliefs.assignment.shape == (0, 3)
    assert beliefs.log_partition.shape == (0,)
    assert beliefs.factor("pair").shape == (0, 2, 2, 2)
    assert beliefs.factor("unary").shape == (0, 3, 2)


def test_a_batch_of_evidence_for_shared_potentials() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    free = Exact()(graph, tables, np.full((2, 1, 3), -1))
    assert free.states.shape == (2, 1, 6)
    torch.testing.assert_close(free.states[1, 0], Exact()(graph, tables).states)


# Messages


def test_messages_are_taken_back_under_the_same_evidence() -> None:
    graph = grid(3, 3)
    tables = random_tables(graph)
    first = BP(iterations=500, tolerance=1e-10)(graph, tables, {4: 1})
    again = BP(iterations=2, tolerance=1e-8)(graph, tables, {4: 1}, initial=first.messages)
    assert again.status.converged
    torch.testing.assert_close(again.states, first.states, rtol=1e-7, atol=1e-7)


def test_initial_messages_that_do_not_fit_are_refused() -> None:
    graph = chain(3)
    tables = random_tables(graph)
    slots = graph.layout.slots
    with pytest.raises(ValueError, match="Exact passes no messages, so it takes no initial ones"):
        Exact()(graph, tables, initial=torch.zeros(slots))
    with pytest.raises(ValueError, match=rf"initial messages of shape \(3,\) do not fit: .* {slots} slots"):
        BP()(graph, tables, initial=torch.zeros(3))
    with pytest.raises(ValueError, match="initial messages hold NaN"):
        BP()(graph, tables, initial=torch.full((slots,), torch.nan))
    with pytest.raises(ValueError, match=r"for \(4,\) examples do not fit a batch of \(\)"):
        BP()(graph, tables, initial=torch.zeros(4, slots))
    with pytest.raises(ValueError, match="Exact passes no messages"):
        _ = Exact()(graph, tables, {0: 1}).messages


# Beliefs


def test_variables_are_padded_with_zeros() -> None:
    graph = FactorGraph([2, 1, 3], {"three": [[0, 1, 2]]})
    beliefs = Exact()(graph, random_tables(graph, 4))
    assert beliefs.variables.shape == (4, 3, 3)
    for variable, size in enumerate(graph.cardinalities):
        torch.testing.assert_close(beliefs.variables[:, variable, :size], beliefs.marginal(variable))
        assert (beliefs.variables[:, variable, size:] == 0).all()
    assert (beliefs.assignment < torch.tensor(graph.cardinalities)).all()


def test_beliefs_refuse_names_they_do_not_know() -> None:
    beliefs = Exact()(chain(2), random_tables(chain(2)))
    for variable in (2, -1):
        with pytest.raises(ValueError, match=f"no variable {variable}; the graph has variables 0 to 1"):
            beliefs.marginal(variable)
    with pytest.raises(ValueError, match="goes by its number here, not 'flu'"):
        beliefs.marginal("flu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no factor group 'other'"):
        beliefs.factor("other")
