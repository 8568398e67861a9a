"""BP with structured factors against BP with the tables they stand for, inside loopy graphs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from loopwise.gradient.fixed_point import FixedPoint
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import Perturbation
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.structured.at_most_one import AtMostOne
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.exactly_one import ExactlyOne
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree
from loopwise.graph.union import union
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.method import Exact
from loopwise.inference.gibbs.method import Gibbs
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.counting import Reweighted, concave_scaling
from loopwise.inference.messages.message_passing import BP, TRW, MessagePassing
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Residual, Sequential
from loopwise.inference.messages.structured import dense_table
from loopwise.notices import GradientError, ImpossibleError
from oracles.enumeration import enumerate_model

Tables = dict[str, torch.Tensor]
FACTORS = [ProjectiveTree(3), Tree(3, single_root=True), ExactlyOne(5), AtMostOne(4)]
all_factors = pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: type(factor).__name__)


def twins(
    factor: StructuredFactor, seed: int = 0, batch: tuple[int, ...] = ()
) -> tuple[FactorGraph, FactorGraph, Tables]:
    """A loopy model with the factor, the same with its table, and potentials (the table among them).

    One more variable than the factor has; its scope is in an order of its own; pairs make cycles through it."""
    variables, rng = factor.arity + 1, np.random.default_rng(seed)
    scope = rng.permutation(variables)[: factor.arity]
    pairs = np.array([[v, (v + 1) % variables] for v in range(variables)] if variables > 2 else [[0, 1]])
    groups = {"unary": np.arange(variables)[:, None], "pair": pairs}
    mine = FactorGraph(np.full(variables, 2), groups, {"structure": (factor, scope)})
    theirs = FactorGraph(np.full(variables, 2), {**groups, "table": scope[None]})
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return 0.5 * torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)

    table = dense_table(factor).reshape(1, *factor.cardinalities)
    return mine, theirs, {"unary": randn(variables, 2), "pair": randn(len(pairs), 2, 2), "table": table}


def without_table(tables: Tables) -> Tables:
    return {name: table for name, table in tables.items() if name != "table"}


def run_both(
    method: Callable[..., Beliefs], factor: StructuredFactor, evidence: object = None, batch: tuple[int, ...] = ()
) -> tuple[Beliefs, Beliefs, Tables]:
    mine, theirs, tables = twins(factor, batch=batch)
    for table in without_table(tables).values():
        table.requires_grad_()
    return method(mine, without_table(tables), evidence), method(theirs, tables, evidence), tables


def assert_close(mine: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-10) -> None:
    finite = torch.isfinite(theirs)
    assert torch.equal(torch.isfinite(mine), finite)
    assert mine.detach()[finite].numpy() == pytest.approx(theirs.detach()[finite].numpy(), abs=tolerance)


def scope_sums(graph: FactorGraph, table: torch.Tensor) -> torch.Tensor:
    """Marginals of its variables under the belief of the table, one after another."""
    arity = graph.group("table").arity
    return torch.cat([table[0].sum([other for other in range(arity) if other != axis]) for axis in range(arity)])


METHODS: list[MessagePassing] = [
    BP(iterations=3, tolerance=0, engine=Reference()),
    BP(iterations=4, tolerance=0, damping=0.3, temperature=0.7, engine=Reference()),
    BP(iterations=2, tolerance=0, schedule=Sequential(), engine=Reference()),
    BP(iterations=2, tolerance=0, schedule=Residual(), engine=Reference()),
    BP(
        iterations=3,
        tolerance=0,
        counting=Reweighted({"pair": 0.8, "structure": 0.6, "table": 0.6}),
        engine=Reference(),
    ),
    TRW(iterations=3, tolerance=0, engine=Reference()),
]


@all_factors
@pytest.mark.parametrize("method", METHODS, ids=["flooding", "damped", "sequential", "residual", "fractional", "trw"])
def test_bp_with_the_factor_is_bp_with_its_table(factor: StructuredFactor, method: MessagePassing) -> None:
    """After any number of sweeps: messages, beliefs of variables and factors, log-partition, and gradients of a loss of
    all of them."""
    mine, theirs, tables = run_both(method, factor)
    sequence = mine.graph.layout.slots
    assert sequence == theirs.graph.layout.slots
    assert_close(mine.messages, theirs.messages)
    assert_close(mine.states, theirs.states)
    assert_close(mine.factor("pair"), theirs.factor("pair"))
    assert_close(mine.factor("structure"), scope_sums(theirs.graph, theirs.factor("table")))
    assert_close(mine.log_partition, theirs.log_partition)
    inputs = list(without_table(tables).values())
    weights = torch.randn(mine.states.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    gradients = [
        torch.autograd.grad((found.states * weights).sum() + 0.3 * found.log_partition, inputs)
        for found in (mine, theirs)
    ]
    for found, expected in zip(*gradients, strict=True):
        assert_close(found, expected, 1e-9)


@all_factors
def test_evidence_and_batches(factor: StructuredFactor) -> None:
    """Observed in all examples, in some, inside and outside of the factor's scope."""
    method = BP(iterations=5, tolerance=0, engine=Reference())
    variables = factor.arity + 1
    evidence = np.full((4, variables), -1)
    evidence[:, 0] = 0
    evidence[1:3, 1] = [1, 0]
    evidence[2, variables - 1] = 0
    mine, theirs, tables = run_both(method, factor, evidence, batch=(4,))
    assert_close(mine.states, theirs.states)
    assert_close(mine.log_partition, theirs.log_partition)
    assert mine.states.shape == (4, 2 * variables)
    inputs = list(without_table(tables).values())
    for found, expected in zip(
        torch.autograd.grad(mine.states.square().sum() + mine.log_partition.sum(), inputs),
        torch.autograd.grad(theirs.states.square().sum() + theirs.log_partition.sum(), inputs),
        strict=True,
    ):
        assert_close(found, expected, 1e-9)


