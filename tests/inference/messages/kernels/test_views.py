"""Views against NumPy's own indexing."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.plan import Factor, Static
from loopwise.inference.messages.kernels.views import (
    Message,
    at,
    beyond,
    cell_at,
    cells_of,
    entry,
    factor_start,
    pair_table,
    put,
    slot_at,
    states_of,
    table_at,
    value_at,
)
from oracles.kernel_cases import KernelCase

PLAIN = Static((), (0,), None, None, None, (0,), (), (), ())


@kernel
def entries(data, start, cells, lanes, shared, out):
    table = table_at(data, start, shared)
    for cell in range(cells):
        for lane in range(lanes):
            out[cell, lane] = entry(table, U(cell), U(lane), U(lanes))


@kernel
def seen(data, start, side, sizes, shared, static, out):
    table = pair_table(data, start, side, sizes, shared, static)
    for a in range(table.rows):
        for b in range(table.columns):
            for lane in range(out.shape[2]):
                out[a, b, lane] = table.data[cell_at(table, a, b, U(lane))]


@kernel
def listed(plan, theta, one, static, values, slots):
    table = cells_of(plan, theta, one, static)
    for cell in range(table.cells):
        values[cell] = value_at(table, cell, U(0))
        for position in range(table.arity):
            slots[cell, position] = factor_start(plan.groups, one, static) + slot_at(table, cell, position)


@kernel
def counted(plan, variable, uniform):
    return states_of(plan, U(variable), uniform)


@kernel
def moved(data, start, places):
    message = beyond(Message(data, start), places)
    put(message, U(1), 2 * at(message, U(0)))


@pytest.mark.parametrize("shared", [None, (0,)])
def test_cells_of_a_table(shared: tuple[int, ...] | None) -> None:
    data = np.random.default_rng(0).random(100)
    out = np.empty((6, 8))
    entries(data, U(5), 6, 8, shared, out)
    expected = data[5:53].reshape(6, 8) if shared is None else np.repeat(data[5:11, None], 8, 1)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shared", [None, (0,)])
@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_seen_from_either_variable(side: int, shared: tuple[int, ...] | None) -> None:
    data = np.random.default_rng(1).random(200)
    given = data[3:99].reshape(3, 4, 8) if shared is None else np.repeat(data[3:15].reshape(3, 4, 1), 8, 2)
    out = np.empty((4, 3, 8) if side else (3, 4, 8))
    seen(data, U(3), U(side), (U(3), U(4)), shared, PLAIN, out)
    np.testing.assert_array_equal(out, given.transpose(1, 0, 2) if side else given)


def test_the_cells_of_three_variables() -> None:
    case = KernelCase()
    run = case.run(case.start, case.heard)
    values, slots = np.empty(12), np.empty((12, 3))
    listed(run.plan, run.potentials.theta, Factor(U(2), U(0), U(1), U(0), U(3)), case.static, values, slots)
    np.testing.assert_allclose(values, case.theta[2][1].exp().reshape(-1))
    starts = [edge.place.start for edge in case.edges if edge[:2] == (2, 1)]
    np.testing.assert_array_equal(slots, np.stack(np.indices((2, 3, 2)), -1).reshape(-1, 3) + starts)


def test_values_of_variables_and_places_of_messages() -> None:
    plan = KernelCase().kernel_run().plan
    assert [counted(plan, variable, None) for variable in range(6)] == [2, 3, 2, 3, 2, 2]
    assert counted(plan, 1, (0, 0, 0, 0)) == 4
    data = np.arange(8.0)
    moved(data, U(2), U(3))
    assert data.tolist() == [0, 1, 2, 3, 4, 5, 10, 7]
