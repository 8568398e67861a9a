"""The compiled engine step by step against the reference engine, on graphs that mix tables and structured factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.graph.structured.one_of import log_sum
from loopwise.inference.messages.counting import Reweighted
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.reference import Reference
from loopwise.notices import ConvergenceWarning, ImpossibleError
from loopwise.testing import check_factor

Tables = dict[str, object]
GRAMMAR = lw.Hypergraph(
    (2,) * 4,
    (
        *((cell + 1, (cell,), ()) for cell in range(4)),
        *((cell + 2, (cell,), ((cell, 1),)) for cell in range(3)),
    ),
    root=4,
    defaults=(0,) * 4,
    weighted=True,
)  # fmt: skip


class Own(lw.StructuredFactor):
    """A user's factor, two variables that differ: no more than its log-partition function, in torch."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return (2, 2)

    def log_partition(self, incoming: torch.Tensor, potentials: torch.Tensor | None = None) -> torch.Tensor:
        return log_sum(torch.stack([incoming[..., 0] + incoming[..., 3], incoming[..., 1] + incoming[..., 2]], -1))


FACTORS: dict[str, lw.StructuredFactor] = {
    "ProjectiveTree": lw.ProjectiveTree(3),
    "Tree": lw.Tree(3, single_root=True),
    "Chain": lw.Chain(4, 3),
    "ExactlyOne": lw.ExactlyOne(5),
    "AtMostOne": lw.AtMostOne(4),
    "Parity": lw.Parity(5),
    "signed Parity": lw.Parity(4, odd=None),
    "Count": lw.Count(5, 1, 3),
    "weighted Count": lw.Count(4, weighted=True),
    "Or": lw.Or(4, (1,)),
    "And": lw.And(4, output=True),
    "Implies": lw.Implies(3),
    "Hypergraph": GRAMMAR,
    "a user's": Own(),
}
factors = pytest.mark.parametrize("name", FACTORS)


