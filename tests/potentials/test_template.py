"""Templates: batches as unions, what is kept, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from oracles.template_cases import CASES, SENTENCES, TREES, Arcs, SkipChain


def batch_of(template: lw.Template, examples: list[Any]) -> lw.potentials.TemplateBatch:
    return lw.TemplateExamples.of(template, examples).batch


def test_a_batch_says_where_each_example_stands() -> None:
    batch = batch_of(SkipChain(), SENTENCES)
    assert len(batch) == 5 and batch.variables == 14 and batch.examples[1] is SENTENCES[1]
    assert batch.variable_start.tolist() == [0, 3, 4, 8, 10, 14]
    assert batch.factor_start("step").tolist() == [0, 2, 2, 5, 6, 9]
    assert batch.factor_start("same").tolist() == [0, 1, 1, 4, 4, 5]
    assert batch["word"].tolist() == [word for sentence in SENTENCES for word in sentence["words"]]
    assert batch.scopes("same").tolist() == [[0, 2], [4, 6], [4, 7], [6, 7], [10, 12]]
    assert (batch.factors("step"), batch.factors("nothing")) == (9, 0)
    joined = batch.concatenate([np.full(len(sentence["words"]), place) for place, sentence in enumerate(SENTENCES)])
    assert joined.tolist() == batch.union.variable_part.tolist()
    with pytest.raises(ValueError, match="2 arrays for a batch of 5 examples"):
        batch.concatenate([[0], [1]])
    with pytest.raises(ValueError, match=r"no array 'tag'; it gives \['word'\]"):
        batch["tag"]


def test_variable_numbers_are_shifted() -> None:
    class Pointing(SkipChain):
        def prepare(self, sentence: dict[str, Any]) -> dict[str, Any]:
            count = len(sentence["words"])
            return {"before": np.arange(count) - 1, "ends": np.array([[0, count - 1]])}

    batch = batch_of(Pointing(), SENTENCES[:3])
    assert batch.shifted("before").tolist() == [-1, 0, 1, -1, -1, 4, 5, 6]
    assert batch.shifted("ends").tolist() == [[0, 2], [3, 3], [4, 7]]


def test_structured_factors_follow_one_another() -> None:
    batch = batch_of(Arcs(), TREES)
    assert batch.factors("tree") == 4 and batch.factor_start("tree").tolist() == [0, 1, 2, 3, 4]
    assert batch.factor_start("chain").tolist() == [0, 1, 2, 2, 3]


def test_equal_graphs_and_unions_are_kept() -> None:
    template = SkipChain()
    first, twin = {"words": [0, 1, 0]}, {"words": [2, 3, 2]}
    examples = lw.TemplateExamples.of(template, [first, twin, {"words": [0, 1, 2]}])
    assert examples.graphs[0] is examples.graphs[1] is not examples.graphs[2]
    again = lw.TemplateExamples.of(template, [twin, first])
    assert again.graphs[0] is examples.graphs[0]
    assert again.union is examples[[0, 1]].union is not examples.union


def test_no_more_is_kept_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used go first; a single union is kept, whatever its size."""
    monkeypatch.setattr("loopwise.potentials.template.KEPT_UNIONS", 60)  # the sentences: 18, 2, 32, 8, 24 numbers
    examples = lw.TemplateExamples.of(SkipChain(), SENTENCES)
    first, second = examples[[0]].union, examples[[2]].union
    assert examples[[0]].union is first
    assert examples[[4]].union is examples[[4]].union  # 74 numbers: the second goes
    assert examples[[0]].union is first and examples[[2]].union is not second
    assert examples.union is examples.union and examples[[0]].union is not first


def test_a_graph_is_asked_for_once_a_shape() -> None:
    asked = []

    class Counted(Arcs):
        def graph(self, sentence: dict[str, Any]) -> lw.FactorGraph:
            asked.append(len(sentence["words"]))
            return super().graph(sentence)

    lw.TemplateExamples.of(Counted(), TREES)
    assert asked == [2, 3, 1]


