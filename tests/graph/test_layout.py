"""The compiled integers, against plain loops over factors."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import example, given

from loopwise.graph import FactorGraph, chain, grid
from loopwise.graph.layout import Layout
from oracles.strategies import graphs


def listed_edges(graph: FactorGraph) -> list[tuple[int, int]]:
    """(factor, variable) of each edge, factors of arity 2 and more counted in order."""
    scopes = [scope for group in graph.groups if group.arity >= 2 for scope in group.scopes.tolist()]
    return [(factor, variable) for factor, scope in enumerate(scopes) for variable in scope]


def has_cycle(graph: FactorGraph) -> bool:
    """By growing components: a factor that touches one component twice closes a cycle."""
    component = list(range(graph.variables))
    for group in graph.groups:
        for scope in group.scopes.tolist():
            touched = {component[variable] for variable in scope}
            if len(touched) < len(scope):
                return True
            component = [min(touched) if mark in touched else mark for mark in component]
    return False


@given(graphs(variables=(0, 6)))
def test_states_edges_and_slots(graph: FactorGraph) -> None:
    layout = graph.layout
    states = [(variable, value) for variable, size in enumerate(graph.cardinalities) for value in range(size)]
    edges = listed_edges(graph)
    slots = [
        (edge, value) for edge, (_, variable) in enumerate(edges) for value in range(graph.cardinalities[variable])
    ]
    assert layout.states == len(states)
    assert layout.state_variable.tolist() == [variable for variable, _ in states]
    assert layout.edges == len(edges)
    assert layout.edge_variable.tolist() == [variable for _, variable in edges]
    assert layout.edge_factor.tolist() == [factor for factor, _ in edges]
    assert layout.message_factors == len({factor for factor, _ in edges})
    assert layout.slots == len(slots)
    assert layout.slot_state.tolist() == [states.index((edges[edge][1], value)) for edge, value in slots]
    for variable in range(graph.variables):
        mine = layout.variable_edges[layout.variable_edge_start[variable] : layout.variable_edge_start[variable + 1]]
        assert mine.tolist() == [edge for edge, (_, other) in enumerate(edges) if other == variable]
        assert layout.degrees[variable] == len(mine)


@given(graphs(variables=(0, 6)))
def test_groups_by_arity_and_where_they_begin(graph: FactorGraph) -> None:
    layout = graph.layout
    assert [member.group for member in layout.message_groups] == [g for g in graph.groups if g.arity >= 2]
    assert list(layout.unary_groups) == [group for group in graph.groups if group.arity == 1]
    assert list(layout.constant_groups) == [group for group in graph.groups if group.arity == 0]
    edge = slot = 0
    for member in layout.message_groups:
        assert (member.edge_start, member.slot_start) == (edge, slot)
        edge += member.group.count * member.group.arity
        slot += member.group.count * member.width
    assert (edge, slot) == (layout.edges, layout.slots)


@given(graphs())
def test_cell_slots_name_the_value_along_each_axis(graph: FactorGraph) -> None:
    for member in graph.layout.message_groups:
        shape = member.group.shape
        assert member.width == sum(shape)
        cells = list(product(*(range(size) for size in shape)))
        assert member.cell_slots.tolist() == [
            [sum(shape[:axis]) + value for axis, value in enumerate(cell)] for cell in cells
        ]


@given(graphs(variables=(0, 6)))
def test_forest_by_growing_components(graph: FactorGraph) -> None:
    assert graph.layout.is_forest == (not has_cycle(graph))


@given(graphs(trees=True))
def test_generated_trees_are_forests(graph: FactorGraph) -> None:
    assert graph.layout.is_forest


@given(graphs(variables=(0, 6)))
@example(grid(3, 4))
@example(chain(5))
def test_sequential_order_visits_all_and_pulls_what_is_news(graph: FactorGraph) -> None:
    order = graph.layout.sequential
    assert sorted(order.variables.tolist()) == list(range(graph.variables))
    when = {variable: time for time, variable in enumerate(order.variables.tolist())}
    edges = listed_edges(graph)
    for edge, (factor, variable) in enumerate(edges):
        others = [when[other] for number, other in edges if number == factor and other != variable]
        assert order.pull_forward[edge] == any(time < when[variable] for time in others)
        assert order.pull_backward[edge] == any(time > when[variable] for time in others)
    assert order.messages == order.pull_forward.sum() + order.pull_backward.sum()


@given(graphs(trees=True, variables=(2, 8), most_factors=10))
def test_a_forest_is_visited_children_first(graph: FactorGraph) -> None:
    """Going forward each variable but a root has one factor left to hear from: that of its parent."""
    layout = graph.layout
    when = np.argsort(layout.sequential.variables)
    edges = listed_edges(graph)
    for variable in range(graph.variables):
        unheard = 0
        for factor in [number for number, member in edges if member == variable]:
            later = [other for number, other in edges if number == factor and when[other] > when[variable]]
            unheard += bool(later)
        assert unheard <= 1


def test_a_grid_is_visited_in_raster_order() -> None:
    assert grid(4, 5).layout.sequential.variables.tolist() == list(range(20))


def test_layout_is_compiled_once() -> None:
    graph = grid(2, 2)
    assert graph.layout is graph.layout
    assert isinstance(graph.layout, Layout)
