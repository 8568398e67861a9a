"""Table 1 of Domke 2010 in miniature: its data, its rows, what survives interruption, what is claimed when."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import loopwise as lw
from loopwise.notices import GradientWarning
from studies.command import app
from studies.domke.images import run as domke_table1
from studies.domke.images.claims import OWN, _by_image, table1_claims
from studies.domke.images.data import (
    BERKELEY,
    BIMODAL,
    BIMODAL_NAME,
    FIELDS,
    FILE,
    GAUSSIAN,
    GAUSSIAN_NAME,
    ImageCounts,
    base_images,
    find_berkeley,
    natural,
    synthetic,
)
from studies.domke.images.drawn import drawn_images
from studies.domke.images.names import (
    CLASSIFICATION,
    CLIQUE,
    ERROR,
    FEW_SWEEPS,
    MEASURES,
    SURROGATE,
    UNIVARIATE,
    UNROLLED,
)
from studies.domke.images.run import (
    MODELS,
    PRINTED,
    PROTOCOLS,
    ImageModels,
    ImageProtocol,
    column_name,
    item_name,
    trainings,
)
from studies.domke.run import STUDY
from studies.harness.results import FULL, QUICK, Cell, Claim, Results
from studies.harness.study import StudyOrder, judge_again, reproduce

# So few pixels can be told apart without error: weights grow, and perturbation says so.
pytestmark = pytest.mark.filterwarnings("ignore::loopwise.notices.GradientWarning")

AMOUNTS = ImageCounts(train=2, test=2, crop=(10, 12), copies=2, train_copies=1)
FIFTY = ImageCounts(train=50, test=50, copies=13, train_copies=2)
TABLE = ("table 1",)
TINY = ImageProtocol(AMOUNTS, iterations=2, tolerance=1e-3, few=1)


@pytest.fixture(scope="module")
def berkeley(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file like the real one, of six images."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 2, (6, 10, 15), dtype=np.uint8)
    images = np.kron(coarse, np.ones((1, 20, 20), dtype=np.uint8))
    data = tmp_path_factory.mktemp("data")
    (data / "deep").mkdir()
    np.savez(data / "deep" / FILE, packed=np.packbits(images.reshape(6, -1), axis=1), names=np.array(list("abcdef")))
    return data


@pytest.fixture
def small_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base images of 10 x 12 pixels out of the real ones, and few of everything."""
    for mode in (QUICK, FULL):
        monkeypatch.setitem(PROTOCOLS, mode, TINY)
    monkeypatch.setattr("studies.domke.images.data.base_images", lambda: base_images()[:, 12:22, 10:22])


OTHER_FIGURE = Cell("Figure 2, Bethe against size", "direct", "8x8", 0.5)


@dataclass(frozen=True)
class Finished:
    """The table in miniature, run once for all who look at it."""

    folder: Path
    results: Results
    complete: bool
    told: list[int]


@pytest.fixture(scope="module")
def miniature(tmp_path_factory: pytest.TempPathFactory, berkeley: Path) -> Finished:
    folder, told = tmp_path_factory.mktemp("miniature"), list[int]()
    Results.open(folder, "domke", "quick", 0).put(OTHER_FIGURE)
    order = StudyOrder(folder, data=berkeley, parts=TABLE, tell=lambda what, done: told.append(done))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", GradientWarning)
        make_small(patch)
        return Finished(folder, *reproduce(STUDY, order), told)


