"""Dependency trees and tags of tokens in one model: a tree factor over arcs, and factors between arcs and tags.

A sentence of n tokens has n^2 binary variables, one for each arc, held together by one ``ProjectiveTree`` factor, and a
tag for each token. A table of three variables joins an arc with the tags at its ends: verbs take nouns, nouns take
adjectives. Words that may be noun or verb can only be told by the tree. Run it: ``python examples/tagged_trees.py``.
"""

from __future__ import annotations

# --8<-- [start:code]
import argparse
from functools import cache

import numpy as np
import torch

import loopwise as lw

NOUN, VERB, ADJECTIVE = range(3)
WORDS = [(NOUN,), (VERB,), (ADJECTIVE,), (NOUN, VERB), (NOUN, ADJECTIVE)]  # the tags that each word may have
FARTHEST = 3
Sentence = tuple[list[int], list[int], list[int]]  # words, tags, heads (0: the root)


def make_sentences(count: int, seed: int) -> list[Sentence]:
    """A verb with one or two nouns beside it, each with adjectives before it."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        tags: list[int] = []
        heads: list[int] = []
        nouns: list[int] = []
        verb = 0
        for part in (NOUN, VERB, NOUN)[: int(rng.integers(2, 4))]:
            adjectives = int(rng.integers(0, 2)) if part == NOUN else 0
            own = len(tags) + adjectives + 1
            tags += [ADJECTIVE] * adjectives + [part]
            heads += [own] * adjectives + [0]
            verb, nouns = (own, nouns) if part == VERB else (verb, [*nouns, own])
        for noun in nouns:
            heads[noun - 1] = verb
        words = [int(rng.choice([word for word, may in enumerate(WORDS) if tag in may])) for tag in tags]
        sentences.append((words, tags, heads))
    return sentences


@cache
def arcs_of(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Head and modifier of each arc variable."""
    head, modifier = np.array(lw.ProjectiveTree(tokens).edges).T
    return head, modifier


class TaggedTree(lw.Template):
    """Variables: all arcs, then the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.word = torch.nn.Parameter(torch.zeros(len(WORDS), 3, dtype=torch.float64))
        self.distance = torch.nn.Parameter(torch.zeros(2 * FARTHEST + 1, dtype=torch.float64))
        self.root = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.pair = torch.nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))

    def shape(self, sentence: Sentence) -> int:
        return len(sentence[0])  # sentences of one length have one graph

    def graph(self, sentence: Sentence) -> lw.FactorGraph:
        tokens = len(sentence[0])
        head, modifier = arcs_of(tokens)
        arc, first = np.arange(len(head)), len(head) - 1  # the tag of token t is variable first + t
        inner = head > 0
        return lw.FactorGraph(
            [2] * len(arc) + [3] * tokens,
            {
                "arc": arc[:, None],
                "tag": first + 1 + np.arange(tokens)[:, None],
                "root": np.stack([arc, first + modifier], 1)[~inner],
                "pair": np.stack([arc, first + head, first + modifier], 1)[inner],
            },
            {"tree": (lw.ProjectiveTree(tokens), arc)},
        )

    def values(self, sentence: Sentence) -> np.ndarray:
        head, modifier = arcs_of(len(sentence[0]))
        return np.concatenate([np.array(sentence[2])[modifier - 1] == head, sentence[1]]).astype(np.int64)

    def prepare(self, sentence: Sentence) -> dict[str, np.ndarray]:
        head, modifier = arcs_of(len(sentence[0]))
        return {"word": np.array(sentence[0]), "distance": np.clip(modifier - head, -FARTHEST, FARTHEST) + FARTHEST}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
        def if_on(scores: torch.Tensor) -> torch.Tensor:  # a table whose first variable is the arc: 0 if it is off
            return torch.stack([torch.zeros_like(scores), scores])

        return {
            "arc": if_on(self.distance[batch["distance"]]).T,
            "tag": self.word[batch["word"]],
            "root": if_on(self.root),
            "pair": if_on(self.pair),
        }


def attached(system: lw.System, sentences: list[Sentence]) -> float:
    """Share of tokens with the right head: the arc of largest belief among those to it."""
    right = total = 0
    for sentence, beliefs in zip(sentences, system.predict_marginals(sentences), strict=True):
        head, modifier = arcs_of(len(sentence[0]))
        on = beliefs[: len(head), 1].numpy()
        for token, gold in enumerate(sentence[2], start=1):
            right += int(head[modifier == token][on[modifier == token].argmax()] == gold)
            total += 1
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    train, test = make_sentences(options.sentences, seed=0), make_sentences(options.sentences, seed=1)
    system = lw.System(TaggedTree(), lw.BP(iterations=4, tolerance=0), lw.decode.Max())
    before = attached(system, test), lw.evaluate(system, test, lw.loss.L1())
    lw.fit(system, train, lw.loss.L1(), optimizer=lambda p: torch.optim.Adam(p, lr=0.2), epochs=options.epochs,
           progress=False)  # fmt: skip
    after = attached(system, test), lw.evaluate(system, test, lw.loss.L1())
    print(f"wrong variables before training {before[1]:.3f}, after {after[1]:.3f}")
    print(f"right heads before training {before[0]:.3f}, after {after[0]:.3f}")


# --8<-- [end:code]
if __name__ == "__main__":
    main()
