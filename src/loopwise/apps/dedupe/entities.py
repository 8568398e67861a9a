r"""The model of whole entities: pairs by their logits, and each cluster by its size and the agreement of its columns.

In: parts of a scored graph (:mod:`loopwise.decode.scored_pairs`). Out: :class:`EntityModel`, trained by SampleRank
and decoded by a walk. Stage: use.

.. math:: \pi(y)\propto\exp\Big(\sum_{i,j\text{ together}}\theta\cdot f(\operatorname{logit} p_{ij}-t)
   +\sum_e\theta'\cdot g_e\Big)

with t the threshold of the linkage at which a walk begins (:meth:`CandidateParts.above`): average linkage joins
clusters whose pairs have a mean above t, a step up in this score, so that the walk goes on where the linkage stopped;
and g the size of the cluster in bins and, for each column, whether all, most, some, none of its pairs agree and how
alike they are in the mean: its spread. It begins with the pair model alone (correlation clustering), so that training
can only add to that what the truth of whole clusters says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.decode.scored_pairs import CandidateParts, whole
from loopwise.loss.clustering import BCubed
from loopwise.potentials.features import Features
from loopwise.walk import (
    MIRA,
    ClusterModel,
    ConstantMargin,
    Cooling,
    MentionDocument,
    MentionMover,
    Mixture,
    SampleRank,
    SplitMerge,
    Start,
    Sweeps,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Agreement = Callable[[Integers, Integers], NDArray[np.float32]]  # [pairs, columns], NaN where missing

BINS = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])  # of logits, which have weights of their own
PAIR_FEATURES = 1 + len(BINS) + 1 + 1  # the logit, its bin, not compared
STEPS = 10  # into which similarities of columns are rounded
EPOCHS = 4
TRAINING, SEARCH = Sweeps(60, most=6_000), Sweeps(50, most=30_000)  # a step looks at all records of two clusters
COOLING = Cooling(0.5, 0.02)
MOVER = Mixture((MentionMover(), SplitMerge()), (49.0, 1.0))  # single records; clusters that split or merge
SAMPLED = 60  # records of a part whose marginals are sampled
_MISSING = 0.5  # similarity of a column where a value is missing


def cluster_model(columns: int) -> ClusterModel:
    """The library's model of clusterings, with these features."""
    return ClusterModel(PAIR_FEATURES, setwise=True, predicate_scales=(STEPS,) * columns)


def first_weights(columns: int) -> Floats:
    """Those of the pair model alone."""
    weights = np.zeros(cluster_model(columns).size)
    weights[0] = 1.0
    return weights


