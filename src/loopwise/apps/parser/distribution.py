"""The distribution of a sentence's trees that inference ended with: its best few, and samples.

In: the arcs of a sentence, and what the tree heard of each in the last sweep. Out: heads with probabilities. Stage:
use. Trees of weight exp(sum of these scores) have the beliefs of arcs for marginals. Of models without pairs of arcs
this is the model's own distribution; of others, the one that belief propagation has of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.parser.options import ParserStructure
from loopwise.graph.structured.base import from_log_odds
from loopwise.graph.structured.edges import EdgeFactor
from loopwise.graph.structured.k_best import NONE
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree as AnyTree
from loopwise.inference.families.tree_models import Floats
from loopwise.learn.optim.hashed import Small


@dataclass(frozen=True, eq=False)
class TreeDistribution:
    """Trees of ``n`` words."""

    factor: EdgeFactor
    odds: Tensor  # [arcs]

    @staticmethod
    def of(structure: ParserStructure, n: int, heads: Small, mods: Small, scores: Floats) -> TreeDistribution:
        """Of arcs from ``heads`` to ``mods``."""
        kind: type[EdgeFactor] = ProjectiveTree if structure.projective else AnyTree
        edges = np.stack([heads, mods], axis=1).astype(np.int64)
        return TreeDistribution(
            kind(n, single_root=structure.single_root, edges=edges), torch.from_numpy(scores.copy())
        )

    def best(self, count: int) -> list[tuple[list[int], float]]:
        """The most probable trees, best first: heads, probability. About n best trees for each that is listed."""
        values, _ = self.factor.k_best(from_log_odds(self.odds), count=count)
        return list(self._told(values[(values != NONE).all(-1)]))

    def sample(self, count: int, generator: np.random.Generator) -> list[tuple[list[int], float]]:
        """Trees drawn at random, each with its probability."""
        return list(self._told(self.factor.sample(from_log_odds(self.odds), count=count, generator=generator)))

    def _told(self, values: Tensor) -> Iterator[tuple[list[int], float]]:
        total = self.factor.log_partition(from_log_odds(self.odds)) - from_log_odds(self.odds)[0::2].sum()
        scores = torch.where(values > 0, self.odds, 0.0).sum(-1)
        yield from zip(self.factor.heads(values).tolist(), (scores - total).exp().tolist(), strict=True)
