"""A skip-chain tagger: tags of words, with links between the mentions of one name (Sutton and McCallum 2004).

In each document a name is a person or a place. One of its mentions says which ("Mr" or "in" before it), the others do
not, and a chain can only guess. A link between equal names carries the tag from mention to mention. Each document has
a graph of its own; a batch is their union. Run it: ``python examples/skip_chain.py``.
"""

from __future__ import annotations

# --8<-- [start:code]
import argparse

import numpy as np
import torch

import loopwise as lw

TAGS = ["other", "person", "place"]
NAMES = ["Austin", "Florence", "Jordan", "Paris", "Sydney", "Victoria"]
FILLERS = ["and", "left", "met", "saw", "then", "was"]
WORDS = {word: number for number, word in enumerate([".", *NAMES, *FILLERS, "Mr", "in"])}
Document = tuple[list[str], list[int]]  # words and the numbers of their tags


def make_documents(count: int, seed: int) -> list[Document]:
    """Documents of two to four names, two or three mentions each, of which one is told by the word before it."""
    rng = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        mentions: list[tuple[list[str], list[int]]] = []
        for name in rng.choice(NAMES, rng.integers(2, 5), replace=False):
            tag = int(rng.integers(1, 3))
            mentions.append((["Mr" if tag == 1 else "in", str(name)], [0, tag]))
            mentions += [([str(rng.choice(FILLERS)), str(name)], [0, tag])] * int(rng.integers(1, 3))
        order = rng.permutation(len(mentions))
        documents.append(([word for k in order for word in mentions[k][0]], [t for k in order for t in mentions[k][1]]))
    return documents


class SkipChain(lw.Template):
    """Emissions, transitions that look at the word before, and links; ``links=False`` leaves a plain chain."""

    def __init__(self, links: bool = True) -> None:
        super().__init__()
        self.links = links
        self.emission = torch.nn.Parameter(torch.zeros(len(WORDS), len(TAGS), dtype=torch.float64))
        self.context = torch.nn.Parameter(torch.zeros(len(WORDS), len(TAGS), dtype=torch.float64))
        self.step = torch.nn.Parameter(torch.zeros(len(TAGS), len(TAGS), dtype=torch.float64))
        self.same = torch.nn.Parameter(torch.zeros(len(TAGS), len(TAGS), dtype=torch.float64))

    def options(self) -> dict[str, bool]:
        return {"links": self.links}

    def graph(self, document: Document) -> lw.FactorGraph:
        words = np.array(document[0])
        place = np.arange(len(words))
        named = np.char.isupper(words.astype("U1")) & (words != "Mr") & self.links
        equal = (words[:, None] == words) & named[:, None]
        return lw.FactorGraph(
            [len(TAGS)] * len(words),
            {
                "tag": place[:, None],
                "step": np.stack([place[:-1], place[1:]], 1),
                "same": np.argwhere(np.triu(equal, 1)),
            },
        )

    def values(self, document: Document) -> list[int]:
        return document[1]

    def prepare(self, document: Document) -> dict[str, np.ndarray]:
        words = np.array([WORDS[word] for word in document[0]])
        return {"word": words, "before": np.concatenate([[WORDS["."]], words[:-1]])}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
        tag = self.emission[batch["word"]] + self.context[batch["before"]]
        return {"tag": tag, "step": self.step, "same": self.same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    train, test = make_documents(options.documents, seed=0), make_documents(options.documents, seed=1)
    correct = lw.metric.Accuracy(reduction=lw.loss.Pooled())
    for links in (False, True):
        system = lw.System(SkipChain(links), lw.BP(iterations=4, tolerance=0), lw.decode.SoftArgmax(0.5))
        before = lw.evaluate(system, test, correct)
        lw.fit(system, train, lw.loss.L1(), optimizer=lambda p: torch.optim.Adam(p, lr=0.2), epochs=options.epochs,
               batch=lw.learn.TotalSize(2000), progress=False)  # fmt: skip
        after = lw.evaluate(system, test, correct)
        print(f"{'skip chain' if links else 'chain'}: accuracy {before:.3f} before training, {after:.3f} after")


# --8<-- [end:code]
if __name__ == "__main__":
    main()
