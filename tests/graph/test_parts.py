"""The parts of a union: what belongs to which, and the graph of some of them."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.graph.parts import Parts


def union() -> lw.graph.Union:
    odd = lw.FactorGraph([2, 3], {"pair": [[0, 1]]}, {"one": (lw.AtMostOne(1), [0])})
    return lw.graph.union([lw.chain(3), odd, lw.FactorGraph([4], {"unary": [[0]]}), lw.grid(2, 2)])


class TestParts:
    def test_every_variable_state_edge_and_slot_has_its_part(self) -> None:
        graph = union().graph
        parts = Parts.of(graph)
        assert parts.count == 4 and Parts.of(graph) is parts
        assert parts.variable_part.tolist() == [0] * 3 + [1] * 2 + [2] + [3] * 4
        assert np.array_equal(parts.edges, [4, 3, 0, 8])
        assert np.array_equal(parts.slots, [8, 7, 0, 16])
        assert np.array_equal(parts.forest, [True, True, True, False])
        assert parts.depth[:3].tolist() == [2, 2, 0]

    def test_some_parts_are_the_same_graph_as_their_own_union(self) -> None:
        whole, mine = union(), np.array([1, 3])
        chosen = Parts.of(whole.graph).select(mine)
        alone = lw.graph.union([whole.parts[part] for part in mine]).graph
        assert np.array_equal(chosen.graph.cardinalities, alone.cardinalities)
        assert np.array_equal(chosen.graph.part_start, alone.part_start)
        for group in chosen.graph.groups:
            name = group.name.split("[")[0]  # one name with two shapes stands for two groups in the union
            own = [each for each in alone.groups if each.name.split("[")[0] == name and each.shape == group.shape]
            assert group.count == sum(each.count for each in own)
            if own:
                assert np.array_equal(group.scopes, own[0].scopes) and group.shape == own[0].shape
        assert chosen.graph.structured[0].scopes[0].tolist() == [0]
        layout = whole.graph.layout
        assert np.array_equal(whole.graph.cardinalities[chosen.variables], alone.cardinalities)
        assert np.array_equal(chosen.variables[chosen.graph.layout.edge_variable], layout.edge_variable[chosen.edges])
        states = layout.slot_state[chosen.slots]
        assert np.array_equal(chosen.states[chosen.graph.layout.slot_state], states)

    def test_evidence_leaves_the_parts_apart(self) -> None:
        from loopwise.graph.conditioning import Conditioning

        graph = union().graph
        observed = np.zeros(graph.variables, dtype=bool)
        observed[[1, 5]] = True
        small = Conditioning.of(graph, observed, np.zeros_like(observed)).graph
        assert small.part_start.tolist() == [0, 2, 4, 4, 8]

    def test_a_graph_that_is_no_union_says_so(self) -> None:
        with pytest.raises(ValueError, match="no union"):
            Parts.of(lw.chain(3))
