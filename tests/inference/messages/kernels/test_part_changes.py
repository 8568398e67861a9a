"""Changes of messages, part by part: against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.graph.union import union
from loopwise.inference.messages.kernels.part_changes import PartRule, PartState, judge_parts, part_changes
from loopwise.inference.messages.parts import part_graph


def test_logarithms_and_probabilities_give_the_largest_change_of_each_part() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.uniform(0.05, 1, size=(2, 40))
    part = rng.integers(-1, 3, 40)
    near = np.array([True, False, True])
    for log in (True, False):
        found = np.empty(3)
        part_changes(part, near, np.log(new) if log else new, np.log(old) if log else old, log, found)
        for place in range(3):
            wanted = np.abs(np.log(new / old))[part == place].max() if near[place] else 0.0
            assert abs(found[place] - wanted) < 1e-12


def test_rounding_is_no_change_and_a_value_ruled_out_is_a_large_one() -> None:
    found = np.empty(2)
    old = np.array([-1.0, -2.0])
    part_changes(np.array([0, 1]), np.ones(2, bool), np.array([-1.0 - 2e-16, -np.inf]), old, True, found)
    assert found[0] == 0 and found[1] == np.inf


def beliefs_of(graph: lw.FactorGraph, logs: np.ndarray, exponents: np.ndarray, unary: np.ndarray) -> np.ndarray:
    """Beliefs from log messages ``[slots]``, variable by variable."""
    layout, found = graph.layout, []
    slot = np.concatenate([[0], np.cumsum(graph.cardinalities[layout.edge_variable])])
    for variable, size in enumerate(graph.cardinalities):
        total = unary[layout.state_start[variable] :][:size].copy()
        for edge in np.flatnonzero(layout.edge_variable == variable):
            total += exponents[edge] * logs[slot[edge] : slot[edge] + size]
        found.append(np.exp(total - total.max()) / np.exp(total - total.max()).sum())
    return np.concatenate(found)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("powers", [False, True])
def test_each_part_is_done_after_the_first_small_change(log: bool, powers: bool) -> None:
    rng = np.random.default_rng(3)
    pieces = [lw.FactorGraph([2, 3, 2], {"pair": [[0, 1], [2, 1]]}), lw.FactorGraph([3, 2], {"pair": [[0, 1]]})]
    graph = union([*pieces, pieces[0]]).graph
    layout = graph.layout
    exponents = rng.uniform(0.5, 1.5, layout.edges) if powers else np.ones(layout.edges)
    unary, place = rng.normal(size=layout.states), rng.permutation(layout.slots)
    steps = 0.3 ** np.arange(9)[:, None] * rng.normal(size=(9, layout.slots))  # messages that settle
    logs = np.cumsum(steps, axis=0)
    kept = np.empty_like(logs)
    kept[:, place] = logs
    beliefs = np.stack([beliefs_of(graph, row, exponents, unary) for row in logs])
    part_of_state = np.repeat([0, 1, 2], [7, 5, 7])
    tolerance = 1e-3
    state = PartState(
        beliefs[0].copy(), np.array([True, False, True]), np.full(3, np.inf), np.full(3, np.inf), np.full(3, np.inf),
        np.zeros(3, dtype=np.int64), np.full(3, -1),
    )  # fmt: skip
    rule = PartRule(tolerance, tolerance, np.zeros(0), np.zeros(3, dtype=np.int64))
    given = part_graph(graph, place, exponents if powers else np.zeros(0), unary, log)
    judge_parts(given, kept if log else np.exp(kept), log, 5, state, rule)
    for part in (0, 2):
        changes = np.abs(np.diff(beliefs[:, part_of_state == part], axis=0)).max(1)
        # a small change alone does not end a part: it must have been expected, from how changes shrank before
        row = 1 + int(np.flatnonzero(changes < tolerance)[0])
        assert state.stop[part] in (row, row + 1) and state.sweeps[part] == 5 + state.stop[part]
        np.testing.assert_allclose(
            state.beliefs[part_of_state == part], beliefs[state.stop[part]][part_of_state == part], atol=1e-12
        )
    assert state.stop[1] == -1 and state.sweeps[1] == 0
    assert np.array_equal(state.beliefs[part_of_state == 1], beliefs[0][part_of_state == 1])
