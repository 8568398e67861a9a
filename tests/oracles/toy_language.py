"""A little language with a grammar: sentences whose trees can be learnt from tags and words."""

from __future__ import annotations

import numpy as np

from loopwise.apps import Parser
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.formats.conllu import (
    Sentence,
    make_sentence,
    parse_conllu,
)

NOUNS = ["cat", "dog", "gardener", "telescope", "melody"]
VERBS = ["sees", "remembers", "likes", "calls"]


def toy_sentences(count: int, seed: int = 0, crossing: bool = False) -> list[Sentence]:
    """Noun phrases with adjectives and prepositional phrases around a verb.

    A prepositional phrase of "with" hangs on the verb, one of "of" on the noun before it: words matter, not tags alone.
    ``crossing``: an adverb at the end belongs to the first noun, so that trees cross.
    """
    rng = np.random.default_rng(seed)
    return [_sentence(rng, crossing) for _ in range(count)]


def _sentence(rng: np.random.Generator, crossing: bool) -> Sentence:
    words: list[tuple[str, str, str, int, str]] = []  # form, coarse, fine, head, relation

    def phrase(head: int, relation: str) -> int:
        """A noun phrase; the place of its noun."""
        adjectives = int(rng.integers(0, 3))
        noun = len(words) + 2 + adjectives
        words.append((str(rng.choice(["the", "a"])), "DET", "DT", noun, "det"))
        for _ in range(adjectives):
            words.append((str(rng.choice(["old", "green"])), "ADJ", "JJ", noun, "amod"))
        words.append((str(rng.choice(NOUNS)), "NOUN", "NN", head, relation))
        return noun

    subject = phrase(-1, "nsubj")
    verb = len(words) + 1
    words[subject - 1] = (*words[subject - 1][:3], verb, "nsubj")
    words.append((str(rng.choice(VERBS)), "VERB", "VBZ", 0, "root"))
    noun = phrase(verb, "obj")
    for _ in range(int(rng.integers(0, 3))):
        preposition = str(rng.choice(["with", "of"]))
        place = len(words) + 1
        words.append((preposition, "ADP", "IN", -1, "case"))
        inner = phrase(verb if preposition == "with" else noun, "obl" if preposition == "with" else "nmod")
        words[place - 1] = (*words[place - 1][:3], inner, "case")
        noun = inner
    if crossing:
        words.append(("too", "ADV", "RB", subject, "advmod"))
    words.append((".", "PUNCT", ".", verb, "punct"))
    form, coarse, fine, heads, relations = (list(column) for column in zip(*words, strict=True))
    return make_sentence(form, coarse, fine, heads, relations)


def rows(*lines: tuple[object, str, object, str]) -> Sentence:
    """Id, form, head, relation."""
    text = "\n".join(f"{i}\t{form}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_" for i, form, head, relation in lines)
    return next(parse_conllu(text))


GOLD = rows(
    ("1-2", "don't", "_", "_"), (1, "do", 3, "aux"), (2, "n't", 3, "advmod:neg"), (3, "pay", 0, "root"),
    ("3.1", "e", "_", "_"), (4, "$", 5, "nummod"), (5, "5", 3, "obj"), (6, "...", 3, "punct"),
)  # fmt: skip


SENTENCES = [
    make_sentence(
        ["Parsers", "that", "understand", "sentences", "are", "built", "quickly", "."],
        ["NOUN", "PRON", "VERB", "NOUN", "AUX", "VERB", "ADV", "PUNCT"],
        ["NNS", "WDT", "VBP", "NNS", "VBP", "VBN", "RB", "."],
    ),
    make_sentence(["So", "it", "goes"], ["ADV", "PRON", "VERB"], ["RB", "PRP", "VBZ"]),
]


SMALL = Templates(size=50_000, cutoff=1)


PRUNING = Pruning(size=20_000, epochs=2, rate=0.1)


TRAIN, DEV = toy_sentences(60, seed=1), toy_sentences(30, seed=2)


def small(*arguments: object, **options: object) -> Parser:
    return Parser(*arguments, **{"templates": SMALL, "pruning": PRUNING} | options)  # type: ignore[arg-type]
