"""Topics of papers that cite each other: every neighbourhood of citations is a graph of its own.

An example is a handful of papers, the words of each, and who cites whom. The topic of a third of the papers is known
(they are inputs), that of some others nobody knows, so they are summed out (hidden). A linear layer scores topics by
words, one table joins the topics at both ends of a citation; both are trained through belief propagation. Run it:
``python examples/citations.py``.
"""

from __future__ import annotations

# --8<-- [start:code]
import argparse
from dataclasses import dataclass

import numpy as np
import torch

import loopwise as lw

TOPICS, WORDS = 3, 12


@dataclass
class Papers:
    """One neighbourhood."""

    words: np.ndarray  # [papers, WORDS] how often each word is used
    citations: np.ndarray  # [citations, 2]
    topics: np.ndarray  # [papers]
    roles: np.ndarray  # [papers] of lw.Role


def make_papers(count: int, seed: int) -> list[Papers]:
    """Words that say little, citations that stay within a topic four times out of five."""
    rng = np.random.default_rng(seed)
    usual = np.random.default_rng(99).dirichlet(np.full(WORDS, 3.0), TOPICS)
    found = []
    for papers in rng.integers(3, 13, count):
        topics = rng.integers(0, TOPICS, papers)
        words = np.array([rng.multinomial(6, usual[topic]) for topic in topics])
        pairs = np.argwhere(np.triu(np.ones((papers, papers)), 1))
        same = topics[pairs[:, 0]] == topics[pairs[:, 1]]
        citations = pairs[rng.random(len(pairs)) < np.where(same, 0.4, 0.05)]
        roles = rng.choice([lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.HIDDEN], papers, p=[0.3, 0.6, 0.1])
        found.append(Papers(words, citations, topics, roles))
    return found


class Citations(lw.Template):
    """Topics of papers by their words and by what they cite."""

    def __init__(self) -> None:
        super().__init__()
        self.by_words = torch.nn.Linear(WORDS, TOPICS, dtype=torch.float64)
        self.cites = torch.nn.Parameter(torch.zeros(TOPICS, TOPICS, dtype=torch.float64))

    def graph(self, papers: Papers) -> lw.FactorGraph:
        count = len(papers.topics)
        return lw.FactorGraph([TOPICS] * count, {"topic": np.arange(count)[:, None], "cites": papers.citations})

    def values(self, papers: Papers) -> np.ndarray:
        return papers.topics

    def roles(self, papers: Papers) -> np.ndarray:
        return papers.roles

    def prepare(self, papers: Papers) -> dict[str, np.ndarray]:
        return {"words": papers.words.astype(np.float64)}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
        return {"topic": self.by_words(batch["words"]), "cites": self.cites + self.cites.T}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=80)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    train, test = make_papers(options.examples, seed=0), make_papers(options.examples, seed=1)
    system = lw.System(Citations(), lw.BP(iterations=5, tolerance=0), lw.decode.SoftArgmax(0.5))
    correct = lw.metric.Accuracy(reduction=lw.loss.Pooled())
    before = lw.evaluate(system, test, correct)
    # Likelihood first, then what is measured; hidden topics are summed out in both.
    goal = lw.learn.staged(lw.loss.L1(reduction=lw.loss.Pooled()), epochs=3)
    lw.fit(system, train, goal, optimizer=lambda p: torch.optim.Adam(p, lr=0.1), epochs=options.epochs,
           prior=lw.prior.L2(1e-3), progress=False)  # fmt: skip
    after = lw.evaluate(system, test, correct)
    alone = [Papers(one.words, one.citations[:0], one.topics, one.roles) for one in test]
    print(f"accuracy before training {before:.3f}, after {after:.3f}")
    print(f"accuracy of the trained system without citations {lw.evaluate(system, alone, correct):.3f}")


# --8<-- [end:code]
if __name__ == "__main__":
    main()