def test_natural_images(berkeley: Path) -> None:
    path = find_berkeley(berkeley)
    assert path is not None and path == find_berkeley(path)
    data = natural(path, ImageCounts(train=3, test=3), seed=1)
    assert data.name == BERKELEY and data.train[0].shape == (3, 200, 300)
    labels = np.concatenate([data.train[1], data.test[1]])
    stored = np.unpackbits(np.load(path)["packed"], axis=1).reshape(6, 200, 300)
    assert sorted(map(bytes, labels.astype(np.uint8))) == sorted(map(bytes, stored))  # each image once
    noisy = np.concatenate([data.train[0], data.test[0]])
    drawn = np.where(labels == 1, 1 - noisy, noisy) ** (1 / 1.25)  # the t that was drawn
    quantiles = np.quantile(drawn, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, [0.1, 0.5, 0.9], atol=0.01)
    again = natural(path, ImageCounts(train=3, test=3), seed=1)
    np.testing.assert_array_equal(again.train[0], data.train[0])
    cut = natural(path, AMOUNTS, seed=1)
    assert cut.test[1].shape == (2, 10, 12)
    with pytest.raises(ValueError, match="there are 6"):
        natural(path, ImageCounts(train=5, test=2), seed=0)


def test_without_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWISE_DATA", raising=False)
    assert find_berkeley(None) is None
    with pytest.raises(ValueError, match=FILE):
        find_berkeley(tmp_path)
    data = natural(None, ImageCounts(train=1, test=1), seed=0)
    assert data.name == FIELDS and 0.3 < data.train[1].mean() < 0.7
    (tmp_path / FILE).write_bytes(b"no archive")
    with pytest.raises(ValueError, match="no file of packed"):
        natural(tmp_path / FILE, AMOUNTS, seed=0)


def test_base_images_and_their_noise() -> None:
    bases = base_images()
    assert bases.shape == (4, 64, 64) and set(np.unique(bases)) == {0, 1}
    assert all(0.1 < base.mean() < 0.9 for base in bases)
    assert len({bytes(base) for base in bases}) == 4
    amounts = ImageCounts(train=1, test=1)
    for name in (BIMODAL_NAME, GAUSSIAN_NAME):
        data = synthetic(name, amounts, seed=0)
        assert data.train[0].shape == (10, 64, 64) and data.test[0].shape == (190, 64, 64)
        assert (data.train[1] == bases[0]).all()
        noisy, clean = data.test
        if name == GAUSSIAN_NAME:
            assert (noisy - clean).std() == pytest.approx(GAUSSIAN, rel=0.01)
            continue
        for label, components in BIMODAL.items():
            values = noisy[clean == label]
            means, deviations = (np.array(part) for part in zip(*components, strict=True))
            assert values.mean() == pytest.approx(means.mean(), abs=0.005)
            assert values.var() == pytest.approx((deviations**2).mean() + means.var(), rel=0.02)


def test_published_numbers_and_rows() -> None:
    rows = {training.row: training for training in trainings(BERKELEY)}
    assert rows[SURROGATE].start is None
    assert {row: rows[row].start for row in (CLIQUE, UNIVARIATE, ERROR)} == {
        CLIQUE: SURROGATE,
        UNIVARIATE: SURROGATE,
        ERROR: UNIVARIATE,
    }
    # As printed, each row is best in its own column of the natural images, up to rounding.
    for row, measure in OWN.items():
        column = {other: PRINTED[BERKELEY][other][measure]["train"] for other in OWN}
        assert column[row] == min(value for value in column.values() if value is not None)


