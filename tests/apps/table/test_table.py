"""Tables whose cells go missing: start, training, any column, imputation, explanations, files, bad input."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.apps import MRFClassifier, Table
from loopwise.apps.table import AnyRate, ColumnChain, Patterns, Rates, selection, training
from loopwise.apps.table.explanation import by_gradient
from loopwise.apps.table.missingness import missingness_of
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.start import CountSmoothing, log_tables, network
from loopwise.apps.table.training import DrawnRoles, Network, Task
from loopwise.learn.progress import silent
from loopwise.notices import DataWarning
from oracles.enumeration import enumerate_model

YES_NO = np.array(["no", "yes"], dtype=object)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short path: what is tested here is not how good the last digit is."""
    monkeypatch.setattr(training, "LEAST_STEPS", 40)
    monkeypatch.setattr(selection, "PATH", (30.0, 3.0))


def patients(rows: int, seed: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """A label, a number, a copy of the label with noise; the answer depends on the first."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    size = 10.0 * kind + rng.normal(size=rows)
    copy = np.where(rng.random(rows) < 0.9, kind, rng.integers(0, 3, rows))
    answer = YES_NO[((kind > 0) ^ (rng.random(rows) < 0.05)).astype(int)]
    cells = np.stack([np.array(["p", "q", "r"], dtype=object)[kind], size, np.array(["u", "v", "w"], object)[copy]], 1)
    cells[rng.random(cells.shape) < missing] = None
    return cells, answer


def test_the_start_is_a_network_that_sums_to_one() -> None:
    """Tables of a variable given its parents: with nothing known, beliefs are the training shares."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (300, 4))
    values[:, 1] = np.where(rng.random(300) < 0.8, values[:, 0], values[:, 1])
    sizes, task = (3, 3, 3, 3), Task((3, 3, 3, 3), (3,), AnyRate(), sweeps=4)
    rows = CountedRows.of(values)
    scopes = network(rows, sizes, (3,))
    assert scopes[0] == (3,) and all(scope[1] == 3 for scope in scopes[1:]) and {(1, 3, 0), (0, 3, 1)} & set(scopes)
    for table in log_tables(scopes, rows, sizes, CountSmoothing()):
        np.testing.assert_allclose(np.exp(table).sum(axis=0), 1.0)
    net = Network.of(task, scopes, rows, CountSmoothing(0.0001, 0.0001))
    tables, first = {}, 0
    for group in net.rows.graph.groups:
        end = first + group.count * group.cells
        tables[group.name] = net.start[first:end].reshape(group.count, *group.shape)
        first = end
    everything = enumerate_model(net.rows.graph, tables)
    shares = np.bincount(everything.configurations[:, 3], everything.probabilities)
    np.testing.assert_allclose(shares, np.bincount(values[:, 3]) / 300, atol=2e-3)


def test_without_outputs_the_start_is_the_tree_of_the_data() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, (400, 4))
    for place in (1, 2, 3):
        values[:, place] = np.where(rng.random(400) < 0.85, values[:, place - 1], values[:, place])
    pairs = {frozenset(scope) for scope in network(CountedRows.of(values), (2,) * 4, ()) if len(scope) == 2}
    assert pairs == {frozenset((0, 1)), frozenset((1, 2)), frozenset((2, 3))}


def test_cells_are_drawn_anew_and_a_state_resumes() -> None:
    values = np.random.default_rng(0).integers(0, 2, (40, 3))
    task = Task((2, 2, 2), (2,), Rates((0.5,)))
    rows = CountedRows.of(values)
    net = Network.of(task, network(rows, task.sizes, task.outputs), rows, CountSmoothing())
    assert (task.hidden(values, np.random.default_rng(0)) != task.hidden(values, np.random.default_rng(1))).any()
    whole, halves = (DrawnRoles(task, net, rows, net.start, 1.0, 0.1, 4, seed=0) for _ in range(2))
    for _ in range(2):
        whole.round(silent), halves.round(silent)
    resumed = DrawnRoles(task, net, rows, net.start, 1.0, 0.1, 4, seed=5)
    resumed.load_state(halves.state())
    for _ in range(2):
        whole.round(silent), resumed.round(silent)
    np.testing.assert_array_equal(resumed.now(), whole.now())


