"""Small tables with a class to learn."""

from __future__ import annotations

import numpy as np


def weather(rows: int, seed: int, missing: float = 0.0, skies: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Three dependent columns of text, and two labels that depend on them and on each other."""
    rng = np.random.default_rng(seed)
    sky = rng.integers(0, skies, rows)
    wind = (rng.random(rows) < 0.2 + 0.3 * sky).astype(int)
    cold = rng.integers(0, 2, rows)
    walk = (rng.random(rows) < 1 / (1 + np.exp(2.0 * sky + cold - 2.5))).astype(int)
    coat = (rng.random(rows) < 0.1 + 0.4 * walk + 0.4 * cold).astype(int)
    x = np.stack([np.array(["blue", "grey", "rain"], object)[sky], np.array(["calm", "windy"], object)[wind], cold], 1)
    x[rng.random(x.shape) < missing] = None
    return x, np.stack([walk, coat], axis=1)
