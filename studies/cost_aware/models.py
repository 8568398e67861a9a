r"""Truths and data of the cost-aware study.

In: sizes and a seed. Out: examples over the learner's graph. Figure 1: 50 binary variables, 200 factors of four
variables with normal log-potentials, learnt by pairs only (Eisner & Stoyanov 2011, section 4). Stopping, which the
paper could not show: a grid seen through a channel that erases little in easy examples and nearly all in hard ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.graph.builders import grid, random_mrf
from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.gibbs.method import sample
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import sample_examples, thirds
from loopwise.potentials.tables import TablePotentials
from studies.harness.runs import load_arrays, save_arrays

_STRUCTURE, _TABLES, _ROLES, _DATA, _CHANNEL = range(5)  # what is drawn, each from a seed of its own
PAIR = "pair"


@dataclass(frozen=True)
class Synthetic:
    """The models of Figure 1; ``scale``: the standard deviation of log-potentials."""

    variables: int = 50
    factors: int = 200
    arity: int = 4
    train: int = 1000
    test: int = 1000
    burn_in: int = 1000
    scale: float = 1.0


@dataclass(frozen=True)
class Mixed:
    """Grids of ``side`` x ``side`` with coupling ``coupling``, seen through a channel that flips a share of the pixels
    and erases a share that depends on the example: one of ``erased``, evenly."""

    side: int = 10
    coupling: float = 1.3
    flipped: float = 0.1
    erased: tuple[float, ...] = (0.05, 0.97)
    train: int = 1000
    test: int = 1000
    burn_in: int = 1000


@dataclass(frozen=True)
class Patterned:
    """Grids of which each example shows some pixels, by one of four patterns: a share ``shown`` of one half."""

    side: int = 8
    coupling: float = 1.0
    shown: float = 0.5
    train: int = 1000
    test: int = 1000
    burn_in: int = 1000


@dataclass(frozen=True, eq=False)
class CostAwareData:
    """Training and test examples over the learner's graph; ``kinds``: how hard each test example is, from 0."""

    train: Examples
    test: Examples
    kinds: np.ndarray


def seed_of(seed: int, truth: int, purpose: int) -> int:
    """A seed for one truth and one purpose."""
    return int(np.random.SeedSequence([seed, truth, purpose]).generate_state(1)[0])


def pairs_only(variables: int) -> FactorGraph:
    """The learner of Figure 1: every pair of binary variables, and nothing else."""
    return FactorGraph(np.full(variables, 2), {PAIR: np.stack(np.triu_indices(variables, 1), axis=1)})


def synthetic(size: Synthetic, seed: int, truth: int, folder: Path | None = None) -> CostAwareData:
    """Data of one truth; kept in ``folder``, so that a run that goes on does not sample again."""
    graph = random_mrf(size.variables, size.factors, arity=size.arity, seed=seed_of(seed, truth, _STRUCTURE))
    roles = thirds(graph, seed_of(seed, truth, _ROLES))
    counts = [size.variables, size.factors, size.arity, size.train, size.test, size.burn_in]
    drawn = np.array([seed, truth, *counts, round(1e6 * size.scale)])

    def draw() -> np.ndarray:
        potentials = TablePotentials.random(graph, seed=seed_of(seed, truth, _TABLES), scale=size.scale)
        count, data_seed = size.train + size.test, seed_of(seed, truth, _DATA)
        return sample_examples(potentials, count, roles=roles, seed=data_seed, burn_in=size.burn_in).values

    values = _kept(folder, f"data-figure1-{size.scale:g}-{truth}.npz", drawn, draw)
    examples = Examples.of(pairs_only(size.variables), values, roles)
    return CostAwareData(examples[: size.train], examples[size.train :], np.zeros(size.test, dtype=np.int64))


