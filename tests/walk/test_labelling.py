"""Moves of labels."""

from __future__ import annotations

import pytest

from loopwise import walk


def test_moves_are_made_once() -> None:
    world, move = walk.Labelling([0, 1], [2, 2]), walk.Move([(0, 0, 1)])
    with pytest.raises(ValueError, match="nothing to undo"):
        move.undo(world)
    move.apply(world)
    with pytest.raises(ValueError, match="undo it before"):
        move.apply(world)
    move.undo(world)
    move.apply(world)
    assert world.values == [1, 1]
