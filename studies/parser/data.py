"""The treebanks of the parsing study.

In: a folder of Universal Dependencies. Out: :class:`Treebank`, its sentences cut to the sizes of a protocol.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loopwise.formats.conllu import Sentence, read_conllu

ENGLISH = "English-EWT"
PREFIX = "UD_"
HELD_OUT = 10  # every tenth training sentence is for development where a treebank has no such set


@dataclass(frozen=True, eq=False)
class Treebank:
    """Sentences with trees. ``left_out``: how many of the files have heads that are no tree of one root."""

    name: str
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]
    left_out: int


def find_treebanks(data: Path | None) -> dict[str, Path]:
    """Folders of treebanks that have a training and a test set, by name; English first."""
    given = data if data is not None else Path(os.environ.get("LOOPWISE_DATA", "."))
    for folder in (given / "ud", given):
        found = {
            path.name.removeprefix(PREFIX): path
            for path in sorted(folder.glob(f"{PREFIX}*"))
            if _file(path, "train") is not None and _file(path, "test") is not None
        }
        if found:
            return dict(sorted(found.items(), key=lambda entry: (entry[0] != ENGLISH, entry[0])))
    raise ValueError(
        f"{given} holds no folder {PREFIX}... with a training and a test set; give --data, or set LOOPWISE_DATA, to "
        "the folder that holds the treebanks"
    )


def read_treebank(folder: Path, train: int | None, dev: int | None, test: int | None, seed: int) -> Treebank:
    """The sentences of a treebank, at most so many of each set; those for training and development are a random draw.

    Without a development set, a tenth of the training set is held out, as the paper does.
    """
    left_out = 0

    def skipped(problem: Exception) -> None:
        nonlocal left_out
        left_out += 1

    def read(part: str) -> list[Sentence]:
        path = _file(folder, part)
        if path is None:
            return []
        found = read_conllu(path, trees=True, single_root=True, skipped=skipped)
        return [sentence for sentence in found if len(sentence)]

    known, held_out, tested = read("train"), read("dev"), read("test")
    if not held_out:
        held_out = known[HELD_OUT - 1 :: HELD_OUT]
        known = [sentence for place, sentence in enumerate(known) if place % HELD_OUT != HELD_OUT - 1]
    return Treebank(
        folder.name.removeprefix(PREFIX),
        _some(known, train, seed),
        _some(held_out, dev, seed),
        tested if test is None else tested[:test],
        left_out,
    )


def _some(sentences: Sequence[Sentence], most: int | None, seed: int) -> list[Sentence]:
    """At most ``most`` of them, in their order."""
    if most is None or len(sentences) <= most:
        return list(sentences)
    chosen = np.random.default_rng([seed, 6]).permutation(len(sentences))[:most]
    return [sentences[place] for place in sorted(chosen.tolist())]


def _file(folder: Path, part: str) -> Path | None:
    """The file of one set, compressed or not."""
    return next((path for kind in ("", ".gz") for path in sorted(folder.glob(f"*-{part}.conllu{kind}"))), None)
