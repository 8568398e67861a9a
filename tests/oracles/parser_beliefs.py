"""Trees by enumeration, and the parser's belief propagation written once more in plain torch, for tiny sentences."""

from __future__ import annotations

import torch
from torch import Tensor

from oracles.trees import every_tree

GRANDPARENTS, SIBLINGS, PROJECTIVE, SINGLE_ROOT = 1, 2, 4, 8


def all_trees(n: int, structure: int) -> list[tuple[int, ...]]:
    """The heads of every tree of the kind."""
    return [tuple(heads) for heads in every_tree(n, bool(structure & PROJECTIVE), bool(structure & SINGLE_ROOT))]


def tree_matrix(n: int, arcs: list[tuple[int, int]], structure: int) -> Tensor:
    """Which arcs each tree made of ``arcs`` has, ``[trees, arcs]``."""
    place = {arc: number for number, arc in enumerate(arcs)}
    rows = []
    for heads in all_trees(n, structure):
        used = [(head, mod) for mod, head in enumerate(heads, 1)]
        if all(arc in place for arc in used):
            row = torch.zeros(len(arcs), dtype=torch.float64)
            row[[place[arc] for arc in used]] = 1.0
            rows.append(row)
    return torch.stack(rows)


def reference_pairs(arcs: list[tuple[int, int]], structure: int) -> list[tuple[int, int]]:
    """Pairs of arcs that are scored, by the definitions: g -> h -> m, and h -> m, h -> s with m < s."""
    found = []
    for one, (g, h) in enumerate(arcs):
        for two, (k, m) in enumerate(arcs):
            if structure & GRANDPARENTS and h == k and g != m:
                if structure & PROJECTIVE and min(h, m) < g < max(h, m):
                    continue
                found.append((one, two))
            if structure & SIBLINGS and g == k and h < m and not (structure & SINGLE_ROOT and g == 0):
                found.append((one, two))
    return found


def reference_beliefs(trees: Tensor, unary: Tensor, pairs: list[tuple[int, int]], scores: Tensor, iterations: int):
    """Beliefs of arcs and of pairs (ON, ON) after ``iterations`` of the tree schedule, differentiable."""
    first = torch.tensor([one for one, _ in pairs], dtype=torch.long)
    second = torch.tensor([two for _, two in pairs], dtype=torch.long)
    open_question = (trees.sum(0) > 0) & (trees.sum(0) < len(trees))
    to_pair = [torch.zeros(len(pairs), dtype=torch.float64)] * 2  # log-odds from the first and the second arc
    for _ in range(iterations):
        from_pair = [
            torch.logaddexp(torch.nn.functional.logsigmoid(-x), scores + torch.nn.functional.logsigmoid(x))
            for x in (to_pair[1], to_pair[0])
        ]
        arrived = unary.index_add(0, first, from_pair[0]).index_add(0, second, from_pair[1])
        belief = torch.softmax(trees @ arrived, 0) @ trees
        # An arc of all trees, or of none, has log-odds beyond the cap of 50, where there is no slope.
        inside = torch.where(open_question, belief, 0.5)
        certain = torch.where(trees[0] > 0, 50.0, -50.0)
        odds = torch.where(open_question, torch.log(inside) - torch.log1p(-inside), certain)
        to_pair = [odds[first] - from_pair[0], odds[second] - from_pair[1]]
    both = torch.exp(scores + to_pair[0] + to_pair[1])
    joint = both / (1 + torch.exp(to_pair[0]) + torch.exp(to_pair[1]) + both)
    return belief, joint


def reference_loss(kind: str, trees: Tensor, belief: Tensor, gold: Tensor, temperature: float) -> Tensor:
    """L2, or the annealed risk."""
    if kind == "l2":
        return 2 * (belief - gold).square().sum()
    softened = torch.softmax(trees @ belief / temperature, 0) @ trees
    return gold.sum() - (softened * gold).sum()
