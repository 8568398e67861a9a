"""Relations of arcs: the second step, which completes a tree.

In: a tree. Out: the relation of each arc, from the relations that its tags have had in training. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loopwise.apps.parser.arcs import in_chunks
from loopwise.apps.parser.options import Templates
from loopwise.apps.parser.tasks import LabelTask
from loopwise.apps.parser.vocabulary import ROOT, Integers, ParserVocabulary, SentenceArrays
from loopwise.graph.offsets import starts_of
from loopwise.learn.optim.hashed import Floats, Small

LABEL_WEIGHTS = 8_000_000


@dataclass(frozen=True, eq=False)
class Labeller:
    """A classifier of arcs: a softmax over the relations seen with the arc's two coarse tags.

    Relations of the root are those seen there and no others, so that a tree of one root has one such relation.
    """

    templates: Templates
    allowed_start: Integers  # of each pair of coarse tags
    allowed: Small
    weights: Floats | None = None  # [size]

    @staticmethod
    def learn(corpus: SentenceArrays, vocabulary: ParserVocabulary, templates: Templates) -> Labeller:
        """The relations that each pair of tags has; the weights are still to come."""
        size = vocabulary.coarse_tags
        words = corpus.word_columns[corpus.heads[corpus.word_columns] >= 0]
        first = np.repeat(corpus.start[:-1] + 1, corpus.lengths)[corpus.heads[corpus.word_columns] >= 0]
        coarse = corpus.tokens[3].astype(np.int64)
        head_tags, tags = coarse[first + corpus.heads[words]], coarse[words]
        relations = corpus.relations[words]
        seen = np.unique(np.stack([head_tags * size + tags, relations])[:, relations >= 0], axis=1)
        of_root = np.unique(relations[(head_tags == ROOT) & (relations >= 0)])
        of_others = np.unique(relations[(head_tags != ROOT) & (relations >= 0)])
        lists = []
        for pair in range(size * size):
            begin, end = np.searchsorted(seen[0], [pair, pair + 1])
            known = seen[1, begin:end]
            if not len(known):
                known = of_root if pair // size == ROOT else of_others
            lists.append(known if len(known) else np.unique(relations[relations >= 0]))
        start = starts_of([len(known) for known in lists])
        return Labeller(replace(templates, size=LABEL_WEIGHTS), start, np.concatenate(lists).astype(np.int32))

    def task(self, corpus: SentenceArrays, vocabulary: ParserVocabulary) -> LabelTask:
        """What trains the weights."""
        return LabelTask(corpus, vocabulary.tags, self.templates, self.allowed_start, self.allowed)

    def relations(self, corpus: SentenceArrays, heads: Any, vocabulary: ParserVocabulary, threads: int = 1) -> Small:
        """The relation ``[columns]`` of each word to its head in ``heads[columns]``; -1 where there is none."""
        from loopwise.apps.parser.features.relations import best_labels

        labels = np.full(len(heads), -1, np.int32)

        def label(chosen: Integers) -> None:
            best_labels(
                corpus.tokens, corpus.start, chosen, heads, self.allowed_start, self.allowed, self.templates.flags,
                vocabulary.tags, self.weights, labels,
            )  # fmt: skip

        in_chunks(corpus, threads, label)
        return labels


def has_relations(corpus: SentenceArrays, vocabulary: ParserVocabulary) -> bool:
    """Whether there is anything to learn: another relation than the empty one."""
    return any(name != "_" for name in vocabulary.relations) and bool((corpus.relations >= 0).any())
