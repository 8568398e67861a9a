"""The classifier of tables against enumeration, SciPy and hand computation; missing values, files, options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import loopwise as lw
from loopwise.apps import MRFClassifier
from loopwise.apps.table import ColumnChain, ColumnPairs, ColumnTree, Complete, ToOutputs, estimator
from loopwise.cli.tables import read_examples, read_saved
from loopwise.graph.evidence import FREE
from oracles.enumeration import Enumeration, enumerate_model
from oracles.table_cases import weather

EXACT = lw.Exact()  # whose kernels, unlike those of BP, are the same for all sizes: less to compile


def enumerated(model: MRFClassifier) -> Enumeration:
    tables = {name: table.detach().numpy() for name, table in model.system_.potentials().items()}
    return enumerate_model(model.system_.graph, tables)


def conditional(everything: Enumeration, evidence: np.ndarray, variable: int, size: int) -> np.ndarray:
    """The distribution of a variable given what ``evidence`` knows, by counting configurations."""
    known = evidence != FREE
    agree = (everything.configurations[:, known] == evidence[known]).all(axis=1)
    mass = np.bincount(everything.configurations[agree, variable], everything.probabilities[agree], minlength=size)
    return mass / mass.sum()


@pytest.mark.parametrize(
    "options",
    [
        {"inference": EXACT},
        {"inference": EXACT, "hidden": (2,), "structure": ToOutputs(), "iterations": 15},
        {"structure": ColumnTree()},  # where BP is exact
        {"structure": ColumnChain(), "loss": lw.loss.MSE(), "iterations": 15},
    ],
)
def test_probabilities_are_those_of_the_learnt_tables(options: dict[str, Any]) -> None:
    x, y = weather(60, seed=0, missing=0.25, skies=3 if "inference" in options else 2)
    model = MRFClassifier(l2=0.3, **options).fit(x, y)
    everything = enumerated(model)
    shares, marginals = model.predict_proba(x[:12]), model.predict_marginals(x[:12])
    inputs = model._columns.codes(x[:12])
    assert (inputs == FREE).any() and [share.shape for share in shares] == [(12, 2)] * 2
    vocabulary = model.system_.vocabulary
    for row in range(12):
        evidence = np.full(model.system_.graph.variables, FREE)
        evidence[:3] = inputs[row]
        for place, name in enumerate(vocabulary.names):
            right = conditional(everything, evidence, place, vocabulary.cardinalities[place])
            np.testing.assert_allclose(marginals[name][row], right, atol=1e-7)
        for place in range(2):
            # Rows and the whole system take different kernels: the last digit may differ.
            np.testing.assert_allclose(shares[place][row], marginals[f"y{place}"][row], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(model.predict(x), np.stack([s.argmax(1) for s in model.predict_proba(x)], axis=1))


def test_likelihood_is_maximised() -> None:
    """Against SciPy on the conditional likelihood written out: one output, columns of 2 and 3 values."""
    x, y = weather(80, seed=1)
    x, y = x[:, :2], y[:, 0]
    model = MRFClassifier(ToOutputs(), inference=EXACT, l2=0.7, tolerance=1e-14, iterations=300).fit(x, y)
    sky, wind = model._columns.codes(x).T
    every = np.arange(len(y))

    def objective(theta: np.ndarray) -> float:
        bias, of_sky, of_wind = theta[:2], theta[2:8].reshape(3, 2), theta[8:12].reshape(2, 2)
        scores = bias + of_sky[sky] + of_wind[wind]
        top = scores.max(axis=1)
        log_z = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return float((log_z - scores[every, y]).sum() + 0.35 * theta @ theta)

    best = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-8})
    graph, tables = model.system_.graph, model.system_.potentials()
    mine = []
    for number in (2, 3, 4):  # the scope of y, then those of the pairs
        name, row = graph.locate(number)
        mine.append(tables[name][row].detach().numpy().reshape(-1))
    np.testing.assert_allclose(np.concatenate(mine), best.x, atol=2e-4)
    assert objective(np.concatenate(mine)) == pytest.approx(best.fun, abs=1e-7)
    for number in (0, 1):  # what is always known has nothing to learn
        name, row = graph.locate(number)
        assert float(tables[name][row].detach().abs().max()) < 1e-9


def rare(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positives are one in eight, and hard to tell."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = rng.random(rows) < 1 / (1 + np.exp(3.2 - 1.2 * x[:, 0] - 1.2 * x[:, 1]))
    return x, np.where(y, "sick", "well")


def f_beta(right: np.ndarray, said: np.ndarray, beta: float) -> float:
    agreed = ((right == "sick") & (said == "sick")).sum()
    return (1 + beta**2) * agreed / (beta**2 * (right == "sick").sum() + (said == "sick").sum())


def test_f_beta_is_what_is_trained() -> None:
    x, y = rare(400, seed=0)
    plain = MRFClassifier(ToOutputs(), inference=EXACT, bins=4).fit(x[:250], y[:250])
    tuned = MRFClassifier(ToOutputs(), inference=EXACT, bins=4, loss=lw.loss.FBeta(beta=2.0), positive="sick").fit(
        x[:250], y[:250]
    )
    for part in (slice(0, 250), slice(250, 400)):
        assert f_beta(y[part], tuned.predict(x[part]), 2) > f_beta(y[part], plain.predict(x[part]), 2) + 0.05
    assert tuned.history_[0].loss > 0 and tuned.history_.epochs[-1].stage == 1
    balanced = MRFClassifier(ToOutputs(), inference=EXACT, bins=4, class_weight="balanced").fit(x[:250], y[:250])
    assert (balanced.predict(x) == "sick").mean() > (plain.predict(x) == "sick").mean() + 0.1
    hard = MRFClassifier(
        ToOutputs(), inference=EXACT, bins=4, loss=lw.loss.F1(positive=0), decoder=lw.decode.ApproximateF(positive=0)
    )
    assert abs((hard.fit(x, y).predict(x) == "sick").mean() - 0.5) < 0.05  # whose threshold is the median
    assert hard.decoder.threshold.kappa.isnan()  # the option itself is left alone


def test_rows_without_labels_change_nothing() -> None:
    x, y = weather(50, seed=4)
    labelled = y.astype(float)
    more = np.concatenate([labelled, np.full((20, 2), np.nan)])
    table = np.concatenate([x, x[:20]])
    for loss in (None, lw.loss.MSE()):
        one = MRFClassifier(loss=loss, inference=EXACT, seed=1).fit(x, labelled)
        two = MRFClassifier(loss=loss, inference=EXACT, seed=1).fit(table, more)
        for mine, theirs in zip(one.predict_proba(x), two.predict_proba(x), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-3)
    assert two.score(table, more) == one.score(x, labelled)
    half = labelled.copy()
    half[::2, 1] = np.nan
    assert MRFClassifier(inference=EXACT).fit(x, half).score(x, labelled) > 0.6
    assert np.isnan(one.score(x[:3], np.full((3, 2), np.nan)))


def test_missing_inputs_are_summed_out() -> None:
    """A model that knows the joint distribution answers without a column almost as well as one trained without it."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 800)
    second = np.where(rng.random(800) < 0.9, first, 1 - first)
    y = np.where(rng.random(800) < 0.9, first, 1 - first)
    x = np.stack([first, second], axis=1).astype(float)
    model = MRFClassifier(inference=EXACT, loss=lw.loss.SurrogateLikelihood(joint=True), l2=0.01).fit(x, y)
    x[:, 0] = np.nan
    counts = np.array([y[second == value].mean() for value in (0, 1)])
    np.testing.assert_allclose(model.predict_proba(x)[:, 1], counts[second], atol=0.03)


