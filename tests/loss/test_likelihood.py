"""Likelihoods against enumeration, central differences and each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from loopwise.gradient.hvp import hvp
from loopwise.graph import FREE, Evidence, FactorGraph, Role, chain, grid
from loopwise.graph.structured import Chain, ExactlyOne
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.method import Exact
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Sequential
from loopwise.loss.likelihood import LikelihoodObjective, SurrogateLikelihood, TruncatedLikelihood
from loopwise.loss.piecewise import Piecewise
from loopwise.loss.pseudo_likelihood import PseudoLikelihood
from loopwise.notices import GradientError, ImpossibleError
from loopwise.potentials import TablePotentials
from oracles.enumeration import enumerate_model
from oracles.strategies import Model, models

LIKELIHOODS = [SurrogateLikelihood, TruncatedLikelihood]
Tables = dict[str, Tensor]


def counts(
    graph: FactorGraph, tables: dict[str, np.ndarray], values: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """log Z and factor marginals over the configurations that agree with ``values``, by enumeration."""
    model = enumerate_model(graph, tables)
    agree = ((model.configurations == values) | (values == FREE)).all(1)
    scores, configurations = model.scores[agree], model.configurations[agree]
    log_z = float(np.logaddexp.reduce(scores))
    marginals = {}
    for group in graph.groups:
        marginals[group.name] = np.zeros((group.count, *group.shape))
        for row, scope in enumerate(group.scopes):
            cells = (np.full(len(scores), row), *configurations[:, scope].T)
            np.add.at(marginals[group.name], cells, np.exp(scores - log_z))
    return log_z, marginals


def enumerated(
    graph: FactorGraph, tables: Tables, evidence: Evidence, joint: bool
) -> tuple[float, dict[str, np.ndarray]]:
    """Negative log-likelihood of one example and its gradient, expected less observed."""
    arrays = {name: table.detach().numpy() for name, table in tables.items()}
    nothing = np.full(graph.variables, FREE)
    free, expected = counts(graph, arrays, nothing if joint else evidence.clamp((Role.INPUT,)))
    clamped, observed = counts(graph, arrays, evidence.clamp((Role.INPUT, Role.OUTPUT)))
    return free - clamped, {name: expected[name] - observed[name] for name in expected}


def random_evidence(graph: FactorGraph, rng: np.random.Generator, batch: tuple[int, ...] = (), hidden: bool = True):
    """Possible or not; at least one output, the first variable of every example."""
    roles = rng.choice(4 if hidden else 2, size=(*batch, graph.variables))
    roles[..., 0] = Role.OUTPUT
    return Evidence.of(rng.integers(0, graph.cardinalities, (*batch, graph.variables)), roles)


def possible_evidence(graph: FactorGraph, tables: Tables, rng: np.random.Generator, hidden: bool = True) -> Evidence:
    best = enumerate_model(graph, {name: table.detach().numpy() for name, table in tables.items()}).best
    return Evidence.of(best, random_evidence(graph, rng, hidden=hidden).roles)


def gradient(objective: Callable[[Tables], Tensor], tables: Tables) -> tuple[float, Tables]:
    leaves = {name: table.detach().clone().requires_grad_() for name, table in tables.items()}
    value = objective(leaves)
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return value.item(), dict(zip(leaves, found, strict=True))


def slope_error(objective: Callable[[Tables], Tensor], tables: Tables, found: Tables, step: float = 1e-5) -> float:
    """Largest difference between ``found`` and central differences, along four random directions."""
    generator = torch.Generator().manual_seed(0)
    errors = []
    for _ in range(4):
        way = {name: torch.randn(t.shape, generator=generator, dtype=t.dtype) for name, t in tables.items()}
        ends = [
            objective({name: table.detach() + sign * step * way[name] for name, table in tables.items()}).item()
            for sign in (1, -1)
        ]
        slope = sum((found[name] * way[name]).sum().item() for name in tables)
        errors.append(abs((ends[0] - ends[1]) / (2 * step) - slope))
    return max(errors)


def assert_same(mine: Tables, theirs: dict[str, np.ndarray] | Tables, atol: float) -> None:
    for name, table in mine.items():
        np.testing.assert_allclose(table, theirs[name], atol=atol, err_msg=name)


def loopy_model(seed: int = 0, scale: float = 0.7) -> Model:
    """A triangle with a factor of three on top, mixed cardinalities, a pair twice, unary factors."""
    rng = np.random.default_rng(seed)
    scopes = [[0, 1], [1, 2], [2, 0], [1, 2], [2, 3, 4], [4, 0], [0], [3]]
    cards = [2, 3, 2, 2, 2]
    factors = [(scope, scale * rng.normal(size=[cards[member] for member in scope])) for scope in scopes]
    graph, tables = FactorGraph.from_factors(cards, factors)
    return graph, {name: torch.tensor(table) for name, table in tables.items()}


# -- exact: the value and gradient of the model itself --


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("joint", [False, True])
@given(model=models(zeros=True, variables=(1, 5), largest_cardinality=3), seed=st.integers(0, 1000))
def test_exact_likelihood_is_enumerated(likelihood: type, joint: bool, model: Model, seed: int) -> None:
    graph, tables = model
    assume(tables)
    evidence = possible_evidence(graph, tables, np.random.default_rng(seed))
    value, found = gradient(lambda given: likelihood(joint)(Exact(), graph, given, evidence), tables)
    expected, slopes = enumerated(graph, tables, evidence, joint)
    assert value == pytest.approx(expected, abs=1e-9)
    assert_same(found, slopes, 1e-9)


@given(model=models(trees=True, zeros=True, largest_cardinality=3), seed=st.integers(0, 1000), hidden=st.booleans())
def test_surrogate_on_trees_is_exact(model: Model, seed: int, hidden: bool) -> None:
    graph, tables = model
    assume(tables)
    evidence = possible_evidence(graph, tables, np.random.default_rng(seed), hidden)
    method = BP(schedule=Sequential(), tolerance=1e-12)  # the compiled engine where there is one
    value, found = gradient(lambda given: SurrogateLikelihood()(method, graph, given, evidence), tables)
    expected, slopes = enumerated(graph, tables, evidence, joint=False)
    assert value == pytest.approx(expected, abs=1e-9)
    assert_same(found, slopes, 1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("joint", [False, True])
def test_roles_may_differ_between_examples(likelihood: type, joint: bool) -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(3), (2, 3))
    assert len(np.unique(evidence.roles.reshape(6, -1), axis=0)) > 1
    own = {name: table + torch.randn(2, 1, *table.shape, dtype=table.dtype) for name, table in tables.items()}
    each = likelihood(joint).per_example(Exact(), graph, own, evidence)
    assert each.shape == (2, 3)
    for place in np.ndindex(2, 3):
        example = Evidence.of(evidence.values[place], evidence.roles[place])
        expected, _ = enumerated(graph, {name: table[place[0], 0] for name, table in own.items()}, example, joint)
        assert each[place].item() == pytest.approx(expected, abs=1e-9)
    assert likelihood(joint)(Exact(), graph, own, evidence).item() == pytest.approx(each.mean().item())


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_shared_and_tied_tables_collect_the_gradients_of_all(likelihood: type, hidden: bool) -> None:
    graph = chain(4, states=3)
    rng = np.random.default_rng(0)
    tables = {"unary": torch.tensor(rng.normal(size=(4, 3))), "pair": torch.tensor(rng.normal(size=(3, 3)))}
    evidence = random_evidence(graph, rng, (5,), hidden)
    value, found = gradient(lambda given: likelihood()(Exact(), graph, given, evidence), tables)
    full = {"unary": tables["unary"], "pair": tables["pair"].expand(3, 3, 3)}
    singles = [
        enumerated(graph, full, Evidence.of(evidence.values[place], evidence.roles[place]), joint=False)
        for place in range(5)
    ]
    assert value == pytest.approx(np.mean([single for single, _ in singles]), abs=1e-9)
    slopes = {name: np.mean([slope[name] for _, slope in singles], axis=0) for name in tables}
    assert_same(found, {"unary": slopes["unary"], "pair": slopes["pair"].sum(0)}, 1e-9)


# -- the belief-difference gradient --

CONVERGED = [
    BP(tolerance=1e-13, iterations=500, engine=Reference()),
    BP(tolerance=1e-13, iterations=500),
    TRW(tolerance=1e-13, iterations=1000, schedule=Sequential()),
    BP(tolerance=1e-13, iterations=500, temperature=1.5),
    MeanField(tolerance=1e-13, iterations=2000),
]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("method", CONVERGED, ids=lambda method: type(method).__name__)
def test_belief_difference_is_the_derivative_at_a_fixed_point(method: Inference, hidden: bool) -> None:
    graph, tables = loopy_model(scale=0.4)
    evidence = random_evidence(graph, np.random.default_rng(5), (2,), hidden)

    def objective(given: Tables) -> Tensor:
        return SurrogateLikelihood()(method, graph, given, evidence)

    assert slope_error(objective, tables, gradient(objective, tables)[1]) < 1e-7


@pytest.mark.parametrize("joint", [False, True])
def test_belief_difference_also_before_convergence(joint: bool) -> None:
    """The published baseline: beliefs of the cut run, not the slope of its value."""
    graph, tables = loopy_model(scale=2.0)
    evidence = Evidence.of([1, 2, 0, 1, 0], [1, 1, 2, 0, 1])
    method = BP(iterations=2, tolerance=0)

    def objective(given: Tables) -> Tensor:
        return SurrogateLikelihood(joint)(method, graph, given, evidence)

    value, found = gradient(objective, tables)
    free = method(graph, tables, None if joint else evidence.clamp((Role.INPUT,)))
    clamped = method(graph, tables, evidence.clamp((Role.INPUT, Role.OUTPUT)))
    assert not free.status.converged
    assert value == pytest.approx((free.log_partition - clamped.log_partition).item())
    assert_same(found, {name: free.factor(name) - clamped.factor(name) for name in tables}, 1e-14)
    assert slope_error(objective, tables, found) > 1e-3  # so that the two could be told apart


@pytest.mark.parametrize("method", [BP(iterations=3, tolerance=0, engine=Reference()), Exact()], ids=["BP", "Exact"])
@pytest.mark.parametrize("joint", [False, True])
def test_second_derivatives_are_tangents_of_beliefs(method: Inference, joint: bool) -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(2), (3,))
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, generator=generator, dtype=torch.float64)
    vector = {name: torch.randn(t.shape, generator=generator, dtype=t.dtype) for name, t in tables.items()}

    def along(given: Tables) -> Tensor:
        """The belief difference times the vector, as a number to differentiate."""
        leaves = [value.requires_grad_() for value in given.values()]
        each = SurrogateLikelihood(joint).per_example(method, graph, given, evidence)
        slopes = torch.autograd.grad((weights * each).sum(), leaves, create_graph=True)
        return sum(((slope * vector[name]).sum() for name, slope in zip(given, slopes, strict=True)), torch.zeros(()))

    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    product = dict(zip(leaves, torch.autograd.grad(along(leaves), list(leaves.values())), strict=True))
    assert slope_error(along, tables, product) < 1e-7
    assert max(float(slope.abs().max()) for slope in product.values()) > 1e-3


class Counted(Inference):
    """Three sweeps of BP that count how often they were run."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, problem: Problem) -> Beliefs:
        self.runs += 1
        return BP(iterations=3, tolerance=0, engine=Reference()).run(problem)


