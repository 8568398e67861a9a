"""NamesTexts with names for Table 3 of the SampleRank paper: open corpora in place of CoNLL-2003, which is licensed.

In: a folder that holds those of the corpora. Out: training, development and test text of each, in IOB2.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loopwise.formats.columns import BrokenTagsWarning, TaggedText, read_tagged


@dataclass(frozen=True)
class NamesCorpus:
    """Files of a corpus, ``.gz`` or not. One file alone is parted in its order: three fifths, a fifth, a fifth.

    ``moved``: a share of the training sentences, the last ones, that go to the development data, where these are few.
    """

    name: str
    folder: str
    files: tuple[str, ...]  # training, development, test; or one
    moved: float = 0.0

    def paths(self, top: Path) -> list[Path] | None:
        """Where the files are; None if one is missing."""
        found = []
        for file in self.files:
            plain = top / self.folder / file
            packed = plain.with_name(plain.name + ".gz")
            if not (plain.is_file() or packed.is_file()):
                return None
            found.append(plain if plain.is_file() else packed)
        return found


# The smaller ones first, so that an interrupted study has most of them.
OPEN = (
    NamesCorpus("Danish", "UNER_Danish-DDT", ("da_ddt-ud-train.iob2", "da_ddt-ud-dev.iob2", "da_ddt-ud-test.iob2")),
    NamesCorpus("wikigold", "wikigold", ("wikigold.conll.txt",)),
    # 23 names in the development data cannot tell settings apart.
    NamesCorpus(
        "Swedish",
        "UNER_Swedish-Talbanken",
        ("sv_talbanken-ud-train.iob2", "sv_talbanken-ud-dev.iob2", "sv_talbanken-ud-test.iob2"),
        moved=0.2,
    ),
    NamesCorpus("WNUT-17", "wnut17", ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")),
    NamesCorpus(
        "Portuguese",
        "UNER_Portuguese-Bosque",
        ("pt_bosque-ud-train.iob2", "pt_bosque-ud-dev.iob2", "pt_bosque-ud-test.iob2"),
    ),
)
# The corpus of the paper, for those who have it.
CONLL = NamesCorpus("CoNLL-2003 Test-B", "conll2003", ("eng.train", "eng.testa", "eng.testb"))


@dataclass(frozen=True)
class NamesTexts:
    """What a corpus is used for."""

    train: TaggedText
    dev: TaggedText
    test: TaggedText


def find_names(data: Path | None) -> Path:
    """The folder that holds the corpora: ``data``, its subfolder ``ner``, or in LOOPWISE_DATA."""
    given = data if data is not None else Path(os.environ.get("LOOPWISE_DATA", "."))
    for folder in (given, given / "ner"):
        if OPEN[0].paths(folder) is not None:
            return folder
    raise ValueError(
        f"{given} holds no folder {OPEN[0].folder} with {OPEN[0].files[0]}; give --data, or set LOOPWISE_DATA, to the "
        "folder of the corpora of names"
    )


def read_corpus(top: Path, corpus: NamesCorpus, sentences: int | None = None) -> NamesTexts:
    """The three texts; ``sentences``: at most so many of each, the first ones."""
    paths = corpus.paths(top)
    if paths is None:
        raise ValueError(f"{top / corpus.folder} does not hold all of {', '.join(corpus.files)}; add the missing ones")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenTagsWarning)  # repaired as the CoNLL evaluation reads them
        texts = [read_tagged(path) for path in paths]
    if len(texts) == 1:
        (whole,) = texts
        cuts = [0, len(whole) * 3 // 5, len(whole) * 4 // 5, len(whole)]
        texts = [part_of(whole, cuts[place], cuts[place + 1]) for place in range(3)]
    train, dev, test = texts
    kept = len(train) - int(corpus.moved * len(train))
    train, dev = part_of(train, 0, kept), joined(dev, part_of(train, kept, len(train)))
    return NamesTexts(*(one if sentences is None else part_of(one, 0, sentences) for one in (train, dev, test)))


def part_of(text: TaggedText, first: int, end: int) -> TaggedText:
    """Sentences ``first`` to ``end`` - 1, as far as there are."""
    first, end = min(first, len(text)), min(end, len(text))
    low, high = int(text.start[first]), int(text.start[end])
    tags = None if text.tags is None else text.tags[low:high]
    start = text.start[first : end + 1] - low
    return TaggedText(text.words[low:high], tags, start, text.lines[low:high], text.coding)


def joined(one: TaggedText, other: TaggedText) -> TaggedText:
    """One text after another."""
    assert one.tags is not None and other.tags is not None
    start = np.concatenate([one.start, other.start[1:] + one.start[-1]])
    lines = np.concatenate([one.lines, other.lines])
    return TaggedText(one.words + other.words, one.tags + other.tags, start, lines, one.coding)