def test_rules_of_missing_cells() -> None:
    rng = np.random.default_rng(0)
    assert Rates((0.3,)).draw(4000, 2, rng).mean() == pytest.approx(0.3, abs=0.03)
    each = missingness_of([0.0, 0.9]).draw(2000, 2, rng).mean(axis=0)
    assert each[0] == 0 and each[1] == pytest.approx(0.9, abs=0.03)
    like = Patterns.of(np.array([[-1, 0], [-1, 0]])).draw(5, 2, rng)
    assert like[:, 0].all() and not like[:, 1].any()
    whole = AnyRate().draw(4000, 20, rng)
    assert (~whole.any(axis=1)).mean() > 0.24 and whole.mean(axis=1).max() > 0.8
    for bad, words in ((1.0, "below 1"), ("much", "must be None"), ([0.1, 0.2, 0.3], "3 rates")):
        with pytest.raises(ValueError, match=words):
            missingness_of(bad).draw(3, 2, rng)


def test_answers_with_most_cells_missing_stay_better_than_the_common_one() -> None:
    x, y = patients(200, seed=0)
    model = Table().fit(x, y, progress=False)
    test, right = patients(300, seed=1)
    common = max(np.mean(right == label) for label in YES_NO)
    for rate in (0.0, 0.3, 0.6):
        shown = test.copy()
        shown[np.random.default_rng(2).random(test.shape) < rate] = None
        assert model.score(shown, right) > common + (0.15 if rate == 0 else 0.03)
    shares = model.predict_proba(test)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert model.classes_.tolist() == ["no", "yes"] and model.kinds_["x1"] == "numbers, 6 intervals"
    losses = [trial.loss for trial in model.trials_]
    assert min(losses) > 0 and len(losses) > 8


def test_any_column_from_any_others() -> None:
    x, y = patients(250, seed=0, missing=0.1)
    whole = np.concatenate([x, y[:, None]], axis=1)
    model = Table().fit(whole, progress=False)
    test = np.concatenate([part if part.ndim > 1 else part[:, None] for part in patients(200, seed=1)], axis=1)
    for place, name in ((0, "x0"), (2, "x2"), (3, "x3")):
        said = model.predict(test, column=name)
        assert np.mean(said == test[:, place]) > 0.8, name
    assert np.abs(model.predict(test, column="x1").astype(float) - test[:, 1].astype(float)).mean() < 2.0
    with pytest.raises(ValueError, match="any column can be asked for"):
        model.predict(test)
    with pytest.raises(ValueError, match="no variable is called 'x9'"):
        model.predict(test, column="x9")


def test_empty_cells_are_filled_and_others_stay() -> None:
    x, y = patients(250, seed=0)
    whole = np.concatenate([x, y[:, None]], axis=1)
    model = Table().fit(whole, progress=False)
    test = np.concatenate([part if part.ndim > 1 else part[:, None] for part in patients(60, seed=3)], axis=1)
    holes = test.copy()
    holes[np.random.default_rng(0).random(test.shape) < 0.3] = None
    lost = np.array([[cell is None for cell in row] for row in holes])
    filled, sure = model.impute(holes, probabilities=True)
    assert not any(cell is None for cell in filled.reshape(-1))
    assert (filled[~lost] == test[~lost]).all() and (sure[~lost] == 1).all() and (sure[lost] <= 1).all()
    assert np.mean(filled[:, 0] == test[:, 0]) > 0.85
    draws = model.impute(holes, samples=3, seed=1)
    assert len(draws) == 3 and (draws[0][~lost] == test[~lost]).all() and (draws[0] != draws[1]).any()
    again = model.impute(holes, samples=1, seed=1)[0]
    assert (again == draws[0]).all()
    rows = model.sample(400, seed=0)
    shares = [np.mean(rows[:, 0] == label) for label in "pqr"]
    np.testing.assert_allclose(shares, [np.mean(x[:, 0] == label) for label in "pqr"], atol=0.08)
    assert rows.shape == (400, 4) and np.mean((rows[:, 0] == "p") == (rows[:, 3] == "no")) > 0.85


