"""How good parses are: attachment scores by two rules, errors by length.

In: gold and system sentences. Out: numbers. Stage: use.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.parser.alignment import align, flatten
from loopwise.formats.conllu import Sentence


@dataclass(frozen=True)
class AttachmentScores:
    """Attachment scores, each a share of 1.

    ``uas`` and ``las`` are F1 of aligned words as in the CoNLL 2018 shared task: punctuation counts, subtypes of
    relations (``nmod:poss``) do not; ``las_subtypes`` compares relations whole. The other two leave out words all of
    whose characters are punctuation (Unicode category P; CoNLL 2006), over the gold words, relations whole.
    """

    uas: float
    las: float
    las_subtypes: float
    uas_no_punctuation: float
    las_no_punctuation: float
    words: int
    system_words: int
    aligned: int
    scored_no_punctuation: int

    def to_json(self) -> dict[str, float | int]:
        """Plain numbers."""
        return asdict(self)


def is_punctuation(form: str) -> bool:
    """The 2006 rule: every character is of a Unicode category P. So ``$`` and ``+``, which are symbols, are not.

    >>> [is_punctuation(form) for form in ("...", "$", "U.S.")]
    [True, False, False]
    """
    return all(unicodedata.category(letter).startswith("P") for letter in form)


def score(gold: Sequence[Sentence], system: Sequence[Sentence]) -> AttachmentScores:
    """Scores of ``system`` against ``gold``: the same text, perhaps cut into words and sentences differently."""
    gold_words, system_words = flatten(gold, "gold"), flatten(system, "system")
    if gold_words.text != system_words.text:
        place = _first_difference(gold_words.text, system_words.text)
        raise ValueError(
            f"the two files hold different texts: after {place} characters, gold goes on with "
            f"{gold_words.text[place : place + 20]!r}, the system with {system_words.text[place : place + 20]!r}"
        )
    pairs = align(gold_words, system_words)
    partner = np.full(len(system_words) + 1, -2, np.int64)  # of system words; -1, the root, is its own
    partner[pairs[:, 1]] = pairs[:, 0]
    partner[-1] = -1
    mine, theirs = pairs[:, 0], pairs[:, 1]
    attached = partner[system_words.heads[theirs]] == gold_words.heads[mine]
    whole = np.array([gold_words.relations[g] == system_words.relations[s] for g, s in pairs.tolist()], dtype=bool)
    coarse = np.array(
        [
            gold_words.relations[g].partition(":")[0] == system_words.relations[s].partition(":")[0]
            for g, s in pairs.tolist()
        ],
        dtype=bool,
    )
    counted = np.array([not is_punctuation(form) for form in gold_words.forms], dtype=bool)
    kept, total = counted[mine] if len(pairs) else np.zeros(0, bool), int(counted.sum())

    def f1(correct: int) -> float:
        return 2 * correct / max(1, len(gold_words) + len(system_words))

    return AttachmentScores(
        uas=f1(int(attached.sum())),
        las=f1(int((attached & coarse).sum())),
        las_subtypes=f1(int((attached & whole).sum())),
        uas_no_punctuation=int((attached & kept).sum()) / max(1, total),
        las_no_punctuation=int((attached & whole & kept).sum()) / max(1, total),
        words=len(gold_words),
        system_words=len(system_words),
        aligned=len(pairs),
        scored_no_punctuation=total,
    )


def sentence_counts(
    gold: Sequence[Sentence], system: Sequence[Sentence], punctuation: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right heads and scored words of each sentence: what paired tests between parsers resample.

    Both must have the same words. ``punctuation``: whether it is scored.
    """
    if [s.forms for s in gold] != [s.forms for s in system]:
        raise ValueError("sentence by sentence counts need the same words in both; use score() for other texts")
    right, scored = [], []
    for one, other in zip(gold, system, strict=True):
        counted = [punctuation or not is_punctuation(form) for form in one.forms]
        same = [a == b for a, b in zip(one.heads, other.heads, strict=True)]
        right.append(sum(a and b for a, b in zip(counted, same, strict=True)))
        scored.append(sum(counted))
    return np.array(right, dtype=np.int64), np.array(scored, dtype=np.int64)


LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, 19), (20, 10**6))  # of arcs, as error analyses group them


def by_length(gold: Sequence[Sentence], system: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Recall and precision of arcs by their length, punctuation left out; arcs of the root by themselves.

    A row each: ``length`` (``"root"``, ``"1"``, ``"3-4"``, ...), ``recall``, ``precision``, ``gold``, ``system``. Both
    must have the same words.
    """
    if [s.forms for s in gold] != [s.forms for s in system]:
        raise ValueError("scores by length need the same words in both; other texts have only scores of the whole")
    right: dict[str, int] = {}
    of_gold: dict[str, int] = {}
    of_system: dict[str, int] = {}
    for one, other in zip(gold, system, strict=True):
        for place, form in enumerate(one.forms):
            if is_punctuation(form):
                continue
            mine, theirs = (length_name(place + 1, sentence.heads[place]) for sentence in (one, other))
            of_gold[mine] = of_gold.get(mine, 0) + 1
            of_system[theirs] = of_system.get(theirs, 0) + 1
            if one.heads[place] == other.heads[place]:
                right[mine] = right.get(mine, 0) + 1
    return [
        {
            "length": name,
            "recall": right.get(name, 0) / max(1, of_gold.get(name, 0)),
            "precision": right.get(name, 0) / max(1, of_system.get(name, 0)),
            "gold": of_gold.get(name, 0),
            "system": of_system.get(name, 0),
        }
        for name in LENGTH_NAMES
    ]


def length_name(word: int, head: int) -> str:
    """The row of :func:`by_length` that an arc belongs to.

    >>> length_name(2, 9), length_name(1, 0)
    ('5-9', 'root')
    """
    if head <= 0:
        return "root"
    return next(_interval(low, high) for low, high in LENGTHS if abs(word - head) <= high)


def _interval(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}+" if high >= 10**6 else f"{low}-{high}"


LENGTH_NAMES = ("root", *(_interval(low, high) for low, high in LENGTHS))


def _first_difference(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
