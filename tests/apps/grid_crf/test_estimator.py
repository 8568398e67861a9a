"""Grid CRFs: gradients against differences, masks, sizes, neighbourhoods, files, the interface of scikit-learn."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loopwise as lw
from loopwise.apps.grid_crf import AffineUnary, ContrastPair, ConvUnary, GridCRF, TiedPair
from loopwise.apps.grid_crf.features import as_images, by_size
from loopwise.formats.errors import FormatError
from oracles.enumeration import enumerate_model
from oracles.grid_cases import PLAIN, TIGHT, pictures, started
from oracles.interruptions import always_written


def test_likelihood_and_marginals_of_a_single_row_are_exact() -> None:
    """One row of pixels is a tree, where BP is exact."""
    images, labels = pictures([(1, 6)], states=3)
    model = started(GridCRF(states=3, inference=lw.BP(engine=lw.inference.Reference())), channels=1)
    graph = lw.grid(1, 6, states=3)
    weight, bias = model.potentials_.unary.weight.detach(), model.potentials_.unary.bias.detach()
    unary = images[0].reshape(6, 1) @ weight.numpy().T + bias.numpy()
    table = model.potentials_.pair.table.detach().numpy()
    truth = enumerate_model(graph, {"unary": unary, "pair": table})
    (marginals,) = model.predict_marginals(images)
    np.testing.assert_allclose(marginals.reshape(6, 3), np.stack(truth.variables), atol=1e-12)
    chosen = (truth.configurations == labels[0].reshape(-1)).all(1)
    found = model.evaluate(images, labels, {"nll": lw.loss.SurrogateLikelihood()})["nll"]
    assert found == pytest.approx(-np.log(truth.probabilities[chosen][0]) / 6)


def test_curvature_of_a_few_images_leads_to_the_same_weights_in_fewer_steps() -> None:
    noisy, clean = pictures([(8, 8)] * 6, seed=5)
    losses, steps = [], []
    for curvature in (0, 2):
        model = GridCRF(iterations=60, tolerance=1e-9, curvature=curvature).fit(noisy, clean, progress=False)
        losses.append(model.history_.epochs[-1].loss)
        steps.append(len(model.history_.epochs))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert steps[1] < steps[0]


def test_the_design_example() -> None:
    clean = np.stack(pictures([(8, 8)] * 6, seed=3)[1])
    noisy = clean + np.random.default_rng(0).normal(0, 0.5, clean.shape)
    crf = GridCRF(states=2, inference=lw.TRW(rho=0.5, tolerance=1e-5, iterations=500, gradient=lw.Perturbation()))
    crf.fit(noisy[:3], clean[:3], loss=lw.loss.SmoothError(sharpness=50))
    restored, marginals = crf.predict(noisy[3:]), crf.predict_marginals(noisy[3:])
    assert restored.shape == (3, 8, 8) and marginals.shape == (3, 8, 8, 2)
    np.testing.assert_array_equal(restored, marginals.argmax(-1))
    threshold = float(((noisy[3:] > 0.5) != clean[3:]).mean())
    assert crf.score(noisy[3:], clean[3:]) > 1 - threshold
    assert {epoch.stage for epoch in crf.history_} == {0, 1, 2}


def test_a_stochastic_optimiser_and_warm_starts() -> None:
    images, labels = pictures([(6, 6)] * 4 + [(4, 8)] * 3, seed=4)
    unary = ConvUnary(2, 1, hidden=(4,))
    before = copy.deepcopy(unary.state_dict())
    model = GridCRF(
        unary=unary,
        inference=lw.BP(iterations=3, tolerance=0),
        optimizer=lambda params: torch.optim.Adam(params, lr=0.05),
        iterations=5,
        batch=2,
    )
    model.fit(images, labels)
    weights = copy.deepcopy(model.potentials_.state_dict())
    assert model.history_.losses[-1] < model.history_.losses[0]
    assert all(torch.equal(value, before[name]) for name, value in unary.state_dict().items())  # it was copied
    model.fit(images, labels)
    assert all(torch.equal(value, weights[name]) for name, value in model.potentials_.state_dict().items())
    model.set_params(warm_start=True).fit(images, labels)
    assert model.history_.losses[0] < 1.05 * model.history_.losses[-1] + 1  # it went on
    assert not all(torch.equal(value, weights[name]) for name, value in model.potentials_.state_dict().items())


def test_a_warm_start_may_change_inference_but_not_the_structure() -> None:
    images, labels = pictures([(5, 5)] * 2, seed=4)
    model = GridCRF(inference=PLAIN, iterations=3, warm_start=True, prior=lw.prior.L2(0.1)).fit(images, labels)
    other = replace(PLAIN, iterations=4, tolerance=0.0)
    assert model.set_params(inference=other).fit(images, labels).inference_ is other
    with pytest.raises(ValueError, match="trained for 4 neighbours, and a warm start cannot change that to 8"):
        model.set_params(neighbours=8).fit(images, labels)


@pytest.mark.parametrize("optimizer", [None, lambda params: torch.optim.Adam(params, lr=0.05)])
def test_weights_of_images(optimizer: Any) -> None:
    """As often as they count, whichever the optimiser; of weight 0: as if they were not there."""
    images, labels = pictures([(5, 5)] * 4, seed=4)
    options: dict[str, Any] = {"optimizer": optimizer, "iterations": 5, "prior": lw.prior.L2(0.01), "batch": 9}
    repeated = GridCRF(**options).fit([images[i] for i in (0, 2, 2, 3)], [labels[i] for i in (0, 2, 2, 3)])
    weighted = GridCRF(**options).fit(images, labels, sample_weight=[1, 0, 2, 1])
    halved = GridCRF(**options).fit(images, labels, sample_weight=[0.5, 0, 1, 0.5])
    for other in (weighted, halved):
        for one, two in zip(other.predict_marginals(images), repeated.predict_marginals(images), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-4)
    alike = GridCRF(**options).fit([images[i] for i in (0, 2, 3)], [labels[i] for i in (0, 2, 3)])
    assert np.abs(alike.predict_marginals(images)[1] - weighted.predict_marginals(images)[1]).max() > 1e-3
    assert weighted.card_["data"] == "3 images, 75 pixels, 2 labels"
    with pytest.raises(ValueError, match="one for each of 4 samples"):
        GridCRF().fit(images, labels, sample_weight=[1, 2])


def test_a_callback_ends_training() -> None:
    images, labels = pictures([(4, 4)] * 2)
    seen: list[int] = []
    GridCRF(inference=TIGHT).fit(images, labels, callback=lambda epoch: seen.append(epoch.number) or len(seen) == 2)
    assert seen == [1, 2]


@pytest.mark.parametrize("way", ["published", "curvature", "adam"])
def test_an_interrupted_training_goes_on(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    always_written(monkeypatch)
    images, labels = pictures([(4, 4)] * 3, seed=2)
    options: dict[str, Any] = {"inference": PLAIN, "iterations": 3, "prior": lw.prior.L2(0.1)}
    if way == "curvature":
        options["curvature"] = 2
    if way == "adam":
        options.update(optimizer=lambda params: torch.optim.Adam(params, lr=0.1), unary=ConvUnary(2, 1, hidden=(2,)))
    whole, cut, again = (GridCRF(**options) for _ in range(3))
    whole.fit(images, labels)
    stop = len(whole.history_) - 1  # in the last stage
    cut.fit(images, labels, checkpoint=tmp_path / "run", callback=lambda epoch: epoch.number == stop)
    again.fit(images, labels, checkpoint=tmp_path / "run")
    assert again.history_.losses == whole.history_.losses
    for name, tensor in whole.potentials_.state_dict().items():
        assert torch.equal(again.potentials_.state_dict()[name], tensor), name
    with pytest.raises(FormatError, match="another run: its training data was"):
        again.fit(images[:2], labels[:2], checkpoint=tmp_path / "run")


class OwnNetwork(nn.Module):
    """A unary part that saving does not know."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(images), images], 1)


