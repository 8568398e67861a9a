"""Tiny sentences as tasks of the parser."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.parser.features.parts import list_pairs
from loopwise.apps.parser.objectives import Gold, Objective
from loopwise.apps.parser.options import ParserStructure, Templates, TreeInference
from loopwise.apps.parser.tasks import TreeTask
from loopwise.inference.families.tree_models import Propagated, TreeModels
from oracles.parser_beliefs import (
    PROJECTIVE,
    SINGLE_ROOT,
    all_trees,
    tree_matrix,
)


class Case:
    """A random sentence: arcs, of which some are pruned, scores, and a gold tree among what is left."""

    def __init__(self, n: int, structure: int, seed: int, pruned: float = 0.2, scale: float = 1.5) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.structure = n, structure
        trees = all_trees(n, structure)
        keep = trees[rng.integers(len(trees))]
        self.arcs = [
            (h, m)
            for m in range(1, n + 1)
            for h in range(n + 1)
            if h != m and (keep[m - 1] == h or rng.random() > pruned)
        ]
        self.heads = np.array([h for h, _ in self.arcs], np.int32)
        self.mods = np.array([m for _, m in self.arcs], np.int32)
        self.first, self.second, self.grandparents = list_pairs(n, self.heads, self.mods, structure)
        self.unary = rng.normal(size=len(self.arcs)) * scale
        self.scores = rng.normal(size=len(self.first)) * scale
        self.gold = np.array([keep[m - 1] == h for h, m in self.arcs], np.int64)

    @property
    def trees(self) -> torch.Tensor:
        return tree_matrix(self.n, self.arcs, self.structure)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.first.tolist(), self.second.tolist(), strict=True))

    @property
    def models(self) -> TreeModels:
        """The sentence between two others, a single word and none."""
        lengths, arcs, pairs = np.array([1, self.n, 0]), len(self.heads), len(self.first)
        return TreeModels.of(
            lengths, np.array([0, 1, arcs + 1, arcs + 1]), np.append(0, self.heads), np.append(1, self.mods),
            np.array([0, 0, pairs, pairs]), self.first, self.second, projective=bool(self.structure & PROJECTIVE),
            single_root=bool(self.structure & SINGLE_ROOT),
        )  # fmt: skip

    def step(
        self, objective: Objective, run: TreeInference, share: float = 0.0, **changed: NDArray
    ) -> tuple[float, NDArray, NDArray]:
        unary, scores = np.append(0.3, changed.get("unary", self.unary)), changed.get("scores", self.scores)
        task = TreeTask(None, None, None, 0, Templates(), ParserStructure(), run, objective)  # type: ignore[arg-type]
        models = self.models
        right = np.append(1.0, self.gold)
        gold = Gold(right, models.arrays.lengths - models.sums(right))
        losses, of_unary, of_scores = task.gradient(models, unary, scores, gold, share)
        assert abs(losses[0]) < 1e-12 and losses[2] == 0 and abs(of_unary[0]) < 1e-9
        return losses[1], of_unary[1:], of_scores

    def propagate(self, iterations: int, tolerance: float = 0.0) -> Propagated:
        return self.models.propagate(np.append(0.0, self.unary), self.scores, iterations, tolerance)

    def beliefs(self, run: TreeInference) -> NDArray:
        found = run(self.models, np.append(0.0, self.unary), self.scores)
        assert found.possible.all()
        np.testing.assert_allclose(1 / (1 + np.exp(-found.log_odds)), found.beliefs, atol=1e-12)
        return found.beliefs[1:]
