"""Places of features in the table."""

from __future__ import annotations

import numpy as np

from loopwise.apps.parser.features.parts import scratch
from loopwise.apps.parser.features.templates import arc_features
from loopwise.apps.parser.options import Templates
from loopwise.apps.parser.vocabulary import ParserVocabulary, encode
from oracles.toy_language import SENTENCES


def test_places_are_within_the_table_and_spread_over_it() -> None:
    vocabulary = ParserVocabulary.learn(SENTENCES, cutoff=1)
    corpus = encode(SENTENCES, vocabulary)
    seen, packed, names, out = scratch(vocabulary.tags)
    places = []
    for m in range(2, 9):
        count = arc_features(corpus.tokens, 1, 1 + m - 1, Templates().flags, 1000, seen, packed, names, out)
        places += out[:count].tolist()
    assert min(places) >= 0 and max(places) < 1000
    counts = np.bincount(np.array(places) // 100, minlength=10)
    assert counts.min() > 0.4 * counts.mean()
