"""Empty cells filled: with the most probable value, or with joint draws.

In: rows as integers, a trained model. Out: rows without empty cells, and how sure each is. Stage: use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.inference.evidence_rows import RowAnswers

Floats = NDArray[np.float64]


def most_probable(model: RowAnswers, values: Integers) -> tuple[Integers, Floats]:
    """Each empty cell's most probable value, given the cells that are there, and its probability (1 for the others)."""
    filled, sure = values.copy(), np.ones(values.shape)
    for place, beliefs in enumerate(model.beliefs(values)):
        empty = values[:, place] == FREE
        filled[empty, place] = beliefs[empty].argmax(axis=1)
        sure[empty, place] = beliefs[empty].max(axis=1)
    return filled, sure


def drawn(model: RowAnswers, values: Integers, generator: np.random.Generator) -> Integers:
    """A joint draw of all empty cells: one column after another, each given those before.

    Exact where BP is, on a tree that its sweeps reach across; elsewhere as good as its beliefs. Cost: one inference
    for each column with an empty cell.
    """
    found = values.copy()
    empty = (values == FREE).sum(axis=0)
    for place in np.argsort(empty, kind="stable").tolist():  # what is mostly known first
        rows = np.flatnonzero(found[:, place] == FREE)
        if len(rows):
            beliefs = model.beliefs(found[rows])[place]
            levels = beliefs.cumsum(axis=1)
            chance = generator.random(len(rows))[:, None] * levels[:, -1:]
            found[rows, place] = np.minimum((levels <= chance).sum(axis=1), beliefs.shape[1] - 1)
    return found
