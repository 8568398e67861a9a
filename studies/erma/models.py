r"""The synthetic models of Stoyanov et al. 2011 and their data.

In: sizes and a seed. Out: :class:`ErmaModel`, true tables with samples and roles, kept on disk so that a run that goes
on does not sample again; and structures with a share of wrong edges (ERMA spec, section 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.builders import random_mrf
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import BURN_IN, sample_examples, thirds
from loopwise.potentials.tables import TablePotentials
from studies.harness.runs import load_arrays, save_arrays

PAIR = "pair"
_STRUCTURE, _TABLES, _ROLES, _DATA, _MISMATCH = range(5)  # what is drawn, each from a seed of its own


@dataclass(frozen=True)
class Size:
    """How many binary variables and how many edges a model has."""

    variables: int
    edges: int

    @property
    def name(self) -> str:
        """As the paper's Table 1 has it: ``50-200``."""
        return f"{self.variables}-{self.edges}"


def published_sizes() -> tuple[Size, ...]:
    r"""The 12 models of Table 1: n = 50, 100, 150, 200 with 2n, 4n and :math:`n \ln n` edges.

    The last is rounded, which gives 196 and 1060 where 195 and 1051 are printed.
    """
    return tuple(
        Size(count, edges)
        for count in (50, 100, 150, 200)
        for edges in (2 * count, 4 * count, round(count * math.log(count)))
    )


@dataclass(frozen=True)
class SampleSizes:
    """How many examples are drawn, and after how many sweeps of Gibbs sampling each."""

    train: int = 1000
    test: int = 1000
    burn_in: int = BURN_IN


@dataclass(frozen=True, eq=False)
class ErmaModel:
    """The truth, and what was seen of it."""

    size: Size
    seed: int
    graph: FactorGraph
    tables: Tensor  # [edges, 2, 2], the true log-potentials
    train: Examples
    test: Examples

    def structure(self, mismatch: float) -> FactorGraph:
        """The graph to train on, with that share of its edges wrong."""
        return mismatched(self.graph, mismatch, seed_of(self.seed, self.size, _MISMATCH)) if mismatch else self.graph


def seed_of(seed: int, size: Size, purpose: int) -> int:
    """A seed for one model and one purpose."""
    return int(np.random.SeedSequence([seed, size.variables, size.edges, purpose]).generate_state(1)[0])


def model_path(folder: Path, size: Size) -> Path:
    """Where the data of a model is kept."""
    return folder / f"data-{size.name}.npz"


def draw_model(size: Size, seed: int, sampling: SampleSizes, threads: int | None = None) -> ErmaModel:
    """The model of that size, with fresh samples."""
    _, truth, roles = _truth(size, seed)
    count = sampling.train + sampling.test
    examples = sample_examples(
        truth, count, roles=roles, seed=seed_of(seed, size, _DATA), burn_in=sampling.burn_in, threads=threads
    )
    return _model(size, seed, truth, examples, sampling)


def load_model(folder: Path, size: Size, seed: int, sampling: SampleSizes, threads: int | None = None) -> ErmaModel:
    """The model of that size, with data from ``folder``, where it is put if it is not there or is of another draw."""
    graph, truth, roles = _truth(size, seed)
    drawn = np.array([seed, sampling.train, sampling.test, sampling.burn_in])
    path = model_path(folder, size)
    stored = load_arrays(path) if path.exists() else {}
    if "drawn" in stored and np.array_equal(stored["drawn"], drawn):
        return _model(size, seed, truth, Examples.of(graph, stored["values"].astype(np.int64), roles), sampling)
    model = draw_model(size, seed, sampling, threads)
    values = np.concatenate([model.train.values, model.test.values])
    save_arrays(path, {"drawn": drawn, "values": values.astype(np.int8)})
    return model


def _truth(size: Size, seed: int) -> tuple[FactorGraph, TablePotentials, Integers]:
    graph = random_mrf(size.variables, size.edges, seed=seed_of(seed, size, _STRUCTURE))
    truth = TablePotentials.random(graph, seed=seed_of(seed, size, _TABLES))
    return graph, truth, thirds(graph, seed_of(seed, size, _ROLES))


def _model(size: Size, seed: int, truth: TablePotentials, examples: Examples, sampling: SampleSizes) -> ErmaModel:
    tables = truth.tables[0].detach()
    return ErmaModel(size, seed, truth.graph, tables, examples[: sampling.train], examples[sampling.train :])


def mismatched(graph: FactorGraph, share: float, seed: int) -> FactorGraph:
    """The graph with a ``share`` of its pairs removed and as many absent ones added, both uniformly.

    With the same ``seed`` a larger share removes and adds what a smaller one does, and more.
    """
    scopes = graph.group(PAIR).scopes
    count = round(share * len(scopes))
    first, second = np.triu_indices(graph.variables, 1)
    pairs = np.stack([first, second], axis=1)
    present = {(int(a), int(b)) for a, b in np.sort(scopes, axis=1)}
    absent = pairs[[(int(a), int(b)) not in present for a, b in pairs]]
    if not 0 <= share <= 1 or count > len(absent):
        raise ValueError(
            f"a share of {share:g} of {len(scopes)} edges cannot be exchanged: it must be from 0 to 1, and only "
            f"{len(absent)} pairs have no edge"
        )
    rng = np.random.default_rng(seed)
    removed, added = rng.permutation(len(scopes))[:count], rng.permutation(len(absent))[:count]
    kept = np.concatenate([np.delete(scopes, removed, axis=0), absent[added]])
    return FactorGraph(graph.cardinalities, {PAIR: kept[np.lexsort(kept.T[::-1])]})


def on_graph(examples: Examples, graph: FactorGraph) -> Examples:
    """The same values and roles over another structure."""
    return examples if graph is examples.graph else Examples.of(graph, examples.values, examples.roles)


def as_tables(array: NDArray[Any]) -> dict[str, Tensor]:
    """Parameters as potentials take them."""
    return {PAIR: torch.from_numpy(np.array(array, dtype=np.float64))}