def mixed(size: Mixed, seed: int, truth: int, folder: Path | None = None, neighbours: int = 4) -> CostAwareData:
    """Grids seen through the channel. ``neighbours``: of the learner's graph; the truth has 4."""
    rng = np.random.default_rng(seed_of(seed, truth, _CHANNEL))
    count = size.train + size.test
    drawn = np.array([seed, truth, size.side, round(1e6 * size.coupling), count, size.burn_in])

    def draw() -> np.ndarray:
        return _spins(size, count, seed_of(seed, truth, _DATA))

    values = _kept(folder, f"data-mixed-{truth}.npz", drawn, draw)
    kinds = rng.permutation(np.arange(count) % len(size.erased))
    seen = rng.random(values.shape) >= np.asarray(size.erased)[kinds][:, None]
    right = rng.random(values.shape) >= size.flipped
    sign = np.where(right, 2 * values - 1, 1 - 2 * values)
    signal = torch.from_numpy(np.where(seen, sign, 0) * np.log((1 - size.flipped) / size.flipped))
    learner = grid(size.side, size.side, neighbours=neighbours)
    roles = np.full(learner.variables, Role.OUTPUT, dtype=np.int64)
    examples = Examples.of(learner, values, roles, signal=signal)
    return CostAwareData(examples[: size.train], examples[size.train :], kinds[size.train :])


def patterned(size: Patterned, seed: int, truth: int, folder: Path | None = None) -> CostAwareData:
    """Grids with pixels that are observed or to be predicted; the learner has 8 neighbours, the truth 4."""
    count = size.train + size.test
    drawn = np.array([seed, truth, size.side, round(1e6 * size.coupling), count, size.burn_in])

    def draw() -> np.ndarray:
        return _spins(size, count, seed_of(seed, truth, _DATA))

    values = _kept(folder, f"data-patterned-{truth}.npz", drawn, draw)
    rng = np.random.default_rng(seed_of(seed, truth, _CHANNEL))
    across, down = np.meshgrid(np.arange(size.side), np.arange(size.side))
    half = size.side // 2
    halves = [part.reshape(-1) for part in (across < half, across >= half, down < half, down >= half)]
    shown = np.stack([part & (rng.random(len(part)) < size.shown) for part in halves])
    kinds = rng.permutation(np.arange(count) % len(shown))
    roles = np.where(shown[kinds], int(Role.INPUT), int(Role.OUTPUT))
    examples = Examples.of(grid(size.side, size.side, neighbours=8), values, roles)
    return CostAwareData(examples[: size.train], examples[size.train :], kinds[size.train :])


class Channel(nn.Module):
    r"""Unary log-potentials :math:`a\,y_i` for what the channel gave, a free table for every pair."""

    def __init__(self, graph: FactorGraph, coupling: float = 0.0) -> None:
        super().__init__()
        self.graph = graph
        self.trust = nn.Parameter(torch.ones((), dtype=torch.float64))
        pairs = coupling * torch.eye(2, dtype=torch.float64).repeat(graph.group(PAIR).count, 1, 1)
        self.pair = nn.Parameter(pairs)

    def forward(self, signal: Tensor) -> dict[str, Tensor]:
        unary = torch.stack([torch.zeros_like(signal), self.trust * signal], -1)
        return {"unary": unary, PAIR: self.pair}


def _spins(size: Mixed | Patterned, count: int, seed: int) -> np.ndarray:
    """Grids drawn from the truth."""
    agree = size.coupling * torch.eye(2, dtype=torch.float64)
    tables = {"unary": torch.zeros(2, dtype=torch.float64), "pair": agree}
    drawn = sample(grid(size.side, size.side), tables, count, seed=seed, burn_in=size.burn_in)
    return np.asarray(drawn.numpy())


def _kept(folder: Path | None, name: str, drawn: np.ndarray, draw: object) -> np.ndarray:
    path = None if folder is None else folder / name
    stored = load_arrays(path) if path is not None and path.exists() else {}
    if "drawn" in stored and np.array_equal(stored["drawn"], drawn):
        return np.asarray(stored["values"], dtype=np.int64)
    values: np.ndarray = draw()  # type: ignore[operator]
    if path is not None:
        save_arrays(path, {"drawn": drawn, "values": values.astype(np.int8)})
    return values
