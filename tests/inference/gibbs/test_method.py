"""Gibbs sampling against its own transition matrix, written down by definition, and against enumeration."""

import itertools

import numpy as np
import pytest
import torch

import loopwise.inference.gibbs.method as gibbs
from loopwise.graph.builders import chain, complete, grid
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.gibbs.method import Gibbs, sample, split_r_hat
from loopwise.inference.mean_field.method import MeanField
from loopwise.notices import ConvergenceWarning
from loopwise.potentials.tables import TablePotentials

ERRORS = 5.0  # standard errors allowed: one comparison in 1.7 million fails by chance, and seeds are fixed


def configurations(graph):
    return np.array(list(itertools.product(*map(range, graph.cardinalities))))


def log_scores(graph, tables, temperature=1.0):
    """Log-potential of every configuration, by definition."""
    values, scores = configurations(graph), 0.0
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            table = np.asarray(tables[group.name])[row]
            scores = scores + table[tuple(values[:, variable] for variable in scope)]
    return scores / temperature


def distribution(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def sweep_matrix(graph, scores):
    """Transition matrix of one sweep: variable after variable redrawn from its conditional."""
    values = configurations(graph)
    matrix = np.eye(len(values))
    for variable in range(graph.variables):
        rest = np.delete(values, variable, axis=1)
        same = (rest[:, None] == rest[None, :]).all(axis=-1)
        step = np.where(same, np.exp(scores)[None, :], 0.0)
        matrix = matrix @ (step / step.sum(axis=1, keepdims=True))
    return matrix


def row_numbers(graph, samples):
    return np.ravel_multi_index(np.asarray(samples).T, tuple(graph.cardinalities))


def check_frequencies(numbers, expected):
    count = len(numbers)
    found = np.bincount(numbers, minlength=len(expected)) / count
    error = np.sqrt(expected * (1 - expected) / count)
    # Bernstein's inequality: the second term is what rare cells need, whose counts are far from normal.
    assert (np.abs(found - expected) <= ERRORS * error + ERRORS**2 / (3 * count)).all()
    assert (found[expected == 0] == 0).all()


def mixed_model(seed=0, scale=1.0):
    """Cardinalities 2 and 3, arities 1 to 3: the general path."""
    graph = FactorGraph([2, 3, 2, 3], {"unary": [[1]], "pair": [[2, 1], [0, 3]], "triple": [[0, 3, 2]]})
    return graph, arrays(TablePotentials.random(graph, seed=seed, scale=scale))


def binary_model(seed=0, scale=1.0):
    """Two-valued pairs, one scope doubled, one variable alone: the vector path."""
    pairs = [[0, 1], [2, 1], [2, 3], [3, 0], [1, 2]]
    graph = FactorGraph([2] * 5, {"unary": [[3], [4], [3]], "pair": pairs})
    return graph, arrays(TablePotentials.random(graph, seed=seed, scale=scale))


def hard_core(variables):
    """Neighbours on a ring may not both be 1: every configuration can be reached one flip at a time."""
    first = np.arange(variables)
    graph = FactorGraph([2] * variables, {"pair": np.stack([first, (first + 1) % variables], axis=1)})
    return graph, {"pair": np.broadcast_to(np.array([[0.0, 0.4], [0.4, -np.inf]]), (variables, 2, 2)).copy()}


def arrays(potentials):
    return {name: table.detach().numpy() for name, table in potentials().items()}


@pytest.mark.parametrize("model", [mixed_model, binary_model])
@pytest.mark.parametrize("sweeps", [0, 1, 2])
def test_samples_follow_the_transition_matrix(model, sweeps):
    graph, tables = model()
    matrix = sweep_matrix(graph, log_scores(graph, tables))
    start = np.full(len(matrix), 1 / len(matrix))
    samples = sample(graph, tables, 20_000, seed=sweeps, burn_in=sweeps)
    assert samples.dtype == torch.int64 and samples.shape == (20_000, graph.variables)
    check_frequencies(row_numbers(graph, samples), start @ np.linalg.matrix_power(matrix, sweeps))


@pytest.mark.parametrize("model", [mixed_model, binary_model])
def test_later_samples_of_a_chain_are_thinning_sweeps_apart(model):
    graph, tables = model()
    matrix = sweep_matrix(graph, log_scores(graph, tables))
    start = np.full(len(matrix), 1 / len(matrix)) @ matrix
    # 2n - 1 samples of n chains: the last chain's second sample is not asked for.
    samples = sample(graph, tables, 39_999, seed=1, burn_in=1, chains=20_000, thinning=2)
    numbers = row_numbers(graph, samples)
    joint = start[:, None] * (matrix @ matrix)
    check_frequencies(numbers[:-1:2] * len(matrix) + numbers[1::2], joint.reshape(-1))


@pytest.mark.parametrize("evidence", [{1: 2}, np.array([-1, 2, 1, -1])])
def test_evidence_and_temperature(evidence):
    graph, tables = mixed_model(scale=0.7)
    values = configurations(graph)
    observed = evidence if isinstance(evidence, dict) else {1: 2, 2: 1}
    allowed = np.all([values[:, variable] == value for variable, value in observed.items()], axis=0)
    scores = np.where(allowed, log_scores(graph, tables, temperature=0.5), -np.inf)
    samples = sample(graph, tables, 20_000, seed=3, evidence=evidence, burn_in=60, temperature=0.5)
    check_frequencies(row_numbers(graph, samples), distribution(scores))


def asymptotic_error(matrix, stationary, indicator, samples):
    """Standard error of the mean of ``indicator`` over a stationary run, from its exact autocovariances."""
    centred = indicator - stationary @ indicator
    fundamental = np.linalg.solve(np.eye(len(matrix)) - matrix + stationary[None, :], centred)
    variance = stationary @ (centred * (2 * fundamental - centred))
    return np.sqrt(variance / samples)


@pytest.mark.parametrize("model", [mixed_model, binary_model])
def test_marginals_within_their_standard_errors(model):
    graph, tables = model(seed=2)
    scores = log_scores(graph, tables)
    matrix, exact, values = sweep_matrix(graph, scores), distribution(scores), configurations(graph)
    beliefs = Gibbs(samples=2000, chains=20, seed=7)(graph, tables)  # 20 chains: one full block and a part
    assert beliefs.status.converged and not beliefs.status.exact and "R-hat" in str(beliefs.status)
    assert beliefs.status.sweeps.item() == 2200
    for variable in range(graph.variables):
        for value in range(graph.cardinalities[variable]):
            indicator = (values[:, variable] == value).astype(float)
            error = asymptotic_error(matrix, exact, indicator, 40_000)
            assert abs(float(beliefs.marginal(variable)[value]) - exact @ indicator) < ERRORS * error
    for group in graph.groups:
        table = beliefs.factor(group.name)
        assert table.shape == (group.count, *group.shape)
        torch.testing.assert_close(table.reshape(group.count, -1).sum(-1), torch.ones(group.count).double())
        for row, scope in enumerate(group.scopes):
            for cell in np.ndindex(*group.shape):
                indicator = (values[:, scope] == cell).all(axis=1).astype(float)
                error = asymptotic_error(matrix, exact, indicator, 40_000)
                assert abs(float(table[(row, *cell)]) - exact @ indicator) < ERRORS * error


def test_rao_blackwell_of_independent_variables_is_exact():
    graph = FactorGraph([2, 3], {"a": [[0]], "b": [[1]], "none": np.zeros((2, 0), dtype=np.int64)})
    tables = {"a": np.log([[0.4, 0.6]]), "b": np.log([[0.2, 0.3, 0.5]]), "none": np.zeros(2)}
    beliefs = Gibbs(samples=400, chains=4)(graph, tables)
    expected = torch.tensor([0.4, 0.6, 0.2, 0.3, 0.5], dtype=torch.float64)
    torch.testing.assert_close(beliefs.states, expected)
    torch.testing.assert_close(beliefs.factor("b")[0], expected[2:])
    assert beliefs.factor("none").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("states", [2, 3])
def test_batch_with_shared_and_tied_tables(states):
    graph = chain(3, states)
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(2, 2, 3, states, generator=generator, dtype=torch.float64)
    pair = torch.randn(2, 1, states, states, generator=generator, dtype=torch.float64)
    beliefs = Gibbs(samples=2000)(graph, {"unary": unary, "pair": pair})
    assert beliefs.states.shape == (2, 2, 3 * states)
    assert beliefs.factor("pair").shape == (2, 2, 2, states, states)
    assert beliefs.status.residual.shape == (2, 2)
    for i, j in itertools.product(range(2), range(2)):
        tables = {"unary": unary[i, j], "pair": pair[j].expand(2, states, states)}
        scores = log_scores(graph, tables)
        matrix, exact = sweep_matrix(graph, scores), distribution(scores)
        for variable, value in itertools.product(range(3), range(states)):
            indicator = (configurations(graph)[:, variable] == value).astype(float)
            error = asymptotic_error(matrix, exact, indicator, 16 * 2000)
            assert abs(float(beliefs.variables[i, j, variable, value]) - exact @ indicator) < ERRORS * error


def test_evidence_that_differs_between_examples():
    graph, tables = binary_model()
    evidence = np.full((2, 5), -1)
    evidence[0, 0], evidence[1, 2] = 1, 0
    beliefs = Gibbs(samples=400)(graph, tables, evidence)
    assert beliefs.variables[0, 0].tolist() == [0.0, 1.0] and beliefs.variables[1, 2].tolist() == [1.0, 0.0]
    assert float(beliefs.variables[0, 2].min()) > 0 and float(beliefs.variables[1, 0].min()) > 0


@pytest.mark.parametrize("model", [mixed_model, binary_model])
def test_same_seed_same_result_on_any_number_of_threads(model):
    graph, tables = model()
    runs = [
        sample(graph, tables, 50, seed=seed, burn_in=5, threads=threads) for seed, threads in ((1, 1), (1, 3), (2, 1))
    ]
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    # A chain's stream is its own: asking for more samples does not change the first ones.
    assert torch.equal(runs[0][:20], sample(graph, tables, 20, seed=1, burn_in=5))
    one, many = (Gibbs(samples=200, chains=33, threads=threads)(graph, tables) for threads in (1, 2))
    assert torch.equal(one.states, many.states) and torch.equal(one.factor("pair"), many.factor("pair"))


@pytest.mark.parametrize(
    "method", [Gibbs(samples=500, threads=2), MeanField(threads=2)], ids=lambda m: type(m).__name__
)
def test_the_threads_of_torch_are_left_alone(method):
    graph, tables = mixed_model()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        method(graph, tables)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_hard_zeros_that_single_flips_can_cross():
    graph, tables = hard_core(7)
    exact, values = distribution(log_scores(graph, tables)), configurations(graph)
    samples = sample(graph, tables, 20_000, seed=5, burn_in=80)
    check_frequencies(row_numbers(graph, samples), exact)
    beliefs = Gibbs(samples=4000)(graph, tables)
    assert (beliefs.factor("pair")[:, 1, 1] == 0).all()
    assert float(beliefs.variables[0, 1]) == pytest.approx(exact @ values[:, 0], abs=0.02)


def test_chains_outside_the_support_are_left_out():
    graph, tables = hard_core(5)
    beliefs = Gibbs(samples=2000, burn_in=0, chains=40)(graph, tables)  # nothing but luck at the start
    possible = np.isfinite(log_scores(graph, tables)).mean()
    left_out = int(str(beliefs.status).split(" of 40 chains left out")[0].split()[-1])
    assert abs(left_out / 40 - (1 - possible)) < ERRORS * np.sqrt(possible * (1 - possible) / 40)
    exact = distribution(log_scores(graph, tables)) @ configurations(graph)[:, 2]
    assert float(beliefs.variables[2, 1]) == pytest.approx(exact, abs=0.02)
    assert float(beliefs.factor("pair")[0].sum()) == pytest.approx(1.0)


def parity(variables):
    graph = FactorGraph([2] * variables, {"parity": [list(range(variables))]})
    return graph, {"parity": np.where(np.indices((2,) * variables).sum(axis=0) % 2 == 1, 0.0, -np.inf)[None]}


def exactly_one(variables):
    graph = FactorGraph([2] * variables, {"one": [list(range(variables))]})
    return graph, {"one": np.where(np.indices((2,) * variables).sum(axis=0) == 1, 0.0, -np.inf)[None]}


@pytest.mark.parametrize("model", [parity(3), exactly_one(4)])
def test_a_support_in_pieces_is_reported(model):
    graph, tables = model
    with pytest.warns(ConvergenceWarning, match="R-hat inf"):
        beliefs = Gibbs(samples=20)(graph, tables)
    assert not beliefs.status.converged and beliefs.status.residual.item() == np.inf
    samples = sample(graph, tables, 1000, seed=0, burn_in=100)
    assert np.isfinite(log_scores(graph, tables)[row_numbers(graph, samples)]).all()


def test_a_walk_leaves_local_minima_of_violations():
    # All zero violates one factor; flipping any one variable violates two, and only all one violates none.
    equal = np.where(np.eye(2) == 1, 0.0, -np.inf)
    both = np.array([[-np.inf, -np.inf], [-np.inf, 0.0]])
    graph, tables = FactorGraph.from_factors(
        [2] * 4, [((0, 1), both), ((0, 1), equal), ((1, 2), equal), ((2, 3), equal)]
    )
    assert (sample(graph, tables, 20, seed=0, burn_in=2000) == 1).all()


def test_impossible_models_raise():
    graph = FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 2], [0, 2]]})  # an odd cycle in two colours
    tables = {"pair": np.where(np.eye(2) == 1, -np.inf, 0.0)}
    with pytest.raises(ValueError, match="found no possible configuration"):
        Gibbs(samples=4)(graph, tables)
    with pytest.raises(ValueError, match="10 of 10 chains found no possible configuration"):
        sample(graph, tables, 10, seed=0)


