"""Documents for Table 1 of the SampleRank paper: GUM in place of ACE 2004, which is licensed.

In: a folder with ``gum-*.conllu.gz``. Out: documents, whole or cut to the size of the paper's, and folds of them.
Without the files made-up documents stand in.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loopwise.apps.coref import made_documents
from loopwise.formats.coref import CorefDocument, read_coref

FILES = "gum-{}.conllu.gz"
SPLITS = ("train", "dev", "test")
GUM, MADE = "GUM", "made-up documents"


def find_gum(given: Path | None) -> Path | None:
    """The folder of GUM: ``given`` or LOOPWISE_DATA, or below one of them; None if there is none."""
    folder = given if given is not None else os.environ.get("LOOPWISE_DATA")
    if folder is None:
        return None
    found = sorted(Path(folder).rglob(FILES.format(SPLITS[0]))) if Path(folder).is_dir() else []
    if not found and given is not None:
        name = FILES.format(SPLITS[0])
        raise ValueError(f"there is no {name} in {given}; give its folder, or leave --data out for made-up documents")
    return found[0].parent if found else None


def documents(folder: Path | None, count: int | None, seed: int, made: int) -> list[CorefDocument]:
    """All documents, or ``count`` drawn from them; ``made`` made-up ones without a folder."""
    if folder is None:
        return made_documents(made, seed=seed, mentions=60)
    known = [one for split in SPLITS for one in read_coref(folder / FILES.format(split))]
    if count is None or count >= len(known):
        return known
    chosen = np.random.default_rng([seed, 1]).permutation(len(known))[:count]
    return [known[place] for place in sorted(chosen.tolist())]


def folds(items: int, count: int, seed: int) -> list[list[int]]:
    """Which items are tested in each fold; a random partition."""
    order = np.random.default_rng([seed, 2]).permutation(items)
    return [sorted(order[fold::count].tolist()) for fold in range(count)]


def held_out(items: int, every: int, seed: int, fold: int) -> list[int]:
    """Which of the training documents of a fold are held out to choose settings by: one in ``every``."""
    order = np.random.default_rng([seed, 3, fold]).permutation(items)
    return sorted(order[::every].tolist())


def cut(document: CorefDocument, most: int) -> list[CorefDocument]:
    """Parts of whole sentences with about the same number of mentions, ``most`` unless a sentence has more.

    Mentions of one entity in different parts are no longer together.
    """
    count = -(-len(document.mentions) // most)
    if count <= 1:
        return [document]
    sentences = np.searchsorted(document.sentence_start, [m.first for m in document.mentions], side="right") - 1
    totals = np.cumsum(np.bincount(sentences, minlength=len(document.sentence_start) - 1))
    ends = np.searchsorted(totals, np.arange(1, count) * totals[-1] / count).tolist()
    bounds = sorted({0, len(totals), *(end + 1 for end in ends)})
    return [_part(document, number, *bounds[number : number + 2]) for number in range(len(bounds) - 1)]


def _part(document: CorefDocument, number: int, first: int, end: int) -> CorefDocument:
    """Sentences ``first`` to ``end`` - 1."""
    start, stop = document.sentence_start[first], document.sentence_start[end]
    mentions = [
        dataclasses.replace(mention, first=mention.first - start, last=mention.last - start)
        for mention in document.mentions
        if start <= mention.first < stop
    ]
    return CorefDocument(
        f"{document.name}.{number + 1}",
        document.words[start:stop],
        tuple(place - start for place in document.sentence_start[first : end + 1]),
        tuple(mentions),
        document.trees[first:end],
        document.tags[start:stop],
        document.speakers[first:end],
    )


def split_documents(
    whole: Sequence[CorefDocument], tested: Sequence[int], most: int | None
) -> tuple[list[CorefDocument], list[CorefDocument]]:
    """Training and test documents of a fold, cut if wanted; parts of one document are all on one side."""
    sides: tuple[list[CorefDocument], list[CorefDocument]] = ([], [])
    for place, document in enumerate(whole):
        parts = [document] if most is None else cut(document, most)
        sides[place in set(tested)].extend(part for part in parts if part.mentions)
    return sides
