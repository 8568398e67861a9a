"""Factor graphs: what they hold, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats import TableModel
from loopwise.graph import FactorGraph
from loopwise.graph.evidence import clamped_values
from loopwise.graph.factor_graph import shape_name
from oracles.strategies import graphs


def test_groups_hold_what_was_given() -> None:
    graph = FactorGraph([2, 3, 2, 1], {"pair": [[0, 1], [2, 1]], "one": [[3]], "constant": np.zeros((2, 0), int)})
    assert graph.variables == 4
    assert graph.factors == 5
    assert [(group.name, group.count, group.arity, group.shape, group.cells) for group in graph.groups] == [
        ("pair", 2, 2, (2, 3), 6),
        ("one", 1, 1, (1,), 1),
        ("constant", 2, 0, (), 1),
    ]
    assert graph.group("pair").scopes.tolist() == [[0, 1], [2, 1]]
    assert graph.uniform_cardinality is None
    assert repr(graph) == "FactorGraph(4 variables, 5 factors: pair 2 of 2x3, one 1 of 1, constant 2)"


def test_structure_cannot_be_changed_from_outside() -> None:
    cards, scopes = np.array([2, 2]), np.array([[0, 1]])
    graph = FactorGraph(cards, {"pair": scopes})
    cards[0], scopes[0, 0] = 7, 1
    assert graph.cardinalities.tolist() == [2, 2]
    assert graph.group("pair").scopes.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        graph.cardinalities[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        graph.group("pair").scopes[0, 0] = 1


@pytest.mark.parametrize(
    ("cardinalities", "factors", "message"),
    [
        ([2, 0], {}, "variable 1 has cardinality 0"),
        ([2, -3], {}, "variable 1 has cardinality -3"),
        ([2.0, 2.0], {}, "cardinalities must be integers, not float64"),
        ({"smoker": ["no", "yes"]}, {}, r"names go beside them, vocabulary="),
        ([[2, 2]], {}, r"one-dimensional, not of shape \(1, 2\)"),
        ([2, 2], {"pair": [[0, 1], [0, 2]]}, "factor 1 of group 'pair' names variable 2.*variables 0 to 1"),
        ([2, 2], {"pair": [[0, -1]]}, "factor 0 of group 'pair' names variable -1"),
        ([], {"one": [[0]]}, "factor 0 of group 'one' names variable 0; the graph has no variables"),
        (
            [2, 2],
            {"pair": [[0, 1], [1, 1]]},
            r"factor 1 of group 'pair' repeats a variable in its scope \[1, 1\]",
        ),
        ([2, 2, 2], {"three": [[0, 1, 0]]}, r"factor 0 of group 'three' repeats a variable"),
        ([2, 3], {"one": [[0], [1]]}, "group 'one' mixes table shapes: factor 0 is 2, factor 1 is 3"),
        ([2, 3, 2], {"p": [[0, 1], [2, 1], [1, 0]]}, "group 'p' mixes table shapes: .* 2x3, factor 2 is 3x2"),
        ([2, 2], {"mixed": [[0], [0, 1]]}, "scopes of group 'mixed' differ in arity"),
        ([2, 2], {"pair": [0, 1]}, r"scopes of group 'pair' must be an array \[factors, arity\]"),
        ([2, 2], {"pair": [[0.0, 1.0]]}, "scopes of group 'pair' must be integers, not float64"),
        ([2, 2], {"pair": []}, "group 'pair' has no factors"),
    ],
)
def test_refuses_and_names_the_offender(cardinalities: object, factors: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactorGraph(cardinalities, factors)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ([[0], [0, 5]], "factor 1 names variable 5; the graph has variables 0 to 2"),
        ([[0], [-1]], "factor 1 names variable -1"),
        ([[0, 1], [2, 0, 2]], r"factor 1 repeats a variable in its scope \[2, 0, 2\]"),
        ([[0, 1.0]], r"factor 0 must name its variables by integers, not \[0, 1.0\]"),
    ],
)
def test_from_scopes_refuses_and_names_the_factor(scopes: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactorGraph.from_scopes([2, 3, 2], scopes)


def test_from_factors_refuses_a_table_of_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"factor 1 over variables \[1, 0\] .* shape \(2, 3\); .* ask for \(3, 2\)"):
        FactorGraph.from_factors([2, 3], [([0], np.zeros(2)), ([1, 0], np.zeros((2, 3)))])


def test_unknown_group_and_factor_are_named() -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    with pytest.raises(ValueError, match=r"no factor group 'other'; the graph has \['pair'\]"):
        graph.group("other")
    for number in (1, -1):
        with pytest.raises(ValueError, match=f"factor {number} is out of range: the graph has 1 factors"):
            graph.locate(number)


@given(st.data())
def test_from_factors_keeps_every_factor_where_locate_says(data: st.DataObject) -> None:
    cards = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    scope = st.lists(st.integers(0, len(cards) - 1), max_size=3, unique=True)
    scopes = data.draw(st.lists(scope, max_size=8))
    rng = np.random.default_rng(0)
    factors = [(members, rng.normal(size=tuple(cards[v] for v in members))) for members in scopes]
    graph, tables = FactorGraph.from_factors(cards, factors)
    assert graph.factors == len(factors)
    assert set(tables) == {group.name for group in graph.groups}
    for number, (members, table) in enumerate(factors):
        name, row = graph.locate(number)
        assert name == shape_name(table.shape)
        assert graph.group(name).scopes[row].tolist() == members
        assert np.array_equal(tables[name][row], table)


@given(graphs())
def test_locate_counts_group_by_group(graph: FactorGraph) -> None:
    expected = [(group.name, row) for group in graph.groups for row in range(group.count)]
    assert [graph.locate(number) for number in range(graph.factors)] == expected


def test_a_million_factors_from_arrays() -> None:
    count = 1_000_000
    first = np.arange(count)
    graph = FactorGraph(np.full(count + 1, 2), {"pair": np.stack([first, first + 1], axis=1)})
    assert graph.factors == graph.group("pair").count == count
    layout = graph.layout
    assert layout.edges == 2 * count
    assert layout.degrees[0] == layout.degrees[-1] == 1
    assert (layout.degrees[1:-1] == 2).all()
    assert layout.is_forest
    broken = np.stack([first, first + 1], axis=1)
    broken[777_777, 1] = broken[777_777, 0]
    with pytest.raises(ValueError, match="factor 777777 of group 'pair' repeats a variable"):
        FactorGraph(np.full(count + 1, 2), {"pair": broken})


def test_equality_is_of_structure() -> None:
    def make(last: int = 1, name: str = "pair", cards: tuple[int, ...] = (2, 2, 2)) -> FactorGraph:
        return FactorGraph(cards, {name: [[0, last]]})

    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != make(last=2)
    assert make() != make(name="other")
    assert make() != make(cards=(2, 2, 3))
    assert make() != "a graph"


def test_an_empty_group_has_the_shape_its_factors_would_have() -> None:
    none = np.zeros((0, 2), dtype=np.int64)
    assert FactorGraph([3, 3], {"pair": none}).group("pair").shape == (3, 3)
    assert FactorGraph([3, 2], {"pair": none}).group("pair").shape == (1, 1)
    assert FactorGraph([], {"pair": none}).group("pair").count == 0


def test_graph_without_variables_or_factors() -> None:
    graph = FactorGraph([], {})
    assert (graph.variables, graph.factors, graph.layout.states, graph.layout.edges) == (0, 0, 0, 0)
    assert graph.uniform_cardinality is None
    assert repr(graph) == "FactorGraph(0 variables, 0 factors)"


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.uint64, np.int64])
def test_integers_of_any_kind(kind: type) -> None:
    graph = FactorGraph(np.array([2, 3], dtype=kind), {"pair": np.array([[0, 1]], dtype=kind)})
    assert graph == FactorGraph([2, 3], {"pair": [[0, 1]]}) and graph.cardinalities.dtype == np.int64
    assert graph.layout.state_start.tolist() == [0, 2, 5]
    assert clamped_values(graph, np.array([1, 2], dtype=kind)).tolist() == [1, 2]


def test_integers_that_are_too_large_do_not_wrap_around() -> None:
    huge = np.array([2**64 - 1, 2], dtype=np.uint64)
    with pytest.raises(ValueError, match="variable 0 has cardinality 18446744073709551615; all"):
        FactorGraph(huge, {})
    with pytest.raises(ValueError, match="variable 0 has cardinality 4611686018427387904; all"):
        FactorGraph(np.full(4, 2**62), {})
    with pytest.raises(ValueError, match="group 'pair' must be integers of 64 bits; 18446744073709551615 is too large"):
        FactorGraph([2, 2], {"pair": huge[None]})
    with pytest.raises(ValueError, match="evidence must be integers of 64 bits; 18446744073709551615 is too large"):
        clamped_values(FactorGraph([2, 2], {}), huge)


@pytest.mark.parametrize("given", [[2.0, 2.0], [True, True], [2**70, 2], ["2", "2"]])
def test_what_is_no_integer_is_one_sentence(given: list[object]) -> None:
    with pytest.raises(ValueError, match="cardinalities must be integers, not"):
        FactorGraph(given, {})
    with pytest.raises(ValueError, match="cardinalities must be integers, not"):
        TableModel.of(given, [])
    with pytest.raises(ValueError, match="must be integers, not"):
        FactorGraph([3, 3], {"pair": [given]})
    with pytest.raises(ValueError, match="the scope of factor 0 must be integers, not"):
        TableModel.of([3, 3], [(given, np.ones((3, 3)))])  # type: ignore[list-item]
