"""Examples in the probability and in the log domain."""

from __future__ import annotations

import pytest
import torch

from loopwise.graph import FactorGraph
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Flooding, Sequential
from oracles.engine_cases import assert_same, mixed_graph, normal_tables


@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_log_domain_where_tables_are_wide(schedule: object) -> None:
    """Some examples span thousands of nats, others do not: each takes the domain it needs, the status says so."""
    graph = mixed_graph()
    tables = normal_tables(graph, 11, 12)
    for table in tables.values():
        table[5:] *= 3000.0
    beliefs = BP(iterations=3, tolerance=0, schedule=schedule)(graph, tables)  # type: ignore[arg-type]
    assert beliefs.status.domain == "probability and log"
    assert_same(BP, graph, tables, iterations=3, schedule=schedule)


def test_underflow_is_noticed_and_repaired() -> None:
    """Tables narrow enough each, but a star of contradicting leaves underflows the centre's product."""
    leaves = 40
    graph = FactorGraph([2] * (leaves + 1), {"pair": [[0, leaf] for leaf in range(1, leaves + 1)]})
    tables = torch.zeros(leaves, 2, 2, dtype=torch.float64)
    tables[: leaves // 2, 0] = -500.0
    tables[leaves // 2 :, 1] = -500.0
    tables[0, 0] += 1.0
    beliefs = BP(schedule=Sequential())(graph, {"pair": tables})
    torch.testing.assert_close(beliefs.marginal(0), torch.softmax(torch.tensor([1.0, 0.0], dtype=torch.float64), 0))
    flooded = BP(schedule=Flooding())(graph, {"pair": tables})
    torch.testing.assert_close(flooded.states, beliefs.states, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("rho", "dtype"), [(0.5, torch.float64), (0.9, torch.float64), (1.0, torch.float64), (0.9, torch.float32)], ids=str
)
def test_a_value_that_underflows_early_can_still_win(rho: float, dtype: torch.dtype) -> None:
    """Strong messages against one value first, more against the other much later, at a variable of degree 70."""
    leaves, strong = 70, 500.0 if dtype == torch.float64 else 50.0
    graph = FactorGraph([2] * (leaves + 1), {"pair": [[0, leaf] for leaf in range(1, leaves + 1)]})
    tables = torch.zeros(leaves, 2, 2, dtype=dtype)
    tables[0:3, 0] = -strong
    tables[[20, 36, 52, 68], 1] = -strong
    options = {"rho": rho, "iterations": 30, "tolerance": 0.0}
    plain = TRW(engine=Reference(), **options)(graph, {"pair": tables})  # type: ignore[arg-type]
    fast = TRW(engine=Compiled(1), **options)(graph, {"pair": tables})  # type: ignore[arg-type]
    assert int(plain.assignment[0]) == 0
    torch.testing.assert_close(fast.marginal(0), plain.marginal(0), rtol=0, atol=1e-5)


def test_examples_keep_their_places_when_some_leave_the_probability_domain_later() -> None:
    """One is too wide at once, the other underflows on the way: both end in the log domain, each as if alone."""
    graph = FactorGraph([2, 3, 2], {"one": [[0]], "pair": [[0, 2]], "triple": [[0, 1, 2]]})
    tables = {
        "one": torch.tensor([[[-24.4, 253.0]], [[-49.0, -65.5]]], dtype=torch.float64),
        "pair": torch.tensor(
            [[[[382.8, -153.4], [-102.8, -109.3]]], [[[366.4, -184.0], [-80.7, -39.8]]]], dtype=torch.float64
        ),
        "triple": torch.tensor(
            [
                [
                    [
                        [[-200.5, 154.9], [14.0, 398.8], [-39.0, 216.1]],
                        [[-44.0, -159.6], [-161.3, -190.3], [219.2, -15.9]],
                    ]
                ],
                [[[[-308.4, -27.7], [-69.4, 24.3], [-171.0, 502.7]], [[192.8, -493.5], [212.7, 4.1], [121.3, -253.2]]]],
            ],
            dtype=torch.float64,
        ),
    }
    method = BP(iterations=3, tolerance=0.0)
    together = method(graph, tables)
    assert together.status.domain == "log"
    for example in range(2):
        alone = method(graph, {name: table[example] for name, table in tables.items()})
        assert torch.allclose(together.states[example], alone.states, atol=1e-12)
        assert float(together.log_partition[example]) == pytest.approx(float(alone.log_partition))