def test_labels_that_training_did_not_see_stay_when_cells_are_filled() -> None:
    x, _ = patients(100, seed=0)
    model = Table().fit(x, progress=False)
    with pytest.warns(DataWarning, match="1 cells hold labels that training did not see"):
        filled, sure = model.impute([["strange", None, "u"]], probabilities=True)
    assert filled[0, 0] == "strange" and filled[0, 2] == "u" and filled[0, 1] is not None
    assert sure[0, 0] == sure[0, 2] == 1 > sure[0, 1]
    with pytest.raises(ValueError, match="ask for one of them"):
        model.impute(x, samples=2, probabilities=True)
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match="samples must be a whole number of at least 1"):
            model.impute(x, samples=bad)
        with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
            model.sample(bad)


def test_outputs_in_any_order_are_read_back_as_the_columns_they_are(tmp_path: Path) -> None:
    """Their cells are evidence for the others: one taken for another is a wrong answer that nobody sees."""
    x, y = patients(150, seed=0)
    other = np.where(x[:, 0] == "p", "yes", "no").astype(object)  # the same labels as the answer, turned round
    whole = np.stack([other, x[:, 0], x[:, 1], y], axis=1)
    one, two = (Table(outputs=outputs).fit(whole, progress=False) for outputs in (["x0", "x3"], ["x3", "x0"]))
    assert one.outputs_ == two.outputs_ == ("x0", "x3")
    holes = np.array([[None, None, None, "yes"], ["yes", None, None, None]], dtype=object)
    for found in (one.impute(holes), two.impute(holes)):
        assert found[0, 0] == "no" and found[0, 1] in "qr" and found[1, 1] == "p" and found[1, 3] == "no"
    np.testing.assert_array_equal(two.predict(whole), one.predict(whole))
    assert {cell.column: cell.value for cell in two.explain(whole[0], "x1").cells}["x3"] == y[0]
    two.save(tmp_path / "t.loopwise")
    np.testing.assert_array_equal(Table.load(tmp_path / "t.loopwise").impute(holes), one.impute(holes))


def test_outputs_among_the_columns_may_be_absent_when_they_are_predicted(tmp_path: Path) -> None:
    """As the tables of new rows are; all else must be there, under its name."""
    pandas = pytest.importorskip("pandas")
    x, y = patients(150, seed=0)
    whole = pandas.DataFrame({"ill": y, "a": x[:, 0], "b": x[:, 1]})
    Table(outputs="ill").fit(whole, progress=False).save(tmp_path / "t.loopwise")
    model, new = Table.load(tmp_path / "t.loopwise"), whole.drop(columns="ill")
    np.testing.assert_array_equal(model.predict(new), model.predict(whole))
    np.testing.assert_array_equal(model.predict_proba(new.to_numpy(dtype=object)), model.predict_proba(whole))
    assert model.score(new, y) == model.score(whole, y)
    numbers = Table(outputs="ill").fit(whole[["ill", "b"]].astype({"b": float}), progress=False)
    np.testing.assert_array_equal(numbers.predict(new[["b"]].astype(float)), numbers.predict(whole[["ill", "b"]]))
    for ask, rows in ((model.predict, whole.drop(columns="a")), (model.predict, new[["b", "a"]]), (model.impute, new)):
        with pytest.raises(ValueError, match="X has 2 features, but Table is expecting 3"):
            ask(rows)