@pytest.mark.parametrize("kind", ["published", "conv and contrast"])
def test_saved_and_loaded_alike(tmp_path: Path, kind: str) -> None:
    images, labels = pictures([(4, 5), (5, 4)], channels=2)
    parts_of = {}
    if kind != "published":
        parts_of = {"unary": ConvUnary(2, 2, hidden=(3,), seed=3), "pair": ContrastPair(2, directions=4)}
    inference = lw.TRW(rho=0.25, tolerance=1e-6, iterations=300, gradient=lw.Perturbation(step=lw.gradient.CubeRoot()))
    model = GridCRF(neighbours=8, inference=inference, iterations=3, **parts_of).fit(images, labels)
    model.save(tmp_path / "model.loopwise", {"note": [1, 2]})
    again, notes = GridCRF.load_with_notes(tmp_path / "model.loopwise")
    assert notes == {"note": [1, 2]} and again.inference_ == inference and again.neighbours == 8
    for mine, theirs in zip(model.predict_marginals(images), again.predict_marginals(images), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    again.save(tmp_path / "again.loopwise", notes)
    assert (tmp_path / "again.loopwise").read_bytes() == (tmp_path / "model.loopwise").read_bytes()


def test_files_that_are_no_models(tmp_path: Path) -> None:
    images, _ = pictures([(3, 3)])
    own = started(GridCRF(unary=OwnNetwork()), channels=1)
    assert own.predict(images)[0].shape == (3, 3)
    with pytest.raises(ValueError, match="OwnNetwork cannot be saved"):
        own.save(tmp_path / "own.loopwise")
    assert not (tmp_path / "own.loopwise").exists()
    system = lw.System(lw.TablePotentials(lw.chain(2)), lw.BP(), lw.decode.Max())
    system.save(tmp_path / "system.loopwise")
    with pytest.raises(ValueError, match="not a GridCRF"):
        GridCRF.load(tmp_path / "system.loopwise")
    (tmp_path / "text.loopwise").write_text("this is no model at all")
    with pytest.raises(ValueError, match="no file that loopwise saved"):
        GridCRF.load(tmp_path / "text.loopwise")


def test_scikit_learn() -> None:
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    clean = np.stack(pictures([(6, 6)] * 4, seed=6)[1])
    noisy = clean + np.random.default_rng(1).normal(0, 0.4, clean.shape)
    model = GridCRF(pair=TiedPair(2, directions=2), iterations=3)
    twin = base.clone(model)
    assert twin is not model and twin.get_params().keys() == model.get_params().keys() and twin.iterations == 3
    search = selection.GridSearchCV(model, {"prior": [None, lw.prior.L2(10.0)]}, cv=2, error_score="raise")
    search.fit(noisy, clean)
    assert search.best_score_ > 0.5 and 0 < search.score(noisy, clean) <= 1
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        model.set_params(depth=3)


IMAGE = np.zeros((4, 4))
LABEL = np.zeros((4, 4), dtype=int)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"neighbours": 6}, "neighbours must be 4 or 8"),
        ({"states": 1}, "states must be a whole number of at least 2"),
        ({"iterations": 0}, "iterations"),
        ({"batch": 0}, "batch"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"curvature": -1}, "curvature"),
        ({"curvature": 1, "optimizer": lambda params: torch.optim.SGD(params, lr=0.1)}, "for L-BFGS"),
        ({"loss": "error"}, "no loss"),
        ({"loss": []}, "empty list"),
        ({"pair": TiedPair(2, directions=4)}, "the neighbourhood has 2"),
        ({"pair": TiedPair(3)}, "the pair part gave shape"),
        ({"unary": AffineUnary(3)}, "the unary part gave shape"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GridCRF(**options).fit([IMAGE + np.eye(4)], [LABEL])


def test_predicting_before_fitting_and_other_channels() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        GridCRF().predict([IMAGE])
    model = started(GridCRF(), channels=1)
    with pytest.raises(ValueError, match="2 channels, the model was trained on 1"):
        model.predict([np.zeros((4, 4, 2))])


def test_doubtful_inference_is_told_once() -> None:
    images, labels = pictures([(5, 5)] * 2)
    model = GridCRF(inference=replace(TIGHT, iterations=3, gradient=lw.Perturbation()), iterations=2)
    with pytest.warns(lw.notices.GradientWarning, match="doubtful") as caught:
        model.fit(images, labels, loss=[lw.loss.UnivariateLikelihood()])
    assert len([entry for entry in caught if issubclass(entry.category, lw.notices.LoopwiseWarning)]) == 1


def test_given_pixels_and_pixels_that_are_not_known() -> None:
    """On 2 x 2 pixels against enumeration: labels of -1 are asked for, the others are as given."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (20, 2, 2))
    images = labels + rng.normal(0, 0.7, labels.shape)
    some = np.where(rng.random(labels.shape) < 0.3, -1, labels)
    model = GridCRF(prior=lw.prior.L2(0.1), inference=lw.Exact()).fit(images, some)
    given = np.array([[[1, -1], [-1, 0]]])
    shares = model.predict_marginals(images[:1], evidence=given)[0].reshape(4, 2)
    [block] = by_size(as_images(images[:1], 1))
    graph, tables = model.potentials_.lattice(2, 2).graph, model.potentials_(block.images)
    expected = np.zeros((4, 2))
    for values in product((0, 1), repeat=4):
        if values[0] == 1 and values[3] == 0:
            score = 0.0
            for group in graph.groups:
                table = tables[group.name].detach().numpy()
                table = np.broadcast_to(table, (1, group.count, *group.shape))[0]
                score += sum(table[(number, *(values[v] for v in scope))] for number, scope in enumerate(group.scopes))
            expected[np.arange(4), values] += np.exp(score)
    np.testing.assert_allclose(shares, expected / expected.sum(1, keepdims=True), atol=1e-9)
    assert model.predict(images[:1], evidence=given)[0].reshape(-1).tolist() == expected.argmax(1).tolist()


def test_images_of_several_sizes_in_an_array_of_objects() -> None:
    images = np.empty(2, dtype=object)
    images[:] = [np.ones((3, 4)), np.zeros((2, 5))]
    model = GridCRF(iterations=1).fit(images, [np.ones((3, 4), int), np.zeros((2, 5), int)])
    assert [found.shape for found in model.predict(images)] == [(3, 4), (2, 5)]
    for states in (1, 2.5):
        with pytest.raises(ValueError, match=f"states must be a whole number of at least 2, not {states}"):
            GridCRF(states=states).fit(images, [np.ones((3, 4), int), np.zeros((2, 5), int)])  # type: ignore[arg-type]
