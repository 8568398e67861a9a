"""Third-order parsing on the engine: trees and factors listed one by one, both engines, what it learns."""

from __future__ import annotations

import importlib.util
from itertools import combinations, product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.reference import Reference

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "third_order.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("third_order", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def projective_trees(tokens: int) -> list[tuple[int, ...]]:
    """Heads of all projective trees, any number of roots: every token between head and modifier descends from it."""
    found = []
    for heads in product(range(tokens + 1), repeat=tokens):

        def above(token: int, heads: tuple[int, ...] = heads) -> list[int]:
            path = []
            while token and len(path) <= tokens:
                token = heads[token - 1]
                path.append(token)
            return path

        if any(len(above(token)) > tokens for token in range(1, tokens + 1)):
            continue
        spans = [(min(h, m), max(h, m), h) for m, h in enumerate(heads, start=1)]
        if all(h in above(b) for low, high, h in spans for b in range(low + 1, high)):
            found.append(heads)
    return found


def score(model: Any, classes: list[int], heads: tuple[int, ...]) -> float:
    """Of a tree, factor by factor as they are defined."""
    words, total = [3, *classes], 0.0
    for m, h in enumerate(heads, start=1):
        total += float(model.arc[words[h], words[m], int(h < m)])
    for h in range(len(words)):
        children = [m for m, head in enumerate(heads, start=1) if head == h]
        for side in ([m for m in children if m < h], [m for m in children if m > h]):
            for m, s in combinations(side, 2):
                if h:
                    g = heads[h - 1]
                    total += float(model.grand[words[g], words[h], words[m], words[s]])
            for one, two, three in combinations(side, 3):
                total += float(model.triple[words[h], words[one], words[two], words[three]])
    return total


def random_model(example: ModuleType, scale: float) -> Any:
    model = example.ThirdOrder()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(scale * torch.randn(weights.shape, generator=generator, dtype=torch.float64))
            weights.requires_grad_(False)
    return model


def test_trees_are_counted() -> None:
    assert [len(projective_trees(n)) for n in (1, 2, 3, 4)] == [1, 3, 12, 55]


@pytest.mark.parametrize("classes", [[1, 0, 2], [0, 1, 2, 1]])
def test_the_model_is_the_sum_over_trees(example: ModuleType, classes: list[int]) -> None:
    model, tokens = random_model(example, 1.0), len(classes)
    trees = projective_trees(tokens)
    scores = np.array([score(model, classes, heads) for heads in trees])
    mass = np.exp(scores - scores.max())
    arcs = example.arcs_of(tokens)
    wanted = np.array([
        sum(p for p, heads in zip(mass, trees, strict=True) if heads[m - 1] == h) / mass.sum()
        for h, m in zip(arcs.head, arcs.modifier, strict=True)
    ])  # fmt: skip
    sentence = (classes, [0] * tokens)
    exact = lw.System(model, lw.Exact()).beliefs([sentence])
    assert float(exact.log_partition) == pytest.approx(float(np.log(mass.sum()) + scores.max()), abs=1e-9)
    np.testing.assert_allclose(exact.states.reshape(-1, 2)[:, 1].numpy(), wanted, atol=1e-9)
    order = lw.Groups(("grand", "triple", "tree"))
    found = lw.System(model, lw.BP(iterations=20, tolerance=0, schedule=order)).beliefs([sentence])
    assert np.abs(found.states.reshape(-1, 2)[:, 1].numpy() - wanted).max() < 0.15  # loopy, so not exact
    plain = lw.BP(iterations=20, tolerance=0, schedule=order, engine=Reference())
    torch.testing.assert_close(found.states, lw.System(model, plain).beliefs([sentence]).states, rtol=0, atol=1e-10)


def test_without_third_order_factors_bp_is_exact(example: ModuleType) -> None:
    model = random_model(example, 1.0)
    model.grand.zero_()
    model.triple.zero_()
    sentence = ([1, 0, 2, 1], [0] * 4)
    order = lw.Groups(("grand", "triple", "tree"))
    found = lw.System(model, lw.BP(iterations=2, tolerance=0, schedule=order)).beliefs([sentence])
    exact = lw.System(model, lw.Exact()).beliefs([sentence])
    torch.testing.assert_close(found.states, exact.states, rtol=0, atol=1e-10)


def test_it_learns_what_single_arcs_cannot_say(example: ModuleType) -> None:
    found = example.main(24)
    assert found["third order"] < 0.5 * found["arcs alone"]
