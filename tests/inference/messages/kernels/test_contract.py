"""Tables contracted one axis at a time, against einsum and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import FEW_LANES, PROBABILITY_MAX, PROBABILITY_SUM, U, lane_tag
from loopwise.compiled.decorators import kernel
from loopwise.inference.messages.kernels.contract import Levels, contract, undo_table
from loopwise.inference.messages.kernels.views import Message, table_at

SHAPES = [(7, 18), (3, 4), (2, 3, 9), (5, 2, 3, 4)]


@kernel
def send(theta, n, levels, fresh, shape, shared, tag, semiring):
    contract(table_at(theta, U(0), shared), Message(n, U(0)), levels, Message(fresh, U(0)), shape, tag, semiring)


@kernel
def undo(theta, n, back, spread, sums, levels, rates, shape, shared, tag):
    undo_table(
        table_at(theta, U(0), shared), Message(n, U(0)), Message(back, U(0)), Message(spread, U(0)),
        Message(sums, U(0)), levels, Message(rates, U(0)), shape, 1.0, tag,
    )  # fmt: skip


def levels_for(shape: tuple[int, ...], lanes: int) -> Levels:
    size = lanes * int(sum(np.prod(shape[: axes + 1]) for axes in range(len(shape) - 1)))
    return Levels(*(np.full(size, np.nan) for _ in range(4)))


def without_own(log_table: torch.Tensor, logs: torch.Tensor, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """For each axis the log table with the messages of all other axes."""
    parts = torch.split(logs, list(shape))
    views = [part.reshape(*(-1 if other == axis else 1 for other in range(len(shape))), part.shape[-1])
             for axis, part in enumerate(parts)]  # fmt: skip
    return [log_table + sum(view for other, view in enumerate(views) if other != axis) for axis in range(len(shape))]


def collected(log_table: torch.Tensor, logs: torch.Tensor, shape: tuple[int, ...], maximum: bool) -> torch.Tensor:
    """Log messages to all variables, one after another, ``[slots, lane]``."""
    found = []
    for axis, cells in enumerate(without_own(log_table, logs, shape)):
        others = [other for other in range(len(shape)) if other != axis]
        found.append(cells.amax(others) if maximum else torch.logsumexp(cells, others))
    return torch.cat(found)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("lanes", [1, FEW_LANES])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_messages_and_adjoints(shape: tuple[int, ...], lanes: int, shared: bool) -> None:
    if shared and lanes == 1:
        pytest.skip("a table without lanes is not shared by them")
    random = np.random.default_rng(len(shape))
    table = random.normal(size=(*shape, 1 if shared else lanes))
    logs = random.normal(size=(sum(shape), lanes))
    back = random.normal(size=logs.shape)
    first = 0
    for states in shape:  # adjoints of log messages sum to zero
        back[first : first + states] -= back[first : first + states].mean(0)
        first += states
    levels, tag, mark = levels_for(shape, lanes), lane_tag(lanes), (0,) if shared else None
    theta, n = np.exp(table).reshape(-1), np.exp(logs).reshape(-1)
    sizes = np.array(shape)
    given = [torch.from_numpy(each).requires_grad_() for each in (table, logs)]
    expected = collected(*given, shape, False)
    for semiring in (PROBABILITY_SUM, PROBABILITY_MAX):
        fresh = np.full(logs.size, np.nan)
        send(theta, n, levels, fresh, sizes, mark, tag, semiring)
        right = collected(*given, shape, semiring == PROBABILITY_MAX).detach().exp().numpy()
        np.testing.assert_allclose(fresh.reshape(logs.shape), right, rtol=1e-12)
    by_table, by_messages = torch.autograd.grad((expected * torch.from_numpy(back)).sum(), given)
    spread, sums = np.full(logs.size, np.nan), np.ones(int(np.prod(shape)) * lanes)
    undo(theta, n, back.reshape(-1), spread, sums, levels, np.empty(logs.size), sizes, mark, tag)
    cells = (sums - 1).reshape(*shape, lanes)
    np.testing.assert_allclose(cells.sum(-1, keepdims=True) if shared else cells, by_table.numpy(), atol=1e-12)
    np.testing.assert_allclose(spread.reshape(logs.shape), by_messages.numpy(), atol=1e-12)
