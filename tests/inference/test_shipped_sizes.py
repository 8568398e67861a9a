"""The kernels of every literal size that ships, against the reference engine: values, gradients, Hessian products.

Other tests, and examples in docstrings and docs, make do with size 2 and with sizes that are known at run time
(``oracles/few_kernels.py``). What users run is here: one example with its factors in lanes, examples in lanes, one
message at a time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise.inference.messages import storage
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Flooding, Sequential

SHIPPED = tuple(storage.LITERAL_SIZES)  # read before any test: what ships
LANES = 40  # a batch that fills lanes, and part of others


@pytest.fixture(autouse=True)
def shipped(literal_sizes: range) -> None:
    assert tuple(literal_sizes) == SHIPPED == (2, 3, 4, 5)


def graph_of(states: int, alike: bool) -> lw.FactorGraph:
    """A cycle of pairs with a chord; unless all are to be ``alike``, a variable of another size, so that other factors
    stand beside those pairs."""
    sizes = [states] * 5 + [states if alike else states + 1]
    scopes = [(v,) for v in range(6)] + [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3), (4, 5)]
    return lw.FactorGraph.from_scopes(sizes, scopes)


def tables_of(graph: lw.FactorGraph, batch: int | None) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(graph.cardinalities[0].item())
    lead = () if batch is None else (batch,)
    return {
        group.name: torch.randn((*lead, group.count, *group.shape), generator=generator, dtype=torch.float64)
        for group in graph.groups
    }


def answers(method: Any, graph: lw.FactorGraph, batch: int | None, twice: bool) -> list[Tensor]:
    """Beliefs; the gradient of a loss of them; and a product with its Hessian."""
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph, batch).items()}
    states = method(graph, leaves).states
    loss = (states.square() * torch.arange(1.0, states.shape[-1] + 1)).sum()
    gradient = torch.autograd.grad(loss, list(leaves.values()), create_graph=twice)
    found = [states, *gradient]
    if twice:
        along = sum((each * table.detach().cos()).sum() for each, table in zip(gradient, leaves.values(), strict=True))
        found += torch.autograd.grad(along, list(leaves.values()))
    return [each.detach() for each in found]


def assert_same(
    states: int, batch: int | None, schedule: Any, method: Any = lw.BP, twice: bool = False, alike: bool = False
) -> None:
    graph, options = graph_of(states, alike), {"iterations": 3, "tolerance": 0, "schedule": schedule}
    plain = answers(method(engine=Reference(), **options), graph, batch, twice)
    for fast, slow in zip(answers(method(engine=Compiled(), **options), graph, batch, twice), plain, strict=True):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)


ROOTS = partial(lw.TRW, rho=0.5)  # of which square roots enter variables
WAYS = {"one": (None, Flooding()), "many": (LANES, Flooding()), "sequential": (None, Sequential())}


# The smallest in every way, the others each in one: what is written for a size are messages of a pair, and those are
# tried in lanes and one by one in messages/kernels/test_pairs.py. All sizes in all ways are in ``make oracle``.
@pytest.mark.parametrize(
    ("states", "way"), [(2, "one"), (2, "many"), (2, "sequential"), (3, "sequential"), (4, "many"), (5, "one")]
)
def test_beliefs_and_gradients(states: int, way: str) -> None:
    batch, schedule = WAYS[way]
    assert_same(states, batch, schedule)


# Nothing but pairs of one size: kernels leave out what other factors need. Those of size 2 are in the engine's tests.
@pytest.mark.parametrize(("states", "way", "method"), [(3, "many", lw.BP), (4, "one", ROOTS), (5, "sequential", lw.BP)])
def test_beliefs_and_gradients_where_all_is_of_one_size(states: int, way: str, method: Any) -> None:
    batch, schedule = WAYS[way]
    assert_same(states, batch, schedule, method, alike=True)


def test_hessian_products() -> None:
    """Loops over a literal size, not code written for it; products of size 2 are in ``gradient/test_hvp.py``."""
    assert_same(SHIPPED[-1], None, Flooding(), twice=True)
