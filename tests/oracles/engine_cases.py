"""Both engines on the same models, and how far they are apart."""

from __future__ import annotations

import torch

from loopwise.graph import FactorGraph
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.reference import Reference


def mixed_graph() -> FactorGraph:
    """Arity 1 to 4, cardinalities 1 to 4, a shared scope, an isolated variable, two components."""
    return FactorGraph(
        [2, 3, 2, 4, 3, 1, 2, 3, 3],
        {
            "unary": [[0], [2], [0]],
            "square": [[1, 4], [4, 8], [1, 8]],
            "oblong": [[0, 1], [2, 1], [2, 1]],
            "triple": [[0, 1, 2], [2, 4, 6]],
            "quad": [[0, 3, 2, 1]],
            "single": [[5, 6]],
        },
    )


def normal_tables(graph: FactorGraph, seed: int, *batch: int, scale: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: scale * torch.randn(*batch, group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }


def assert_same(
    method: type[MessagePassing], graph: FactorGraph, tables: object, *, initial: object = None, **options: object
) -> None:
    options = {"tolerance": 0.0, **options}
    plain = method(engine=Reference(), **options)(graph, tables, initial=initial)  # type: ignore[arg-type]
    fast = method(engine=Compiled(threads=1), **options)(graph, tables, initial=initial)  # type: ignore[arg-type]
    torch.testing.assert_close(fast.states, plain.states, rtol=0, atol=1e-10)
    for group in graph.groups:
        torch.testing.assert_close(fast.factor(group.name), plain.factor(group.name), rtol=0, atol=1e-10)
    torch.testing.assert_close(fast.log_partition, plain.log_partition, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(fast.messages.exp(), plain.messages.exp(), rtol=0, atol=1e-10)
    assert fast.status.messages == plain.status.messages
    torch.testing.assert_close(fast.status.sweeps, plain.status.sweeps)
    torch.testing.assert_close(fast.status.residual, plain.status.residual, rtol=0, atol=1e-10)
