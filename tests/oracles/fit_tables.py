"""A table with something to learn, and the command that learns it."""

from __future__ import annotations

import numpy as np

from loopwise.cli.main import app
from oracles.commands import command


def weather(count: int = 64, seed: int = 0, spoil: bool = True) -> str:
    """A table with something to learn: rain makes the grass wet and the sky grey; some cells are empty."""
    rng = np.random.default_rng(seed)
    rain = rng.random(count) < 0.5
    wet, grey = rain ^ (rng.random(count) < 0.05), rain ^ (rng.random(count) < 0.1)
    names = [np.where(rain, "yes", "no"), np.where(wet, "wet", "dry"), np.where(grey, "grey", "blue")]
    rows = [list(row) for row in zip(*names, [""] * count, strict=True)]
    if spoil:
        for row in rng.choice(count, count // 8, replace=False):
            rows[row][rng.integers(0, 3)] = ""
    return "rain,grass,sky,mood\n" + "".join(",".join(row) + "\n" for row in rows)


invoke, succeed = command(app)


FAST = ("--epochs", 4, "--iterations", 3, "--batch", 32, "--optimizer", "sgd", "--l2", 0)
