"""Sionna's decoder, plain and as weighted BP: a weight for each edge, trained for the cross-entropy of bits.

In: a code, a channel. Out: functions from log-odds to bits. It has the steps and rates that ours has.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.decoder import Code, Gaussian, Shots
from loopwise.formats.files import atomic_write_bytes

LARGEST = 20.0  # of messages, as in Sionna's tutorial

Received = Callable[[NDArray[Any]], NDArray[np.uint8]]


def plain(code: Code, sweeps: int) -> Received:
    """Belief propagation without weights."""
    return _decisions(_decoder(code, sweeps, []))


def weighted(
    channel: Gaussian, sweeps: int, dev: Shots, path: Path, *, steps: int, rates: tuple[float, ...]
) -> Received:
    """With the weights of the rate that has the fewest wrong bits on held-out words; they are kept in a file."""
    code = channel.code
    if not path.exists():
        tried = [_train(channel, sweeps, steps, rate) for rate in rates]
        assert dev.log_odds is not None
        failures = [int(_with(code, sweeps, one)(dev.log_odds).sum()) for one in tried]
        with atomic_write_bytes(path) as stream:
            np.savez(stream, weights=tried[int(np.argmin(failures))])
    with np.load(path) as stored:
        return _with(code, sweeps, stored["weights"])


def _decoder(code: Code, sweeps: int, callbacks: list[Any]) -> Any:
    checks = code.checks.matrix.toarray().astype(np.uint8)
    return import_module("sionna.phy.fec.ldpc").LDPCBPDecoder(
        checks, num_iter=sweeps, cn_update="boxplus", hard_out=False, llr_max=LARGEST, v2c_callbacks=callbacks,
        device="cpu",
    )  # fmt: skip


def _weights(code: Code) -> Any:
    kind = import_module("sionna.phy.fec.ldpc.utils").WeightedBPCallback
    return kind(num_edges=code.checks.edges, pcm=code.checks.matrix.toarray(), device="cpu")


def _with(code: Code, sweeps: int, values: NDArray[Any]) -> Received:
    weights = _weights(code)
    weights.weights.data = torch.from_numpy(values)
    return _decisions(_decoder(code, sweeps, [weights]))


def _decisions(decoder: Any) -> Received:
    """Its logits are of 1 against 0."""

    def decisions(log_odds: NDArray[Any]) -> NDArray[np.uint8]:
        with torch.no_grad():
            found = decoder(torch.as_tensor(-log_odds, dtype=torch.float32))
        return np.asarray((found > 0).numpy(), dtype=np.uint8)

    return decisions


def _train(channel: Gaussian, sweeps: int, steps: int, rate: float) -> NDArray[Any]:
    weights, random = _weights(channel.code), np.random.default_rng(0)
    decoder = _decoder(channel.code, sweeps, [weights])
    optimizer = torch.optim.Adam([weights.weights], lr=rate)
    for _ in range(steps):
        received = channel.draw(256, random).log_odds
        logits = decoder(torch.as_tensor(-np.asarray(received), dtype=torch.float32))
        loss = torch.nn.functional.softplus(logits).mean()  # all bits sent are 0
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([weights.weights], 0.5)
        optimizer.step()
    return np.asarray(weights.weights.detach().numpy())
