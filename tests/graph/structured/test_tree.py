"""Trees: bad edges, equality."""

from __future__ import annotations

import pytest

from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree


@pytest.mark.parametrize(
    ("tokens", "edges", "message"),
    [
        (0, None, "at least one token"),
        (2, [[0, 3]], "edge 0 to 3 does not fit 2 tokens"),
        (2, [[1, 1]], "edge 1 to 1"),
        (2, [[0, 1], [0, 1]], r"edge \[0, 1\] is listed twice"),
        (2, [0, 1], "integer array"),
    ],
)
def test_bad_edges(tokens: int, edges: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tree(tokens, edges=edges)


def test_factors_of_equal_structure_are_equal() -> None:
    assert Tree(3) == Tree(3) != Tree(3, single_root=True)
    assert Tree(2, edges=[[0, 1], [1, 2]]) != Tree(2, edges=[[0, 1], [0, 2]])
    assert hash(Tree(3)) == hash(Tree(3)) and ProjectiveTree(3) != Tree(3)