def test_columns_of_one_value_or_none_and_single_classes() -> None:
    x, y = weather(30, seed=5)
    x[:, 1], x[:, 0] = None, "same"
    model = MRFClassifier(inference=EXACT, iterations=5).fit(x, np.stack([y[:, 0], np.full(30, 7)], axis=1))
    said = model.predict(x)
    assert (said[:, 1] == 7).all() and [len(known) for known in model.classes_] == [2, 1]
    np.testing.assert_array_equal(model.predict_proba(x)[1], np.ones((30, 1)))
    mixed = np.stack([np.where(y[:, 0] == 1, "yes", "no").astype(object), y[:, 1]], axis=1)
    answers = MRFClassifier(inference=EXACT, iterations=5).fit(x, mixed).predict(x[:2])
    assert answers.dtype == object and isinstance(answers[0, 0], str) and isinstance(answers[0, 1], int)


def test_one_file(tmp_path: Path) -> None:
    x, y = weather(40, seed=6, missing=0.1, skies=2)
    x[:, 2] = np.linspace(0, 1, 40)  # a column of intervals
    names = np.where(y == 1, "on", "off")
    model = MRFClassifier(loss=lw.loss.F1(), inference=lw.BP(iterations=4, tolerance=0), bins=2, iterations=10).fit(
        x, names
    )
    model.save(tmp_path / "one.loopwise")
    again = MRFClassifier.load(tmp_path / "one.loopwise")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    for mine, theirs in zip(model.predict_proba(x), again.predict_proba(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert again.inference.iterations == 4 and [list(known) for known in again.classes_] == [["off", "on"]] * 2
    with pytest.raises(ValueError, match="3 features"):
        again.predict(x[:, :2])
    lw.System(lw.TablePotentials(lw.chain(2)), lw.BP()).save(tmp_path / "system.loopwise")
    with pytest.raises(ValueError, match="not a MRFClassifier"):
        MRFClassifier.load(tmp_path / "system.loopwise")


def test_the_command_line_takes_the_file(tmp_path: Path) -> None:
    x, y = weather(40, seed=7, skies=2)
    model = MRFClassifier(iterations=20).fit(x, y)
    model.save(tmp_path / "model.loopwise")
    lines = ["x0,x1,x2,y0,y1", *(",".join(map(str, [*row, *answer])) for row, answer in zip(x, y, strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    system = read_saved(tmp_path / "model.loopwise")
    examples = read_examples(system, tmp_path / "table.csv")
    np.testing.assert_array_equal(system.predict(examples).numpy()[:, 3:5], model.predict(x))


class Frame:
    """As much of a data frame as is looked at."""

    def __init__(self, values: np.ndarray, columns: list[str]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)


def test_names_of_columns(tmp_path: Path) -> None:
    x, y = weather(20, seed=3)
    frame = Frame(x, ["sky", "wind", "cold"])
    model = MRFClassifier(inference=EXACT, iterations=3).fit(frame, Frame(y, ["walk", "sky"]))
    names = ["sky", "wind", "cold", "walk", "sky'"]  # the second output may not be called like an input
    assert list(model.predict_marginals(frame)) == names and list(model.feature_names_in_) == names[:3]
    model.save(tmp_path / "named.loopwise")
    for one in (model, MRFClassifier.load(tmp_path / "named.loopwise")):
        np.testing.assert_array_equal(one.predict(x), one.predict(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            one.predict(Frame(x, ["wind", "sky", "cold"]))


def test_going_on_and_other_optimisers() -> None:
    x, y = weather(60, seed=8)
    model = MRFClassifier(iterations=3, warm_start=True, inference=EXACT).fit(x, y)
    before = model.system_.potentials.tables[0].detach().clone()
    model.set_params(iterations=200)
    model.fit(x, y)
    assert not torch.equal(before, model.system_.potentials.tables[0])
    whole = MRFClassifier(iterations=200, inference=EXACT).fit(x, y)
    for mine, theirs in zip(model.predict_proba(x), whole.predict_proba(x), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3)
    adam = MRFClassifier(
        optimizer=lambda params: torch.optim.Adam(params, lr=0.1), iterations=4, loss=lw.loss.Hamming(), inference=EXACT
    ).fit(x, y)
    assert len(adam.history_) == 4 + 3 and adam.score(x, y) > 0.6  # three epochs of likelihood before


@pytest.mark.parametrize(
    "options, words",
    [
        ({"bins": 1}, "bins must be"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1"),
        ({"l2": -1.0}, "l2 must be"),
        ({"tolerance": 2.0}, "tolerance must be"),
        ({"hidden": (1,)}, "at least 2 each"),
        ({"loss": "mse"}, "must be one of lw.loss"),
        ({"loss": lw.loss.MSE(), "positive": 1}, "has no positive class"),
        ({"loss": lw.loss.F1(), "positive": "maybe"}, "'maybe', which is no class"),
        ({"loss": lw.loss.F1(), "class_weight": "balanced"}, "means nothing to F1"),
        ({"class_weight": "even"}, "'even'; it must be"),
        ({"class_weight": {5: 1.0}}, "none of which is a class"),
        ({"class_weight": {0: -1.0}}, "class weight of 0 is -1.0"),
        ({"class_weight": {0: 0.0, 1: 0}}, "all class weights are 0"),
        ({"class_weight": [None]}, "weights for 1 outputs; there are 2"),
        ({"class_weight": 3}, "not int"),
        ({"structure": ColumnPairs(((0, 9),))}, "names variable 9"),
        ({"structure": ColumnPairs(((0, 0),))}, "joins a variable with itself"),
    ],
)
def test_options_without_meaning(options: dict[str, Any], words: str) -> None:
    x, y = weather(10, seed=9)
    with pytest.raises(ValueError, match=words):
        MRFClassifier(**{"inference": EXACT, **options}).fit(x, y)


def test_answers_without_meaning() -> None:
    x, y = weather(10, seed=9)
    for labels, words in (
        (None, "the target y is None"),
        (y[:5], "inconsistent numbers of samples"),
        (y + 0.5, "continuous"),
        (np.full(10, np.nan), "no label in any row"),
        (np.full(10, np.inf), "infinity"),
        (np.array([1, "a"] * 5, dtype=object), "cannot be ordered"),
        (np.zeros((10, 2, 2)), "not of shape"),
    ):
        with pytest.raises(ValueError, match=words):
            MRFClassifier(inference=EXACT, iterations=1).fit(x, labels)
    model = MRFClassifier(Complete(), inference=EXACT, iterations=1, warm_start=True).fit(x, y)
    with pytest.raises(ValueError, match="not seen in training"):
        model.fit(x, y + 1)
    with pytest.raises(ValueError, match="does not fit answers"):
        model.score(x, y[:, 0])
    x[0, 2] = "much"
    with pytest.raises(ValueError, match="'x2' holds the text 'much'"):
        model.predict(x)


def test_long_training_is_told_of_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    model = MRFClassifier(iterations=2).fit(x, y, progress=False)
    assert model.system_.graph.factors == 3 + 2  # inputs are not joined, since none is missing
    monkeypatch.setattr(estimator, "LONG", 0.0)
    with pytest.warns(lw.notices.TimeWarning, match=r"may take about 0 minutes .* structure=ToOutputs\(\), fewer bins"):
        MRFClassifier(iterations=2).fit(x, y, progress=False)


def test_kinds_of_columns_are_kept_in_files(tmp_path: Path) -> None:
    """Dates and truth values are read after loading as before."""
    x = [[f"2024-01-{1 + row % 20:02d}", row % 3 == 0, float(row % 5)] for row in range(60)]
    model = MRFClassifier(iterations=5).fit(x, [row % 2 for row in range(60)], progress=False)
    model.save(tmp_path / "m.loopwise")
    again = MRFClassifier.load(tmp_path / "m.loopwise")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert [column.kind for column in again._columns.columns] == ["dates", "truth values", "numbers"]
