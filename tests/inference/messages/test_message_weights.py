"""Weights of messages, damping by edge and memory: engine against engine, special cases, training, files, bad input."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.reference import Reference

T = 4
NAMES = ("messages", "damping", "memory")


def model(batch: tuple[int, ...] = (), scale: float = 1.0) -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    """Tables of two shapes in loops, with zeros, and parity checks over them."""
    graph = lw.FactorGraph(
        [2, 2, 2, 2, 3],
        {"unary": [[v] for v in range(4)], "pair": [[0, 1], [1, 2], [2, 3], [3, 0]], "odd": [[1, 4], [3, 4]]},
        {"check": [(lw.Parity(3), [0, 1, 2]), (lw.Parity(4), [0, 1, 2, 3])]},
    )
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    tables = {"unary": randn(*batch, 4, 2), "pair": randn(4, 2, 2), "odd": randn(*batch, 2, 2, 3)}
    tables["odd"][..., 0, 0, 1] = -torch.inf  # messages of -inf where the other values are ruled out, too
    tables["odd"][..., 0, 1, 1] = -torch.inf
    return graph, {name: table.requires_grad_() for name, table in tables.items()}


def weights(graph: lw.FactorGraph, names: tuple[str, ...] = NAMES, sweeps: int | None = T) -> lw.MessageWeights:
    """Random ones, negative among them, for each edge or variable."""
    generator = torch.Generator().manual_seed(7)

    def randn(count: int) -> torch.Tensor:
        return torch.randn(*(() if sweeps is None else (sweeps,)), count, generator=generator, dtype=torch.float64)

    edges, variables = graph.layout.edges, graph.variables
    given = {"messages": 1 + 0.3 * randn(edges), "damping": 0.2 * randn(edges), "memory": 0.25 * randn(variables)}
    return lw.MessageWeights(graph, **{name: torch.nn.Parameter(given[name]) for name in names})


def loss_of(beliefs: lw.Beliefs) -> torch.Tensor:
    scale = torch.linspace(-1, 1, beliefs.states.shape[-1], dtype=torch.float64)
    found = (
        (beliefs.states * scale).sum() + beliefs.factor("pair").square().sum() + beliefs.factor("check")[..., 0].sum()
    )
    messages = beliefs.messages
    found = found + (torch.where(torch.isneginf(messages), 0.0, messages).square()).sum() * 0.1
    if beliefs.trace is not None:
        found = found + (beliefs.trace.square() * scale).sum()
    return found + 0.2 * beliefs.log_partition.sum()


def compare(
    method: MessagePassing, batch: tuple[int, ...] = (), evidence: object = None, scale: float = 1.0
) -> lw.Beliefs:
    graph, tables = model(batch, scale)
    inputs = [*tables.values(), *(method.weights.parameters() if method.weights is not None else ())]
    mine, theirs = (
        replace(method, engine=engine)(graph, tables, evidence) for engine in (None, lw.inference.Reference())
    )  # type: ignore[arg-type]
    assert (mine.status.engine, theirs.status.engine) == ("compiled", "reference")
    assert torch.equal(mine.status.sweeps, theirs.status.sweeps)
    torch.testing.assert_close(mine.states, theirs.states, atol=1e-10, rtol=0)
    torch.testing.assert_close(mine.messages, theirs.messages, atol=1e-10, rtol=0)
    torch.testing.assert_close(mine.factor("pair"), theirs.factor("pair"), atol=1e-10, rtol=0)
    torch.testing.assert_close(mine.log_partition, theirs.log_partition, atol=1e-10, rtol=0)
    for own, expected in zip(*(torch.autograd.grad(loss_of(each), inputs) for each in (mine, theirs)), strict=True):
        torch.testing.assert_close(own, expected, atol=1e-10, rtol=1e-10)
    return mine


GROUPS = lw.Groups(("check", "pair", "odd"))
CASES: dict[str, tuple[tuple[str, ...], int | None, dict[str, object]]] = {
    "all three": (NAMES, T, {}),
    "constant": (NAMES, None, {}),
    "messages": (("messages",), T, {"damping": 0.3}),
    "damping": (("damping",), None, {"temperature": 0.8}),
    "memory": (("memory",), T, {}),
    "traced": (NAMES, T, {"trace": True}),
    "by groups": (NAMES, T, {"schedule": GROUPS}),
    "by groups, unheard": (NAMES, T, {"schedule": replace(GROUPS, uniform_start=True), "trace": True}),
    "checkpoints": (NAMES, T, {"gradient": lw.Unroll(lw.gradient.Checkpoints(2)), "schedule": GROUPS}),
    "recomputed": (NAMES, None, {"gradient": lw.Unroll(lw.gradient.Recompute())}),
    "memory, recomputed": (("memory",), None, {"gradient": lw.Unroll(lw.gradient.Checkpoints(3)), "trace": True}),
    "counting": (NAMES, T, {"counting": lw.inference.Reweighted({"pair": 0.7, "odd": 0.8, "check": 1.0})}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_engines_agree(case: str, batch: tuple[int, ...]) -> None:
    names, sweeps, options = CASES[case]
    given = weights(model()[0], names, sweeps)
    compare(lw.BP(T, 0, weights=given, **options), batch)  # type: ignore[arg-type]


def test_damping_alone_takes_the_same_path() -> None:
    """Also under a loss of the messages themselves, which sees how they are normalised."""
    compare(lw.BP(T, 0, damping=0.3, schedule=GROUPS), (2,))


def test_trw_and_evidence() -> None:
    """What evidence leaves of the graph has the numbers that its edges and variables have in the whole."""
    graph, _ = model()
    evidence = np.full((3, 5), -1)
    evidence[:, 4] = 0  # sliced away
    evidence[1, 3] = 1  # in one example only
    compare(lw.TRW(T, 0, weights=weights(graph)), (3,), evidence)


def test_sliced_edges_keep_their_numbers() -> None:
    """Conditioning on a variable of a table is the same as a table that allows one value of it."""
    graph = lw.FactorGraph([2, 3, 2, 2], {"triple": [[0, 1, 2]], "pair": [[2, 3], [3, 0]]})
    tables = {"triple": torch.randn(1, 2, 3, 2).double(), "pair": torch.randn(2, 2, 2).double()}
    edges = graph.layout.edges
    given = lw.MessageWeights(
        graph, messages=torch.linspace(0.5, 1.5, edges), memory=torch.tensor([0.1, 0.0, -0.2, 0.3])
    )
    small = lw.BP(3, 0, weights=given)(graph, tables, {1: 2})
    fixed = torch.full((1, 2, 3, 2), -torch.inf).double()
    fixed[:, :, 2] = tables["triple"][:, :, 2]
    whole = lw.BP(3, 0, weights=given)(graph, {**tables, "triple": fixed})
    torch.testing.assert_close(small.states, whole.states, atol=1e-10, rtol=0)


def test_examples_that_stop_keep_what_they_remember() -> None:
    graph, _ = model()
    damped = lw.MessageWeights(
        graph,
        messages=torch.nn.Parameter(torch.linspace(0.5, 0.9, 19).double()),
        damping=torch.nn.Parameter(torch.linspace(-0.1, 0.4, 19).double()),
        memory=torch.nn.Parameter(torch.linspace(-0.2, 0.2, 5).double()),
    )
    found = compare(lw.BP(100, 1e-5, weights=damped, trace=True), (4,), scale=0.5)
    assert len(found.status.sweeps.unique()) > 1


@pytest.mark.parametrize("engine", [None, lw.inference.Reference()])
def test_finite_differences(engine: object) -> None:
    graph, tables = model()
    given = weights(graph)
    method = lw.BP(T, 0, weights=given, engine=engine)  # type: ignore[arg-type]
    numbers = list(given.parameters())
    gradients = torch.autograd.grad(loss_of(method(graph, tables)), numbers)
    for number, gradient in zip(numbers, gradients, strict=True):
        direction = torch.randn(number.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        ends = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                number += step * direction
                ends.append(float(loss_of(method(graph, tables))))
            number += 1e-5 * direction
        assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_the_gradient_can_be_differentiated_again() -> None:
    graph, tables = model((2,))
    given = weights(graph)
    inputs = [*tables.values(), *given.parameters()]
    found = []
    for engine in (None, lw.inference.Reference()):
        value = loss_of(lw.BP(T, 0, weights=given, trace=True, engine=engine)(graph, tables))
        first = torch.autograd.grad(value, inputs, create_graph=True)
        found.append(torch.autograd.grad(sum(each.square().sum() for each in first), inputs))  # type: ignore[arg-type]
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("engine", [None, lw.inference.Reference()])
def test_special_cases(engine: object) -> None:
    graph, tables = model((2,))
    plain = lw.BP(T, 0, engine=engine)  # type: ignore[arg-type]
    edges = graph.layout.edges
    ones = lw.MessageWeights(graph, messages=torch.ones(edges), damping=0.0, memory=torch.zeros(T, 5))
    torch.testing.assert_close(
        replace(plain, weights=ones)(graph, tables).states, plain(graph, tables).states, atol=1e-12, rtol=0
    )
    kept = lw.MessageWeights(damping=torch.full((T, 1), 0.3))
    torch.testing.assert_close(
        replace(plain, weights=kept)(graph, tables).states,
        replace(plain, damping=0.3)(graph, tables).states,
        atol=1e-7,  # 0.3 in single precision
        rtol=0,
    )


def test_memory_is_that_of_the_equation() -> None:
    """One variable under a parity check with another, by hand: two sweeps."""
    graph = lw.FactorGraph([2, 2], {"unary": [[0], [1]], "pair": [[0, 1]]})
    unary, pair = torch.tensor([[0.3, -0.2], [0.1, 0.9]]).double(), torch.tensor([[[0.4, -1.0], [0.2, 0.7]]]).double()
    gamma, scale = torch.tensor([0.4, -0.3]).double(), 0.5
    own, beliefs = unary.clone(), unary.log_softmax(-1)
    sent = torch.zeros(2, 2).double()
    for _ in range(2):
        own = (1 - gamma[:, None]) * unary + gamma[:, None] * beliefs
        fresh = torch.stack([torch.logsumexp(pair[0] + own[1], 1), torch.logsumexp(pair[0] + own[0][:, None], 0)])
        sent = (scale * fresh.log_softmax(-1)).log_softmax(-1)
        beliefs = (own + sent).log_softmax(-1)
    given = lw.MessageWeights(graph, messages=scale, memory=gamma)
    found = lw.BP(2, 0, weights=given)(graph, {"unary": unary, "pair": pair})
    torch.testing.assert_close(found.variables, beliefs.exp(), atol=1e-12, rtol=0)


def test_tied_numbers_and_groups_are_those_of_their_edges() -> None:
    graph, tables = model()
    edges = graph.layout.edges
    index = np.arange(T * edges).reshape(T, edges) % 3
    values = torch.nn.Parameter(torch.tensor([1.1, 0.9, 0.7], dtype=torch.float64))
    tied = lw.BP(T, 0, weights=lw.MessageWeights(graph, messages=lw.inference.Tied(values, index)))(graph, tables)
    full = torch.nn.Parameter(values.detach()[torch.tensor(index)])
    free = lw.BP(T, 0, weights=lw.MessageWeights(graph, messages=full))(graph, tables)
    torch.testing.assert_close(tied.states, free.states)
    (mine,) = torch.autograd.grad(loss_of(tied), [values])
    (theirs,) = torch.autograd.grad(loss_of(free), [full])
    torch.testing.assert_close(
        mine, torch.zeros(3).double().index_add(0, torch.tensor(index).reshape(-1), theirs.reshape(-1))
    )
    groups = {"check": torch.linspace(0.5, 1, T).double()[:, None], "pair": torch.tensor([1.0, 1.1, 1.2, 1.3]).double()}
    whole = torch.ones(T, edges).double()
    whole[:, :8] = groups["pair"].repeat_interleave(2)
    whole[:, 12:] = groups["check"]
    for given in (lw.MessageWeights(messages=groups), lw.MessageWeights(graph, messages=groups)):
        torch.testing.assert_close(
            lw.BP(T, 0, weights=given)(graph, tables).states,
            lw.BP(T, 0, weights=lw.MessageWeights(graph, messages=whole))(graph, tables).states,
        )


def test_numbers_by_group_fit_unions() -> None:
    graph, tables = model()
    both = lw.graph.union([graph, graph])
    joined = both.join([{name: table.detach() for name, table in tables.items()}] * 2)  # type: ignore[misc]
    given = lw.MessageWeights(messages={"pair": 0.8, "check": 0.9}, memory=-0.2)
    alone = lw.BP(T, 0, weights=given)(graph, tables).states.detach()
    torch.testing.assert_close(lw.BP(T, 0, weights=given)(both.graph, joined).states, torch.cat([alone, alone]))
    with pytest.raises(ValueError, match="have a number for each edge or variable and do not fit"):
        lw.BP(T, 0, weights=weights(graph))(both.graph, joined)


def test_nothing_is_claimed() -> None:
    graph = lw.chain(4)
    potentials = lw.TablePotentials.random(graph, seed=0)
    method = lw.BP(weights=lw.MessageWeights(messages=0.9))
    status = method(graph, potentials).status
    assert not status.exact and status.converged and method.enough(graph) is None
    assert "nothing is claimed of a fixed point" in str(status)
    bound = lw.TRW(weights=lw.MessageWeights(messages=0.9))(
        lw.grid(3, 3), lw.TablePotentials.random(lw.grid(3, 3), seed=0)
    )
    assert "upper bound" not in str(bound.status)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Groups(("pair", "check", "odd"))])
def test_max_product_takes_weights(schedule: lw.inference.Schedule, batch: tuple[int, ...]) -> None:
    """Normalised min-sum with damping and memory: compiled as in plain torch."""
    graph, tables = model(batch)
    tables = {name: table.detach() for name, table in tables.items()}
    method = lw.BP(T, 0, temperature=0, weights=weights(graph), schedule=schedule, trace=True)
    ours, plain = method(graph, tables), replace(method, engine=Reference())(graph, tables)
    assert (ours.status.engine, plain.status.engine) == ("compiled", "reference")
    torch.testing.assert_close(ours.trace, plain.trace, atol=1e-12, rtol=0)
    torch.testing.assert_close(ours.messages, plain.messages, atol=1e-10, rtol=0)
    assert torch.equal(ours.assignment, plain.assignment)


def test_what_is_added_to_all_values_of_a_variable_makes_no_difference_to_memory() -> None:
    """Nor where a belief rules a value out: one value of the first variable is impossible, and one of the second."""
    graph = lw.FactorGraph([2, 3, 2], {"unary": [[0], [2]], "own": [[1]], "a": [[0, 1]], "b": [[1, 2]]})
    generator = torch.Generator().manual_seed(0)
    tables = {
        group.name: torch.randn(group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }
    tables["a"][0, 0], tables["a"][0, 1, 2] = -torch.inf, -torch.inf
    shift = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    for engine in (None, Reference()):
        method = lw.BP(T, 0, weights=lw.MessageWeights(damping=0.3, memory=0.4), engine=engine)
        given = {**tables, "own": tables["own"] + shift, "unary": tables["unary"] - 2 * shift}
        found = method(graph, given)
        messages = torch.where(torch.isneginf(found.messages), 0.0, found.messages)
        (slope,) = torch.autograd.grad((messages * torch.arange(len(messages))).sum(), shift)
        assert abs(float(slope)) < 1e-12
        moved = method(graph, {**tables, "own": tables["own"] + 5, "unary": tables["unary"] - 10}).messages
        torch.testing.assert_close(moved, found.messages.detach(), atol=1e-12, rtol=0)


def test_groups_without_factors_take_numbers_for_none() -> None:
    graph = lw.FactorGraph([2, 2], {"a": [[0], [1]], "pair": np.zeros((0, 2), dtype=np.int64)})
    tables = {"a": torch.zeros(2, 2), "pair": torch.zeros(0, 2, 2)}
    weights = lw.MessageWeights(messages={"pair": 0.5}, damping={"pair": torch.zeros(3, 1)})
    assert lw.BP(3, weights=weights)(graph, tables).states.tolist() == [0.5] * 4
    with pytest.raises(ValueError, match="names the group 'a'; the groups of the graph that send messages are"):
        lw.MessageWeights(graph, messages={"a": 0.5})


def test_a_graph_without_messages_takes_numbers_for_none() -> None:
    graph = lw.FactorGraph([2, 3], {"a": [[0]], "b": [[1]]})
    weights = lw.MessageWeights(graph, messages=torch.ones(T, 0), damping=torch.zeros(0), memory=[0.1, 0.2])
    tables = lw.TablePotentials.random(graph, seed=0)
    torch.testing.assert_close(lw.BP(T, 0, weights=weights)(graph, tables).states, lw.BP(T, 0)(graph, tables).states)


def small_system() -> tuple[lw.System, lw.Examples]:
    graph = lw.grid(3, 3)
    roles = [lw.Role.INPUT] * 3 + [lw.Role.OUTPUT] * 6
    examples = lw.sample_examples(lw.TablePotentials.random(graph, seed=1), 60, seed=2, roles=roles)
    given = lw.MessageWeights(
        graph,
        messages={"pair": torch.nn.Parameter(torch.ones(3, 1, dtype=torch.float64))},
        damping=torch.nn.Parameter(torch.tensor(0.1, dtype=torch.float64)),
        memory=lw.inference.BelowOne(
            lw.inference.Tied(torch.nn.Parameter(torch.zeros(2, dtype=torch.float64)), np.arange(9) % 2)
        ),
    )
    potentials = lw.TablePotentials.random(graph, seed=3)
    return lw.System(potentials, lw.BP(iterations=3, tolerance=0, weights=given)), examples


def test_fit_trains_them_and_files_keep_them(tmp_path: Path) -> None:
    system, examples = small_system()
    system.potentials.requires_grad_(False)
    names = dict(system.named_parameters())
    assert sum("weights" in name for name in names) == 3
    before = lw.learn.risk(system, examples, lw.loss.MSE())
    start = [value.clone() for name, value in names.items() if "weights" in name]
    lw.fit(system, examples, lw.loss.MSE(), epochs=10, progress=False)
    assert lw.learn.risk(system, examples, lw.loss.MSE()) < before
    assert all(
        not torch.equal(old, names[name]) for old, name in zip(start, [n for n in names if "weights" in n], strict=True)
    )
    path = tmp_path / "system.lw"
    system.save(path)
    again = lw.System.load(path)
    assert torch.equal(again.predict_marginals(examples), system.predict_marginals(examples))
    assert {n: v.shape for n, v in again.state_dict().items()} == {n: v.shape for n, v in system.state_dict().items()}
    twin = copy.deepcopy(system)
    twin.load_state_dict(again.state_dict())
    assert twin.inference.weights is not system.inference.weights  # type: ignore[attr-defined]
    assert torch.equal(twin.predict_marginals(examples), system.predict_marginals(examples))


class TestBadInput:
    graph = model()[0]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"messages": torch.ones(5)}, r"messages of MessageWeights has shape \(5,\), which does not fit 19 edges"),
            ({"memory": torch.ones(2, 3) / 2}, r"memory of MessageWeights has shape \(2, 3\).* 5 variables"),
            ({"messages": {"pair": torch.ones(3)}}, r"messages of group 'pair' has shape \(3,\).*4 factors, 8 edges"),
            ({"messages": {"pear": 1.0}}, "names the group 'pear'; the groups .* are .'pair', 'odd', 'check'."),
            ({"memory": {"pair": 0.1}}, "memory belongs to variables"),
            ({"memory": 1.0}, "memory of MessageWeights must be below 1, got 1"),
            ({"damping": torch.tensor([[0.0], [1.5]])}, "damping of MessageWeights must be below 1, got 1.5"),
            ({"messages": torch.nan}, "must hold finite numbers"),
            ({"messages": "much"}, "must be numbers, not 'much'"),
            ({"messages": torch.ones(19, requires_grad=True)}, "want a gradient; give them as a torch.nn.Parameter"),
            ({"messages": {"pair": torch.ones(2, 1), "odd": torch.ones(3, 1)}}, r"groups with \[2, 3\] sweeps"),
        ],
    )
    def test_weights(self, given: dict[str, object], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            lw.MessageWeights(self.graph, **given)  # type: ignore[arg-type]

    def test_ties(self) -> None:
        with pytest.raises(ValueError, match="holds 3; there are 2 numbers"):
            lw.inference.Tied(torch.ones(2), [0, 3])
        with pytest.raises(ValueError, match="must be whole numbers"):
            lw.inference.Tied(torch.ones(2), [0.5])
        with pytest.raises(ValueError, match=r"shape \[numbers\]"):
            lw.inference.Tied(torch.ones(2, 2), [0])

    def test_options(self) -> None:
        given = lw.MessageWeights(damping=torch.zeros(3, 1))
        with pytest.raises(ValueError, match="numbers for 3 sweeps, fewer than iterations=4"):
            lw.BP(4, weights=given)
        with pytest.raises(ValueError, match="damping is given twice"):
            lw.BP(3, damping=0.1, weights=given)
        with pytest.raises(ValueError, match="no Sequential schedule"):
            lw.BP(3, schedule=lw.Sequential(), weights=given)
        with pytest.raises(ValueError, match=r"through lw.Unroll\(\), not FixedPoint"):
            lw.BP(3, gradient=lw.FixedPoint(), weights=given)
        with pytest.raises(ValueError, match=r"weights must be lw.MessageWeights\(...\)"):
            lw.BP(3, weights=0.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="give the graph they are for as well"):
            lw.MessageWeights(messages=torch.ones(19))

    def test_training_that_leaves_the_range(self) -> None:
        value = torch.nn.Parameter(torch.tensor(0.5))
        method = lw.BP(3, weights=lw.MessageWeights(memory=value))
        with torch.no_grad():
            value += 1
        with pytest.raises(ValueError, match=r"memory of MessageWeights must be below 1, got 1\.5"):
            method(self.graph, {name: table.detach() for name, table in model()[1].items()})
