"""Compiled features against the templates written down once more with tuples of names."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from loopwise.apps.parser.features.parts import scratch
from loopwise.apps.parser.features.templates import PAIR_FEATURES, RICH_PAIR_FEATURES, arc_features, pair_features
from loopwise.apps.parser.options import Templates
from loopwise.apps.parser.vocabulary import ParserVocabulary, encode
from loopwise.formats.conllu import Sentence
from oracles.toy_language import SENTENCES

BORDER = "<border>"


class Named:
    """A sentence by position: 0 is the root, -1 and n + 1 are borders."""

    def __init__(self, sentence: Sentence) -> None:
        self.n = len(sentence)
        forms = sentence.forms
        self.word = {-1: BORDER, 0: "<root>", self.n + 1: BORDER} | dict(enumerate(forms, 1))
        self.prefix = {place: form[:5] if place in range(1, self.n + 1) else form for place, form in self.word.items()}
        self.long = {place: len(form) > 5 and 1 <= place <= self.n for place, form in self.word.items()}
        self.tags = [
            {-1: BORDER, 0: "<root>", self.n + 1: BORDER} | dict(enumerate(tags, 1))
            for tags in (sentence.fine_tags, sentence.coarse_tags)
        ]


def bin_of(distance: int) -> int:
    return sum(distance >= low for low in (1, 2, 5, 10, 20, 30, 40)) - 1


def reference_arc(named: Named, h: int, m: int, templates: Templates) -> list[tuple]:
    """McDonald, Crammer & Pereira (2005), A to F, and the richer set, plain and with direction and distance."""
    found: list[tuple] = [("bias",)]

    def words(kind: str, text: dict[int, str]) -> None:
        found.extend([(kind, "h", text[h]), (kind, "m", text[m]), (kind, "hm", text[h], text[m])])

    def tagged(kind: str, text: dict[int, str], tag: dict[int, str], alone: bool) -> None:
        wh, th, wm, tm = text[h], tag[h], text[m], tag[m]
        found.extend(
            [
                (kind, 0, wh, th), (kind, 1, wm, tm), (kind, 2, wh, th, wm, tm), (kind, 3, th, wm, tm),
                (kind, 4, wh, wm, tm), (kind, 5, wh, th, tm), (kind, 6, wh, th, wm),
            ]
        )  # fmt: skip
        if alone:
            found.extend([(kind, 7, th), (kind, 8, tm), (kind, 9, th, tm)])

    words("W", named.word)
    for level, tag in enumerate(named.tags[: 2 if templates.coarse else 1]):
        tagged(f"W{level}", named.word, tag, True)
        if templates.full:
            h0, h1, h2, m0, m1, m2 = (tag[place] for place in (h - 1, h, h + 1, m - 1, m, m + 1))
            found.extend(
                (f"D{level}", number, *tags)
                for number, tags in enumerate(
                    (
                        *((h1, h2, m0, m1), (h0, h1, m0, m1), (h1, h2, m1, m2), (h0, h1, m1, m2)),
                        *((h0, h1, m1), (h1, m0, m1), (h1, m1, m2), (h1, h2, m1)),
                    )
                )
            )
            between = {tag[place] for place in range(min(h, m) + 1, max(h, m))}
            found.extend((f"C{level}", h1, name, m1) for name in between)
            if named.long[h] or named.long[m]:
                tagged(f"E{level}", named.prefix, tag, False)
        if templates.rich:
            for number, place in enumerate((h - 1, h + 1, m - 1, m + 1)):
                found.append((f"N{level}", number, tag[h], tag[m], named.word[place]))
            for end in (h, m):
                around = [tag.get(place, BORDER) for place in range(end - 2, end + 3)]
                for number, (one, two) in enumerate(((0, 1), (4, 3), (1, 3))):
                    found.append((f"F{level}", end == h, number, tag[h], tag[m], around[one], around[two]))
    if templates.full and (named.long[h] or named.long[m]):
        words("E", named.prefix)
    turn = (bin_of(abs(h - m)), h < m)
    # The compiled list has each plain template followed by the same with direction and distance.
    return [each for feature in found for each in (feature, (*feature, *turn))]


def test_arc_features_are_the_templates() -> None:
    vocabulary = ParserVocabulary.learn(SENTENCES, cutoff=1)
    corpus = encode(SENTENCES, vocabulary)
    seen, packed, names, out = scratch(vocabulary.tags)
    for templates in (Templates(), Templates(coarse=False), Templates(rich=False), Templates(full=False, coarse=False)):
        arcs_of_key: dict[int, set] = defaultdict(set)
        arcs_of_feature: dict[tuple, set] = defaultdict(set)
        for number, sentence in enumerate(SENTENCES):
            named, column = Named(sentence), int(corpus.start[number]) + 1
            for h in range(named.n + 1):
                for m in range(1, named.n + 1):
                    if h == m:
                        continue
                    count = arc_features(
                        corpus.tokens, column + h, column + m, templates.flags, 0, seen, packed, names, out
                    )
                    expected = reference_arc(named, h, m, templates)
                    assert len(set(out[:count].tolist())) == count == len(expected) == len(set(expected))
                    for key, feature in zip(out[:count].tolist(), expected, strict=True):
                        arcs_of_key[key].add((number, h, m))
                        arcs_of_feature[feature].add((number, h, m))
        # Keys and features pair off: for every set of arcs, as many keys fire in just these arcs as features do.
        keys = Counter(frozenset(arcs) for arcs in arcs_of_key.values())
        assert keys == Counter(frozenset(arcs) for arcs in arcs_of_feature.values())


def reference_pair(named: Named, grandparent: bool, a: int, b: int, c: int, rich: bool) -> list[tuple]:
    """Carreras (2007), and the richer set."""
    w, (p, t) = named.word, named.tags
    found: list[tuple] = [
        ("bias",), ("ttt", t[a], t[b], t[c]), ("t.t", t[a], t[c]), (".tt", t[b], t[c]), ("w.w", w[a], w[c]),
        (".ww", w[b], w[c]), ("t.w", t[a], w[c]), (".tw", t[b], w[c]), ("w.t", w[a], t[c]), (".wt", w[b], t[c]),
    ]  # fmt: skip
    if rich:
        apart = bin_of(abs(a - c) if grandparent else abs(b - c))
        found += [
            ("ppp", p[a], p[b], p[c]), ("wpp", w[a], p[b], p[c]), ("pwp", p[a], w[b], p[c]), ("ppw", p[a], p[b], w[c]),
            ("p.p", p[a], p[c]), (".pp", p[b], p[c]), ("ttt", apart, t[a], t[b], t[c]),
            ("tt", apart, t[a] if grandparent else t[b], t[c]), ("wtw", w[a], t[b], w[c]), ("tww", t[a], w[b], w[c]),
        ]  # fmt: skip
    if grandparent:
        where = "same" if (a < b) == (b < c) else "inside" if min(a, b) < c < max(a, b) else "outside"
        return [("grandparent", where, b < c, *feature) for feature in found]
    return [("sibling", b < a, c < a, *feature) for feature in found]


@pytest.mark.parametrize("rich", [False, True])
def test_pair_features_are_the_templates(rich: bool) -> None:
    vocabulary = ParserVocabulary.learn(SENTENCES, cutoff=1)
    corpus = encode(SENTENCES, vocabulary)
    _, packed, names, out = scratch(vocabulary.tags)
    features: dict[tuple, int] = {}
    for number, sentence in enumerate(SENTENCES):
        named, column = Named(sentence), int(corpus.start[number]) + 1
        for grandparent in (False, True):
            for a in range(named.n + 1):
                for b in range(1, named.n + 1):
                    for c in range(1, named.n + 1):
                        if len({a, b, c}) < 3:
                            continue
                        count = pair_features(
                            corpus.tokens, grandparent, column + a, column + b, column + c,
                            Templates(rich=rich).flags, 0, packed, names, out,
                        )  # fmt: skip
                        expected = reference_pair(named, grandparent, a, b, c, rich)
                        assert count == len(expected) == (RICH_PAIR_FEATURES if rich else PAIR_FEATURES)
                        for feature, key in zip(expected, out[:count].tolist(), strict=True):
                            assert features.setdefault(feature, key) == key  # templates come in one order
    assert len(set(features.values())) == len(features)