def test_a_hessian_vector_product_runs_inference_once_a_term() -> None:
    """Told before that it will be differentiated twice, it needs no second run, and gives the same."""
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(2), (3,))
    leaves = [table.requires_grad_() for table in tables.values()]
    vector = [torch.randn(t.shape, generator=torch.Generator().manual_seed(1), dtype=t.dtype) for t in leaves]
    method = Counted()
    found = hvp(lambda: SurrogateLikelihood()(method, graph, tables, evidence), leaves, vector)
    assert method.runs == 2  # inputs clamped; inputs and outputs clamped
    value = SurrogateLikelihood()(method, graph, tables, evidence)
    slopes = torch.autograd.grad(value, leaves, create_graph=True)
    again = torch.autograd.grad(slopes, leaves, vector)
    assert method.runs == 6
    for one, other in zip(found, again, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


class WithoutGradient(Inference):
    """Exact beliefs that nothing can be propagated back through: any black box."""

    def run(self, problem: Problem) -> Beliefs:
        with torch.no_grad():
            beliefs = Exact().run(problem)
            beliefs.log_partition  # noqa: B018 (computed on demand: here, not later)
            for group in problem.graph.groups:
                beliefs.factor(group.name)
        return beliefs


@pytest.mark.parametrize("hidden", [False, True])
def test_belief_difference_needs_no_differentiable_method(hidden: bool) -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(2), hidden=hidden)
    value, found = gradient(lambda given: SurrogateLikelihood()(WithoutGradient(), graph, given, evidence), tables)
    expected, slopes = enumerated(graph, tables, evidence, joint=False)
    assert value == pytest.approx(expected, abs=1e-9)
    assert_same(found, slopes, 1e-9)


