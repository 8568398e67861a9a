"""Names everywhere: evidence, beliefs, data frames and files go by what variables and values are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.formats import Vocabulary

NAMES = Vocabulary(("smoker", "age", "flu"), (("no", "yes"), ("[-inf, 40)", "[40, inf)"), ("well", "ill")))
GRAPH = lw.FactorGraph([2, 2, 2], {"pair": [[0, 2], [1, 2]]})


def system(**options: Any) -> lw.System:
    return lw.System(lw.TablePotentials.random(GRAPH, seed=0), lw.BP(), vocabulary=NAMES, **options)


def test_evidence_and_beliefs_by_name() -> None:
    by_name, by_number = system().beliefs({"smoker": "yes", "age": 57}), system().beliefs({0: 1, 1: 1})
    assert torch.equal(by_name.states, by_number.states)
    assert by_name["flu"].to_dict() == {"well": by_name.states[4].item(), "ill": by_name.states[5].item()}
    assert by_name["flu"]["ill"] == by_name.states[5].item()
    assert str(by_name["smoker"]) == "smoker: no 0, yes 1"
    many = system().beliefs([{"smoker": "yes"}, {"smoker": "no"}, {}])["flu"]
    assert many["ill"].shape == (3,) and many.best[0] in ("well", "ill")
    assert system().predict({"flu": "ill"})[2] == 1
    assert system().predict([{"flu": "ill"}, {"flu": "well"}])[:, 2].tolist() == [1, 0]


def test_the_best_few_and_samples_by_name() -> None:
    best = system().k_best(10, {"smoker": "yes"})
    assert len(best) == 4 and best.probabilities.sum().item() == pytest.approx(1)
    assert all(found["smoker"] == "yes" for found in best.named())
    ill = sum(p for p, found in zip(best.probabilities.tolist(), best.named(), strict=True) if found["flu"] == "ill")
    assert ill == pytest.approx(system().beliefs({"smoker": "yes"})["flu"]["ill"])  # BP is exact on this tree
    drawn = system().draw(500, {"smoker": "yes"}, seed=1)
    assert np.mean([found["flu"] == "ill" for found in drawn.named()]) == pytest.approx(ill, abs=0.1)


def test_a_graph_with_names_needs_no_system() -> None:
    graph = GRAPH.named(NAMES)
    tables = lw.TablePotentials.random(graph, seed=0)
    for inference in (lw.BP(), lw.Exact(), lw.MeanField()):
        assert inference(graph, tables, {"flu": "ill"})["flu"]["ill"] == 1.0
    assert lw.System(tables, lw.BP()).vocabulary is NAMES
    assert graph == GRAPH and GRAPH.vocabulary is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"smokr": "yes"}, "no variable is called 'smokr'; did you mean 'smoker'?"),
        ({"smoker": "maybe"}, "variable 'smoker' has no value 'maybe'; the values are 'no', 'yes'"),
        ({"smoker": True}, "has no value 'True'"),
        ({"smoker": 7}, "gives variable 0 the value 7"),
        ({"smoker": None}, "not None"),
        ({"age": "old"}, "variable 'age' has no value 'old'"),
    ],
)
def test_names_that_are_not_there(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as problem:
        system().beliefs(given)
    assert message in str(problem.value)


def test_names_need_a_vocabulary() -> None:
    plain = lw.System(lw.TablePotentials.random(GRAPH, seed=0), lw.BP())
    with pytest.raises(ValueError, match="for names, give the graph or the system a vocabulary"):
        plain.beliefs({"smoker": "yes"})
    with pytest.raises(ValueError, match="give it a vocabulary, or ask marginal"):
        plain.beliefs()["flu"]
    with pytest.raises(ValueError, match="no value 'sick'"):
        system().beliefs()["flu"]["sick"]


def test_a_trained_system_writes_what_other_programs_read(tmp_path: Path) -> None:
    tied = lw.System(lw.TablePotentials(GRAPH, {"pair": torch.tensor([[0.0, 1.0], [-1.0, 0.5]])}), lw.BP())
    for given in (system(), tied):
        for name in ("model.uai", "model.fg.gz"):
            given.export(tmp_path / name)
            graph, tables = lw.FactorGraph.from_model(lw.formats.read_model(tmp_path / name))
            mine, theirs = given.beliefs({2: 1}), lw.BP()(graph, tables, {2: 1})
            torch.testing.assert_close(theirs.states, mine.states)
            torch.testing.assert_close(theirs.log_partition, mine.log_partition)
    assert system().to_model().vocabulary == NAMES
    structured = lw.FactorGraph([2, 2], {}, {"one": (lw.ExactlyOne(2), [0, 1])})
    with pytest.raises(ValueError, match="model files hold tables, and ExactlyOne is none; save"):
        lw.System(lw.TablePotentials(structured), lw.BP()).export(tmp_path / "no.uai")
    large = lw.System(lw.TablePotentials(GRAPH, {"pair": torch.full((2, 2), 1000.0)}), lw.BP())
    with pytest.raises(ValueError, match="log-potential of 1000, whose exponential no file can hold"):
        large.export(tmp_path / "no.uai")


# --- Data frames -----------------------------------------------------------------------------------------------------


def columns(count: int = 60) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    smoker = rng.random(count) < 0.5
    return {
        "smoker": [None if place == 4 else "yes" if known else "no" for place, known in enumerate(smoker)],
        "age": [None if place == 3 else float(20 + place) for place in range(count)],
        "flu": ["ill" if known else "well" for known in smoker],
    }


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_from_end_to_end(library: str) -> None:
    frames = pytest.importorskip(library)
    pytest.importorskip("narwhals")
    frame = frames.DataFrame(columns())
    train = lw.Examples.from_frame(frame, outputs=["flu"], bins=4)
    assert train.graph.vocabulary is not None and train.graph.vocabulary.names == ("smoker", "age", "flu")
    assert len(train.graph.vocabulary.labels[1]) == 4 and train.graph.factors == 5  # inputs are not joined
    model = lw.System(lw.TablePotentials(train.graph), lw.BP(), roles=train.roles[0])
    lw.fit(model, train, lw.loss.SurrogateLikelihood(), epochs=15, progress=False)
    asked = frames.DataFrame({"smoker": ["yes", "no", None], "age": [-5.0, 400.0, None]})
    answer = model.predict(asked)
    assert type(answer) is type(frame) and list(answer.columns) == ["flu"]
    assert answer["flu"].to_list()[:2] == ["ill", "well"]
    assert lw.evaluate(model, frame, lw.metric.Accuracy()) > 0.9
    table = model.beliefs({"smoker": "yes"}).to_frame(library)
    assert list(table.columns) == ["variable", "value", "probability"] and len(table) == 8
    assert model.beliefs(asked).to_frame(library)["example"].to_list()[-1] == 2
    with pytest.warns(lw.notices.DataWarning, match="1 cells hold labels that training did not see, the first on"):
        model.predict(frames.DataFrame({"smoker": ["sometimes"]}))
    with pytest.raises(ValueError, match="no variable is called 'smokes'; did you mean 'smoker'"):
        model.predict(frames.DataFrame({"smokes": ["yes"]}))


def test_what_a_data_frame_must_have() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns())
    with pytest.raises(ValueError, match="no variable is called 'cough'"):
        lw.Examples.from_frame(frame, outputs=["cough"])
    with pytest.raises(ValueError, match="column 'empty' has no value in any row"):
        lw.Examples.from_frame(frame.assign(empty=None), outputs=["flu"])
    hidden = lw.Examples.from_frame(frame, outputs=["flu"], hidden=["kind"])
    assert hidden.graph.cardinalities.tolist()[-1] == 2 and (hidden.roles[:, 3] == lw.Role.HIDDEN).all()
    with pytest.raises(ValueError, match="give it a vocabulary, or no graph"):
        lw.Examples.from_frame(frame, outputs=["flu"], graph=GRAPH)
    every = lw.Examples.from_frame(frame, outputs=["flu"])
    with pytest.raises(ValueError, match="nothing is left to predict: leave out the columns"):
        lw.System(lw.TablePotentials(every.graph), lw.BP()).predict(frame.head(2))
    with pytest.raises(ValueError, match="data frame means nothing to it"):
        lw.System(lw.TablePotentials(GRAPH), lw.BP()).predict(frame)