@all_factors
def test_gradients_at_fixed_points(factor: StructuredFactor) -> None:
    method = BP(iterations=500, tolerance=1e-13, damping=0.2, gradient=FixedPoint(), engine=Reference())
    mine, theirs, tables = run_both(method, factor)
    inputs = list(without_table(tables).values())
    for found, expected in zip(
        torch.autograd.grad(mine.states.square().sum(), inputs),
        torch.autograd.grad(theirs.states.square().sum(), inputs),
        strict=True,
    ):
        assert_close(found, expected, 1e-8)


@all_factors
def test_exact_where_there_is_no_cycle(factor: StructuredFactor) -> None:
    """One structured factor and unary potentials: BP is exact, and so says its status."""
    arity = factor.arity
    graph = FactorGraph(np.full(arity, 2), {"unary": np.arange(arity)[:, None]}, {"structure": (factor, range(arity))})
    unary = torch.randn(arity, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    beliefs = BP()(graph, {"unary": unary})
    dense = FactorGraph(np.full(arity, 2), {"unary": np.arange(arity)[:, None], "table": np.arange(arity)[None]})
    truth = enumerate_model(dense, {"unary": unary, "table": dense_table(factor).reshape(1, *[2] * arity)})
    assert beliefs.status.exact
    assert beliefs.states.numpy() == pytest.approx(truth.states, abs=1e-10)
    assert float(beliefs.log_partition) == pytest.approx(truth.log_partition, abs=1e-10)
    exact = Exact()(graph, {"unary": unary})
    assert exact.states.numpy() == pytest.approx(truth.states, abs=1e-10)
    assert exact.factor("structure").numpy() == pytest.approx(truth.states, abs=1e-10)
    best = Exact(temperature=0)(graph, {"unary": unary})
    assert best.assignment.tolist() == truth.best.tolist()
    assert "written out as tables" in str(exact.status)


def test_the_engine_is_chosen_and_said() -> None:
    graph, _, tables = twins(ProjectiveTree(3))
    for engine in (None, Compiled()):
        status = BP(iterations=3, tolerance=0, engine=engine)(graph, without_table(tables)).status
        assert status.engine == "compiled"
        assert "structure (ProjectiveTree)" in str(status)


def test_perturbation_is_the_gradient_of_a_converged_run() -> None:
    factor = ProjectiveTree(3)
    settled = {"iterations": 1000, "tolerance": 1e-12}
    found = []
    for gradient in (FixedPoint(), Perturbation()):
        mine, _, tables = twins(factor)
        inputs = list(without_table(tables).values())
        for table in inputs:
            table.requires_grad_()
        loss = BP(**settled, gradient=gradient)(mine, without_table(tables)).states.square().sum()
        found.append(torch.cat([piece.flatten() for piece in torch.autograd.grad(loss, inputs)]))
    assert found[1].numpy() == pytest.approx(found[0].numpy(), abs=1e-5)


def test_what_is_refused() -> None:
    mine, _, tables = twins(ProjectiveTree(3))
    given = without_table(tables)
    with pytest.raises(ValueError, match="small positive temperature"):
        BP(temperature=0.0)(mine, given)
    with pytest.raises(ValueError, match="take no potentials"):
        BP()(mine, {**given, "structure": torch.zeros(1)})
    given["unary"].requires_grad_()
    with pytest.raises(GradientError, match="LinearSolve has no gradient through the structured factors"):
        BP(gradient=LinearSolve())(mine, given)
    large = ProjectiveTree(5)
    graph = FactorGraph(np.full(25, 2), {"unary": np.arange(25)[:, None]}, {"tree": (large, range(25))})
    for method in (Exact(), MeanField(), Gibbs(seed=0)):
        with pytest.raises(ValueError, match=r"'tree' .*table of 3\.36e\+07 cells, too large .*use BP"):
            method(graph, {"unary": torch.zeros(25, 2, dtype=torch.float64)})


def test_contradictions_are_named() -> None:
    tree = ProjectiveTree(2)
    graph = FactorGraph(np.full(4, 2), {"unary": np.arange(4)[:, None]}, {"tree": (tree, range(4))})
    into_one = np.flatnonzero(tree.edges[:, 1] == 1)
    with pytest.raises(ImpossibleError, match="leave no tree"):
        BP()(graph, {"unary": torch.zeros(4, 2, dtype=torch.float64)}, {int(edge): 0 for edge in into_one})
    with pytest.raises(ImpossibleError):
        BP()(graph, {"unary": torch.zeros(4, 2, dtype=torch.float64)}, {int(edge): 1 for edge in into_one})


def test_partial_trees_as_evidence() -> None:
    """An edge observed ON leaves its modifier no other head, and one root where only one is allowed."""
    tree = ProjectiveTree(4, single_root=True)
    graph = FactorGraph(np.full(16, 2), {"unary": np.arange(16)[:, None]}, {"tree": (tree, range(16))})
    unary = torch.randn(16, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    known = int(np.flatnonzero((tree.edges == [0, 3]).all(1))[0])
    on = BP()(graph, {"unary": unary}, {known: 1}).variables[:, 1].numpy()
    assert on[known] == 1.0
    assert on[(tree.edges[:, 1] == 3) & (tree.edges[:, 0] != 0)] == pytest.approx(np.zeros(3), abs=1e-15)
    assert on[(tree.edges[:, 0] == 0) & (tree.edges[:, 1] != 3)] == pytest.approx(np.zeros(3), abs=1e-15)


def test_unions_keep_structured_factors() -> None:
    parts = [
        twins(factor, seed=seed) for seed, factor in enumerate((ProjectiveTree(2), ProjectiveTree(3), AtMostOne(3)))
    ]
    joined = union([part[0] for part in parts])
    tables = joined.join([without_table(part[2]) for part in parts])
    method = BP(iterations=4, tolerance=0)
    together = method(joined.graph, tables)
    alone = [method(graph, without_table(own)) for graph, _, own in parts]
    assert_close(together.states, torch.cat([beliefs.states for beliefs in alone]))
    assert_close(together.log_partition, torch.stack([beliefs.log_partition for beliefs in alone]).sum())
    assert_close(together.factor("structure"), torch.cat([beliefs.factor("structure") for beliefs in alone]))
    assert joined.graph.structured_group("structure").count == 3  # type: ignore[union-attr]


def test_concave_scaling_knows_them() -> None:
    graph, _, _ = twins(AtMostOne(3))
    rule = concave_scaling(graph, Reweighted(1.0))
    assert set(rule.factor) == {"pair", "structure"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((ExactlyOne(2), [0, 1, 2]), "needs the numbers of 2 variables"),
        ((ExactlyOne(2), [0, 9]), "names variable 9"),
        ((ExactlyOne(2), [1, 1]), "repeats a variable"),
        ((ExactlyOne(2), [0, 2]), "variable 2 has 3 values"),
        ([ExactlyOne(2)], r"must be a pair \(factor, variables\)"),
    ],
)
def test_bad_structured_factors(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactorGraph([2, 2, 3], {}, {"one": given})


def test_names_are_told_apart() -> None:
    with pytest.raises(ValueError, match="both for a group of tables"):
        FactorGraph([2, 2], {"one": [[0, 1]]}, {"one": (ExactlyOne(2), [0, 1])})


def test_graphs_compare_by_their_structured_factors() -> None:
    first = FactorGraph([2, 2], {}, {"one": (ExactlyOne(2), [0, 1])})
    assert first == FactorGraph([2, 2], {}, {"one": (ExactlyOne(2), [0, 1])})
    assert first != FactorGraph([2, 2], {}, {"one": (ExactlyOne(2), [1, 0])})
    assert first != FactorGraph([2, 2], {}, {"one": (AtMostOne(2), [0, 1])})
    assert first != FactorGraph([2, 2], {})
    assert repr(first) == "FactorGraph(2 variables, 1 factors: one 1 ExactlyOne)"
