"""A small made-up language with names: something to learn, quickly."""

from __future__ import annotations

import numpy as np

FIRST = ["Ann", "Bob", "Cleo", "Dan", "Eva"]
LAST = ["Smith", "Jones", "Berg", "Holm"]
PLACE = ["Rome", "Oslo", "Paris"]
PLAIN = ["the", "dog", "saw", "a", "cat", "in", "near", "ran", "slept", "Today"]


def names(count: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences and their tags: people of one or two words, places of one."""
    rng = np.random.default_rng(seed)
    words, tags = [], []
    for _ in range(count):
        sentence, said = [], []
        for _ in range(int(rng.integers(1, 5))):
            kind = rng.random()
            if kind < 0.3:
                sentence.append(str(rng.choice(FIRST)))
                said.append("B-PER")
                if rng.random() < 0.5:
                    sentence.append(str(rng.choice(LAST)))
                    said.append("I-PER")
            elif kind < 0.5:
                sentence += [str(rng.choice(["in", "near"])), str(rng.choice(PLACE + LAST[:1]))]
                said += ["O", "B-LOC"]
            else:
                sentence.append(str(rng.choice(PLAIN)))
                said.append("O")
        words.append(sentence)
        tags.append(said)
    return words, tags


TEMPLATES = "w[0] w[-1]|w[0] lower[-1] suffix2[0] is_title[0] bias"


TRAIN, TEST = names(120, seed=0), names(60, seed=1)
