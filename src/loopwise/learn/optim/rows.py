"""Sparse gradients over rows, each row listed once.

In: a sparse tensor as autograd leaves it: rows in any order, some listed twice. Out: distinct rows and their sums.
Stage: learning. (Autograd forgets that a gradient was coalesced, and torch's own ``coalesce`` sorts: several times
slower than the step that it is for.)
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def touched_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows ``[touched]`` and what was added to each, ``[touched, *rest]``; O(entries)."""
    if gradient.sparse_dim() != 1:
        raise ValueError(
            f"a sparse gradient must list rows, but that of a parameter of shape {tuple(gradient.shape)} has "
            f"{gradient.sparse_dim()} sparse dimensions; "
            "use one, as nn.Embedding has"
        )
    rows, values = gradient._indices()[0], gradient._values()
    if gradient.is_coalesced() or bool((rows[1:] > rows[:-1]).all()):
        return rows, values
    if gradient.device.type != "cpu":
        merged = gradient.coalesce()
        return merged._indices()[0], merged._values()
    return _merged(rows, values)


def listed_once(gradient: Tensor) -> Tensor:
    """The same sparse gradient with every row once."""
    rows, values = touched_rows(gradient)
    return torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False)


def _merged(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    from loopwise.potentials.kernels.sparse_features import distinct, scatter_sum

    found, position = distinct(rows.contiguous().numpy())
    width = math.prod(values.shape[1:])
    flat = values.reshape(len(rows), width).contiguous().numpy()
    sums = np.zeros((len(found), width))
    # Entry k is a row of one feature: the transposed sum adds it to its place.
    scatter_sum(flat, np.arange(len(rows) + 1), position, np.zeros(0), np.arange(width), sums)
    return torch.from_numpy(found), torch.from_numpy(sums).to(values.dtype).reshape(len(found), *values.shape[1:])