def model(factor: lw.StructuredFactor, seed: int = 0, batch: tuple[int, ...] = ()) -> tuple[lw.FactorGraph, Tables]:
    """The factor twice (a tree once), on overlapping scopes, in loops through tables of several shapes."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    states, arity = factor.cardinalities[0], factor.arity
    variables = arity + 2
    pairs = [[v, (v + 1) % variables] for v in range(variables)]
    copies = 1 if isinstance(factor, lw.ProjectiveTree | lw.Tree) else 2
    first, second = rng.permutation(variables)[:arity], rng.permutation(variables)[:arity]
    graph = lw.FactorGraph(
        [states] * variables + [4],
        {"unary": np.arange(variables)[:, None], "pair": pairs, "triple": [[0, 2, 1]], "odd": [[1, variables]]},
        {
            "mine": [(factor, first), (factor, second)][:copies],
            "other": (lw.Or(3, (0, 1)), [0, 1, 2]) if states == 2 else [],
        },
    )

    def randn(*shape: int, of: tuple[int, ...] = batch) -> torch.Tensor:
        return (0.5 * torch.randn(*of, *shape, generator=generator, dtype=torch.float64)).requires_grad_()

    tables: Tables = {
        "unary": randn(variables, states),
        "pair": randn(len(pairs), states, states, of=()),  # shared by all examples
        "triple": randn(1, states, states, states),
        "odd": randn(1, states, 4),
    }
    if factor.potentials_shape is not None:
        tables["mine"] = [randn(*factor.potentials_shape) for _ in range(copies)]
    return graph, tables


def inputs(tables: Tables) -> list[torch.Tensor]:
    return [each for value in tables.values() for each in (value if isinstance(value, list) else [value])]


def close(mine: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-10) -> None:
    finite = torch.isfinite(theirs)
    assert torch.equal(torch.isfinite(mine), finite)
    assert mine.detach()[finite].numpy() == pytest.approx(theirs.detach()[finite].numpy(), abs=tolerance)


def compare(
    method: MessagePassing,
    graph: lw.FactorGraph,
    tables: Tables,
    evidence: object = None,
    extra: tuple[torch.Tensor, ...] = (),
) -> lw.Beliefs:
    """Everything that both engines say, and the gradient of a loss of all of it."""
    found = [replace(method, engine=engine)(graph, tables, evidence) for engine in (None, Reference())]  # type: ignore[arg-type]
    mine, theirs = found
    assert (mine.status.engine, theirs.status.engine) == ("compiled", "reference")
    close(mine.states, theirs.states)
    close(mine.messages, theirs.messages)
    close(mine.log_partition, theirs.log_partition)
    for name in ("pair", "triple", "mine"):
        close(mine.factor(name), theirs.factor(name))
    assert torch.equal(mine.status.sweeps, theirs.status.sweeps)
    assert mine.status.converged == theirs.status.converged and mine.status.exact == theirs.status.exact
    assert mine.status.residual.numpy() == pytest.approx(theirs.status.residual.numpy(), rel=1e-3, abs=1e-12)
    weights = torch.randn(mine.states.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    gradients = []
    for beliefs in found:
        loss = (
            (beliefs.states * weights).sum() + 0.3 * beliefs.log_partition.sum() + beliefs.factor("pair").square().sum()
        )
        if beliefs.trace is not None:
            loss = loss + (beliefs.trace.square() * weights).sum()
        gradients.append(torch.autograd.grad(loss, [*inputs(tables), *extra]))
    for own, expected in zip(*gradients, strict=True):
        close(own, expected, 1e-10)
    return mine


@factors
def test_both_engines_agree(name: str) -> None:
    graph, tables = model(FACTORS[name])
    compare(lw.BP(iterations=4, tolerance=0), graph, tables)


@factors
def test_batches_and_evidence(name: str) -> None:
    factor = FACTORS[name]
    graph, tables = model(factor, batch=(2, 2))
    evidence = np.full((2, 2, graph.variables), -1)
    evidence[..., 0] = 0
    evidence[0, 1, 3] = 0
    compare(lw.BP(iterations=3, tolerance=0, trace=True), graph, tables, evidence)


METHODS: dict[str, MessagePassing] = {
    "damped": lw.BP(iterations=4, tolerance=0, damping=0.3, temperature=0.7),
    "fractional": lw.BP(
        iterations=3, tolerance=0, counting=Reweighted({"pair": 0.8, "mine": 0.6, "triple": 0.9, "odd": 1.0})
    ),
    "trw": lw.TRW(iterations=3, tolerance=0),
    "checkpoints": lw.BP(iterations=7, tolerance=0, damping=0.1, gradient=lw.Unroll(lw.gradient.Checkpoints(2))),
    "checkpoints of pairs": lw.BP(iterations=7, tolerance=0, gradient=lw.Unroll(lw.gradient.Checkpoints(3))),
    "recomputed": lw.BP(iterations=3, tolerance=0, gradient=lw.Unroll(lw.gradient.Recompute())),
    "fixed point": lw.BP(iterations=500, tolerance=1e-11, gradient=lw.FixedPoint(tolerance=1e-12)),
    "to a tolerance": lw.BP(iterations=300, tolerance=1e-7, trace=True),
    "by beliefs alone": lw.BP(iterations=300, tolerance=1e-5, judge_messages=False),
    "by groups": lw.BP(iterations=3, tolerance=0, schedule=lw.Groups(("pair", "mine", "odd", "triple", "other"))),
    "by groups, damped": lw.BP(
        iterations=40, tolerance=1e-6, damping=0.2, trace=True,
        schedule=lw.Groups(("mine", "other", "triple", "pair", "odd"), uniform_start=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("name", ["ProjectiveTree", "weighted Count"])
def test_methods(name: str, method: MessagePassing) -> None:
    graph, tables = model(FACTORS[name], batch=(3,))
    compare(method, graph, tables)


def test_examples_that_need_more_sweeps_than_others() -> None:
    graph, tables = model(FACTORS["Count"], batch=(3,))
    with torch.no_grad():
        for table in inputs(tables):
            table *= 0.3
        tables["unary"][1] *= 8.0  # type: ignore[index]
    found = compare(lw.BP(iterations=300, tolerance=1e-6, trace=True), graph, tables)
    assert len(found.status.sweeps.unique()) > 1


def test_what_message_passing_learns() -> None:
    """Damping, temperature and counting numbers are trained through both engines alike."""
    graph, tables = model(FACTORS["ProjectiveTree"], batch=(2,))
    extra = tuple(torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.3, 0.8, 0.7))
    rho = {"pair": extra[2], "mine": extra[2], "triple": 1.0, "odd": 1.0, "other": 1.0}
    for schedule in (lw.inference.Flooding(), lw.Groups(("pair", "mine", "odd", "triple", "other"))):
        method = lw.BP(3, 0, damping=extra[0], schedule=schedule, temperature=extra[1], counting=Reweighted(rho))
        compare(method, graph, tables, None, extra)


def test_messages_to_go_on_from() -> None:
    graph, tables = model(FACTORS["Parity"])
    method = lw.BP(iterations=2, tolerance=0)
    halfway = method(graph, tables).messages.detach()
    close(method(graph, tables, initial=halfway).states, lw.BP(iterations=4, tolerance=0)(graph, tables).states)
    for damping in (0.0, 0.2):
        pulled = []
        for engine in (None, Reference()):
            start = halfway.clone().requires_grad_()
            found = lw.BP(iterations=2, tolerance=0, damping=damping, engine=engine)(graph, tables, initial=start)
            pulled.append(
                torch.autograd.grad(found.states.square().sum() + found.messages[:8].square().sum(), start)[0]
            )
        close(*pulled)


def test_messages_after_a_backward() -> None:
    """They are read off the run, which a tape that is made again must not change; nor a second backward."""
    graph, tables = model(FACTORS["Count"])
    for tape in (lw.gradient.Store(), lw.gradient.Recompute()):
        found = lw.BP(iterations=3, tolerance=0, gradient=lw.Unroll(tape))(graph, tables)
        first = torch.autograd.grad(found.states.square().sum(), inputs(tables), retain_graph=True)
        expected = lw.BP(iterations=3, tolerance=0, engine=Reference())(graph, tables)
        close(found.messages, expected.messages)
        for mine, again in zip(first, torch.autograd.grad(found.states.square().sum(), inputs(tables)), strict=True):
            assert torch.equal(mine, again)


def test_a_user_s_factor_keeps_its_promises() -> None:
    """Also that of ImpossibleError, where its variables contradict each other and each message by itself does not."""
    check_factor(Own())


def test_a_class_that_changes_its_parent_s_messages_runs_its_own() -> None:
    class Always(lw.ExactlyOne):
        def log_partition(self, incoming: torch.Tensor, potentials: torch.Tensor | None = None) -> torch.Tensor:
            return incoming.reshape(*incoming.shape[:-1], -1, 2).logsumexp(-1).sum(-1)

        def messages(self, incoming: torch.Tensor, potentials: torch.Tensor | None = None) -> torch.Tensor:
            return torch.full_like(incoming, -np.log(2))

    graph = lw.FactorGraph([2] * 3, {"unary": np.arange(3)[:, None]}, {"one": (Always(3), range(3))})
    unary = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    close(lw.BP()(graph, {"unary": unary}).variables, unary.softmax(-1))


def test_second_derivatives() -> None:
    graph, tables = model(FACTORS["Chain"])
    directions = [torch.ones_like(table) for table in inputs(tables)]
    found = []
    for engine in (None, Reference()):
        loss = lw.BP(iterations=3, tolerance=0, engine=engine)(graph, tables).states.square().sum()
        first = torch.autograd.grad(loss, inputs(tables), create_graph=True)
        inner = sum((piece * along).sum() for piece, along in zip(first, directions, strict=True))
        found.append(torch.autograd.grad(inner, inputs(tables)))
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


def test_unions() -> None:
    """Factors of one kind and many sizes run together, and each part gets what it gets alone."""
    parts = [model(lw.ProjectiveTree(2), 1), model(lw.ProjectiveTree(3, single_root=True), 2), model(lw.Parity(5), 3)]
    joined = lw.graph.union([graph for graph, _ in parts])
    tables = joined.join([{k: v for k, v in own.items() if k != "mine"} for _, own in parts])  # type: ignore[arg-type]
    method = lw.BP(iterations=4, tolerance=0)
    together = method(joined.graph, tables)
    assert together.status.engine == "compiled"
    close(together.states, torch.cat([method(*part).states for part in parts]))


def test_single_precision_comes_back() -> None:
    graph, tables = model(FACTORS["Count"])
    single = {name: table.detach().float() for name, table in tables.items()}  # type: ignore[attr-defined]
    mine = lw.BP(iterations=3, tolerance=0)(graph, single)
    assert mine.states.dtype == mine.messages.dtype == torch.float32
    close(mine.states.double(), lw.BP(iterations=3, tolerance=0)(graph, tables).states, 1e-6)


def test_tables_far_beyond_probabilities() -> None:
    """Thousands of nats, and zeros: the same messages as in the log domain."""
    graph, tables = model(FACTORS["Or"])
    with torch.no_grad():
        tables["pair"][0] *= 4000.0  # type: ignore[index]
        tables["triple"][0, 0, 0, 1] = -torch.inf  # type: ignore[index]
        tables["triple"][0, 1] -= 3000.0  # type: ignore[index]
        tables["odd"][0, 0] = torch.tensor([0.0, -torch.inf, -900.0, 1.0])  # type: ignore[index]
    method = lw.BP(iterations=3, tolerance=0)
    mine, theirs = (replace(method, engine=engine)(graph, tables) for engine in (None, Reference()))
    close(mine.messages, theirs.messages, 1e-8)
    weights = torch.randn(mine.states.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pulled = [torch.autograd.grad((found.states * weights).sum(), inputs(tables)) for found in (mine, theirs)]
    for own, expected in zip(*pulled, strict=True):
        close(own, expected, 1e-8)


def test_the_status_says_what_ran() -> None:
    graph, tables = model(FACTORS["Parity"])
    status = lw.BP(iterations=2, tolerance=0)(graph, tables).status
    assert status.engine == "compiled" and "structured factors: mine (Parity), other (Or)" in str(status)
    sequential = lw.BP(iterations=2, tolerance=0, schedule=lw.Sequential())(graph, tables)
    assert sequential.status.engine == "compiled"


def test_contradictions() -> None:
    graph = lw.FactorGraph(
        [2] * 3, {"unary": [[0], [1], [2]]}, {"both": [(lw.Parity(2), [0, 1]), (lw.Parity(2, odd=True), [0, 1])]}
    )
    with pytest.raises(ImpossibleError, match="Parity over 2 variables"):
        lw.BP()(graph, {"unary": torch.zeros(3, 2)}, {0: 1, 1: 0})
    tables = {"unary": torch.zeros(2, 3, 2)}
    with pytest.raises(ImpossibleError, match=r"over 2 variables \(example 1\)"):
        lw.BP()(graph, tables, np.array([[-1, -1, -1], [1, 0, -1]]))


def test_schedules_that_do_not_fit() -> None:
    graph, tables = model(FACTORS["Parity"])
    with pytest.raises(ValueError, match="names the group 'trees'; the graph has"):
        lw.BP(schedule=lw.Groups(("pair", "trees")))(graph, tables)
    with pytest.raises(ValueError, match="leaves out the group 'triple'"):
        lw.BP(schedule=lw.Groups(("pair", "mine", "odd", "other")))(graph, tables)
    with pytest.raises(ValueError, match="'pair' twice"):
        lw.Groups(("pair", "pair"))
    with pytest.raises(ValueError, match=r"or lw.Groups\(...\), got 'pairs first'"):
        lw.BP(schedule="pairs first")  # type: ignore[arg-type]


def test_groups_of_tables_alone() -> None:
    """On a tree, exact once every message was sent after those it depends on; evidence keeps the groups' names."""
    graph = lw.FactorGraph([2] * 4, {"unary": np.arange(4)[:, None], "a": [[0, 1], [1, 2]], "b": [[2, 3]]})
    tables = {name: table.detach().double() for name, table in lw.TablePotentials.random(graph, seed=0)().items()}
    graph = lw.FactorGraph(
        graph.cardinalities, {**{g.name: g.scopes for g in graph.groups}, "c": np.zeros((0, 2), int)}
    )
    tables["c"] = torch.zeros(0, 2, 2, dtype=torch.float64)  # a group without factors is a group, too
    for evidence in (None, {0: 1}, {2: 0}):
        found = lw.BP(schedule=lw.Groups(("a", "c", "b")))(graph, tables, evidence)
        assert found.status.exact and found.status.engine == "compiled"
        close(found.states, lw.Exact()(graph, tables, evidence).states)


