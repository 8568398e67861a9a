"""SampleRank: weights learnt inside a Gibbs walk over the tags of each sentence (Wick et al. 2011, section 5.3).

In: a problem. Out: weights. Stage: use; the walk is :mod:`loopwise.walk`. Only the answer needs exact decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.graph.builders import chain
from loopwise.loss.base import Measure
from loopwise.loss.labels import Correct
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.walk.margins import Margin, OmegaMargin
from loopwise.walk.plan import Sweeps
from loopwise.walk.proposal import Proposal
from loopwise.walk.single_site import AllValues
from loopwise.walk.steps import MIRA, Step
from loopwise.walk.world import Start

if TYPE_CHECKING:
    from loopwise.walk.graph_model import GraphDocument


@dataclass(frozen=True)
class SampleRank:
    r"""Ranks the tags of a sentence before and after each change of one tag, as the signal has them.

    ``sweeps`` over each sentence an epoch, token after token, from ``start``. ``proposal``: Gibbs draws; the value that
    the model likes best is ranked against the right one (``AllValues``, which learns more from a step), or the old one
    against the drawn one (``Gibbs``, as published). The signal is ``metric``, by default the number of right tags, so
    that margins are 1. ``step``: by default the smallest that meets the margin. The answer is the mean of the weights
    after every step; the history shows the share of pairs that were badly ranked. A step costs O(K x features of the
    token) and no dynamic program.
    """

    epochs: int = 10
    sweeps: int = 1
    step: Step = field(default_factory=MIRA)
    margin: Margin = field(default_factory=OmegaMargin)
    proposal: Proposal = field(default_factory=lambda: AllValues(scan=True))
    metric: Measure = field(default_factory=Correct)
    start: Start = Start.TRUTH

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.sweeps < 1:
            raise ValueError(f"epochs and sweeps must be at least 1, not {self.epochs} and {self.sweeps}")

    @property
    def rounds(self) -> int:
        return self.epochs

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        from loopwise.walk.graph_model import GraphModel
        from loopwise.walk.learners import SampleRank as Walk

        part = watch.begin()
        if part.over:
            return start
        states = problem.states
        groups = {
            "unary": SparseGroup((states,), max(len(start.unary), 1)),
            "pair": SparseGroup((states, states), len(start.pair)),
        }
        model = GraphModel(SparsePotentials(groups))
        walk = Walk(
            model,
            self.proposal,
            metric=self.metric,
            step=self.step,
            margin=self.margin,
            start=self.start,
            seed=seed,
        )
        if start.vector.any():
            walk.set_weights(start.vector)
        if part.state is not None:
            walk.load_state_dict(part.state)

        def told(epoch: Any) -> None:
            watch.round(epoch.tally.violated_share, lambda: start.like(walk.weights))
            watch.keep(walk.state_dict)

        left = self.epochs - walk.epochs
        if left > 0:
            walk.fit(chain_documents(problem), steps=Sweeps(self.sweeps), epochs=left, after_epoch=told)
        return start.like(walk.weights)


def chain_documents(problem: Problem) -> list[GraphDocument]:
    """The sentences as documents of a walk; those without words are left out."""
    from loopwise.walk.graph_model import GraphDocument

    graph = lru_cache(maxsize=None)(lambda length: chain(length, problem.states))  # equal sentences share one
    unary, steps = problem.unary.flat, None if problem.steps is None else problem.steps.flat
    documents = []
    bounds = problem.chains.start.tolist()
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        features = {"unary": _rows(unary, begin, end)}
        if steps is not None:
            features["pair"] = _rows(steps, begin + 1, end)
        documents.append(GraphDocument(graph(end - begin), problem.gold[begin:end], features))
    return documents


def _rows(features: Features, begin: int, end: int) -> Features:
    start = features.start[begin : end + 1]
    return Features(start - start[0], features.index[start[0] : start[-1]])
