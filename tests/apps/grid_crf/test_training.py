"""Gradients of the risk, and the chain of losses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.apps.grid_crf import ContrastPair, ConvUnary, GridCRF, published_chain
from loopwise.apps.grid_crf.features import as_images, as_labels, by_size, parts
from loopwise.apps.grid_crf.report import LabelledImages
from loopwise.apps.grid_crf.training import Risk
from oracles.grid_cases import PLAIN, TIGHT, pictures, started


def risk_of(
    model: GridCRF,
    goal: Any,
    images: Any,
    labels: Any,
    masks: Any = None,
    batch: int | None = None,
    weights: Any = None,
) -> Risk:
    checked = as_images(images)
    blocks = by_size(checked, as_labels(labels, checked, model.states, masks), weights)
    model.potentials_.prepare(block.images for block in blocks)
    pieces = [LabelledImages(part, model.potentials_.lattice(*part.size).graph) for part in parts(blocks, batch)]
    return Risk(model.potentials_, model.inference_, goal, pieces, model.prior)


def value_and_gradient(risk: Risk) -> tuple[float, torch.Tensor]:
    value = float(risk())
    return value, torch.cat([weight.grad.reshape(-1) for weight in risk.weights])  # type: ignore[union-attr]


def assert_gradient(risk: Risk, rtol: float = 1e-5, atol: float = 1e-7, step: float = 1e-4) -> torch.Tensor:
    """The gradient, which is that of central differences along random directions of all weights at once."""
    _, found = value_and_gradient(risk)
    generator = torch.Generator().manual_seed(8)
    start = torch.nn.utils.parameters_to_vector(risk.weights).detach()
    for _ in range(4):
        along = torch.randn(len(start), generator=generator, dtype=start.dtype)
        ends = []
        for sign in (1, -1):
            torch.nn.utils.vector_to_parameters(start + sign * step * along, risk.weights)
            ends.append(risk())
        torch.testing.assert_close(found @ along, (ends[0] - ends[1]) / (2 * step), rtol=rtol, atol=atol)
    torch.nn.utils.vector_to_parameters(start, risk.weights)
    return found


GOALS = {
    "surrogate": lw.loss.SurrogateLikelihood(),
    "univariate": lw.loss.UnivariateLikelihood(),
    "clique": lw.loss.CliqueLikelihood(),
    "error": lw.loss.SmoothError(sharpness=5),
    "clique error": lw.loss.SmoothCliqueError(sharpness=5),
    "pooled": lw.loss.UnivariateLikelihood(reduction=lw.loss.Pooled()),
    "not an average": lw.loss.F1(),
}


@pytest.mark.parametrize("name", GOALS)
def test_gradients_of_the_published_model(name: str) -> None:
    """Two sizes, three labels, masks, a prior; every loss that is trained."""
    sizes = [(3, 4), (4, 3), (3, 4)]
    images, labels = pictures(sizes, states=3)
    masks = [np.random.default_rng(5).random(size) < 0.8 for size in sizes]
    if name == "surrogate":  # every pattern of unlabelled pixels is a graph of its own there: one is enough
        masks = [np.ones(size, dtype=bool) for size in sizes]
        masks[0][1, 2] = masks[2][1, 2] = False
    model = started(GridCRF(states=3, inference=PLAIN, prior=lw.prior.L2(0.1)), channels=1)
    risk = risk_of(model, GOALS[name], images, labels, masks)
    assert len(assert_gradient(risk)) == 3 + 3 + 9
    assert not risk.doubts


@pytest.mark.parametrize("gradient", [lw.Perturbation(), lw.Unroll(), lw.FixedPoint(tolerance=1e-10)])
def test_gradients_of_networks_and_contrast(gradient: Any) -> None:
    """Colours, 8 neighbours, a network, tables by direction and contrast; each estimator."""
    images, labels = pictures([(4, 4), (3, 5)], channels=2)
    inference = lw.TRW(rho=0.25, tolerance=1e-10, iterations=1000, gradient=gradient)
    unary, pair = ConvUnary(2, 2, hidden=(2,)), ContrastPair(2, directions=4)
    model = started(GridCRF(neighbours=8, unary=unary, pair=pair, inference=inference), channels=2, scale=0.3)
    risk = risk_of(model, lw.loss.UnivariateLikelihood(), images, labels)
    assert_gradient(risk, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("goal", [GOALS["univariate"], GOALS["pooled"], GOALS["surrogate"], GOALS["not an average"]])
def test_value_and_gradient_do_not_depend_on_the_batch(goal: Any) -> None:
    images, labels = pictures([(4, 4)] * 5)
    labels[0][:2] = -1
    model = started(GridCRF(inference=TIGHT), channels=1)
    whole = value_and_gradient(risk_of(model, goal, images, labels, batch=5))
    single = value_and_gradient(risk_of(model, goal, images, labels, batch=1))
    assert single[0] == pytest.approx(whole[0], rel=1e-9)
    torch.testing.assert_close(single[1], whole[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", GOALS)
def test_weighted_images_count_as_if_they_were_there_so_often(name: str) -> None:
    """Value and gradient, of images of two sizes; and by differences for weights that are no whole numbers."""
    images, labels = pictures([(3, 4), (4, 3), (3, 4), (4, 3)])
    model = started(GridCRF(inference=PLAIN, prior=lw.prior.L2(0.1)), channels=1)
    counts = np.array([2.0, 1.0, 3.0, 1.0])
    again = np.repeat(np.arange(4), counts.astype(int)).tolist()
    repeated = risk_of(model, GOALS[name], [images[i] for i in again], [labels[i] for i in again])
    weighted = risk_of(model, GOALS[name], images, labels, weights=counts)
    for found, expected in zip(value_and_gradient(weighted), value_and_gradient(repeated), strict=True):
        torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(expected), rtol=1e-9, atol=1e-11)
    risk = risk_of(model, GOALS[name], images, labels, weights=np.array([0.3, 1.7, 0.2, 1.1]))
    assert_gradient(risk)


@pytest.mark.parametrize("name", ["surrogate", "univariate", "clique"])
def test_masked_pixels_contribute_nothing(name: str) -> None:
    images, labels = pictures([(4, 5), (4, 5)])
    mask = np.ones((2, 4, 5), dtype=bool)
    mask[:, 1:3, 2:] = False
    model = started(GridCRF(inference=TIGHT), channels=1)
    first = value_and_gradient(risk_of(model, GOALS[name], images, labels, mask))
    other = [np.where(seen, label, 1 - label) for seen, label in zip(mask, labels, strict=True)]
    hidden = [np.where(seen, label, -1) for seen, label in zip(mask, labels, strict=True)]
    for again in (
        value_and_gradient(risk_of(model, GOALS[name], images, other, mask)),
        value_and_gradient(risk_of(model, GOALS[name], images, hidden)),
    ):
        assert again[0] == first[0] and torch.equal(again[1], first[1])
    changed = value_and_gradient(risk_of(model, GOALS[name], images, other))
    assert abs(changed[0] - first[0]) > 1e-3


def test_perturbation_and_unrolled_gradients_train_to_the_same_loss() -> None:
    images, labels = pictures([(8, 8)] * 3, seed=2)
    losses = []
    for gradient in (lw.Perturbation(), lw.Unroll()):
        inference = lw.TRW(rho=0.5, tolerance=1e-6, iterations=1000, gradient=gradient)
        model = GridCRF(inference=inference, iterations=40, tolerance=1e-8)
        model.fit(images, labels, loss=lw.loss.UnivariateLikelihood())
        losses.append(model.evaluate(images, labels, {"loss": lw.loss.UnivariateLikelihood()})["loss"])
        assert model.history_.losses[-1] == pytest.approx(losses[-1], abs=1e-6)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_chains() -> None:
    kinds = {name: [type(goal).__name__ for goal in published_chain(goal)] for name, goal in GOALS.items()}
    assert kinds["surrogate"] == ["SurrogateLikelihood"]
    assert kinds["clique"] == ["SurrogateLikelihood", "CliqueLikelihood"]
    assert kinds["error"] == ["SurrogateLikelihood", "UnivariateLikelihood", "SmoothError"]
    assert kinds["clique error"] == ["SurrogateLikelihood", "CliqueLikelihood", "SmoothCliqueError"]


def test_a_start_that_cannot_be_improved() -> None:
    """L-BFGS ends without an iteration where noise of the gradient is all that is left."""
    images, labels = pictures([(6, 6)] * 3, seed=4)
    loose = lw.TRW(rho=0.5, tolerance=1e-3, iterations=50, gradient=lw.Perturbation(), engine=lw.inference.Reference())
    model = GridCRF(inference=loose, warm_start=True, tolerance=0.0, prior=lw.prior.L2(1e-2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.notices.LoopwiseWarning)
        for _ in range(2):
            model.fit(images, labels, loss=[lw.loss.UnivariateLikelihood()])
    assert model.history_.ended