def test_second_derivatives_need_a_differentiable_method() -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(2))
    leaves = [table.requires_grad_() for table in tables.values()]
    value = SurrogateLikelihood()(WithoutGradient(), graph, tables, evidence)
    with pytest.raises(GradientError, match="beliefs of WithoutGradient carry no gradient"):
        torch.autograd.grad(value, leaves, create_graph=True)


# -- the truncated twin --


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("sweeps", [1, 2, 3])
@pytest.mark.parametrize("method", [BP, TRW])
def test_truncated_gradient_is_that_of_the_cut_run(method: type, sweeps: int, hidden: bool) -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(4), (2,), hidden)
    cut = method(iterations=sweeps, tolerance=0, engine=Reference())

    def objective(given: Tables) -> Tensor:
        return TruncatedLikelihood()(cut, graph, given, evidence)

    value, found = gradient(objective, tables)
    assert value == pytest.approx(SurrogateLikelihood()(cut, graph, tables, evidence).item(), abs=1e-12)
    assert slope_error(objective, tables, found) < 1e-8


def test_truncated_twin_agrees_at_convergence() -> None:
    graph, tables = loopy_model(scale=0.4)
    evidence = random_evidence(graph, np.random.default_rng(6), (3,))
    method = BP(iterations=200, tolerance=1e-14, engine=Reference())
    both = [
        gradient(lambda given, one=one: one()(method, graph, given, evidence), tables)  # type: ignore[misc]
        for one in LIKELIHOODS
    ]
    assert both[0][0] == pytest.approx(both[1][0], abs=1e-12)
    assert_same(both[0][1], both[1][1], 1e-9)


