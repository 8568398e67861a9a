"""Duplicates as users have them: fit, predict, evaluate, save.

In: tables, labels of any kind. Out: :class:`Dedupe`. Stage: use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.dedupe.blocking import Coverage, Predicate
from loopwise.apps.dedupe.kinds import Kind, kinds_of
from loopwise.apps.dedupe.labels import Labels, entities_of, labels_of, names_of
from loopwise.apps.dedupe.records import Records, RecordsLike, side_of
from loopwise.apps.dedupe.report import DedupeReport
from loopwise.apps.dedupe.resolution import Resolution
from loopwise.apps.dedupe.table import CandidateTable
from loopwise.apps.dedupe.training import Method, TrainedDedupe, train_on_entities, train_on_pairs, train_without
from loopwise.apps.estimator import not_fitted
from loopwise.apps.saved import SavedEstimator
from loopwise.arguments import checked_whole
from loopwise.formats.errors import listed
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import Record

Integers = NDArray[np.int64]
_NONE = np.zeros((0, 2), dtype=np.int64)
MOST_MATCHES = 100_000  # labelled ones that predicates are chosen by


@dataclass(frozen=True)
class DedupeTraining:
    """What happened in :meth:`Dedupe.fit`: labels given, what blocking keeps, what each way reached on held-out ones;
    ``pull``: how hard labelled pairs were pulled towards the model without labels, None where they changed nothing."""

    records: int
    labelled: int
    blocking: Coverage
    choices: dict[str, float]
    seconds: float
    pull: float | None = None


class Dedupe(SavedEstimator):
    """Finds the records of a table (or of two) that mean the same thing.

    Similarities of columns become a probability for each candidate pair; clusters are made of these by average linkage,
    or, where that is better on held-out labels, by a walk over clusterings in a model of whole entities that SampleRank
    trained for B-cubed F1. Labels may be true ids, pairs, or none.

    Parameters
    ----------
    kinds:
        What columns hold, by name (``"name"``, ``"text"``, ``"number"``, ``"date"``, ``"place"``, ``"point"``,
        ``"category"``, ``"phone"``, ``"set"``, ``"ignore"``); others are guessed.
    id_column:
        The column by which labels and links name records, each once in its table; row numbers from 0 if there is none,
        which in a second table go on from those of the first. It is not compared.
    pairs_per_record:
        How many candidate pairs blocking may make for each record.
    one_to_one:
        Between two tables: whether a record has at most one match. None: so unless labels say otherwise.
    method:
        How clusters are made of scored pairs: ``"average"`` linkage, ``"connected"`` components, a ``"walk"`` with the
        pair model, a walk with the model of ``"entities"`` (which needs ids, and stays at the linkage where it begins
        if held-out entities show no gain), ``"one-to-one"`` between two tables.
        None: with ids average linkage or the walk that is better on held-out entities, else average linkage, between
        two tables one-to-one.
    seed:
        For samples and walks.

    After fitting: ``kinds_``, ``trained_``, ``training_``, ``predicates_``.

    >>> from loopwise.apps.dedupe import made_records
    >>> records, ids = made_records(120, seed=0)
    >>> dedupe = Dedupe().fit(records, ids=ids)
    >>> dedupe.score(*made_records(120, seed=1)) > 0.9
    True
    """

    kinds_: dict[str, Kind]
    trained_: TrainedDedupe
    training_: DedupeTraining
    predicates_: tuple[Predicate, ...]
    linking_: bool

    def __init__(
        self,
        kinds: Mapping[str, Kind | str] | None = None,
        *,
        id_column: str | None = None,
        pairs_per_record: int = 20,
        one_to_one: bool | None = None,
        method: Method | str | None = None,
        seed: int = 0,
    ) -> None:
        self.kinds = kinds
        self.id_column = id_column
        self.pairs_per_record = pairs_per_record
        self.one_to_one = one_to_one
        self.method = method
        self.seed = seed

    # ------------------------------------------------------------------------------------------------- fit

    def fit(
        self, records: RecordsLike, *, other: RecordsLike | None = None, ids: Any = None, pairs: Any = None
    ) -> Self:
        """Learns from a table, or from two (``other``) between which links are sought.

        Parameters
        ----------
        records, other:
            CSV files, data frames, columns or rows by name.
        ids:
            The true entity of each record: the name of a column, or one id a record (of both tables, one after the
            other); empty where unknown.
        pairs:
            Labelled pairs: a CSV or JSON file, ``{"match": [...], "distinct": [...]}``, or
            :class:`~loopwise.apps.dedupe.Labels`. Without ids and pairs it learns from the records alone.

        Raises
        ------
        ValueError
            If tables or labels are not what they must be, or labels contradict each other.
        """
        started = time.perf_counter()
        self._check_options(ids, pairs)
        table, side = self._joined(records, other)
        names = names_of(table, self.id_column, side)
        truth = None if ids is None else entities_of(ids, table)
        labels = None if pairs is None else labels_of(pairs, table, names, side)
        kinds = kinds_of(table, self._told(ids))
        matches = _NONE if truth is None else _matches_of(truth, side, self.seed)
        matches = labels.matches if labels is not None else matches
        made = CandidateTable.of(table, kinds, side, self.pairs_per_record, matches)
        trained = self._trained(made, truth, labels)
        self.kinds_, self.predicates_, self.trained_ = kinds, made.predicates, trained
        self.linking_ = side is not None
        count = labels.count if labels is not None else 0 if truth is None else int((truth >= 0).sum())
        seconds = time.perf_counter() - started
        self.training_ = DedupeTraining(
            len(table), count, made.coverage(matches), trained.choices, seconds, trained.pull
        )
        said = f"{len(table)} records" + (f", {count} labels" if count else " without labels")
        figures = {f"F1 of {way} on held-out labels": float(score) for way, score in trained.choices.items()}
        self.card_ = training_card(said, "pairs and clusters", figures=figures)
        return self

    @property
    def _budget(self) -> str:
        return f"{self.pairs_per_record} pairs a record, clusters by {self.trained_.method.value}"

    def _trained(self, table: CandidateTable, truth: Integers | None, labels: Labels | None) -> TrainedDedupe:
        if truth is not None:
            matches = _matches_of(truth, table.side if table.linking else None, self.seed)
            one_to_one = self._one_to_one(table, matches)
            return train_on_entities(table, truth, one_to_one, self.seed, self._only(table, one_to_one))
        one_to_one = table.linking if labels is None else self._one_to_one(table, labels.matches)
        only = self._only(table, one_to_one)
        if labels is not None and labels.count:
            return train_on_pairs(table, labels, one_to_one, self.seed, only)
        return train_without(table, self.seed, only)

    def _only(self, table: CandidateTable, one_to_one: bool) -> Method | None:
        """The method that was asked for."""
        if self.method is None:
            return None
        method = Method(self.method)
        if (method is Method.MATCHED) != one_to_one:
            raise ValueError(
                f"method {method.value!r} does not fit one-to-one links; leave it out, or give one_to_one=False"
                if one_to_one
                else f"method {method.value!r} is for one-to-one links between two tables; give another method"
            )
        return method

    def _one_to_one(self, table: CandidateTable, matches: Integers) -> bool:
        """As told; else unless a large share of the labelled matches shares a record with another."""
        if not table.linking:
            return False
        if self.one_to_one is not None:
            return self.one_to_one
        _, count = np.unique(matches.reshape(-1), return_counts=True)
        return bool((count > 1).sum() <= 0.05 * max(len(count), 1))

    def _check_options(self, ids: Any, pairs: Any) -> None:
        if ids is not None and pairs is not None:
            raise ValueError("both ids and pairs are given; ids say everything that pairs can: give one of them")
        checked_whole("pairs_per_record", self.pairs_per_record)
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, but is {self.seed}")
        names = [each.value for each in Method]
        if self.method is not None and self.method not in names:
            raise ValueError(f"method must be one of {', '.join(names)}, not {self.method!r}")
        if self.method == Method.ENTITIES and ids is None:
            raise ValueError("method 'entities' is trained on true entities; give ids, or another method")

    def _joined(self, records: RecordsLike, other: RecordsLike | None) -> tuple[Records, Integers | None]:
        first = Records.of(records)
        second = None if other is None else Records.of(other)
        for table in (first, second):
            if table is not None and len(table) == 0:
                raise ValueError(f"{table.source} has no rows; give at least one record")
        if second is None:
            if len(first) < 2:
                raise ValueError(f"{first.source} has one record only; duplicates need two")
            return first, None
        if not set(first.names) & set(second.names):
            raise ValueError(
                f"{first.source} ({listed(first.names)}) and {second.source} ({listed(second.names)}) have no column "
                "in common; give columns that mean the same the same name"
            )
        return first.joined(second), side_of(first, second)

    def _told(self, ids: Any) -> dict[str, Kind | str]:
        told = dict(self.kinds or {})
        if self.id_column is not None:
            told[self.id_column] = Kind.IGNORE
        if isinstance(ids, str):
            told[ids] = Kind.IGNORE
        return told

    # --------------------------------------------------------------------------------------------- predict

    def predict(self, records: RecordsLike, *, other: RecordsLike | None = None) -> Resolution:
        """The clusters of a table, or the links between two, with confidences, links and reasons."""
        table, names = self._prepared(records, other)
        return Resolution.of(table, self.trained_, names)

    def _prepared(self, records: RecordsLike, other: RecordsLike | None) -> tuple[CandidateTable, tuple[str, ...]]:
        if not hasattr(self, "trained_"):
            raise not_fitted("this Dedupe is not fitted; call fit first")
        if (other is not None) != self.linking_:
            raise ValueError(
                "the model was trained to link two tables; give both"
                if self.linking_
                else "the model was trained on one table; give one, or train it on two"
            )
        table, side = self._joined(records, other)
        names = names_of(table, self.id_column, side)
        for name, kind in self.kinds_.items():
            if kind is not Kind.IGNORE:
                table.column(name)
        made = CandidateTable.of(table, self.kinds_, side, self.pairs_per_record, _NONE, self.predicates_)
        if made.linking:
            made.watch_rivals(self.trained_.pairs.levels)
        return made, names

    def evaluate(self, records: RecordsLike, ids: Any, *, other: RecordsLike | None = None) -> DedupeReport:
        """How good the clusters of a table are whose true entities are known."""
        found = self.predict(records, other=other)
        return DedupeReport.of(found.clusters, entities_of(ids, found.records), found.table.side)

    def score(self, records: RecordsLike, ids: Any, *, other: RecordsLike | None = None) -> float:
        """B-cubed F1."""
        return self.evaluate(records, ids, other=other).b_cubed

    def teaching_pairs(self, records: RecordsLike, count: int, *, other: RecordsLike | None = None) -> Integers:
        """``[count, 2]`` rows: the pairs whose labels would teach most.

        Half are those the model is least sure of, half are spread evenly over its scores, for what it is wrongly sure
        of. A model that is not fitted is fitted without labels first.
        """
        if not hasattr(self, "trained_"):
            self.fit(records, other=other)
        table, _ = self._prepared(records, other)
        graph = table.graph(self.trained_.pairs)
        random = np.random.default_rng(self.seed)
        unsure = np.argsort(np.abs(graph.logit), kind="stable")[: (count + 1) // 2]
        rest = np.setdiff1d(np.arange(len(graph.logit)), unsure)
        spread = _spread(graph.logit[rest], count - len(unsure), random)
        chosen = np.concatenate([unsure, rest[spread]])
        return np.stack([graph.one[chosen], graph.other[chosen]], axis=1)

    # --- Files -------------------------------------------------------------------------------------------------------

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        from loopwise.apps.dedupe.saving import kept

        return kept(self)

    @classmethod
    def _rebuilt(cls, told: Record) -> Self:
        from loopwise.apps.dedupe.saving import rebuilt

        return rebuilt(cls, told)

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "trained_")


def _matches_of(truth: Integers, side: Integers | None, seed: int) -> Integers:
    """Pairs of records of one entity, a sample where they are many."""
    order = np.argsort(truth, kind="stable")
    order = order[truth[order] >= 0]
    starts = np.flatnonzero(np.concatenate([[True], truth[order][1:] != truth[order][:-1], [True]]))
    found = []
    for first, end in pairwise(starts.tolist()):
        if end - first > 1:
            members = order[first : min(end, first + 100)]
            one, other = np.triu_indices(len(members), 1)
            found.append(np.stack([members[one], members[other]], axis=1))
    pairs = np.concatenate([_NONE, *found])
    if side is not None:
        pairs = pairs[side[pairs[:, 0]] != side[pairs[:, 1]]]
    if len(pairs) > MOST_MATCHES:
        pairs = pairs[np.random.default_rng(seed).choice(len(pairs), MOST_MATCHES, replace=False)]
    return np.sort(pairs, axis=1)


def _spread(logit: NDArray[np.float64], count: int, random: np.random.Generator) -> Integers:
    """Places of ``count`` logits, drawn evenly over their range."""
    if count <= 0 or not len(logit):
        return np.zeros(0, dtype=np.int64)
    heights, edges = np.histogram(logit, 20)
    share = 1.0 / heights[np.clip(np.digitize(logit, edges) - 1, 0, 19)]
    return random.choice(len(logit), min(count, len(logit)), replace=False, p=share / share.sum())