def test_filled_frames_keep_index_and_types(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    x, _ = patients(80, seed=0)
    when = pandas.Timestamp("2024-01-01", tz="UTC") + pandas.to_timedelta(np.arange(80) % 40, unit="D")
    frame = pandas.DataFrame(
        {
            "kind": pandas.Categorical(x[:, 0]),
            "size": x[:, 1].astype(float),
            "flag": pandas.array(x[:, 0] == "p", dtype="boolean"),
            "count": pandas.array(np.arange(80) % 11, dtype="Int64"),
            "when": when,
        },
        index=np.arange(80) + 1000,
    )
    model = Table().fit(frame, progress=False)
    assert [kind.split(",")[0] for kind in model.kinds_.values()] == [
        "labels",
        "numbers",
        "truth values",
        "numbers",
        "dates",
    ]
    holes = frame.copy()
    for place in range(5):
        holes.iloc[place, place] = None
    filled = model.impute(holes)
    assert (filled.dtypes == holes.dtypes).all() and (filled.index == frame.index).all()
    assert not filled.isna().any(axis=None) and filled.iloc[5:].equals(frame.iloc[5:])
    for other in (polars.from_pandas(holes), pyarrow.Table.from_pandas(holes, preserve_index=False)):
        full = model.impute(other)
        assert list(full.to_pandas().columns) == list(holes.columns) and type(full) is type(other)
        assert full.to_pandas()["when"].dt.tz_convert("UTC").tolist() == filled["when"].tolist()
        assert full.to_pandas()["count"].tolist() == filled["count"].tolist()
    model.save(tmp_path / "t.loopwise")
    again = Table.load(tmp_path / "t.loopwise")
    assert again.kinds_ == model.kinds_ and again.impute(holes).equals(filled)
    assert (again.sample(20) == model.sample(20)).all()


def test_answers_of_dates_are_texts_before_a_file_and_after(tmp_path: Path) -> None:
    days = [date(2024, 1, 1 + row % 3) for row in range(60)]
    cells = [[day, "pqr"[row % 3]] for row, day in enumerate(days)]
    model = Table().fit(cells, progress=False)
    model.save(tmp_path / "t.loopwise")
    said = model.predict(cells[:3], column="x0").tolist()
    assert said == Table.load(tmp_path / "t.loopwise").predict(cells[:3], column="x0").tolist()
    assert said == ["2024-01-01", "2024-01-02", "2024-01-03"] and model.impute([[None, "q"]])[0, 0] == "2024-01-02"
    assert model.impute([*cells[:2], [None, "q"]])[2, 0] == days[1]  # as the others are given
    with pytest.raises(ValueError, match="column 'y0' of y holds date; give texts, numbers or truth values"):
        Table().fit([[row % 3] for row in range(60)], days)


def test_explanations_by_clamping_and_by_gradient() -> None:
    x, y = patients(250, seed=0)
    model = Table(structure=ColumnChain(), sweeps=6).fit(x, y, progress=False)
    told = model.explain(["r", 20.0, None])
    assert told.column == "y0" and told.answer == "yes" and told.probability > told.before
    assert {cell.column for cell in told.cells} == {"x0", "x1"} and "y0 is yes" in str(told)
    alone = model.explain(["p", None, None], "y0", answer="no")
    with_it, without = (model.predict_proba([[cell, None, None]])[0, 0] for cell in ("p", None))
    assert alone.cells[0].clamping == pytest.approx(np.log(with_it / without))
    # To first order: weights of the cell moved a little towards their average change the belief so much.
    row, place = model._known(np.array([["p", None, None]], dtype=object))[1][0], 3
    found = by_gradient(model._model, row, place, 0)
    assert np.isfinite(found).all() and (found[1:] == 0).all()


def test_files_keep_everything(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    x, y = patients(120, seed=0, missing=0.1)
    frame = pandas.DataFrame(x, columns=["kind", "size", "copy"]).astype({"size": float})
    frame["when"] = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(np.arange(120) % 40, unit="D")
    frame["answer"] = y
    model = Table(outputs=["answer"]).fit(frame, progress=False)
    assert model.kinds_["when"] == "dates, 6 intervals" and model.outputs_ == ("answer",)
    model.save(tmp_path / "t.loopwise")
    again = Table.load(tmp_path / "t.loopwise")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.kinds_ == model.kinds_ and again.columns_ == tuple(frame.columns)
    holes = frame.iloc[:5].copy()
    holes.loc[0, "kind"] = None
    filled = again.impute(holes)
    assert list(filled.columns) == list(frame.columns) and filled.loc[0, "kind"] in ("p", "q", "r")
    assert lw.System.load(tmp_path / "t.loopwise").vocabulary.names[-1] == "answer"
    with pytest.raises(ValueError, match="holds a Table"):
        MRFClassifier.load(tmp_path / "t.loopwise")


def test_missing_cells_that_training_never_met_are_told() -> None:
    x, y = patients(60, seed=0)
    model = Table(missing=[0.5, 0.0, 0.0]).fit(x, y, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.predict([[None, 1.0, "u"]])
    with pytest.warns(DataWarning, match="rows miss 'x1'"):
        model.predict([["p", None, "u"]])
    with pytest.warns(DataWarning, match="1 cells hold labels that training did not see.*'z' in column 'x0'"):
        model.predict([["z", 1.0, "u"]])


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({"outputs": ["none"]}, {}, "no column is called 'none'"),
        ({"outputs": [7]}, {}, "there is no column 7"),
        ({}, {"empty": 1}, "column 'x1' has no value in any row"),
        ({"outputs": [0, 1, 2]}, {}, "all columns are outputs"),
        ({"outputs": [0]}, {"unique": 0}, "1500 different labels"),
        ({"missing": 1.5}, {}, "a rate of missing cells must be at least 0 and below 1, not 1.5"),
        ({"missing": [0.1, 0.2]}, {}, "2 rates of missing cells were given for 3 columns"),
        ({"bins": 1}, {}, "bins must be a number from 2"),
        ({"bins": 2.5}, {}, "bins must be a number from 2 to 1000, not 2.5"),
        ({"sweeps": 2.5}, {}, "sweeps must be a whole number of at least 1, not 2.5"),
        ({"threads": 0}, {}, "threads must be a whole number of at least 1, not 0"),
        ({"seed": None}, {}, "seed must be a whole number of at least 0, not None"),
        ({"price": -1.0}, {}, "price must be a finite number, at least 0, not -1.0"),
        ({"structure": "tree"}, {}, "structure must be None or one of loopwise.apps.table.*not 'tree'"),
        ({"outputs": ["x0", 0]}, {}, "outputs lists column 'x0' twice"),
        ({"outputs": 1.5}, {}, "outputs must be names or numbers of columns, not 1.5"),
        ({"missing": {"x7": 0.1}}, {}, "no input column is called 'x7'"),
    ],
)
def test_bad_tables_are_told_in_one_sentence(options: dict[str, Any], change: dict[str, int], words: str) -> None:
    x, _ = patients(1500 if "unique" in change else 20, seed=0)
    if "empty" in change:
        x[:, change["empty"]] = None
    if "unique" in change:
        x[:, change["unique"]] = [f"name {row}" for row in range(len(x))]
    with pytest.raises(ValueError, match=words):
        Table(**options).fit(x, progress=False)


def test_names_that_are_there_twice_and_labels_for_other_rows_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = patients(20, seed=0)
    with pytest.raises(ValueError, match="two columns are called 'size'; give each a name of its own"):
        Table().fit(pandas.DataFrame(x, columns=["kind", "size", "size"]), y, progress=False)
    with pytest.raises(ValueError, match="20 rows of X, 19 of y; give as many"):
        Table().fit(x, y[:-1], progress=False)
    with pytest.raises(ValueError, match="y was given as well; give one of them"):
        Table(outputs=["x0"]).fit(x, y, progress=False)
    with pytest.raises(ValueError, match="10000 different labels, more than 1000; put labels together"):
        Table().fit(np.zeros((10_000, 1)), [f"name {row}" for row in range(10_000)], progress=False)


def test_odd_tables_are_told_of_and_learnt() -> None:
    x, y = patients(40, seed=0)
    with pytest.warns(DataWarning, match="output 'y0' has one value, 'yes'"):
        model = Table().fit(x, np.full(40, "yes"), progress=False)
    assert set(model.predict(x)) == {"yes"}
    mixed = x.copy()
    mixed[3, 1] = "large"
    with pytest.warns(DataWarning, match="column 'x1' holds 39 numbers and 1 texts such as 'large'"):
        Table().fit(mixed, y, progress=False)
    lost = x.copy()
    lost[:, 1] = None
    with pytest.warns(DataWarning, match="column 'x1' has no value in any row"):
        assert Table().fit(lost, y, progress=False).score(x, y) > 0.8
    empty = x.copy()
    empty[:5] = None
    assert Table().fit(empty, y, progress=False).predict([[None, None, None]]).shape == (1,)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="only 1 rows"):
        warnings.simplefilter("ignore", DataWarning)
        Table().fit(x, [None] * 39 + ["yes"], progress=False)


