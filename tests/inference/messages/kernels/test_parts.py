"""Runs cut into parts: what a part has is what its graph has alone."""

from __future__ import annotations

import numpy as np

import loopwise as lw
from loopwise.inference.messages.kernels.parts import piece_of, plan_of
from loopwise.inference.messages.kernels.plan import MEMBERS
from loopwise.inference.messages.part_run import PartStorage


def test_pieces_are_numbered_example_by_example_and_follow_one_another() -> None:
    union = lw.graph.union([lw.chain(3), lw.chain(2, 3), lw.grid(2, 2)])
    layout = union.graph.layout
    storage = PartStorage.of_union(layout)
    sizes = [(False, 2 * group.group.count * group.group.cells) for group in layout.message_groups]
    plan = storage.plan(storage.group_rows(sizes, 2), np.ones(layout.edges), layout.states)
    message = state = 0
    for row in range(2):
        for part, graph in enumerate(union.parts):
            piece = piece_of.py_func(plan, storage.cuts, row, part)
            assert (piece.number, piece.m, piece.state) == (3 * row + part, message, state)
            message, state = message + graph.layout.slots, state + graph.layout.states
            assert (piece.m_end, piece.state_end) == (message, state)
            mine = plan_of.py_func(plan, storage.cuts, piece)
            assert mine.slots == graph.layout.slots and mine.state_start[-1] == graph.layout.states
            assert mine.groups[:, MEMBERS].sum() == graph.layout.message_factors
    assert message == 2 * layout.slots
