"""A Laplace posterior against formulas, torch's own Hessian, and its own draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn.posterior import PROBES, Laplace, Predictive, _diagonal_of_rest
from loopwise.notices import GradientWarning

NLL = lw.loss.SurrogateLikelihood()
BIAS = lw.FactorGraph([2], {"bias": [[0]]})


def coin(heads: int, tails: int) -> lw.Examples:
    return lw.Examples.of(BIAS, [[1]] * heads + [[0]] * tails, [lw.Role.OUTPUT])


def fitted(graph: lw.FactorGraph, examples: lw.Examples, prior: lw.prior.L2) -> lw.System:
    system = lw.System(lw.TablePotentials(graph), lw.BP())
    lw.fit(system, examples, NLL, prior=prior, optimizer=lw.optim.LBFGS, epochs=1, progress=False)
    return system


def precision_matrix(posterior: Laplace) -> np.ndarray:
    along = (posterior.directions * posterior.curvatures) @ posterior.directions.T
    return along + np.diag(posterior.precision)


def test_a_coin_by_hand() -> None:
    prior = lw.prior.L2(0.02)
    system = fitted(BIAS, coin(30, 10), prior)
    posterior = Laplace.of(system, coin(30, 10), NLL, prior)
    heads = float(system.predict_marginals()[0, 1])
    expected = 40 * (heads * (1 - heads) * np.array([[1, -1], [-1, 1]]) + 0.02 * np.eye(2))
    np.testing.assert_allclose(precision_matrix(posterior), expected, atol=1e-8)
    np.testing.assert_allclose(posterior.variances, np.diag(np.linalg.inv(expected)), rtol=1e-8)


@pytest.fixture(scope="module")
def chain() -> tuple[lw.System, lw.Examples, lw.prior.L2]:
    graph, prior = lw.chain(4), lw.prior.L2(0.05)
    values = np.random.default_rng(0).integers(0, 2, (25, 4))
    values[:, 1] = values[:, 0]
    examples = lw.Examples.of(graph, values, [lw.Role.INPUT, *[lw.Role.OUTPUT] * 3])
    return fitted(graph, examples, prior), examples, prior


def enumerated_nll(system: lw.System, examples: lw.Examples, flat: torch.Tensor) -> torch.Tensor:
    """The mean conditional likelihood of a chain from all its configurations, in plain torch."""
    shapes = [param.shape for param in system.parameters()]
    pieces = torch.split(flat, [shape.numel() for shape in shapes])
    tables = {
        group.name: piece.reshape(shape)
        for group, piece, shape in zip(examples.graph.groups, pieces, shapes, strict=True)
    }
    configurations = torch.cartesian_prod(*[torch.arange(2)] * 4)
    scores = torch.zeros(16, dtype=torch.float64)
    for group in examples.graph.groups:
        for row, scope in enumerate(group.scopes):
            scores = scores + tables[group.name][row][tuple(configurations[:, list(scope)].T)]
    total = torch.zeros((), dtype=torch.float64)
    for value in torch.from_numpy(np.array(examples.values)):
        allowed = configurations[:, 0] == value[0]
        chosen = (configurations == value).all(1)
        total = total + scores[allowed].logsumexp(0) - scores[chosen].sum()
    return total / len(examples)


def test_curvature_is_that_of_the_enumerated_likelihood(chain: tuple[lw.System, lw.Examples, lw.prior.L2]) -> None:
    system, examples, prior = chain
    posterior = Laplace.of(system, examples, NLL, prior)
    centre = torch.from_numpy(posterior.weights)
    hessian = torch.autograd.functional.hessian(lambda flat: enumerated_nll(system, examples, flat), centre)
    expected = 25 * (hessian.numpy() + 0.05 * np.eye(len(centre)))
    np.testing.assert_allclose(precision_matrix(posterior), expected, atol=1e-7)


def test_few_directions_keep_the_largest_curvatures(chain: tuple[lw.System, lw.Examples, lw.prior.L2]) -> None:
    system, examples, prior = chain
    whole, part = (Laplace.of(system, examples, NLL, prior, rank=rank) for rank in (200, 5))
    np.testing.assert_allclose(np.sort(part.curvatures), np.sort(whole.curvatures)[-5:], rtol=1e-6)
    # What is left of the Hessian is kept weight by weight.
    np.testing.assert_allclose(np.diag(precision_matrix(part)), np.diag(precision_matrix(whole)), rtol=1e-6)
    alone = replace(part, precision=np.full(len(part.weights), 25 * 0.05))
    assert (part.variances <= alone.variances + 1e-12).all()
    assert part.variances.sum() < 0.95 * alone.variances.sum()
    np.testing.assert_allclose(part.variances, np.diag(np.linalg.inv(precision_matrix(part))), rtol=1e-8)


def test_the_diagonal_that_is_left_of_a_known_matrix() -> None:
    rng = np.random.default_rng(3)
    size, basis = 300, np.linalg.qr(rng.standard_normal((300, 300)))[0]
    spectrum = np.concatenate([[500.0, 200.0, 100.0], rng.uniform(0, 1, size - 3)])
    matrix = (basis * spectrum) @ basis.T
    rest = matrix - (basis[:, :3] * spectrum[:3]) @ basis[:, :3].T
    found = _diagonal_of_rest(lambda vector: matrix @ vector, spectrum[:3], basis[:, :3])
    # The variance of the estimate is the sum of squares beside the diagonal over the number of probes.
    deviations = np.sqrt((np.square(rest).sum(1) - np.square(np.diag(rest))) / PROBES)
    assert (np.abs(found - np.diag(rest)) < 5 * deviations).all()
    assert deviations.max() < 0.25 * np.diag(rest).mean()


def test_draws_have_the_posterior_s_mean_and_covariance(chain: tuple[lw.System, lw.Examples, lw.prior.L2]) -> None:
    posterior = Laplace.of(*chain[:2], NLL, chain[2])
    draws = posterior.draw(20_000, seed=1)
    deviations = np.sqrt(posterior.variances / len(draws))
    assert (np.abs(draws.mean(0) - posterior.weights) < 5 * deviations).all()
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(precision_matrix(posterior)), atol=0.03)
    assert np.array_equal(posterior.draw(3, seed=1), posterior.draw(3, seed=1))


def test_predictions_spread_less_with_more_data_and_weights_are_put_back() -> None:
    prior, widths = lw.prior.L2(0.02), []
    for times in (1, 16):
        examples = coin(3 * times, times)
        system = fitted(BIAS, examples, prior)
        before = [param.clone() for param in system.parameters()]
        predicted = Laplace.of(system, examples, NLL, prior).predict_marginals(examples[:2], samples=400)
        lower, upper = predicted.interval(0.8)
        widths.append(float((upper - lower)[0, 0, 1]))
        assert predicted.mean.shape == (2, 1, 2)
        torch.testing.assert_close(predicted.mean.sum(-1), torch.ones(2, 1, dtype=torch.float64))
        assert all(torch.equal(a, b) for a, b in zip(before, system.parameters(), strict=True))
    assert 3 < widths[0] / widths[1] < 5  # as the root of sixteen


def test_log_odds_of_a_coin_are_straight_in_its_weights() -> None:
    examples, prior = coin(5, 2), lw.prior.L2(0.05)
    posterior = Laplace.of(fitted(BIAS, examples, prior), examples, NLL, prior)
    straight, bent = (posterior.predict_marginals(examples[:1], samples=50, linear=linear) for linear in (True, False))
    torch.testing.assert_close(straight.draws, bent.draws, rtol=0, atol=1e-9)


def test_draws_go_along_the_tangent_of_log_marginals(chain: tuple[lw.System, lw.Examples, lw.prior.L2]) -> None:
    system, examples, prior = chain
    posterior = Laplace.of(system, examples, NLL, prior)
    predicted = posterior.predict_marginals(examples[:2], samples=3, seed=4)
    params = [param for param in system.parameters() if param.requires_grad]
    at_centre = system.beliefs(examples[:2]).variables
    centre = torch.log(at_centre).detach()
    free = torch.isfinite(centre).reshape(-1)
    rows = [torch.autograd.grad(cell, params, retain_graph=True) for cell in torch.log(at_centre).reshape(-1)[free]]
    jacobian = np.stack([np.concatenate([piece.reshape(-1).numpy() for piece in row]) for row in rows])
    for draw, weights in zip(predicted.draws, posterior.draw(3, seed=4), strict=True):
        moved = centre.clone().reshape(-1)
        moved[free] += torch.as_tensor(jacobian @ (weights - posterior.weights))
        torch.testing.assert_close(draw, torch.softmax(moved.reshape(centre.shape), -1), rtol=0, atol=1e-4)


def test_where_the_loss_bends_down_the_prior_speaks_alone() -> None:
    system = lw.System(lw.TablePotentials(BIAS, {"bias": torch.tensor([[4.0, 0.0]])}), lw.BP())
    examples = coin(10, 0)
    with pytest.warns(GradientWarning, match="bends down in 1 of 2"):
        posterior = Laplace.of(system, examples, lw.loss.MSE(), lw.prior.L2(0.1), scale=2.0)
    assert posterior.negative == 1
    np.testing.assert_allclose(precision_matrix(posterior), 2.0 * np.eye(2), atol=1e-8)


def test_what_makes_no_sense_is_said() -> None:
    system, examples = lw.System(lw.TablePotentials(BIAS), lw.BP()), coin(3, 1)
    with pytest.raises(ValueError, match="a strength above 0"):
        Laplace.of(system, examples, NLL, lw.prior.L2(0.0))
    with pytest.raises(ValueError, match="MSE is no likelihood: say by scale="):
        Laplace.of(system, examples, lw.loss.MSE(), lw.prior.L2(0.1))
    with pytest.raises(ValueError, match="rank must be a whole number of at least 1"):
        Laplace.of(system, examples, NLL, lw.prior.L2(0.1), rank=0)
    with pytest.raises(ValueError, match="level must lie"):
        Predictive(torch.zeros(2, 1, 1, 2)).interval(1.0)
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1"):
        Laplace.of(system, examples, NLL, lw.prior.L2(0.1)).draw(0)
