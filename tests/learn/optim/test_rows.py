"""Rows listed twice count once."""

from __future__ import annotations

import torch

from loopwise.learn.optim import AdaGradCOMID
from loopwise.learn.optim.rows import touched_rows
from loopwise.potentials.priors import L2


def start(seed: int = 0, rows: int = 12, width: int = 3) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_rows_listed_twice_count_once_with_their_sum() -> None:
    rows = torch.tensor([[4, 1, 4, 0, 1]])
    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradient = torch.sparse_coo_tensor(rows, values, (12, 3), check_invariants=True)
    touched, sums = touched_rows(gradient)
    assert sorted(touched.tolist()) == [0, 1, 4]
    torch.testing.assert_close(torch.zeros(12, 3).double().index_copy(0, touched, sums), gradient.to_dense())
    once, twice = start().requires_grad_(), start().requires_grad_()
    for param, given_gradient in ((once, gradient.to_dense()), (twice, gradient)):
        param.grad = given_gradient
        optimizer = AdaGradCOMID([param], 0.2, L2(0.3))
        optimizer.step()
        optimizer.flush()
    torch.testing.assert_close(once, twice)
