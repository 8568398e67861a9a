"""Chains learnt batch by batch, and sequences that count by weights: what is particular to chains in either.

In: sequences and labels; weights of sequences. Out: changed weights of a model; objectives. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from loopwise.apps.chain.features.index import Indexed
from loopwise.apps.chain.features.text import known_tags, mended
from loopwise.apps.chain.model import ChainLikelihood
from loopwise.apps.chain.skip import check_skip
from loopwise.apps.estimator import SampleWeights, taken
from loopwise.apps.incremental import Incremental
from loopwise.decode.rules import Rules
from loopwise.formats.columns import TaggedText
from loopwise.formats.iob import OUTSIDE
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.weighted import WeightedChains
from loopwise.learn.descent import Descent, Smooth
from loopwise.learn.optim.stream import StreamAdaGrad, parts
from loopwise.potentials.linear import Floats

if TYPE_CHECKING:
    from loopwise.apps.chain.crf import ChainCRF
    from loopwise.apps.chain.tagger import Tagger

Lists = Sequence[Sequence[str]]


class IncrementalTagger(Incremental):
    """``partial_fit`` of a tagger: features and tags that are new in a batch get weights of their own."""

    _stream: StreamAdaGrad | None = None

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Goes on with a batch of sentences ``X`` and their tags ``y``: steps of AdaGrad on the likelihood, 32 of them
        each.

        Features and tags that are new get weights, which begin at 0; with ``hashing`` the size of the model does not
        grow with the data. ``classes``: tags there are besides those of this batch.
        """
        tagger: Tagger = self  # type: ignore[assignment]  # which alone this is part of
        learner = ChainLikelihood() if tagger.learner is None else tagger.learner
        if not isinstance(learner, ChainLikelihood):
            raise ValueError(
                f"{type(learner).__name__} needs all sentences at once; partial_fit goes with Likelihood(), the default"
            )
        if tagger.order != 1:
            raise ValueError(f"partial_fit goes with order=1, the default, not {tagger.order}")
        check_skip(tagger._skip, {"partial_fit": True})
        words, tags = as_word_lists(*tagger._with_tags(X, y))
        tagger.weights_, place = _grown(tagger, words, tags, () if classes is None else classes)
        if self._stream is None:
            self._stream = StreamAdaGrad(len(tagger.weights_.vector), learner.l2)
        else:
            self._stream.grown(place, len(tagger.weights_.vector))
        for part in parts(len(words)):
            text = tagger._text(words[part])
            known = known_tags(mended(tags[part])[0], text, tagger.labels_)
            tagger.weights_ = _stepped(self._stream, tagger._problem(text, tagger._keys(text), known), tagger.weights_)
        self._note_batch(len(words), "sentences", type(learner).__name__)
        return self


def step_over(crf: ChainCRF, X: Any, y: Any, stream: StreamAdaGrad) -> None:
    """Steps over a batch of sequences for a :class:`ChainCRF` whose classes and scales are known."""
    count = len(X) if not hasattr(X, "shape") else X.shape[0]
    for part in parts(count):
        rows = np.arange(part.start, part.stop)
        crf.weights_ = _stepped(stream, crf.problem_of(taken(X, rows), taken(y, rows)), crf.weights_)


def _stepped(stream: StreamAdaGrad, problem: ChainProblem, weights: ChainWeights) -> ChainWeights:
    function = problem.of_vector(NegativeLogLikelihood(problem))
    _, vector = stream.step(function, weights.vector, problem.sentences)
    return weights.like(vector)


def _grown(tagger: Tagger, words: Lists, tags: Lists, classes: Sequence[str]) -> tuple[ChainWeights, Any]:
    """The weights with rows for new features and columns for new tags, and where the old ones are in their vector."""
    old = tagger.weights_ if tagger._is_fitted else None
    kept = (tagger.labels_, tagger.unary_index_, tagger.step_index_) if old is not None else ((), None, None)
    warm, tagger.warm_start = tagger.warm_start, False
    try:
        tagger.problem(tagger._text(words, fitting=True), tags)  # lists what there is in this batch
    finally:
        tagger.warm_start = warm
    found = {*tagger.labels_, *kept[0], *classes}
    tagger.labels_ = tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag)))
    tagger.rules_ = Rules.of(tagger.labels_, tagger.constraints, iob=tagger.iob_)
    for name, known in (("unary_index_", kept[1]), ("step_index_", kept[2])):
        listed = getattr(tagger, name)
        if isinstance(known, Indexed) and isinstance(listed, Indexed):
            new = listed.keys[known.find(listed.keys) < 0]
            setattr(tagger, name, Indexed(np.concatenate([known.keys, new])))
    weights = ChainWeights.zeros(tagger.unary_index_.size, tagger.step_rows, len(tagger.labels_))
    if old is None:
        return weights, np.zeros(0, dtype=np.int64)
    tag = np.array([tagger.labels_.index(label) for label in kept[0]])
    states = len(tagger.labels_)
    steps = (tag[:, None] * states + tag).reshape(-1)
    unary = np.arange(len(old.unary))[:, None] * states + tag
    pair = weights.unary.size + np.arange(len(old.pair))[:, None] * states**2 + steps
    place = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    weights.vector[place] = old.vector
    return weights, place


# --- Weights of sequences --------------------------------------------------------------------------------------------


def weighed(sample_weight: Any, words: Any, tags: Any, native: bool, what: str) -> tuple[Any, Any, Floats | None]:
    """Sequences and labels that count, and what each counts; repeated, and so None, where weights have no place."""
    if sample_weight is None:
        return words, tags, None
    words, tags = as_word_lists(words, tags) if isinstance(words, TaggedText) else (words, tags)
    words = words if hasattr(words, "shape") or hasattr(words, "__len__") else np.asarray(words)
    count = words.shape[0] if hasattr(words, "shape") else len(words)
    counts = SampleWeights.of(sample_weight, count)
    assert counts is not None
    rows = counts.rows if native else counts.repeated(what)
    return taken(words, rows), taken(tags, rows), counts.counts if native else None


def weighted_descent(problem: ChainProblem, start: ChainWeights, counts: Floats, how: Any) -> Descent:
    """Likelihood with weights; ``how`` has ``l2``, ``iterations`` and ``tolerance``."""
    goal = problem.of_vector(WeightedChains(problem, counts))
    smooth = Smooth(goal, how.l2, how.iterations, how.tolerance)
    return Descent([smooth], start.vector, threads=problem.chains.threads)


def as_word_lists(words: Any, tags: Any) -> tuple[Any, Any]:
    """Sentences and tags as lists, of a text that was read from a file too."""
    listed = words.sentences() if isinstance(words, TaggedText) else list(words)
    return listed, tags.tagged() if isinstance(tags, TaggedText) else list(tags)
