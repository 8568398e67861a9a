"""Third-order parsing: factors of three arcs, on the engine that first- and second-order models run on.

A sentence of n tokens has n^2 binary variables, one for each arc, held together by one ``ProjectiveTree`` factor. A
*grand-sibling* joins an arc g -> h with two modifiers h -> m, h -> s of its end that stand on the same side; a
*tri-sibling* joins three modifiers of one head on the same side. Both are tables of three variables that count where
all three arcs are there. Run it: ``python examples/third_order.py``.
"""

from __future__ import annotations

# --8<-- [start:code]
import argparse
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

import loopwise as lw

Sentence = tuple[list[int], list[int]]  # classes of the words, heads (0: the root)
CLASSES = 3


class Arcs(NamedTuple):
    """Arcs of sentences of one length, and which three of them make a factor: numbers of arcs ``[factors, 3]``."""

    head: np.ndarray
    modifier: np.ndarray
    grand: np.ndarray
    triple: np.ndarray


@cache
def arcs_of(tokens: int) -> Arcs:
    """All grand-siblings (g -> h, h -> m, h -> s) and tri-siblings (h -> m, h -> s, h -> t), in order of words."""
    edges = [tuple(map(int, edge)) for edge in lw.ProjectiveTree(tokens).edges]
    number = {edge: place for place, edge in enumerate(edges)}
    grand, triple = [], []
    for h in range(tokens + 1):
        for side in (range(1, h), range(h + 1, tokens + 1)):
            for m, s in combinations(side, 2):
                heads = [g for g in range(tokens + 1) if h > 0 and g not in (h, m, s)]
                grand += [[number[g, h], number[h, m], number[h, s]] for g in heads]
            triple += [[number[h, m] for m in three] for three in combinations(side, 3)]
    head, modifier = np.array(edges).T
    return Arcs(head, modifier, _rows(grand), _rows(triple))


def _rows(found: list[list[int]]) -> np.ndarray:
    return np.array(found, dtype=np.int64).reshape(-1, 3)


class ThirdOrder(lw.Template):
    """A score for each pair of classes an arc joins, and for the classes of all words of a third-order factor."""

    def __init__(self) -> None:
        super().__init__()
        size = CLASSES + 1  # the root has a class of its own, the last
        self.arc = torch.nn.Parameter(torch.zeros(size, CLASSES, 2, dtype=torch.float64))  # by direction
        self.grand = torch.nn.Parameter(torch.zeros(size, CLASSES, CLASSES, CLASSES, dtype=torch.float64))
        self.triple = torch.nn.Parameter(torch.zeros(size, CLASSES, CLASSES, CLASSES, dtype=torch.float64))

    def shape(self, sentence: Sentence) -> int:
        return len(sentence[0])

    def graph(self, sentence: Sentence) -> lw.FactorGraph:
        tokens = len(sentence[0])
        arcs, every = arcs_of(tokens), np.arange(tokens * tokens)
        groups = {"arc": every[:, None], "grand": arcs.grand, "triple": arcs.triple}
        return lw.FactorGraph([2] * len(every), groups, {"tree": (lw.ProjectiveTree(tokens), every)})

    def values(self, sentence: Sentence) -> np.ndarray:
        arcs = arcs_of(len(sentence[0]))
        return (np.array(sentence[1])[arcs.modifier - 1] == arcs.head).astype(np.int64)

    def prepare(self, sentence: Sentence) -> dict[str, np.ndarray]:
        arcs, words = arcs_of(len(sentence[0])), np.array([CLASSES, *sentence[0]])
        h, m = words[arcs.head], words[arcs.modifier]
        first, second, third = (arcs.grand[:, place] for place in range(3))
        one, two, three = (arcs.triple[:, place] for place in range(3))
        return {
            "arc": np.stack([h, m, (arcs.head < arcs.modifier).astype(np.int64)], 1),
            "grand": np.stack([h[first], m[first], m[second], m[third]], 1),
            "triple": np.stack([h[one], m[one], m[two], m[three]], 1),
        }

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
        h, m, right = batch["arc"].T.long()
        arc = self.arc[h, m, right]
        third = {name: self.together(name, batch[name].long()) for name in ("grand", "triple")}
        return {"arc": torch.stack([torch.zeros_like(arc), arc], -1), **third}

    def together(self, name: str, words: torch.Tensor) -> torch.Tensor:
        """Tables ``[factors, 2, 2, 2]`` that are 0 but where all three arcs are there."""
        scores = getattr(self, name)[tuple(words.T)]
        tables = scores.new_zeros(len(scores), 8)
        return tables.index_copy(1, torch.tensor([7]), scores[:, None]).reshape(-1, 2, 2, 2)


def make_sentences(count: int, seed: int) -> list[Sentence]:
    """A verb (0) takes what stands beside it; a word of class 2 goes to the verb, but to the noun (1) before it where
    that noun has another modifier between them: no score of single arcs or pairs of arcs says so."""
    rng, sentences = np.random.default_rng(seed), []
    for _ in range(count):
        inner = bool(rng.integers(0, 2))
        classes = [1, 0, 1, 2, 2] if inner else [1, 0, 1, 2]
        heads = [2, 0, 2, 3, 3] if inner else [2, 0, 2, 2]
        sentences.append((classes, heads))
    return sentences


def main(count: int = 60) -> dict[str, float]:
    """Trains with and without third-order factors; the share of arcs that are wrong, beliefs against the truth."""
    train, test = make_sentences(count, 0), make_sentences(count, 1)
    found = {}
    for name, kept in (("arcs alone", False), ("third order", True)):
        model = ThirdOrder()
        for weights in (model.grand, model.triple):
            weights.requires_grad_(kept)
        order = lw.Groups(("grand", "triple", "tree"))  # a sweep ends with the tree: beliefs are those of trees
        system = lw.System(model, lw.BP(iterations=3, tolerance=0, schedule=order))
        lw.fit(system, train, lw.loss.MSE(), epochs=20, progress=False)
        found[name] = lw.evaluate(system, test, lw.loss.MSE())
    return found


# --8<-- [end:code]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="sentences to train and to test with")
    for name, loss in main(parser.parse_args().count).items():
        print(f"{name}: squared error of arcs {loss:.4f}")