def test_chains_that_stay_apart_are_reported():
    graph = complete(6)
    tables = {"unary": np.zeros((6, 2)), "pair": 4 * np.eye(2)}
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        beliefs = Gibbs(samples=100)(graph, tables)
    assert not beliefs.status.converged and beliefs.status.residual.item() > gibbs.MIXED - 1


def test_split_r_hat_by_its_definition():
    rng = np.random.default_rng(0)
    draws = rng.random((3, 50)) < np.array([[0.2], [0.5], [0.4]])  # [chains, samples] of one indicator
    halves = draws.reshape(6, 25).astype(float)
    within = halves.var(axis=1, ddof=1).mean()
    total = 24 / 25 * within + halves.mean(axis=1).var(ddof=1)
    counts = halves.sum(axis=1).astype(np.int64).reshape(1, 3, 2, 1)
    kept = np.ones((1, 3), dtype=bool)
    assert split_r_hat(counts, kept, 25)[0, 0] == pytest.approx(np.sqrt(total / within))
    with_lost = np.concatenate([counts, np.zeros((1, 1, 2, 1), dtype=np.int64)], axis=1)
    lost = np.array([[True, True, True, False]])
    assert split_r_hat(with_lost, lost, 25)[0, 0] == pytest.approx(np.sqrt(total / within))
    frozen = np.array([[[[0, 25, 0]] * 2, [[0, 25, 25]] * 2]])
    assert split_r_hat(frozen, kept[:, :2], 25).tolist() == [[1.0, 1.0, np.inf]]


