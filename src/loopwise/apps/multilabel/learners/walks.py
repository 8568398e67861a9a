"""SampleRank and its relatives on label sets (Wick et al. 2011, sections 3 and 5.2).

In: a problem. Out: weights. Stage: use; the learners are those of :mod:`loopwise.walk`, on an engine whose steps cost
O(labels).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from loopwise import walk
from loopwise.apps.multilabel.decoding import Automatic, Decoder
from loopwise.apps.multilabel.engine import LabelSets
from loopwise.apps.multilabel.learners.base import Watch, check_positive
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import LabelWeights
from loopwise.loss.base import Measure
from loopwise.loss.labels import Correct


@dataclass(frozen=True, kw_only=True)
class WalkLearner:
    """What walks share: ``sweeps`` over the labels of each example, ``epochs`` times, from ``start``.

    ``proposal``: how the next state is found. ``metric``: the signal, by default the number of right labels, so that
    margins are whole numbers. The answer is the mean of the weights after every step.
    """

    epochs: int = 10
    sweeps: int = 50
    proposal: walk.Proposal = field(default_factory=walk.Gibbs)
    metric: Measure = field(default_factory=Correct)
    start: walk.Start = walk.Start.TRUTH
    temperature: float = 1.0
    averaging: walk.Averaging = field(default_factory=walk.Averaging)

    def __post_init__(self) -> None:
        check_positive(epochs=self.epochs, sweeps=self.sweeps, temperature=self.temperature)

    @property
    def rounds(self) -> int:
        return self.epochs

    @property
    def decoder(self) -> Decoder:
        return Automatic()

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        part = watch.begin()
        learner = self.make(problem.walk_model(), seed)
        if start.vector.any():
            learner.set_weights(start.vector)
        if part.state is not None:
            learner.load_state_dict(part.state)

        def told(epoch: walk.Epoch) -> None:
            changed = epoch.tally.updates / max(epoch.tally.steps, 1)
            watch.round(changed, lambda: start.like(learner.weights))
            watch.keep(learner.state_dict)

        left = self.epochs - learner.epochs
        if left > 0:
            learner.fit(problem.documents(), steps=walk.Sweeps(self.sweeps), epochs=left, after_epoch=told)
        watch.tally = learner.tally
        return start.like(learner.weights)

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        """The learner of :mod:`loopwise.walk`; its ``tally`` says what happened."""
        raise NotImplementedError

    def _shared(self, step: walk.Step, seed: int) -> dict[str, Any]:
        engine: walk.Engine = walk.Fastest() if isinstance(step, walk.AdaGrad) else LabelSets()
        return {
            "metric": self.metric,
            "step": step,
            "temperature": self.temperature,
            "averaging": self.averaging,
            "engine": engine,
            "seed": seed,
        }


@dataclass(frozen=True, kw_only=True)
class SampleRank(WalkLearner):
    """Ranks each state of a walk against the proposed one: the atomic update touches one label's weights."""

    step: walk.Step = field(default_factory=lambda: walk.MIRA(1e-3))
    margin: walk.Margin = field(default_factory=walk.OmegaMargin)

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.SampleRank(
            model, self.proposal, margin=self.margin, start=self.start, **self._shared(self.step, seed)
        )


@dataclass(frozen=True, kw_only=True)
class SampleRankSVM(WalkLearner):
    """Compares each state of the walk with the truth, where the margin is not met (section 3.5)."""

    step: walk.Step = field(default_factory=lambda: walk.MIRA(1e-3))
    margin: walk.Margin = field(default_factory=walk.OmegaMargin)

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.SampleRankSVM(
            model, self.proposal, margin=self.margin, start=self.start, **self._shared(self.step, seed)
        )


@dataclass(frozen=True, kw_only=True)
class SampleRankSVM1(WalkLearner):
    """:class:`SampleRankSVM` with the walk back at the truth after every step."""

    step: walk.Step = field(default_factory=lambda: walk.MIRA(1e-3))
    margin: walk.Margin = field(default_factory=walk.OmegaMargin)

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.SampleRankSVM1(
            model, self.proposal, margin=self.margin, start=self.start, **self._shared(self.step, seed)
        )


@dataclass(frozen=True, kw_only=True)
class Hybrid(WalkLearner):
    """Both constraints, local and towards the truth, as section 5.2 suggests; ``on_ties``: the second only where the
    first says nothing."""

    step: walk.Step = field(default_factory=lambda: walk.MIRA(1e-3))
    margin: walk.Margin = field(default_factory=walk.OmegaMargin)
    on_ties: bool = False

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.Hybrid(
            model,
            self.proposal,
            margin=self.margin,
            on_ties=self.on_ties,
            start=self.start,
            **self._shared(self.step, seed),
        )


@dataclass(frozen=True, kw_only=True)
class CD(WalkLearner):
    """Contrastive divergence: towards the truth, ``steps_away`` steps from it, always."""

    step: walk.Step = field(default_factory=lambda: walk.Decaying(0.01))
    steps_away: int = 1

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        if self.start is not walk.Start.TRUTH:
            raise ValueError(f"contrastive divergence begins at the truth, not at {self.start.name}; leave start out")
        return walk.CD(model, self.proposal, steps_away=self.steps_away, **self._shared(self.step, seed))


@dataclass(frozen=True, kw_only=True)
class PCD(WalkLearner):
    """Persistent contrastive divergence: towards the truth at every step of a walk that goes on."""

    step: walk.Step = field(default_factory=lambda: walk.Decaying(0.01))

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.PCD(model, self.proposal, start=self.start, **self._shared(self.step, seed))
