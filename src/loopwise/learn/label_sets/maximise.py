r"""The best set of labels of a model, exactly or relaxed to a linear program.

In: fields and couplings. Out: shares of labels and of pairs, fractional if relaxed. Stage: learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loopwise.compiled.threads import available_threads, in_threads
from loopwise.learn.label_sets.weights import Floats, Integers

MOST_LABELS = 20  # 2^20 sets an example: some ten milliseconds


def all_sets(labels: int) -> Floats:
    """Every set of labels, ``[2^labels, labels]``."""
    numbers = np.arange(1 << labels)
    return ((numbers[:, None] >> np.arange(labels)) & 1).astype(np.float64)


def best_sets(fields: Floats, couplings: Floats) -> Integers:
    """The best set of each row of ``fields``, by enumeration, on as many threads as there are."""
    from loopwise.learn.kernels.label_sets import best_sets as kernel

    best = np.zeros(fields.shape, dtype=np.int64)
    fields, couplings = np.ascontiguousarray(fields), np.ascontiguousarray(couplings)
    parts = max(1, min(available_threads(), len(fields) // 16))
    bounds = [len(fields) * part // parts for part in range(parts + 1)]

    def work(part: int) -> None:
        rows = slice(bounds[part], bounds[part + 1])
        kernel(fields[rows], couplings, np.zeros(fields.shape[1]), best[rows])

    in_threads(parts, work)
    return best


def together(labels: Floats) -> Floats:
    """For each pair whether both labels are on."""
    first, second = np.triu_indices(len(labels), 1)
    return labels[first] * labels[second]


class Maximiser(Protocol):
    r"""Maximises :math:`a\cdot\mu+\sum_{i<j}B_{ij}\mu_{ij}`."""

    def maximise(self, fields: Floats, couplings: Floats) -> tuple[Floats, Floats]:
        """Shares ``[examples, labels]`` and ``[examples, pairs]`` for fields ``[examples, labels]``."""
        ...


@dataclass(frozen=True)
class Exactly:
    """Over sets of labels, by enumeration."""

    def maximise(self, fields: Floats, couplings: Floats) -> tuple[Floats, Floats]:
        sets = best_sets(fields, couplings).astype(np.float64)
        return sets, np.stack([together(row) for row in sets])


@dataclass(frozen=True)
class LinearProgram:
    r"""Over the local polytope, by HiGHS: an upper bound of the exact maximum (Finley & Joachims 2008).

    With binary labels the polytope is :math:`\max(0,\mu_i+\mu_j-1)\le\mu_{ij}\le\min(\mu_i,\mu_j)`, and of these the
    objective needs the upper side where :math:`B_{ij}>0` and the lower side elsewhere. The examples of one call share
    their couplings and are solved as one program.
    """

    def maximise(self, fields: Floats, couplings: Floats) -> tuple[Floats, Floats]:
        from scipy.optimize import linprog

        count, labels = fields.shape
        first, second = np.triu_indices(labels, 1)
        strength = couplings[first, second]
        rows, bounds = _constraints(labels, strength, count)
        objective = -np.concatenate([fields, np.broadcast_to(strength, (count, len(strength)))], axis=1).reshape(-1)
        found = linprog(objective, A_ub=rows, b_ub=bounds, bounds=(0, 1), method="highs")
        if not found.success:
            raise ValueError(
                f"the linear program of {count} examples was not solved: {found.message}; "
                "raise l2, or use another learner"
            )
        answer = np.asarray(found.x).reshape(count, labels + len(strength))
        single, both = answer[:, :labels].clip(0.0, 1.0), answer[:, labels:]
        low = np.maximum(single[:, first] + single[:, second] - 1, 0.0)
        return single, both.clip(low, np.minimum(single[:, first], single[:, second]))


def _constraints(labels: int, strength: Floats, count: int) -> tuple[object, Floats]:
    """Rows ``A x <= b`` of ``count`` examples one after another; x has the labels, then the pairs."""
    from scipy import sparse

    first, second = np.triu_indices(labels, 1)
    pair = labels + np.arange(len(first))
    up = np.flatnonzero(strength > 0)
    down = np.flatnonzero(strength <= 0)
    tops = np.concatenate([first[up], second[up]])
    top_rows, down_rows = np.arange(2 * len(up)), 2 * len(up) + np.arange(len(down))
    row = np.concatenate([top_rows, top_rows, down_rows, down_rows, down_rows])
    column = np.concatenate([pair[up], pair[up], tops, first[down], second[down], pair[down]])
    ones = [np.ones(2 * len(up)), -np.ones(2 * len(up)), np.ones(2 * len(down)), -np.ones(len(down))]
    size = 2 * len(up) + len(down)
    block = sparse.coo_array((np.concatenate(ones), (row, column)), shape=(size, labels + len(first)))
    limit = np.concatenate([np.zeros(2 * len(up)), np.ones(len(down))])
    if count == 1:
        return block.tocsr(), limit
    return sparse.kron(sparse.eye_array(count), block, format="csr"), np.tile(limit, count)
