"""An update of a hashed table is that of the shared optimiser."""

from __future__ import annotations

import numpy as np

from loopwise.learn.trainer import Limits, train
from oracles.hashed_cases import Regression, objective


def test_an_update_is_that_of_the_shared_optimiser() -> None:
    """One step of AdaGrad with composite mirror descent on the gradient of a batch, summed over its parts."""
    import torch

    from loopwise.learn.optim import AdaGradCOMID
    from loopwise.potentials.priors import L2

    model, mine = Regression(7), objective(epochs=1, l2=3.5)
    mine._make = lambda: model
    train(mine, Limits.rounds(1))
    weights = torch.zeros(50, 1, dtype=torch.float64, requires_grad=True)
    optimizer = AdaGradCOMID([weights], rate=0.3, prior=L2(0.5))
    apart = weights[torch.from_numpy(model.features).long(), 0].sum(1) - torch.from_numpy(model.target)
    (apart.square().mean() / 2).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    np.testing.assert_allclose(mine.result, weights.detach()[:, 0].numpy(), atol=1e-6)