@pytest.mark.parametrize("name", CASES)
def test_copies_begin_with_nothing_kept(name: str) -> None:
    kind, examples = CASES[name]
    template = kind()
    before = lw.TemplateExamples.of(template, examples)
    twin = copy.deepcopy(template)
    after = lw.TemplateExamples.of(twin, examples)
    assert after.graphs[0] is not before.graphs[0] and after.graphs[0] == before.graphs[0]
    assert pickle.loads(pickle.dumps(template)).state_dict().keys() == template.state_dict().keys()


class Wrong(SkipChain):
    """A skip chain with one thing replaced."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        self.parts = parts

    def graph(self, sentence: dict[str, Any]) -> Any:
        return self.parts["graph"] if "graph" in self.parts else super().graph(sentence)

    def prepare(self, sentence: dict[str, Any]) -> Any:
        return self.parts["prepare"](sentence) if "prepare" in self.parts else super().prepare(sentence)

    def potentials(self, batch: lw.potentials.TemplateBatch) -> Any:
        tables: Any = super().potentials(batch)
        if "tables" in self.parts:
            return self.parts["tables"]
        for name, table in self.parts.get("changed", {}).items():
            if table is None:
                del tables[name]
            else:
                tables[name] = table
        return tables


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"graph": [2, 2]}, "the graph of example 0 that Wrong gives is list; it must be a lw.FactorGraph"),
        ({"prepare": lambda s: s["words"]}, "must map names to arrays, but for example 0 it gives list"),
        ({"prepare": lambda s: {"word": 3}}, "'word' of example 0 as 3; it must be an array"),
        ({"prepare": lambda s: {str(len(s["words"])): [1]}}, r"gives \['1'\] for example 1 and \['3'\] for example 0"),
        ({"prepare": lambda s: {"word": np.zeros((1, len(s["words"])))}}, r"shape \(1, 1\) for example 1 and \(1, 3\)"),
        ({"tables": [1]}, "potentials of Wrong must map group names to tables, not be list"),
        ({"changed": {"step": None}}, "Wrong gives no potentials for group 'step' of its graphs; given are"),
        ({"changed": {"stp": torch.zeros(2, 2)}}, "potentials for group 'stp', which no graph of the batch has"),
        ({"changed": {"tag": torch.zeros(3, 2)}}, r"shape \(3, 2\) for group 'tag'; they must be \(14, 2\)"),
        ({"changed": {"step": torch.zeros(9, 2, 3)}}, r"\(9, 2, 3\) for group 'step'; they must be \(9, 2, 2\)"),
        ({"changed": {"step": "none"}}, "potentials of group 'step' of Wrong are no array of numbers"),
    ],
)
def test_what_disagrees_is_named(parts: dict[str, Any], message: str) -> None:
    template = Wrong(**parts)
    with pytest.raises(ValueError, match=message):
        lw.TemplateExamples.of(template, SENTENCES).tables(template)


def test_both_methods_must_be_written() -> None:
    class Empty(lw.Template):
        pass

    with pytest.raises(NotImplementedError, match="Empty must say what graph an example has"):
        lw.TemplateExamples.of(Empty(), [1])
    with pytest.raises(NotImplementedError, match="Empty must say what potentials"):
        Empty()(batch_of(SkipChain(), SENTENCES))


def test_potentials_of_groups_that_a_batch_does_not_have() -> None:
    alone = {"words": [1]}  # no step, no link: groups without factors take any table
    tables = lw.TemplateExamples.of(template := SkipChain(), [alone]).tables(template)
    assert tables["step"].shape == (0, 2, 2) and tables["same"].shape == (0, 2, 2)
    trees = Arcs()
    assert "chain" not in lw.TemplateExamples.of(trees, [TREES[2]]).tables(trees)
    system = lw.System(trees, lw.BP(iterations=3, tolerance=0))
    assert system.predict([TREES[2]])[0].tolist()[0] == 1  # a single token hangs at the root


def test_one_name_means_one_kind_of_factor() -> None:
    class Sized(lw.Template):
        def graph(self, size: int) -> lw.FactorGraph:
            return lw.FactorGraph([size], {"own": [[0]]})

        def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
            return {}

    with pytest.raises(ValueError, match="group 'own' is tables of 3 in the graph of example 2 and tables of 2 in"):
        lw.TemplateExamples.of(Sized(), [2, 2, 3])
