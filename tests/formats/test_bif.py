"""BIF: what a Bayesian network says, and back; and a sentence about the line where it is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise.formats import (
    FormatError,
    ModelKind,
    TableModel,
    Vocabulary,
    read_bif,
    read_model,
    write_bif,
    write_model,
)

ASIA = """
// the first two of a classic
network "lungs" { property version 1.0 ; }
variable season { type discrete [ 3 ] { winter, "late spring", summer }; property position = (1, 2) ; }
variable flu { type discrete[2] { no, yes }; }
variable fever { type discrete [ 2 ] { no, yes }; /* of the body */ }
probability ( season ) { table 0.5, 0.25, 0.25; }
probability ( fever | flu, season ) {
  (no, winter) 0.9, 0.1;
  (yes, "late spring") 0.3, 0.7;
  default 0.5 0.5;
}
probability ( flu | season ) {
  property kind = conditional ;
  table 0.7 0.8 0.9 0.3 0.2 0.1;
}
"""


def file_of(folder: Path, text: str) -> Path:
    path = folder / "network.bif"
    path.write_text(text)
    return path


def test_a_network_is_read(tmp_path: Path) -> None:
    model = read_model(file_of(tmp_path, ASIA))
    assert model.kind is ModelKind.BAYES and model.vocabulary is not None
    assert model.vocabulary.names == ("season", "flu", "fever")
    assert model.vocabulary.labels[0] == ("winter", "late spring", "summer")
    assert model.scopes == ((0,), (0, 1), (1, 0, 2))
    assert model.tables[1].tolist() == [[0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]  # the variable itself changes slowest
    assert model.tables[2][0, 0].tolist() == [0.9, 0.1] and model.tables[2][1, 1].tolist() == [0.3, 0.7]
    assert model.tables[2][0, 1].tolist() == [0.5, 0.5]


def test_names_go_all_the_way_to_the_answer(tmp_path: Path) -> None:
    graph, tables = lw.FactorGraph.from_model(read_bif(file_of(tmp_path, ASIA)))
    flu = lw.Exact()(graph, tables, {"season": "winter", "fever": "yes"})["flu"]
    assert flu["yes"] == pytest.approx(0.3 * 0.5 / (0.3 * 0.5 + 0.7 * 0.1))
    assert lw.Exact()(graph, tables).log_partition.item() == pytest.approx(0.0, abs=1e-12)


def test_it_is_written_as_it_was_read(tmp_path: Path) -> None:
    model = read_bif(file_of(tmp_path, ASIA))
    write_model(tmp_path / "again.bif.gz", model)
    assert read_model(tmp_path / "again.bif.gz") == model
    rng = np.random.default_rng(0)
    shapes = [(3,), (3, 2), (2, 3, 4)]
    factors = [
        (scope, table / table.sum(-1, keepdims=True))
        for scope, shape in zip([(1,), (1, 0), (0, 1, 2)], shapes, strict=True)
        for table in [rng.random(shape)]
    ]
    made = TableModel.of([2, 3, 4], factors, kind=ModelKind.BAYES)
    write_bif(tmp_path / "made.bif", made)
    again = read_bif(tmp_path / "made.bif")
    by_variable = {scope[-1]: table for scope, table in zip(made.scopes, made.tables, strict=True)}
    assert again.names.names == ("0", "1", "2")
    assert all(np.array_equal(by_variable[place], table) for place, table in enumerate(again.tables))


def test_other_models_are_no_bayesian_networks(tmp_path: Path) -> None:
    one = np.array([0.5, 0.5])
    pair = np.full((2, 2), 0.5)
    for message, factors in {
        "this model has other factors": [((0,), one), ((0, 1), pair), ((1, 0), pair)],
        "its own parent": [((0, 1), pair), ((1, 0), pair)],
        "variable '1' sums to": [((0,), one), ((0, 1), 2 * pair)],
    }.items():
        with pytest.raises(ValueError, match=f"(?s){message}.*write the model as .uai or .fg"):
            write_bif(tmp_path / "no.bif", TableModel.of([2, 2], factors))
    names = Vocabulary(('say "a"',), (("0", "1"),))
    with pytest.raises(ValueError, match="without quotation marks"):
        write_bif(tmp_path / "no.bif", TableModel.of([2], [((0,), one)], vocabulary=names))
    assert not (tmp_path / "no.bif").exists()


COIN = "variable coin { type discrete [ 2 ] { heads, tails }; }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "declares no variable"),
        ("MARKOV 3", "line 1: 'MARKOV' begins no block of a BIF file"),
        (COIN, "variable 'coin' has no distribution; add probability"),
        (COIN + "probability ( coin ) { table 0.5, 0.4; }", "line 2: the probabilities of 'coin' sum to 0.9"),
        (COIN + "probability ( coin ) { table 0.5; }", "line 2: the table of 'coin' has 1 probabilities; 2 are needed"),
        (COIN + "probability ( coin ) { table 0.5, half; }", "holds 'half'; probabilities are numbers"),
        (COIN + "probability ( coin ) { table -0.5, 1.5; }", "holds '-0.5'"),
        (COIN + "probability ( coin ) { table nan, 1.5; }", "holds 'nan'"),
        (COIN + "probability ( coins ) { table 1; }", "line 2: no variable is called 'coins'"),
        (COIN + "probability ( coin | coin ) { default 1 0; }", "names a variable twice"),
        (COIN + "probability ( coin ) {\n table 0.5, 0.5", "line 3: the file ends where"),
        (COIN + COIN, "line 2: variable 'coin' is declared twice"),
        ("variable x { type discrete [ 3 ] { a, b }; }", "lists 2 values and says [ 3 ]"),
        ("variable x { type discrete [ 2 ] { a, a }; }", "lists the value 'a' twice"),
        ("variable x { type discrete [ 0 ] { }; }", "has no value"),
        ("variable x { type continuous [ 2 ] { a, b }; }", "only discrete ones are supported"),
        ("variable x { }", "has no type"),
        ('variable "x { }', "line 1: a quotation mark opens here"),
        ("/* variable", "a comment opens here"),
        ('variable "" { }', "nothing between the quotation marks where the name of a variable should be"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=re.escape(message)) as problem:
        read_bif(file_of(tmp_path, text))
    assert "\n" not in str(problem.value)


def test_rows_of_parents(tmp_path: Path) -> None:
    two = COIN + COIN.replace("coin", "other") + "probability ( other ) { table 0.5 0.5; }\n"
    for rows, message in {
        "(heads) 1 0;": "has no row given other = tails; give it, or a default",
        "(edge) 1 0;": "variable 'other' has no value 'edge'; it has 'heads', 'tails'",
        "(heads, tails) 1 0;": "gives 2 values to 1 parents",
        "heads 1 0;": "a row of 'coin', or table, default or property",
    }.items():
        with pytest.raises(FormatError, match=re.escape(message)):
            read_bif(file_of(tmp_path, f"{two}probability ( coin | other ) {{ {rows} }}"))
    cycle = two.replace("probability ( other )", "probability ( other | coin )").replace("table", "default")
    with pytest.raises(FormatError, match="its own parent"):
        read_bif(file_of(tmp_path, f"{cycle}probability ( coin | other ) {{ default 0.5 0.5; }}"))


def test_a_short_file_asks_for_little_memory(tmp_path: Path) -> None:
    many = "".join(COIN.replace("coin", f"c{number}") for number in range(30))
    parents = ", ".join(f"c{number}" for number in range(1, 30))
    with pytest.raises(FormatError, match="too many entries"):
        read_bif(file_of(tmp_path, f"{many}probability ( c0 | {parents} ) {{ default 0.5 0.5; }}"))
