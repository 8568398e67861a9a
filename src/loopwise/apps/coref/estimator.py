"""Coreference as users have it: fit, predict, evaluate, save.

In: documents with mentions, or files of them. Out: :class:`Coref`. Stage: use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.report import CorefReport
from loopwise.apps.coref.set_templates import PREDICATES
from loopwise.apps.coref.similarity import TABLE, Frequencies
from loopwise.apps.coref.variants import Variant, default_variant
from loopwise.apps.estimator import SampleWeights, not_fitted, taken
from loopwise.apps.saved import SavedEstimator
from loopwise.formats.coref import CorefDocument, read_coref, write_entities
from loopwise.formats.files import PathLike, check_apart
from loopwise.learn.files.card import training_card
from loopwise.learn.files.fields import LARGEST, FieldError, Record
from loopwise.learn.progress import progress_bar
from loopwise.walk import Cooling, Learner, MentionDocument, Start, Sweeps, Tally
from loopwise.walk.plan import Steps

MOST_RESTARTS = 1000
MOST_STEPS = 100_000_000  # of a search: about a minute
_SEARCH = Sweeps(300)
_COOLING = 5.0, 0.1  # a margin of 10 makes scores large: at 1 the search hardly ever leaves what it has tied

Documents = Sequence[CorefDocument] | PathLike
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CorefTraining:
    """What happened in :meth:`Coref.fit`."""

    way: str
    documents: int
    mentions: int
    rounds: int
    seconds: float  # of the walks alone
    tally: Tally


class Coref(SavedEstimator):
    r"""Finds which mentions of a document speak of the same entity. Mentions are given.

    .. math:: \pi(y\mid x)\propto\exp\Big(\sum_{i,j\text{ together}}\theta\cdot f_{ij}+\sum_{i}\theta'\cdot h_{a(i),i}
              +\sum_{e}\theta''\cdot g_e\Big)

    over clusterings y: every pair of mentions in one entity has features, every mention i with the one a(i) before it
    in its entity, and every entity has (Culotta et al. 2007; Wick et al. 2011, section 5.1). No message passing can
    hold this model; it is trained and decoded in a walk that moves one mention at a time.

    Parameters
    ----------
    way:
        How to train (:class:`~loopwise.apps.coref.variants.Variant`); by default SampleRank with MIRA steps.
    rounds, steps:
        Walks over each training document, and steps of each.
    start:
        Where walks begin; by default the way says it: the published ones at the truth, the default one there or, as a
        coin falls, with every mention alone, as decoding does.
    decode_steps:
        Steps of the search for the best clustering: a number, or ``lw.walk.Sweeps(n)``, n for each mention. It begins
        with every mention alone and cools (``cooling``).
    setwise:
        Whether there are features of whole entities, besides those of pairs.
    links:
        Whether each mention has features with the one before it in its entity, or as the first.
    types:
        Whether types of entities that files give (person, place ...) are looked at.
    shards, jobs:
        Parts of the documents that learn apart and are mixed after each round, and how many at a time.
    seed:
        For walks in training and search.

    After fitting: ``weights_``, ``featuriser_``, ``training_``. Time: rounds x documents x steps x pairs touched.

    >>> from loopwise.apps.coref import CorefReport, head_match, made_documents
    >>> documents = made_documents(10, seed=0)
    >>> coref, test = Coref(rounds=2, steps=1000).fit(documents[:8]), documents[8:]
    >>> coref.score(test) > CorefReport.of(test, [head_match(document) for document in test]).mean.b_cubed
    True
    """

    weights_: Floats
    featuriser_: Featuriser
    training_: CorefTraining

    def __init__(
        self,
        way: Variant | None = None,
        *,
        rounds: int = 8,
        steps: Steps = 8000,
        start: Start | None = None,
        decode_steps: Steps = _SEARCH,
        cooling: Cooling | None = None,
        restarts: int = 1,
        setwise: bool = True,
        links: bool = True,
        types: bool = True,
        shards: int = 1,
        jobs: int = 1,
        seed: int = 0,
    ) -> None:
        for name, count in (("rounds", rounds), ("steps", steps), ("decode_steps", decode_steps)):
            if not isinstance(count, Sweeps) and count < 1:
                raise ValueError(f"{name} must be at least 1, not {count}")
        self.way = way or default_variant()
        self.rounds, self.steps, self.start = rounds, steps, start or self.way.walk
        self.decode_steps, self.cooling, self.restarts = decode_steps, cooling or Cooling(*_COOLING), restarts
        self.setwise, self.links, self.types, self.shards, self.jobs, self.seed = (
            setwise,
            links,
            types,
            shards,
            jobs,
            seed,
        )

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        documents: Documents,
        sample_weight: Any = None,
        *,
        progress: bool = True,
        checkpoint: PathLike | None = None,
    ) -> Coref:
        """Trains on documents whose entities are known.

        ``sample_weight``: what each document counts, whole numbers: it is walked over so many times a round.

        ``checkpoint``: a file, written after each round, from which the same call goes on if the process was stopped;
        the final weights are then the same, bit for bit.
        """
        known = documents_of(documents)
        counts = SampleWeights.of(sample_weight, len(known))
        if counts is not None:
            known = taken(list(known), counts.repeated(type(self).__name__))
        if not any(len(document.mentions) > 1 for document in known):
            raise ValueError("there is nothing to learn from: no document has two mentions; give documents with some")
        featuriser = Featuriser.of(known, types=self.types, setwise=self.setwise, links=self.links)
        with progress_bar(progress, len(known)) as tell:
            prepared = []
            for number, document in enumerate(known, 1):
                prepared.append(featuriser(document))
                tell(number, f"features of {document.name}")
        return self.fit_prepared(featuriser, prepared, progress=progress, checkpoint=checkpoint)

    def fit_prepared(
        self,
        featuriser: Featuriser,
        documents: Sequence[MentionDocument],
        *,
        progress: bool = True,
        checkpoint: PathLike | None = None,
    ) -> Coref:
        """:meth:`fit` on documents that ``featuriser`` has made, as comparisons of learners share them."""
        useful = [document for document in documents if document.mentions > 1]
        learner = self.way.make(featuriser.model(), self.seed)
        began = time.perf_counter()
        learner.fit(
            useful,
            steps=self.steps,
            epochs=self.rounds,
            start=self.start,
            shards=self.shards,
            jobs=self.jobs,
            progress=progress,
            checkpoint=checkpoint,
        )
        seconds = time.perf_counter() - began
        self.featuriser_, self.weights_ = featuriser, learner.weights
        mentions = sum(document.mentions for document in useful)
        self.training_ = CorefTraining(self.way.name, len(useful), mentions, self.rounds, seconds, learner.tally)
        said, figures = (
            f"{len(useful)} documents, {mentions} mentions",
            {"learner": self.way.name, "rounds": self.rounds},
        )
        self.card_ = training_card(said, type(self.way.metric).__name__, figures=figures)
        return self

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, documents: Documents) -> list[Integers]:
        """The entity of each mention, numbered in order of appearance, of each document."""
        known, featuriser = documents_of(documents), self._fitted()
        return self.predict_prepared([featuriser(document) for document in known])

    def predict_prepared(self, documents: Sequence[MentionDocument], steps: Steps | None = None) -> list[Integers]:
        """:meth:`predict` for documents that the featuriser has made; ``steps`` in place of ``decode_steps``."""
        answers: list[Integers] = self._walker().decode_all(
            documents,
            steps=self.decode_steps if steps is None else steps,
            cooling=self.cooling,
            restarts=self.restarts,
            seed=self.seed,
        )
        return answers

    def predict_marginals(self, documents: Documents, *, samples: int = 500, chains: int = 2) -> list[Floats]:
        """The probability ``[mentions, mentions]``, by sampling, that two mentions of a document are of one entity."""
        known, featuriser, walker = documents_of(documents), self._fitted(), self._walker()
        found = []
        for document in known:
            estimate = walker.marginals(featuriser(document), samples=samples, chains=chains, seed=self.seed)
            found.append(estimate.probabilities)
        return found

    def evaluate(self, documents: Documents) -> CorefReport:
        """B-cubed and pairwise scores against the entities of the documents."""
        known = documents_of(documents)
        return CorefReport.of(known, self.predict(known))

    def score(self, documents: Documents) -> float:
        """B-cubed F1, averaged over documents."""
        return self.evaluate(documents).mean.b_cubed

    def resolve_file(self, source: PathLike, target: PathLike) -> int:
        """Writes a file with the entities found, all else as it was; how many documents."""
        check_apart([(f"the target {target}", target)], [source])
        known = read_coref(source)
        answers = self.predict(known)
        write_entities(target, known, [answer.tolist() for answer in answers])
        return len(known)

    def _fitted(self) -> Featuriser:
        if not hasattr(self, "weights_"):
            raise not_fitted("this Coref is not fitted yet: call fit(documents) first")
        return self.featuriser_

    def _walker(self) -> Learner:
        learner = self.way.make(self._fitted().model(), self.seed)
        learner.set_weights(self.weights_)
        return learner

    @property
    def _budget(self) -> str:
        return f"a search of {self.decode_steps!r} steps, begun {self.restarts} times"

    # --- Files -------------------------------------------------------------------------------------------------------

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        featuriser = self._fitted()
        described = {
            "types": list(featuriser.types),
            "setwise": featuriser.setwise,
            "documents": featuriser.frequencies.documents,
            "templates": [template.name for template in featuriser.templates],
            "predicates": [predicate.name for predicate in PREDICATES],
            "links": _link_names(featuriser),
            "decode_steps": _steps_json(self.decode_steps),
            "cooling": [self.cooling.first, self.cooling.last],
            "restarts": self.restarts,
            "seed": self.seed,
            "trained": self.way.name,
        }
        _steps(Record(_steps_json(self.decode_steps), path="decode_steps"))  # as loading will
        Record(described).whole("restarts", 1, MOST_RESTARTS)
        tensors = {
            "weights": torch.from_numpy(np.ascontiguousarray(self.weights_)),
            "frequencies": torch.from_numpy(featuriser.frequencies.counts),
        }
        return described, tensors

    @classmethod
    def _rebuilt(cls, told: Record) -> Coref:
        counts, documents = told.weights("frequencies", (TABLE,)), told.whole("documents", 1, LARGEST)
        if counts.min() < 0 or counts.max() > documents:
            raise ValueError(
                f"the tensor 'frequencies' counts {counts.min()} to {counts.max()} of {documents} documents"
            )
        types = told.texts("types", distinct=True)
        linked = "links" in told and bool(told.texts("links"))  # files of earlier versions have none
        featuriser = Featuriser(types, Frequencies(counts, documents), told.flag("setwise"), linked)
        for name, own in (
            ("templates", [template.name for template in featuriser.templates]),
            ("predicates", [predicate.name for predicate in PREDICATES]),
            *([("links", _link_names(featuriser))] if linked else []),
        ):
            if told.texts(name) != tuple(own):
                raise FieldError(name, f"lists other {name} than this version has; train it again")
        weights = told.weights("weights", (featuriser.model().size,))
        temperatures = told.items("cooling", Record.positive)
        if len(temperatures) != 2:
            raise FieldError("cooling", f"must be a first and a last temperature, not {len(temperatures)} numbers")
        coref = cls(
            decode_steps=_steps(told.record("decode_steps")),
            cooling=Cooling(*temperatures),
            restarts=told.whole("restarts", 1, MOST_RESTARTS),
            setwise=featuriser.setwise,
            links=linked,
            types=bool(types),
            seed=told.whole("seed", 0, LARGEST),
        )
        coref.featuriser_, coref.weights_ = featuriser, weights
        return coref


def _link_names(featuriser: Featuriser) -> list[str]:
    """The templates of links and of first members, by name; none where the model has no links."""
    if not featuriser.links:
        return []
    links = [template.name for template in featuriser.link_templates]
    return [*links, *(opening.name for opening in featuriser.openings)]


def _steps_json(steps: Steps) -> dict[str, int]:
    return {"sweeps": steps.count} if isinstance(steps, Sweeps) else {"steps": int(steps)}


def _steps(told: Record) -> Steps:
    return Sweeps(told.whole("sweeps", 1)) if "sweeps" in told else told.whole("steps", 1, MOST_STEPS)


def documents_of(documents: Documents) -> Sequence[CorefDocument]:
    """Documents as they are, or those of a file."""
    return read_coref(documents) if isinstance(documents, str | os.PathLike) else documents
