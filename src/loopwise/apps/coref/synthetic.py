"""Made documents: entities with attributes, spoken of by names, nouns and pronouns, some of them misleading.

In: how many, a seed. Out: documents as CoNLL-U files have them, trees included. Stage: use (tests, demonstrations).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loopwise.formats.coref import CorefDocument, parse_documents

_FIRST = {
    "he": ("John", "Paul", "Peter", "Mark", "Henry", "Adam"),
    "she": ("Mary", "Anna", "Susan", "Laura", "Alice", "Emma"),
}
_LAST = (
    "Baker",
    "Carter",
    "Dawson",
    "Ellis",
    "Foster",
    "Grant",
    "Hayes",
    "Irwin",
    "Jensen",
    "Keller",
    "Lowell",
    "Mercer",
)
_PLACES = ("Arden", "Brome", "Calder", "Dunmore", "Esk", "Farley", "Glenby", "Harrow")
_NOUNS = {
    "he": ("teacher", "doctor", "farmer"),
    "she": ("teacher", "lawyer", "singer"),
    "it": ("town", "village", "port"),
}
_OBJECTS = ("house", "letter", "book", "garden", "car", "song")
_VERBS = ("saw", "liked", "met", "left", "found", "praised")


@dataclass(frozen=True)
class _Entity:
    pronoun: str
    kind: str
    names: tuple[str, ...]
    noun: str


def made_documents(count: int, *, seed: int = 0, mentions: int = 30, noise: float = 0.05) -> list[CorefDocument]:
    """``count`` documents of about ``mentions`` mentions; a share ``noise`` of pronouns has the wrong gender.

    >>> document = made_documents(1)[0]
    >>> len(document.mentions) >= 30, len(set(document.entities())) < 30
    (True, True)
    """
    if count < 0 or mentions < 2 or not 0 <= noise <= 1:
        raise ValueError(
            f"count must not be negative, mentions at least 2, noise a share, not {count}, {mentions}, {noise}"
        )
    texts = [_document(np.random.default_rng([seed, number]), number, mentions, noise) for number in range(count)]
    return list(parse_documents("\n".join(texts), "made")) if texts else []


def _document(random: np.random.Generator, number: int, mentions: int, noise: float) -> str:
    people = [_entity(random) for _ in range(max(2, mentions // 8))]
    lines = [f"# newdoc id = made_{number}", "# global.Entity = GRP-etype"]
    spoken: set[int] = set()
    last, objects = 0, len(people)
    for _ in range((mentions + 1) // 2):
        subject = int(random.integers(len(people))) if random.random() < 0.7 else last
        words = _mention(random, people[subject], subject, again=subject == last and subject in spoken, noise=noise)
        spoken.add(subject)
        last = subject
        verb = ("root", str(random.choice(_VERBS)), "VERB", "_", "")
        if random.random() < 0.5:
            other = int(random.integers(len(people)))
            target = _mention(random, people[other], other, again=False, noise=0.0)
            spoken.add(other)
        else:
            objects += 1
            noun = str(random.choice(_OBJECTS))
            target = [
                ("det", "a", "DET", "_", f"({objects}-object"),
                ("head", noun, "NOUN", "Number=Sing", f"{objects})"),
            ]
        lines += _sentence(words, verb, target)
    return "\n".join(lines)


def _entity(random: np.random.Generator) -> _Entity:
    pronoun = str(random.choice(["he", "she", "it"]))
    if pronoun == "it":
        return _Entity("it", "place", (str(random.choice(_PLACES)),), str(random.choice(_NOUNS["it"])))
    names = (str(random.choice(_FIRST[pronoun])), str(random.choice(_LAST)))
    return _Entity(pronoun, "person", names, str(random.choice(_NOUNS[pronoun])))


_Word = tuple[str, str, str, str, str]  # part, form, tag, feats, brackets


def _mention(random: np.random.Generator, entity: _Entity, number: int, *, again: bool, noise: float) -> list[_Word]:
    """A pronoun for what the last sentence was about, else a name or a noun."""
    kind, draw = f"{number}-{entity.kind}", random.random()
    if again and draw < 0.8:
        wrong = random.random() < noise
        form = {"he": "she", "she": "he", "it": "he"}[entity.pronoun] if wrong else entity.pronoun
        return [("head", form, "PRON", "Number=Sing", f"({kind})")]
    if draw < 0.35:
        return [("det", "the", "DET", "_", f"({kind}"), ("head", entity.noun, "NOUN", "Number=Sing", f"{number})")]
    if len(entity.names) == 1 or draw < 0.6:
        return [("head", entity.names[-1], "PROPN", "Number=Sing", f"({kind})")]
    first, last = entity.names
    return [("head", first, "PROPN", "Number=Sing", f"({kind}"), ("flat", last, "PROPN", "Number=Sing", f"{number})")]


def _sentence(subject: list[_Word], verb: _Word, target: list[_Word]) -> list[str]:
    """Subject, verb, object and a full stop as CoNLL-U lines."""
    words = [*subject, verb, *target, ("punct", ".", "PUNCT", "_", "")]
    root = len(subject) + 1
    lines = []
    for place, (part, form, tag, feats, brackets) in enumerate(words, 1):
        mine = subject if place < root else target
        offset = 0 if place < root else root
        head = offset + 1 + next((n for n, word in enumerate(mine) if word[0] == "head"), 0)
        relation = part if part != "head" else "nsubj" if place < root else "obj"
        governor = 0 if place == root else root if part in ("head", "punct") else head
        misc = f"Entity={brackets}" if brackets else "_"
        columns = (place, form, form.lower(), tag, "_", feats, governor, relation, "_", misc)
        lines.append("\t".join(map(str, columns)))
    return [*lines, ""]
