"""Steps of a sweep, and their adjoints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.stepwise.kernels.sweeps import (
    Weights,
    exponentials,
    table_weights,
    tables_back,
    tables_send,
)
from loopwise.inference.messages.stepwise.steps import Program


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3, 2), (2, 2, 2, 3)])
@pytest.mark.parametrize("scale", [1.0, 700.0])
def test_messages_and_their_adjoint(shape: tuple[int, ...], scale: float) -> None:
    rng, arity = np.random.default_rng(0), len(shape)
    graph = lw.FactorGraph(shape, {"table": [range(arity), range(arity)]})
    tables = Program.of(graph.layout, lw.inference.Flooding()).tables[0]
    theta, n = scale * rng.normal(size=(1, 2, int(np.prod(shape)))), scale * rng.normal(size=(3, 2 * sum(shape)))
    theta[0, 1, 0] = -np.inf
    sources = [torch.from_numpy(each).requires_grad_() for each in (theta, n)]
    pieces = []
    for factor in range(2):
        incoming = sources[1].reshape(3, 2, -1)[:, factor].split(list(shape), -1)
        for position, size in enumerate(shape):
            joint = sources[0][0, factor].reshape(shape).expand(3, *shape)
            for other, message in enumerate(incoming):
                if other != position:
                    joint = joint + message.reshape(3, *(-1 if axis == other else 1 for axis in range(arity)))
            pieces.append(joint.movedim(position + 1, -1).reshape(3, -1, size).logsumexp(1).log_softmax(-1))
    expected = torch.cat(pieces, -1)
    weights = Weights(theta, np.empty(theta.shape), np.empty(theta.shape[:2], dtype=np.bool_))
    table_weights(theta, tables.least, weights.weight, weights.tame)
    rows, q, m = np.arange(3), np.empty(n.shape), np.empty(n.shape)
    exponentials(rows, n - n.max(), 0, n.shape[1], q)
    tables_send(rows, tables, weights, n - n.max(), q, m)
    assert m == pytest.approx(expected.detach().numpy(), rel=1e-11, abs=1e-10)
    seeds = rng.normal(size=m.shape)
    wanted = torch.autograd.grad((expected * torch.from_numpy(seeds)).sum(), sources)
    of_n, of_theta = np.zeros(n.shape), np.zeros(theta.shape)
    tables_back(rows, tables, weights, n - n.max(), q, seeds, of_n, of_theta)
    assert of_theta == pytest.approx(wanted[0].numpy(), abs=1e-9)
    assert of_n == pytest.approx(wanted[1].numpy(), abs=1e-9)
