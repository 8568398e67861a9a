"""Documents as a walk sees them: features of pairs and links in shared rows, predicates, attributes.

In: documents with mentions. Out: :class:`~loopwise.walk.MentionDocument`, and the model they fit. Stage: use. Pairs
with the same features share a row. O(pairs x templates), vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref.lexicon import UNKNOWN
from loopwise.apps.coref.link_templates import Opening, link_templates, openings
from loopwise.apps.coref.mentions import describe
from loopwise.apps.coref.pair_templates import MentionPairs, PairTemplate, pair_templates
from loopwise.apps.coref.set_templates import PREDICATES, attribute_table, attribute_values, predicate_table
from loopwise.apps.coref.similarity import Frequencies
from loopwise.formats.coref import CorefDocument
from loopwise.graph.offsets import starts_of
from loopwise.potentials.features import Features
from loopwise.potentials.hashing import feature_keys
from loopwise.walk import ClusterModel, MentionDocument


@dataclass(frozen=True, eq=False)
class Featuriser:
    """What training leaves behind of its texts: types of entities and document frequencies.

    ``types`` of entities are told from each other; others, and mentions without one, are unknown. ``setwise``: whether
    there are features of whole entities too; ``links``: of each mention with the one before it in its entity.
    """

    types: tuple[str, ...]
    frequencies: Frequencies
    setwise: bool = True
    links: bool = True

    @staticmethod
    def of(
        documents: Sequence[CorefDocument], *, types: bool = True, setwise: bool = True, links: bool = True
    ) -> Featuriser:
        """From training documents; without ``types`` those that files give are not looked at."""
        found = sorted({mention.kind for document in documents for mention in document.mentions if mention.kind})
        return Featuriser(tuple(found) if types else (), Frequencies.of(d.words for d in documents), setwise, links)

    @cached_property
    def templates(self) -> tuple[PairTemplate, ...]:
        return pair_templates(len(self.types))

    @cached_property
    def link_templates(self) -> tuple[PairTemplate, ...]:
        return link_templates(len(self.types))

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        return openings(len(self.types))

    @cached_property
    def starts(self) -> list[int]:
        """The first weight of each template of pairs, and the number of all."""
        return list(accumulate((template.weights for template in self.templates), initial=0))

    @cached_property
    def link_starts(self) -> list[int]:
        """The first weight of each template of links, then of first members, and the number of all."""
        sizes = [*(template.weights for template in self.link_templates), *(one.values for one in self.openings)]
        return list(accumulate(sizes, initial=0))

    def model(self) -> ClusterModel:
        """The model whose weights are to be learnt."""
        links = self.link_starts[-1] if self.links else 0
        if not self.setwise:
            return ClusterModel(self.starts[-1], link_features=links)
        return ClusterModel(
            self.starts[-1],
            link_features=links,
            setwise=True,
            predicate_scales=[predicate.scale for predicate in PREDICATES],
            attribute_values=attribute_values(len(self.types)),
        )

    def __call__(self, document: CorefDocument) -> MentionDocument:
        mentions = describe(document, {name: number for number, name in enumerate(self.types)})
        pairs = MentionPairs(mentions, self.frequencies)
        codes = np.stack([template.codes(pairs) for template in self.templates], axis=1)
        predicates = predicate_table(pairs) if self.setwise else np.zeros((len(codes), 0), dtype=np.int32)
        shown, row = _shared(codes, predicates)
        links, link_row = self._linked(pairs) if self.links else (None, None)
        return MentionDocument(
            np.array(document.entities(), dtype=np.int64),
            _indicators(codes[shown], self.starts),
            row,
            predicates[shown] if self.setwise else None,
            attribute_table(mentions) if self.setwise else None,
            links,
            link_row,
        )

    def _linked(self, pairs: MentionPairs) -> tuple[Features, NDArray[np.int32]]:
        """Features of links, in rows that links alike share: those of pairs, then those of first members."""
        middle = len(self.link_templates)
        codes = np.full((len(pairs.one) + len(pairs.mentions), len(self.link_starts) - 1), UNKNOWN, dtype=np.int64)
        for place, template in enumerate(self.link_templates):
            codes[: len(pairs.one), place] = template.codes(pairs)
        for place, opening in enumerate(self.openings):
            codes[len(pairs.one) :, middle + place] = opening.compute(pairs)
        shown, row = _shared(codes, np.zeros((len(codes), 0), dtype=np.int32))
        return _indicators(codes[shown], self.link_starts), row


def _indicators(codes: NDArray[np.int64], starts: Sequence[int]) -> Features:
    """Rows of features from the codes of templates, whose weights begin at ``starts``."""
    active = codes != UNKNOWN
    index = (codes + np.array(starts[:-1]))[active].astype(np.int32)
    return Features.of(starts_of(active.sum(axis=1)), index)


def _shared(codes: NDArray[np.int64], predicates: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """One pair of each kind, and the kind of each pair."""
    keys = feature_keys(*codes.T, *predicates.T)
    _, shown, row = np.unique(keys, return_index=True, return_inverse=True)
    return shown.astype(np.int64), row.reshape(-1).astype(np.int32)
