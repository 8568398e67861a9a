"""Grid CRFs: gradients against differences, masks, sizes, neighbourhoods, files, the interface of scikit-learn."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loopwise as lw
from interruptions import always_written
from loopwise.apps.grid_crf import AffineUnary, ContrastPair, ConvUnary, GridCRF, Lattice, TiedPair, published_chain
from loopwise.apps.grid_crf.pictures import as_images, as_labels, by_size, parts
from loopwise.apps.grid_crf.risk import Piece, Risk
from loopwise.formats.errors import FormatError
from oracle import enumerate_model

TIGHT = lw.TRW(rho=0.5, tolerance=1e-11, iterations=2000, gradient=lw.FixedPoint(tolerance=1e-11))
PLAIN = replace(TIGHT, engine=lw.inference.Reference(), gradient=lw.Unroll())  # nothing to compile for three states


def pictures(
    sizes: list[tuple[int, int]], states: int = 2, channels: int = 1, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Blocks of labels, and noisy images of them."""
    rng = np.random.default_rng(seed)
    labels, images = [], []
    for rows, columns in sizes:
        coarse = rng.integers(0, states, (-(-rows // 2), -(-columns // 2)))
        label = np.kron(coarse, np.ones((2, 2), dtype=np.int64))[:rows, :columns]
        colour = np.linspace(0, 1, states)[label][..., None]
        images.append(colour + rng.normal(0, 0.6, (rows, columns, channels)))
        labels.append(label)
    return images, labels


def started(model: GridCRF, channels: int, seed: int = 1, scale: float = 0.4) -> GridCRF:
    """With random weights, as if it had been fitted."""
    generator = torch.Generator().manual_seed(seed)
    potentials = model.begin(channels)
    with torch.no_grad():
        for weight in potentials.parameters():
            weight.copy_(scale * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return model


def risk_of(model: GridCRF, goal: Any, images: Any, labels: Any, masks: Any = None, batch: int | None = None) -> Risk:
    checked = as_images(images)
    blocks = by_size(checked, as_labels(labels, checked, model.states, masks))
    model.potentials_.prepare(block.images for block in blocks)
    pieces = [Piece(part, model.potentials_.lattice(*part.size).graph) for part in parts(blocks, batch)]
    return Risk(model.potentials_, model.inference_, goal, pieces, model.prior)


def value_and_gradient(risk: Risk) -> tuple[float, torch.Tensor]:
    value = float(risk())
    return value, torch.cat([weight.grad.reshape(-1) for weight in risk.weights])  # type: ignore[union-attr]


def differences(risk: Risk, step: float = 1e-4) -> torch.Tensor:
    """Central differences of the value in every weight."""
    found = []
    for weight in risk.weights:
        flat = weight.data.reshape(-1)
        for place in range(len(flat)):
            ends = []
            for sign in (1, -1):
                flat[place] += sign * step
                ends.append(float(risk()))
                flat[place] -= sign * step
            found.append((ends[0] - ends[1]) / (2 * step))
    return torch.tensor(found, dtype=torch.float64)


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
    _, found = value_and_gradient(risk)
    assert len(found) == 3 + 3 + 9
    torch.testing.assert_close(found, differences(risk), rtol=1e-5, atol=1e-7)
    assert not risk.doubts


@pytest.mark.parametrize("gradient", [lw.Perturbation(), lw.Unroll(), lw.FixedPoint(tolerance=1e-10)])
def test_gradients_of_networks_and_contrast(gradient: Any) -> None:
    """Colours, 8 neighbours, a network, tables by direction and contrast; each estimator."""
    images, labels = pictures([(4, 4), (3, 5)], channels=2)
    inference = lw.TRW(rho=0.25, tolerance=1e-10, iterations=1000, gradient=gradient)
    unary, pair = ConvUnary(2, 2, hidden=(2,)), ContrastPair(2, directions=4)
    model = started(GridCRF(neighbours=8, unary=unary, pair=pair, inference=inference), channels=2, scale=0.3)
    risk = risk_of(model, lw.loss.UnivariateLikelihood(), images, labels)
    _, found = value_and_gradient(risk)
    torch.testing.assert_close(found, differences(risk), rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("goal", [GOALS["univariate"], GOALS["pooled"], GOALS["surrogate"], GOALS["not an average"]])
def test_value_and_gradient_do_not_depend_on_the_batch(goal: Any) -> None:
    images, labels = pictures([(4, 4)] * 5)
    labels[0][:2] = -1
    model = started(GridCRF(inference=TIGHT), channels=1)
    whole = value_and_gradient(risk_of(model, goal, images, labels, batch=5))
    single = value_and_gradient(risk_of(model, goal, images, labels, batch=1))
    assert single[0] == pytest.approx(whole[0], rel=1e-9)
    torch.testing.assert_close(single[1], whole[1], rtol=1e-6, atol=1e-9)


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


@pytest.mark.parametrize("neighbours", [4, 8])
def test_neighbourhoods_against_an_explicit_graph(neighbours: int) -> None:
    """Pairs written out one by one, each with the table of its direction and contrast."""
    rows, columns = 3, 4
    images, _ = pictures([(rows, columns)])
    model = started(
        GridCRF(
            neighbours=neighbours,
            pair=ContrastPair(2, directions=neighbours // 2, scale=0.7),
            inference=lw.BP(tolerance=1e-12, iterations=1000),
        ),
        channels=1,
    )
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    image, factors = images[0][..., 0], []
    pair = model.potentials_.pair
    for row in range(rows):
        for column in range(columns):
            scores = model.potentials_.unary.weight[:, 0] * image[row, column] + model.potentials_.unary.bias
            factors.append(((row * columns + column,), scores.detach().numpy()))
            for direction, (down, right) in enumerate(steps):
                low, high = row + down, column + right
                if low < rows and 0 <= high < columns:
                    near = np.exp(-((image[row, column] - image[low, high]) ** 2) / (2 * 0.7**2))
                    table = pair.table[direction] + pair.weight[direction] * near
                    factors.append(((row * columns + column, low * columns + high), table.detach().numpy()))
    graph, tables = lw.FactorGraph.from_factors([2] * (rows * columns), factors)
    expected = lw.BP(tolerance=1e-12, iterations=1000)(graph, tables).variables
    (found,) = model.predict_marginals(images)
    np.testing.assert_allclose(found.reshape(-1, 2), expected.numpy(), atol=1e-9)


def test_direction_of_each_pair() -> None:
    lattice = Lattice.of(3, 4, 2, 8)
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)]
    for (first, second), direction in zip(lattice.ends.tolist(), lattice.direction.tolist(), strict=True):
        assert (second // 4 - first // 4, second % 4 - first % 4) == steps[direction]


def test_images_of_different_sizes_are_as_if_alone() -> None:
    images, labels = pictures([(4, 5), (6, 3), (4, 5), (1, 1), (1, 7)])
    model = started(GridCRF(), channels=1)
    together = model.predict_marginals(images)
    assert [answer.shape for answer in together] == [(*label.shape, 2) for label in labels]
    for image, answer in zip(images, together, strict=True):
        np.testing.assert_allclose(answer, model.predict_marginals([image])[0], atol=1e-12)
    rows = model.statistics(images, labels, [lw.metric.HammingError()])[0]
    wrong = [float((answer.argmax(-1) != label).sum()) for answer, label in zip(together, labels, strict=True)]
    assert rows[:, 1].tolist() == wrong
    assert model.score(images, labels) == pytest.approx(1 - sum(wrong) / sum(label.size for label in labels))


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


def test_chains() -> None:
    kinds = {name: [type(goal).__name__ for goal in published_chain(goal)] for name, goal in GOALS.items()}
    assert kinds["surrogate"] == ["SurrogateLikelihood"]
    assert kinds["clique"] == ["SurrogateLikelihood", "CliqueLikelihood"]
    assert kinds["error"] == ["SurrogateLikelihood", "UnivariateLikelihood", "SmoothError"]
    assert kinds["clique error"] == ["SurrogateLikelihood", "CliqueLikelihood", "SmoothCliqueError"]


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
    "images, labels, masks, words",
    [
        ([], [], None, "no images"),
        (IMAGE, LABEL, None, "first axis is the images"),
        ([IMAGE], [LABEL[:3]], None, "size 3x4, the image has 4x4"),
        ([IMAGE, IMAGE], [LABEL], None, "2 images, but labels for 1"),
        ([IMAGE], [LABEL + 2], None, "is 2; labels are 0 to 1"),
        ([IMAGE], [LABEL - 2], None, "is -2"),
        ([IMAGE], [LABEL + 0.5], None, "must be integers"),
        ([IMAGE], [LABEL - 1], None, "image 0 has no labelled pixel"),
        ([IMAGE], [LABEL], [np.zeros((4, 4), bool)], "image 0 has no labelled pixel"),
        ([IMAGE], [LABEL], [LABEL], "mask 0 must hold True"),
        ([IMAGE + np.nan], [LABEL], None, "no finite number, at row 0, column 0"),
        ([IMAGE, np.zeros((4, 4, 3))], [LABEL, LABEL], None, "image 1 has 3 channels"),
        ([np.zeros((4, 0))], [LABEL], None, "image 0 has shape"),
        ("folder", [LABEL], None, "not str"),
        ([np.full((4, 4), "a")], [LABEL], None, "no numbers"),
    ],
)
def test_bad_data(images: Any, labels: Any, masks: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GridCRF().fit(images, labels, masks=masks)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"neighbours": 6}, "neighbours must be 4 or 8"),
        ({"states": 1}, "states must be at least 2"),
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


def test_integers_are_brought_to_one() -> None:
    whole = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    np.testing.assert_allclose(as_images(whole)[0], as_images(whole / 255)[0])
    np.testing.assert_allclose(as_images(whole.astype(np.uint16) * 257)[0], as_images(whole / 255)[0])
    np.testing.assert_array_equal(as_images(whole > 3)[0][..., 0], (whole > 3)[0])


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