def test_samples_beyond_the_limit_are_not_kept(monkeypatch):
    graph, tables = binary_model()
    kept = Gibbs(samples=400)(graph, tables)
    monkeypatch.setattr(gibbs, "SAMPLE_BYTES", 16 * 400 * 5 - 1)
    beliefs = Gibbs(samples=400)(graph, tables)
    assert torch.equal(beliefs.states, kept.states)
    torch.testing.assert_close(beliefs.factor("unary")[1], beliefs.marginal(4))
    with pytest.raises(ValueError, match=r"'pair'.*32,000 bytes exceed the limit of 31,999"):
        beliefs.factor("pair")


def test_no_log_partition():
    graph, tables = binary_model()
    with pytest.raises(ValueError, match="no estimate of the log-partition"):
        _ = Gibbs(samples=400)(graph, tables).log_partition


def test_dtype_everything_observed_and_no_samples():
    graph = grid(2, 2)
    tables = {"unary": torch.zeros(4, 2), "pair": torch.zeros(4, 2, 2)}
    beliefs = Gibbs(samples=100)(graph, tables)
    assert beliefs.states.dtype == torch.float32 and beliefs.factor("pair").dtype == torch.float32
    everything = Gibbs(samples=4)(graph, tables, [0, 1, 1, 0])
    assert everything.variables[:, 1].tolist() == [0.0, 1.0, 1.0, 0.0] and everything.status.converged
    assert sample(graph, tables, 3, seed=0, evidence=[0, 1, 1, 0]).tolist() == [[0, 1, 1, 0]] * 3
    assert sample(graph, tables, 0, seed=0).shape == (0, 4)


def test_extreme_potentials_pick_the_best_value():
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    for top in (1e4, 1e301):  # log odds, then tables
        tables = {"pair": np.array([[[0.0, -top], [-top, top]]])}
        assert (sample(graph, tables, 20, seed=0, burn_in=50, evidence={0: 1}) == 1).all()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("samples", 3),
        ("burn_in", -1),
        ("thinning", 0),
        ("chains", 0),
        ("chains", 2.5),
        ("seed", -4),
        ("temperature", -1.0),
        ("threads", 0),
    ],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        Gibbs(**{option: value})


@pytest.mark.parametrize(("option", "value"), [("count", -1), ("burn_in", -1), ("chains", 0), ("thinning", 0)])
def test_bad_options_of_sample_are_named(option, value):
    graph, tables = binary_model()
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        sample(graph, tables, **{"count": 1, "seed": 0, option: value})


def test_sample_takes_no_batch():
    graph, tables = binary_model()
    with pytest.raises(ValueError, match=r"batch of shape \(2,\)"):
        sample(graph, tables, 1, seed=0, evidence=np.full((2, 5), -1))