def test_rows_count_as_often_as_they_are_told_in_any_order() -> None:
    x, y = patients(40, seed=0, missing=0.1)
    often = np.random.default_rng(1).integers(0, 3, 40)
    order = np.random.default_rng(2).permutation(40)
    repeated = Table().fit(np.repeat(x, often, axis=0), np.repeat(y, often), progress=False)
    weighted = Table().fit(x[order], y[order], sample_weight=often[order], progress=False)
    test = patients(30, seed=3, missing=0.3)[0]
    np.testing.assert_array_equal(weighted.predict_proba(test), repeated.predict_proba(test))
    turned = np.where(y == "yes", "no", "yes").astype(object)  # of next to no weight: nothing is learnt of them
    both = Table().fit(np.concatenate([x, x]), np.concatenate([y, turned]), np.repeat([1.5, 1e-4], 40), progress=False)
    assert both.score(x, y) > 0.8
    with pytest.raises(ValueError, match="negative"):
        Table().fit(x, y, sample_weight=-np.ones(40))


def test_batches_go_on_from_the_first() -> None:
    x, y = patients(60, seed=0)
    model = Table().partial_fit(x, y, classes=["maybe", "no", "yes"])
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    before = model.predict_proba(x)
    for seed in range(1, 6):
        other, _ = patients(100, seed=seed)
        model.partial_fit(other, np.where(other[:, 0] == "p", "maybe", "yes"))  # what the first batch never said
    assert before[x[:, 0] == "p", 0].max() < 0.1 < 0.4 < model.predict_proba(x)[x[:, 0] == "p", 0].mean()
    assert model.card_["figures"]["batches"] == 6
    again = Table().fit_batches([(x, y), patients(50, seed=9)], progress=False)
    assert again.score(*patients(200, seed=10)) > 0.85
    whole = np.concatenate([x, y[:, None]], axis=1)
    every = Table().partial_fit(whole).partial_fit(whole)
    assert np.mean(every.predict(whole, column="x3") == y) > 0.8
    with pytest.raises(ValueError, match="y must be given in every batch"):
        every.partial_fit(whole, y)