def test_a_run_that_stops_short_warns() -> None:
    graph, tables = model(FACTORS["ProjectiveTree"])
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps"):
        lw.BP(iterations=2)(graph, tables)


def drawn_factor(rng: np.random.Generator) -> lw.StructuredFactor:
    n = int(rng.integers(1, 6))
    some = tuple(np.flatnonzero(rng.random(n) < 0.3).tolist())
    kinds: list[lw.StructuredFactor] = [
        lw.ProjectiveTree(2, single_root=bool(n % 2)), lw.Tree(2), lw.Chain(n, 2), lw.ExactlyOne(n), lw.AtMostOne(n),
        lw.Parity(n, odd=[True, False, None][n % 3]), lw.Count(n, weighted=True), lw.Count(n, n // 2), lw.Or(n, some),
        lw.And(n, some, output=n > 1), lw.Implies(n, some),
    ]  # fmt: skip
    return kinds[rng.integers(len(kinds))]


@pytest.mark.filterwarnings("ignore::loopwise.notices.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(30))
def test_random_models(seed: int) -> None:
    """Structured factors of any kinds beside tables with zeros, under evidence: both engines say the same, or both that
    nothing is possible."""
    rng, variables, examples = np.random.default_rng(seed), 6, 2
    drawn = [drawn_factor(rng) for _ in range(3)]
    structured = {f"s{k}": (factor, rng.permutation(variables)[: factor.arity]) for k, factor in enumerate(drawn)}
    scopes = {"p": [rng.permutation(variables)[:2] for _ in range(4)], "t": [rng.permutation(variables)[:3]]}
    graph = lw.FactorGraph([2] * variables, {"u": np.arange(variables)[:, None], **scopes}, structured)
    scale = 10 ** rng.uniform(-1, 1.2)

    def table(*shape: int, zeros: float = 0.05) -> torch.Tensor:
        values = scale * rng.normal(size=shape)
        values[rng.random(shape) < zeros] = -np.inf
        return torch.from_numpy(values).requires_grad_()

    tables: Tables = {
        "u": table(examples, variables, 2, zeros=0.01),
        "p": table(4, 2, 2),
        "t": table(examples, 1, 2, 2, 2),
    }
    for k, factor in enumerate(drawn):
        if factor.potentials_shape is not None:
            tables[f"s{k}"] = table(examples, *factor.potentials_shape)
    evidence = rng.choice([-1, 0, 1], (examples, variables), p=[0.9, 0.07, 0.03])
    order = lw.Groups(tuple(rng.permutation(["p", "t", "s0", "s1", "s2"]).tolist()), uniform_start=bool(seed % 3))
    method = lw.BP(
        4,
        [0, 1e-3][seed % 2],
        damping=[0.0, 0.3][seed // 2 % 2],
        schedule=[lw.inference.Flooding(), order][seed // 4 % 2],
    )
    found: list[tuple[torch.Tensor, ...] | None] = []
    for engine in (None, Reference()):
        try:
            states = replace(method, engine=engine)(graph, tables, evidence).states
            found.append((states, *torch.autograd.grad(states.square().sum(), inputs(tables), allow_unused=True)))
        except ImpossibleError:
            found.append(None)
    assert (found[0] is None) == (found[1] is None)
    for mine, theirs in zip(found[0] or (), found[1] or (), strict=True):
        if mine is not None and theirs is not None:
            close(mine, theirs, 1e-9 * (1 + scale))