def documents(
    parts: CandidateParts, chosen: Sequence[int], labels: Integers, agreement: Agreement
) -> list[MentionDocument]:
    """A document of each chosen part; ``labels``: the cluster of each record, taken for the truth."""
    found = []
    for part in chosen:
        first, stop = int(parts.pair_starts[part]), int(parts.pair_starts[part + 1])
        records = parts.records[parts.starts[part] : parts.starts[part + 1]]
        one, other, logit = parts.one[first:stop], parts.other[first:stop], parts.logit[first:stop]
        low, high = np.minimum(one, other), np.maximum(one, other)
        size = len(records)
        rows = np.zeros(size * (size - 1) // 2, dtype=np.int32)
        rows[low * (2 * size - low - 1) // 2 + high - low - 1] = np.arange(1, len(one) + 1)
        alike = np.nan_to_num(agreement(records[low], records[high]), nan=_MISSING)
        unknown = np.full((1, alike.shape[1]), _MISSING, dtype=np.float32)
        predicates = np.rint(np.concatenate([unknown, alike]) * STEPS).clip(0, STEPS).astype(np.int32)
        found.append(MentionDocument(labels[records], _features(logit), rows, predicates))
    return found


def _features(logit: Floats) -> Features:
    """Row 0 is that of pairs without a score; the others have their logit and its bin."""
    bins = np.searchsorted(BINS, logit, side="right")
    index = np.concatenate([[PAIR_FEATURES - 1], np.stack([np.zeros_like(bins), 1 + bins], axis=1).reshape(-1)])
    value = np.concatenate([[1.0], np.stack([logit, np.ones(len(logit))], axis=1).reshape(-1)])
    start = np.concatenate([[0], 1 + 2 * np.arange(len(logit) + 1)])
    return Features.of(start, index.astype(np.int32), value)


def doubtful(parts: CandidateParts, labels: Integers, sure: float = 4.0) -> list[int]:
    """Parts in which something is to be decided: a cluster holds an unsure pair, or an unsure pair is kept apart."""
    own = np.repeat(np.arange(len(parts)), np.diff(parts.pair_starts))
    one, other = parts.pairs
    together = labels[one] == labels[other]
    unsure = np.where(together, parts.logit < sure, parts.logit > -sure)
    found: list[int] = np.unique(own[unsure]).tolist()
    return found


@dataclass(frozen=True, eq=False)
class EntityModel:
    """Weights of the model of entities."""

    weights: Floats
    columns: int
    seed: int = 0

    def _learner(self) -> SampleRank:
        learner = SampleRank(
            cluster_model(self.columns),
            MOVER,
            metric=BCubed(),
            step=MIRA(cap=0.02),
            margin=ConstantMargin(1.0),
            start=Start.MIXED,
            seed=self.seed,
        )
        learner.set_weights(self.weights)
        return learner

    @staticmethod
    def untrained(columns: int, seed: int = 0) -> EntityModel:
        """The pair model alone."""
        return EntityModel(first_weights(columns), columns, seed)

    def trained(self, parts: CandidateParts, truth: Integers, agreement: Agreement) -> EntityModel:
        """After SampleRank on parts whose records' entities are known, from the truth and from all alone."""
        known = [part for part in range(len(parts)) if _size(parts, part) > 1]
        if not known:
            return self
        learner = self._learner().fit(documents(parts, known, truth, agreement), steps=TRAINING, epochs=EPOCHS)
        return EntityModel(learner.weights, self.columns, self.seed)

    def improved(self, parts: CandidateParts, labels: Integers, agreement: Agreement) -> Integers:
        """The best clusters that a walk finds which begins with ``labels`` and cools; sure parts stay as they are."""
        chosen = doubtful(parts, labels)
        if not chosen:
            return labels
        made = documents(parts, chosen, labels, agreement)
        found = self._learner().search(made, self.weights, steps=SEARCH, start=Start.TRUTH, cooling=COOLING)
        own = np.repeat(np.arange(len(parts)), np.diff(parts.starts))
        inner = _local(labels[parts.records], own)
        for part, best in zip(chosen, found, strict=True):
            inner[parts.starts[part] : parts.starts[part + 1]] = best.labels
        return whole(parts, inner)

    def together(
        self,
        parts: CandidateParts,
        labels: Integers,
        agreement: Agreement,
        *,
        temperature: float,
        most: int,
        samples: int = 100,
    ) -> Floats:
        """The probability of each pair of the parts to be in one cluster: shares of the samples of a walk, in parts
        where something is open (``most`` of them); else what the pair model says, as the clusters have it."""
        one, other = parts.pairs
        same = labels[one] == labels[other]
        sure = 1.0 / (1.0 + np.exp(-np.abs(parts.logit)))
        found = np.where(same, sure, 1.0 - sure)
        chosen = [part for part in doubtful(parts, labels) if _size(parts, part) <= SAMPLED][:most]
        learner = self._learner()
        for part, document in zip(chosen, documents(parts, chosen, labels, agreement), strict=True):
            table = learner.marginals(
                document, samples=samples, chains=2, burn_in=20 * document.mentions, temperature=temperature
            ).probabilities
            first, stop = int(parts.pair_starts[part]), int(parts.pair_starts[part + 1])
            found[first:stop] = table[parts.one[first:stop], parts.other[first:stop]]
        return found


def _size(parts: CandidateParts, part: int) -> int:
    return int(parts.starts[part + 1] - parts.starts[part])


def _local(labels: Integers, own: Integers) -> Integers:
    """Clusters of each part numbered from 0."""
    codes = own * (int(labels.max(initial=0)) + 1) + labels
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    _, begins = np.unique(own[first], return_index=True)  # every part has records
    found: Integers = number.reshape(-1) - begins[own]
    return found