def test_a_saved_model_goes_on_with_batches(tmp_path: Path) -> None:
    x, y = patients(60, seed=0)
    Table().fit(x, y, progress=False).save(tmp_path / "t.loopwise")
    model = Table.load(tmp_path / "t.loopwise")
    before = model.predict_proba(x)
    model.partial_fit(*patients(64, seed=1))
    assert (model.predict_proba(x) != before).any() and model.score(x, y) > 0.85


def test_classifier_of_plain_bp_answers_rows_as_its_system_does() -> None:
    x, y = patients(60, seed=0, missing=0.2)
    model = MRFClassifier(ColumnChain(), iterations=10).fit(x, y, progress=False)
    assert model._row_answers[0] is not None
    beliefs = model.system_.predict_marginals(model._asked(x)).numpy()
    np.testing.assert_allclose(model.predict_proba(x), beliefs[:, 3, :2], atol=1e-12)
    with torch.no_grad():
        for weights in model.system_.parameters():
            weights.zero_()
    np.testing.assert_allclose(model.predict_proba(x), 0.5)  # changed weights are seen


def test_scikit_learns_checks_pass() -> None:
    pytest.importorskip("sklearn", "1.6")
    from sklearn.utils import estimator_checks

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator_checks.check_estimator(Table(), on_fail=None)
    failed = {entry["check_name"]: str(entry["exception"]) for entry in found if entry["status"] == "failed"}
    assert not failed and sum(entry["status"] == "passed" for entry in found) > 50, failed
