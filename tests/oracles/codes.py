"""Small codes for tests."""

from __future__ import annotations

import numpy as np

from loopwise.apps.decoder import Code

HAMMING = np.array([[1, 0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]])


def toric(side: int = 4, p: float = 0.05) -> Code:
    """Flips on the edges of a torus: a check for the edges around each face, a loop each way that is to be right."""
    across = np.arange(side**2).reshape(side, side)
    down = across + side**2
    faces = np.stack([across, np.roll(across, -1, 0), down, np.roll(down, -1, 1)], -1).reshape(-1, 4)
    checks = np.zeros((side**2, 2 * side**2), int)
    for row, face in enumerate(faces):
        checks[row, face] = 1
    loops = np.zeros((2, 2 * side**2), int)
    loops[0, across[0]] = loops[1, down[:, 0]] = 1
    return Code.of(checks, p, observables=loops)
