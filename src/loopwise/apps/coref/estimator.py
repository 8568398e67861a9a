"""Coreference as users have it: fit, predict, evaluate, save.

In: documents with mentions, or files of them. Out: :class:`Coref`. Stage: use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
from loopwise.arguments import checked_kind, checked_whole
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
    bare:
        Whether, where all training documents have trees, a second set of weights is learnt from the same documents
        without trees, tags and types, for documents that come without trees. Training takes twice as long then.
    shards, jobs:
        Parts of the documents that learn apart and are mixed after each round, and how many at a time.
    seed:
        For walks in training and search.

    After fitting: ``weights_``, ``bare_weights_`` (None: there are none), ``featuriser_``, ``training_``.
    Time: rounds x documents x steps x pairs touched.

    >>> from loopwise.apps.coref import CorefReport, head_match, made_documents
    >>> documents = made_documents(10, seed=0)
    >>> coref, test = Coref(rounds=2, steps=1000).fit(documents[:8]), documents[8:]
    >>> coref.score(test) > CorefReport.of(test, [head_match(document) for document in test]).mean.b_cubed
    True
    """

    weights_: Floats
    bare_weights_: Floats | None
    featuriser_: Featuriser
    training_: CorefTraining
    _no_weights: ClassVar[frozenset[str]] = frozenset({"frequencies"})

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
        bare: bool = True,
        shards: int = 1,
        jobs: int = 1,
        seed: int = 0,
    ) -> None:
        for name, count in (("rounds", rounds), ("steps", steps), ("decode_steps", decode_steps)):
            if not isinstance(count, Sweeps):
                checked_whole(name, count)
        self.way = way or default_variant()
        self.rounds, self.steps, self.start = rounds, steps, start or self.way.walk
        self.decode_steps, self.cooling, self.restarts = decode_steps, cooling or Cooling(*_COOLING), restarts
        self.setwise, self.links, self.types, self.bare = setwise, links, types, bare
        self.shards, self.jobs, self.seed = shards, jobs, seed

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
        the final weights are then the same, bit for bit. Weights for documents without trees have a file beside it,
        whose name ends in ``-bare``.
        """
        known = documents_of(documents)
        counts = SampleWeights.of(sample_weight, len(known))
        if counts is not None:
            known = taken(list(known), counts.repeated(type(self).__name__))
        if not any(len(document.mentions) > 1 for document in known):
            raise ValueError("there is nothing to learn from: no document has two mentions; give documents with some")
        featuriser = Featuriser.of(known, types=self.types, setwise=self.setwise, links=self.links)
        prepared = _prepared(featuriser, known, progress)
        self.fit_prepared(featuriser, prepared, progress=progress, checkpoint=checkpoint)
        if self.bare and all(document.trees for document in known):
            beside = None if checkpoint is None else f"{os.fspath(checkpoint)}-bare"
            prepared = _prepared(featuriser, [without_annotation(document) for document in known], progress)
            self.bare_weights_ = self._learner_of(featuriser, prepared, progress, beside).weights
        return self

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
        began = time.perf_counter()
        learner = self._learner_of(featuriser, useful, progress, checkpoint)
        seconds = time.perf_counter() - began
        self.featuriser_, self.weights_, self.bare_weights_ = featuriser, learner.weights, None
        mentions = sum(document.mentions for document in useful)
        self.training_ = CorefTraining(self.way.name, len(useful), mentions, self.rounds, seconds, learner.tally)
        said, figures = (
            f"{len(useful)} documents, {mentions} mentions",
            {"learner": self.way.name, "rounds": self.rounds},
        )
        self.card_ = training_card(said, type(self.way.metric).__name__, figures=figures)
        return self

    def _learner_of(
        self,
        featuriser: Featuriser,
        documents: Sequence[MentionDocument],
        progress: bool,
        checkpoint: PathLike | None,
    ) -> Learner:
        """What has learnt from documents, those of one mention left out."""
        learner = self.way.make(featuriser.model(), self.seed)
        learner.fit(
            [document for document in documents if document.mentions > 1],
            steps=self.steps,
            epochs=self.rounds,
            start=self.start,
            shards=self.shards,
            jobs=self.jobs,
            progress=progress,
            checkpoint=checkpoint,
        )
        return learner

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, documents: Documents) -> list[Integers]:
        """The entity of each mention, numbered in order of appearance, of each document."""
        known, featuriser = documents_of(documents), self._fitted()
        answers: list[Integers] = [np.zeros(0, dtype=np.int64)] * len(known)
        for bare in sorted(set(map(self._seen_bare, known))):
            places = [place for place, document in enumerate(known) if self._seen_bare(document) is bare]
            found = self._decoded([featuriser(known[place]) for place in places], self._walker(bare), self.decode_steps)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers

    def predict_prepared(self, documents: Sequence[MentionDocument], steps: Steps | None = None) -> list[Integers]:
        """:meth:`predict` for documents that the featuriser has made; ``steps`` in place of ``decode_steps``."""
        return self._decoded(documents, self._walker(), self.decode_steps if steps is None else steps)

    def _decoded(self, documents: Sequence[MentionDocument], walker: Learner, steps: Steps) -> list[Integers]:
        """The best clustering of each document that a search finds."""
        answers: list[Integers] = walker.decode_all(
            documents, steps=steps, cooling=self.cooling, restarts=self.restarts, seed=self.seed
        )
        return answers

    def predict_marginals(self, documents: Documents, *, samples: int = 500, chains: int = 2) -> list[Floats]:
        """The probability ``[mentions, mentions]``, by sampling, that two mentions of a document are of one entity."""
        known, featuriser = documents_of(documents), self._fitted()
        found = []
        for document in known:
            walker = self._walker(self._seen_bare(document))
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

    def _seen_bare(self, document: CorefDocument) -> bool:
        """Whether the weights for documents without trees answer."""
        return self.bare_weights_ is not None and not document.trees

    def _walker(self, bare: bool = False) -> Learner:
        learner = self.way.make(self._fitted().model(), self.seed)
        weights = self.bare_weights_ if bare else self.weights_
        assert weights is not None  # no document is seen bare otherwise
        learner.set_weights(weights)
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
            "bare": self.bare_weights_ is not None,
            "trained": self.way.name,
        }
        _steps(Record(_steps_json(self.decode_steps), path="decode_steps"))  # as loading will
        Record(described).whole("restarts", 1, MOST_RESTARTS)
        tensors = {
            "weights": torch.from_numpy(np.ascontiguousarray(self.weights_)),
            "frequencies": torch.from_numpy(featuriser.frequencies.counts),
        }
        if self.bare_weights_ is not None:
            tensors["bare_weights"] = torch.from_numpy(np.ascontiguousarray(self.bare_weights_))
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
        bare = "bare" in told and told.flag("bare")  # files of earlier versions have no weights for bare documents
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
            bare=bare,
            seed=told.whole("seed", 0, LARGEST),
        )
        coref.featuriser_, coref.weights_ = featuriser, weights
        coref.bare_weights_ = told.weights("bare_weights", weights.shape) if bare else None
        return coref


def without_annotation(document: CorefDocument) -> CorefDocument:
    """The document as a file of words and brackets would give it: without trees, tags, and types of entities."""
    mentions = tuple(replace(mention, kind="") for mention in document.mentions)
    return replace(document, trees=(), tags=(), mentions=mentions)


def _prepared(featuriser: Featuriser, documents: Sequence[CorefDocument], progress: bool) -> list[MentionDocument]:
    """The documents as walks see them."""
    with progress_bar(progress, len(documents)) as tell:
        prepared = []
        for number, document in enumerate(documents, 1):
            prepared.append(featuriser(document))
            tell(number, f"features of {document.name}")
    return prepared


def _link_names(featuriser: Featuriser) -> list[str]:
    """The templates of links and of first members, by name; none where the model has no links."""
    if not featuriser.links:
        return []
    links = [template.name for template in featuriser.link_templates]
    return [*links, *(opening.name for opening in featuriser.openings)]


def _steps_json(steps: Steps) -> dict[str, int]:
    if not isinstance(steps, Sweeps):
        return {"steps": int(steps)}
    return {"sweeps": steps.count} | ({} if steps.most is None else {"most": steps.most})


def _steps(told: Record) -> Steps:
    if "sweeps" not in told:
        return told.whole("steps", 1, MOST_STEPS)
    return Sweeps(told.whole("sweeps", 1), told.whole("most", 1, MOST_STEPS) if "most" in told else None)


def documents_of(documents: Documents) -> Sequence[CorefDocument]:
    """Documents as they are, or those of a file."""
    if isinstance(documents, str | os.PathLike):
        return read_coref(documents)
    for number, document in enumerate(documents):
        checked_kind(
            f"document {number}", document, CorefDocument, "one of lw.formats.coref, or give the path of a file"
        )
    return documents