def test_the_table_in_miniature(miniature: Finished) -> None:
    folder, results, told = miniature.folder, miniature.results, miniature.told
    assert miniature.complete and set(told) == set(range(19)) and told == sorted(told)
    assert results.find(OTHER_FIGURE.item, OTHER_FIGURE.row, OTHER_FIGURE.column) is not None  # left alone
    cells = {(cell.row, cell.column): cell for cell in results.of_item(item_name(BERKELEY))}
    for row in OWN:
        for measure in MEASURES:
            for split in ("train", "test"):
                cell = cells[row, column_name(measure, split)]
                assert cell.ours is not None and cell.ours >= 0 and cell.n == 2
                assert cell.published == PRINTED[BERKELEY][row][measure][split]
    assert cells[FEW_SWEEPS, column_name(SURROGATE, "test")].ours is None
    best = results.find(item_name(BIMODAL_NAME), "Best published earlier", column_name(CLASSIFICATION, "test"))
    assert best is not None and best.ours is None and best.published == 0.0548
    assert (folder / "figure1.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "page.html").read_text()
    assert "stand in" in page and "figure1" not in page and "data:image/png" in page
    assert all(claim.text in (folder / "index.md").read_text() for claim in results.claims)


def test_numbers_are_those_of_the_weights(miniature: Finished, berkeley: Path) -> None:
    """The measures of a row, computed again from the pixels of its marginals."""
    models = ImageModels(miniature.folder, TINY, 0)
    noisy, clean = natural(find_berkeley(berkeley), AMOUNTS, 0).test
    model = domke_table1.build(trainings(BERKELEY)[0].inference)
    domke_table1.set_weights(model, models.get(BERKELEY, UNIVARIATE)["weights"])
    marginals = model.predict_marginals(noisy)
    right = np.take_along_axis(marginals, clean[..., None], -1)[..., 0]
    expected = {UNIVARIATE: -np.log(right).mean((1, 2)), CLASSIFICATION: (right < 0.5).mean((1, 2))}
    graph = lw.grid(10, 12)
    beliefs = model.inference_(graph, model.potentials_(model_images(noisy)))
    pair, scopes = beliefs.factor("pair").detach().numpy(), graph.group("pair").scopes
    flat = clean.reshape(2, -1)
    joint = np.stack([pair[k, np.arange(len(scopes)), flat[k][scopes[:, 0]], flat[k][scopes[:, 1]]] for k in range(2)])
    expected[CLIQUE] = -np.log(joint).sum(1) / 120
    for measure, values in expected.items():
        found = models.samples(BERKELEY, UNIVARIATE, measure, "test")
        np.testing.assert_allclose(found, values, atol=2e-6)


def model_images(noisy: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(noisy)[:, None]


@pytest.mark.usefixtures("small_bases")
def test_an_interrupted_run_continues(tmp_path: Path, berkeley: Path) -> None:
    class StopError(Exception):
        pass

    told: list[str] = []
    order = StudyOrder(tmp_path, FULL, data=berkeley, parts=TABLE)

    def stopping(what: str, done: int) -> None:
        told.append(what)
        if len(told) == 8:  # in the middle of the second row, on its few images
            raise StopError

    with pytest.raises(StopError):
        reproduce(STUDY, replace(order, tell=stopping))
    before = ImageModels(tmp_path, TINY, 0).entries
    finished = {key: entry for key, entry in before.items() if entry.get("samples")}
    begun = [key for key, entry in before.items() if not entry.get("finished")]
    assert finished and begun
    _, complete = reproduce(STUDY, order)
    after = ImageModels(tmp_path, TINY, 0).entries
    assert complete and len(after) == 18
    assert all(after[key] == entry for key, entry in finished.items())  # nothing twice
    known = before[begun[0]]["first_losses"]
    assert known and after[begun[0]]["first_losses"][: len(known)] == known
    assert ImageModels(tmp_path, TINY, 1).entries == {}  # another seed is another run


@pytest.mark.usefixtures("small_bases")
def test_out_of_time(tmp_path: Path, berkeley: Path) -> None:
    results, complete = reproduce(STUDY, StudyOrder(tmp_path, FULL, minutes=1e-9, data=berkeley, parts=TABLE))
    assert not complete and {claim.holds for claim in results.claims} == {None}
    assert "Not finished: 0 of 18" in (tmp_path / "index.md").read_text()


def made(tmp_path: Path, values: dict[str, dict[str, float]]) -> ImageModels:
    """Models that scored around ``values`` on 50 images each."""
    models = ImageModels(tmp_path, replace(TINY, amounts=FIFTY), 0)
    noise = np.random.default_rng(0).normal(0, 0.001, (2, 50))
    for name in (BERKELEY, BIMODAL_NAME, GAUSSIAN_NAME):
        for row, measures in values.items():
            samples = {
                column_name(measure, split): (value + noise[place]).tolist()
                for measure, value in measures.items()
                for place, split in enumerate(("train", "test"))
            }
            models.put(
                name, row, {"weights": {}, "losses": [1.0], "seconds": 1.0, "finished": True, "samples": samples}
            )
    return models


@pytest.mark.parametrize("as_published", [True, False])
def test_claims_follow_the_numbers(tmp_path: Path, as_published: bool) -> None:
    published = {row: {measure: pair["test"] for measure, pair in PRINTED[BERKELEY][row].items()} for row in OWN}
    published[UNROLLED] = published[FEW_SWEEPS] = published[UNIVARIATE]
    if not as_published:
        published[SURROGATE][CLASSIFICATION] = 0.1  # now the best there
        published[CLIQUE][UNIVARIATE] = 0.2
        published[UNROLLED] = {**published[UNIVARIATE], UNIVARIATE: 0.4}
        published[FEW_SWEEPS] = {**published[UNIVARIATE], CLASSIFICATION: 0.3}
    claims = table1_claims(made(tmp_path, published))
    assert {claim.holds for claim in claims} == {as_published}
    assert len(claims) == 7 and all(claim.evidence and claim.rule for claim in claims)


def test_drawn_images_are_images_of_their_own(tmp_path: Path) -> None:
    images = drawn_images(24)
    assert images.shape == (24, 64, 64) and len({bytes(image) for image in images}) == 24
    assert all(0.05 < image.mean() < 0.9 for image in images) and np.array_equal(images[:5], drawn_images(5))
    with pytest.raises(ValueError, match="24 drawn"):
        drawn_images(25)
    amounts = replace(AMOUNTS, drawn=3, drawn_copies=2)
    data = synthetic(GAUSSIAN_NAME, amounts, seed=0)
    four = 4 * amounts.copies - amounts.train_copies
    assert len(data.test[0]) == four + 6 and np.array_equal(data.test[1][four], images[0])
    models = ImageModels(tmp_path, replace(TINY, amounts=amounts), 0)
    parts = _by_image(models, GAUSSIAN_NAME, "test", np.arange(four + 6.0))
    assert [len(part) for part in parts] == [amounts.copies - amounts.train_copies, *[amounts.copies] * 3, 2, 2, 2]


def test_copies_of_one_image_are_one_image(tmp_path: Path) -> None:
    """A row that is better on every copy of one of the four images, and a little worse on the others."""
    models, amounts = ImageModels(tmp_path, TINY, 0), AMOUNTS
    sizes = [amounts.copies - amounts.train_copies, *[amounts.copies] * 3]
    gap = np.repeat([-0.001, 0.1, -0.001, -0.001], sizes)
    for row, values in ((SURROGATE, 0.2 + gap), (UNIVARIATE, 0.2 + 0 * gap), (CLIQUE, 0.2 + 0 * gap)):
        entry = {"weights": {}, "samples": {column_name(CLASSIFICATION, "test"): values.tolist()}}
        models.put(BIMODAL_NAME, row, entry)
    (claim,) = (claim for claim in table1_claims(models) if claim.id == "table1-beats-surrogate-bimodal")
    assert claim.holds is False and "+0.0243 ± 0.0253" in claim.evidence


@pytest.mark.usefixtures("small_bases")
def test_drawn_images_are_measured_with_weights_that_are_there(
    tmp_path: Path, berkeley: Path, miniature: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More images to test on: nothing is trained again, natural images are not measured again."""
    shutil.copytree(miniature.folder, tmp_path / "here")
    before = ImageModels(tmp_path / "here", TINY, 0)
    more = replace(TINY, amounts=replace(AMOUNTS, drawn=2, drawn_copies=3))
    monkeypatch.setitem(PROTOCOLS, QUICK, more)
    monkeypatch.setattr("studies.domke.images.data.drawn_images", lambda count: drawn_images(count)[:, 12:22, 10:22])
    claimed = {claim.id: claim.holds for claim in table1_claims(ImageModels(tmp_path / "here", more, 0))}
    assert claimed["table1-beats-surrogate-bimodal"] is None  # not before they are tested on
    measured: list[str] = []
    own = domke_table1._measure
    monkeypatch.setattr(domke_table1, "_measure", lambda *some: (measured.append(some[1].name), own(*some)))
    _, complete = reproduce(STUDY, StudyOrder(tmp_path / "here", data=berkeley, parts=TABLE))
    after = ImageModels(tmp_path / "here", more, 0)
    assert complete and measured == [BIMODAL_NAME] * 6 + [GAUSSIAN_NAME] * 6
    for key, entry in before.entries.items():
        assert after.entries[key]["weights"] == entry["weights"] and after.entries[key]["losses"] == entry["losses"]
        for column, values in entry["samples"].items():
            again = after.entries[key]["samples"][column]
            assert again[: len(values)] == values
            drawn = 6 if column.endswith("test") and not key.startswith(BERKELEY) else 0
            assert len(again) == len(values) + drawn


def test_claims_are_decided_again_from_what_is_kept(miniature: Finished, tmp_path: Path) -> None:
    shutil.copytree(miniature.folder, tmp_path / "here")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        results = Results.of_folder(tmp_path / "here", "domke")
        kept = {claim.id: claim for claim in results.claims}
        results.claim(
            replace(kept["table1-few-sweeps"], holds=None, rule="another"),
            Claim("figure2-perturbation-twice", "", True, ""),
        )
        again = judge_again(STUDY, tmp_path / "here")
    found = {claim.id: claim for claim in again.claims}
    assert found["table1-few-sweeps"] == kept["table1-few-sweeps"]
    assert "figure2-perturbation-twice" not in found and "figure2-perturbation-twice-trw" in found
    assert [claim.id.startswith("table1") for claim in again.claims] == [False] * 8 + [True] * 7
    assert (
        again.cells == results.cells and kept["table1-few-sweeps"].rule in (tmp_path / "here" / "index.md").read_text()
    )


def test_weights_of_another_run_are_kept(tmp_path: Path) -> None:
    ImageModels(tmp_path, TINY, 0).put(BERKELEY, SURROGATE, {"weights": {"a": 1}})
    ImageModels(tmp_path, TINY, 1).put(BERKELEY, SURROGATE, {"weights": {"a": 2}})
    assert ImageModels(tmp_path, TINY, 1).get(BERKELEY, SURROGATE) == {"weights": {"a": 2}}
    assert '"a": 1' in (tmp_path / "table1_models.old.json").read_text()
    ImageModels(tmp_path, TINY, 2).put(BERKELEY, SURROGATE, {"weights": {"a": 3}})
    assert '"a": 1' in (tmp_path / "table1_models.old.json").read_text()
    assert '"a": 2' in (tmp_path / "table1_models.old1.json").read_text()


def test_command_line_errors(tmp_path: Path) -> None:
    for arguments, words in (
        (["--table", "2"], "--table 2 of domke is not reproduced"),
        (["--table", "1", "--data", str(tmp_path)], FILE),
        (["--table", "1", "--quick", "--full"], "exclude"),
    ):
        result = CliRunner().invoke(app, ["domke", "--out", str(tmp_path / "new"), *arguments])
        assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.usefixtures("small_bases")
def test_command_line(tmp_path: Path, berkeley: Path, miniature: Finished) -> None:
    """With weights that are trained already: another run of the same protocol and seed goes on from them."""
    shutil.copy(miniature.folder / MODELS, tmp_path)
    arguments = ["domke", "--table", "1", "--quick", "--json", "--data", str(berkeley), "--out", str(tmp_path)]
    report = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert report["paper"] == "domke" and report["mode"] == "quick"
    assert (tmp_path / MODELS).read_bytes() == (miniature.folder / MODELS).read_bytes()
    assert {cell["item"] for cell in report["cells"]} == {
        item_name(name) for name in (BERKELEY, BIMODAL_NAME, GAUSSIAN_NAME)
    }
