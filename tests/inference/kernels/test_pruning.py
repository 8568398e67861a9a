"""Values that no factor rules out: generalised arc consistency, by sets in plain Python."""

from __future__ import annotations

from itertools import product

import numpy as np

from loopwise.inference.kernels.pruning import possible_values

SCOPES = [(0, 1), (1, 2), (2, 0), (3,), (1, 3, 2)]
CARDINALITIES = np.array([2, 3, 2, 3])


def consistent(tables: list[np.ndarray]) -> list[set[int]]:
    alive = [set(range(count)) for count in CARDINALITIES]
    changed = True
    while changed:
        changed = False
        for scope, table in zip(SCOPES, tables, strict=True):
            cells = [cell for cell in product(*(alive[v] for v in scope)) if table[cell]]
            for axis, variable in enumerate(scope):
                kept = {cell[axis] for cell in cells}
                changed |= kept != alive[variable]
                alive[variable] = kept
    return alive


def test_what_stays_has_support_everywhere() -> None:
    start = np.concatenate([[0], np.cumsum([len(scope) for scope in SCOPES])])
    members, states = np.concatenate(SCOPES), np.concatenate([[0], np.cumsum(CARDINALITIES)])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        tables = [rng.random([CARDINALITIES[v] for v in scope]) < 0.6 for scope in SCOPES]
        cells = np.concatenate([table.reshape(-1) for table in tables])
        alive = possible_values(start, members, CARDINALITIES, states, cells, 100)
        expected = consistent(tables)
        if all(expected):  # where nothing is left, which value goes last is a matter of order
            found = [set(np.flatnonzero(alive[states[v] : states[v + 1]]).tolist()) for v in range(4)]
            assert found == expected
        else:
            assert any(not alive[states[v] : states[v + 1]].any() for v in range(4))
    assert possible_values(start, members, CARDINALITIES, states, cells, 0).all()