def test_truncated_needs_a_differentiable_method() -> None:
    graph, tables = loopy_model()
    evidence = random_evidence(graph, np.random.default_rng(2), hidden=False)
    with torch.no_grad():
        TruncatedLikelihood()(WithoutGradient(), graph, TablePotentials(graph, tables), evidence)  # the value is fine
    with pytest.raises(GradientError, match="WithoutGradient gives a log-partition function without a gradient"):
        TruncatedLikelihood()(WithoutGradient(), graph, TablePotentials(graph, tables), evidence)


# -- edges --


def test_nothing_hidden_takes_one_run() -> None:
    calls = []

    class Counts(Exact):
        def __call__(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            calls.append(args)
            return super().__call__(*args, **kwargs)  # type: ignore[arg-type]

    graph, tables = loopy_model()
    rng = np.random.default_rng(1)
    SurrogateLikelihood()(Counts(), graph, tables, random_evidence(graph, rng, (2,), hidden=False))
    assert len(calls) == 1
    SurrogateLikelihood()(Counts(), graph, tables, Evidence.of(np.zeros(5, int), [1, 2, 0, 0, 0]))
    assert len(calls) == 3


def test_negative_values_pass() -> None:
    """Bethe's log Z can be below the score of a configuration: frustrated cycles, cut short."""
    graph = grid(3, 3)
    rng = np.random.default_rng(0)
    tables = {name: torch.tensor(3 * rng.normal(size=t.shape)) for name, t in TablePotentials(graph)().items()}
    best = Exact(temperature=0)(graph, tables).assignment.numpy()
    evidence = Evidence.of(best, np.full(9, Role.OUTPUT))
    values = [SurrogateLikelihood()(BP(iterations=k, tolerance=0), graph, tables, evidence).item() for k in range(4)]
    assert min(values) < 0
    assert np.isfinite(values).all()


def test_float32_stays_float32() -> None:
    graph = chain(3)
    tables = {name: t.detach().float().requires_grad_() for name, t in TablePotentials.random(graph, seed=0)().items()}
    value = SurrogateLikelihood()(BP(engine=Reference()), graph, tables, Evidence.of([0, 1, 0], [1, 2, 0]))
    value.backward()
    assert value.dtype == torch.float32
    assert all(table.grad is not None and table.grad.dtype == torch.float32 for table in tables.values())


@pytest.mark.parametrize("objective", [SurrogateLikelihood(), TruncatedLikelihood(), SurrogateLikelihood(joint=True)])
@pytest.mark.parametrize(
    ("values", "roles", "message"),
    [
        ([0, 0, 0], [2, 2, 3], "its roles are HIDDEN, MISSING"),
        ([0, 2, 0], [1, 1, 1], "variable 1 the value 2; it has values 0 to 1"),
        ([0, -1, 0], [0, 1, 1], "variable 1 has the role OUTPUT but the value -1"),
        ([[0, 0, 0], [0, 0, -1]], [0, 1, 0], r"variable 2 \(example 1\) has the role INPUT"),
        ([0, 0], [1, 1], "does not fit the graph"),
        (np.zeros((0, 3), dtype=int), [1, 1, 1], "holds no value"),
        (np.zeros((3, 3), dtype=int), [1, 1, 1], r"evidence for \(3,\) examples does not fit potentials for \(2,\)"),
    ],
)
def test_bad_evidence_is_named(objective: LikelihoodObjective, values: object, roles: object, message: str) -> None:
    graph = chain(3)
    tables = {name: t.detach().expand(2, *t.shape) for name, t in TablePotentials(graph)().items()}
    with pytest.raises(ValueError, match=message):
        objective(Exact(), graph, tables, Evidence.of(values, roles))  # type: ignore[arg-type]


def test_no_outputs() -> None:
    graph = chain(3)
    evidence = Evidence.of([0, 0, 0], [0, 0, 2])
    with pytest.raises(ValueError, match=r"no OUTPUT in the evidence.*INPUT, HIDDEN"):
        SurrogateLikelihood()(Exact(), graph, TablePotentials(graph), evidence)
    assert SurrogateLikelihood(joint=True)(Exact(), graph, TablePotentials(graph), evidence).item() == pytest.approx(
        2 * np.log(2)
    )


def test_arguments_of_the_wrong_kind() -> None:
    graph = chain(3)
    evidence = Evidence.of([0, 0, 0], [1, 1, 1])
    with pytest.raises(ValueError, match="needs an Evidence, which has roles, not dict"):
        SurrogateLikelihood()(Exact(), graph, TablePotentials(graph), {0: 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"SurrogateLikelihood needs an inference method.*NoneType"):
        SurrogateLikelihood()(None, graph, TablePotentials(graph), evidence)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_impossible_outputs_are_named(likelihood: type, hidden: bool) -> None:
    graph = chain(3)
    equal = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    tables = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": equal}
    evidence = Evidence.of([[0, 0, 0], [0, 1, 0]], [1, 1, 2 if hidden else 1])
    with pytest.raises(ImpossibleError, match=r"factor 0 of group 'pair' forbids .* \[0, 1\] \(example 1\)"):
        likelihood()(BP(engine=Reference()), graph, tables, evidence)


@pytest.mark.parametrize("likelihood", [PseudoLikelihood, Piecewise])
def test_what_takes_tables_only_names_what_takes_the_factor(likelihood: type) -> None:
    pairs = ((Chain(2, 2), "TruncatedLikelihood"), (ExactlyOne(2), "SurrogateLikelihood"))
    for factor, other in pairs:
        graph = FactorGraph([2, 2], {"unary": [[0], [1]]}, {"whole": (factor, [0, 1])})
        tables = {"unary": torch.zeros(2, 2)} | ({"whole": torch.zeros(1, 2, 2)} if isinstance(factor, Chain) else {})
        with pytest.raises(ValueError, match=rf"'whole' is a structured factor; use lw.loss.{other}\(\)"):
            likelihood()(BP(), graph, tables, Evidence.of([0, 0], [1, 1]))
