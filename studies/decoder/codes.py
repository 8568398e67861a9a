"""The codes of the study: the gross code, its circuits, the classical matrices of the data collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.decoder import Code


def gross_matrices() -> tuple[np.ndarray, np.ndarray]:
    """The checks of both kinds of the [[144,12,12]] code."""
    ell, m = 12, 6
    shift = [np.roll(np.eye(size, dtype=int), 1, axis=1) for size in (ell, m)]
    x, y = np.kron(shift[0], np.eye(m, dtype=int)), np.kron(np.eye(ell, dtype=int), shift[1])
    power = np.linalg.matrix_power
    a, b = (power(x, 3) + y + power(y, 2)) % 2, (power(y, 3) + x + power(x, 2)) % 2
    return np.hstack([a, b]), np.hstack([b.T, a.T])


def kernel_of(matrix: np.ndarray) -> np.ndarray:
    """A basis of the vectors that a matrix takes to 0, over the field of two elements."""
    rows, pivots = matrix.copy() % 2, list[int]()
    for column in range(rows.shape[1]):
        found = next((row for row in range(len(pivots), len(rows)) if rows[row, column]), None)
        if found is None:
            continue
        rows[[len(pivots), found]] = rows[[found, len(pivots)]]
        for row in range(len(rows)):
            if row != len(pivots) and rows[row, column]:
                rows[row] ^= rows[len(pivots)]
        pivots.append(column)
    basis = []
    for free in (column for column in range(rows.shape[1]) if column not in pivots):
        vector = np.zeros(rows.shape[1], dtype=int)
        vector[free] = 1
        vector[pivots] = rows[: len(pivots), free]
        basis.append(vector)
    return np.array(basis)


def independent_of(vectors: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Those of some vectors that are no sum of known ones, nor of one another."""
    pivots: dict[int, int] = {}

    def is_new(vector: np.ndarray) -> bool:
        value = int("".join(map(str, vector)), 2)
        while value:
            high = value.bit_length()
            if high not in pivots:
                pivots[high] = value
                return True
            value ^= pivots[high]
        return False

    for vector in known:
        is_new(vector)
    return np.array([vector for vector in vectors if is_new(vector)])


def gross_code(p: float) -> Code:
    """Independent flips: a residual error that no check and no observable sees is harmless."""
    checks, other = gross_matrices()
    return Code.of(checks, p, observables=independent_of(kernel_of(other), checks))


def circuit(data: Path, p: str) -> tuple[Code, Any]:
    """Circuit noise, memory Z: its Z detectors (blocks of 72: the first, every second, the last), and its shots."""
    from loopwise.apps.decoder.circuits import CircuitShots, code_of_circuit, read_circuit

    found = read_circuit(data / "codes" / "circuits" / f"gross_144_12_12_memory_Z_p{p}.stim.gz")
    detectors = np.concatenate([np.arange(72 * block, 72 * block + 72) for block in (0, *range(1, 23, 2), 23)])
    return code_of_circuit(found, detectors), CircuitShots(found)


def of_checks(code: Code) -> Code:
    """The same code for syndromes of its checks alone, as decoders of others take them."""
    return Code(code.checks, code.priors, code.observables)


def classical(data: Path, name: str) -> Code:
    """A code of the collection; its priors are not used, as channels say their own."""
    folder = data / "codes" / "matrices"
    path = next(path for path in sorted(folder.iterdir()) if path.name.startswith(name + "."))
    return Code.of(path, 0.1)
