r"""A model of label sets as a system, and ways to train it: each an objective of the library.

In: a :class:`~loopwise.learn.label_sets.problem.LabelProblem`. Out: :class:`LabelPotentials`; objectives for
:func:`loopwise.learn.trainer.train`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from loopwise import walk
from loopwise.apps.inputs import is_sparse
from loopwise.decode.base import BeliefDecoder as Rule
from loopwise.decode.pointwise import Identity
from loopwise.graph.builders import complete
from loopwise.graph.evidence import Role
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.descent import Descent, DescentOptions, EpochOptions, Smooth
from loopwise.learn.evaluate import Goal
from loopwise.learn.label_sets.decoding import Automatic, ByBeliefs, LabelDecoder
from loopwise.learn.label_sets.maximise import LinearProgram, Maximiser
from loopwise.learn.label_sets.online import OnlinePegasos, OnlinePerceptron
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import Floats, LabelWeights
from loopwise.learn.optim.stream import StreamAdaGrad, parts, total
from loopwise.learn.progress import silent
from loopwise.learn.system import System
from loopwise.learn.system_loss import SystemLoss
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import VectorObjective
from loopwise.loss.base import Measure
from loopwise.loss.labels import Correct
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.univariate import Hamming
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import feature_scores
from loopwise.walk.learning.objective import WalkObjective
from loopwise.walk.models.label_sets import LabelSets, label_documents, label_model

MEMORY = 10  # pairs of differences that L-BFGS keeps
FLAT, STILL = 1e-6, 1e-12  # gradients, and changes of the objective, at which it ends


Stream = Callable[[LabelProblem], Floats]  # goes on with a batch; the weights after it


class LabelLearner(Protocol):
    """A strategy for choosing weights: a frozen dataclass of options. One that can go on batch by batch also has
    ``stream(problem, start, seed)``, which gives a :data:`Stream`."""

    @property
    def limits(self) -> Limits:
        """How many rounds it takes at most."""
        ...

    @property
    def decoder(self) -> LabelDecoder:
        """How a model that it trained decides, unless the user says."""
        ...

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> VectorObjective:
        """What is trained for the right labels of ``problem``; ``start`` is not changed."""
        ...


# --- Likelihood and risk: a system -----------------------------------------------------------------------------------


class LabelPotentials(nn.Module):
    """Tables from inputs: groups ``unary`` ``[examples, labels, 2]`` and ``pair`` ``[pairs, 2, 2]``."""

    def __init__(self, weights: LabelWeights) -> None:
        super().__init__()
        self.graph = complete(weights.labels)
        self.unary = nn.Parameter(torch.from_numpy(weights.unary.copy()))
        self.pair = nn.Parameter(torch.from_numpy(weights.pair.copy()))

    def forward(self, inputs: Tensor | Features) -> dict[str, Tensor]:
        labels, features, _ = self.unary.shape
        table = self.unary.transpose(0, 1).reshape(features, 2 * labels)
        if isinstance(inputs, Features):
            scores = feature_scores(table, inputs, np.arange(2 * labels), torch.float64, False)
        else:
            scores = inputs @ table
        return {"unary": scores.reshape(-1, labels, 2), "pair": self.pair}


def examples_of(problem: LabelProblem) -> Examples:
    """All labels outputs, missing where they are not known; inputs dense, or as sparse features."""
    inputs: Any = torch.from_numpy(problem.inputs) if not is_sparse(problem.inputs) else None
    if inputs is None:
        rows = problem.rows
        inputs = Features.of(rows.indptr, rows.indices, rows.data, batch=(len(problem),))
    graph = complete(problem.labels)
    roles = np.where(problem.gold < 0, Role.MISSING, Role.OUTPUT)
    examples = Examples.of(graph, problem.gold, roles, inputs=inputs)
    return examples if problem.weights is None else examples.weighted(problem.weights)


def completed(problem: LabelProblem) -> LabelProblem:
    """The problem with labels that are not known found by a model trained for the likelihood of those that are.

    For learners that compare whole sets of labels with the right ones.
    """
    if not (problem.gold < 0).any():
        return problem
    learner, start = LabelLikelihood(), problem.start()
    objective = learner.objective(problem, start, 0)
    train(objective, learner.limits)
    weights = start.like(objective.answer).given(problem.gold)
    found = learner.decoder.decide(weights, problem.inputs)
    return replace(problem, gold=np.where(problem.gold < 0, found, problem.gold))


@dataclass(frozen=True)
class LabelLikelihood(DescentOptions):
    r"""Maximum likelihood with an L2 penalty, :math:`\sum\log p(y\mid x)-\frac{\lambda}{2}|\theta|^2`, by L-BFGS.

    Under ``inference``: the surrogate likelihood of BP by default; ``lw.Exact()`` for the likelihood itself.
    """

    l2: float = 10.0
    iterations: int = 100
    inference: Inference = field(default_factory=lambda: BP(iterations=20))

    @property
    def decoder(self) -> LabelDecoder:
        return ByBeliefs(self.inference)

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> Descent:
        return Descent([self.smooth(problem, start)], start.vector, selects=True)

    def stream(self, problem: LabelProblem, start: LabelWeights, seed: int) -> Stream:
        """Steps of AdaGrad over batches."""
        rule, vector = StreamAdaGrad(len(start.vector), self.l2), start.vector.copy()

        def go_on(batch: LabelProblem) -> Floats:
            nonlocal vector
            for part in parts(len(batch)):
                some = batch.take(np.arange(part.start, part.stop))
                mean = SystemLoss(
                    System(LabelPotentials(start), self.inference, Identity()), examples_of(some), SurrogateLikelihood()
                )
                _, vector = rule.step(total(mean, len(some)), vector, len(some))
            return vector

        return go_on

    def smooth(self, problem: LabelProblem, start: LabelWeights) -> Smooth:
        """What is minimised: the mean of the likelihood plus ``l2 / 2n`` times the squares of the weights."""
        return _smooth(self, problem, start, SurrogateLikelihood(), Identity())


@dataclass(frozen=True)
class LabelERM(DescentOptions):
    r"""Minimises the loss of the decisions made from the beliefs of ``inference``, however few its sweeps
    (Stoyanov, Ropson & Eisner 2011).

    ``loss``: the expected number of wrong labels by default; ``lw.loss.F1()`` and any other of ``lw.loss`` will do.
    ``rule``: a decoder of ``lw.decode``, soft in training; the beliefs themselves by default. The problem is not
    convex: it starts from the weights that ``begin`` finds (None: from those given, where 0 is a poor choice).
    """

    loss: Goal = field(default_factory=Hamming)
    l2: float = 1.0
    iterations: int = 100
    inference: Inference = field(default_factory=lambda: BP(iterations=5))
    rule: Rule = field(default_factory=Identity)
    begin: LabelLikelihood | None = field(default_factory=LabelLikelihood)

    @property
    def decoder(self) -> LabelDecoder:
        return ByBeliefs(self.inference)

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> Descent:
        first: Sequence[Smooth] = [] if self.begin is None else [self.begin.smooth(problem, start)]
        goal = _smooth(self, problem, start, self.loss, self.rule)
        return Descent([*first, goal], start.vector, selects=True)


def _smooth(
    how: LabelLikelihood | LabelERM, problem: LabelProblem, start: LabelWeights, goal: Goal, rule: Rule
) -> Smooth:
    system = System(LabelPotentials(start), how.inference, rule)
    return Smooth(
        SystemLoss(system, examples_of(problem), goal),
        how.l2 / problem.total,
        how.iterations,
        STILL,
        MEMORY,
        gradient_tolerance=FLAT,
    )


# --- Example by example ----------------------------------------------------------------------------------------------


class _ByEpochs(EpochOptions):
    """What learners of so many epochs share, when their weights say nothing of how to decide."""

    @property
    def decoder(self) -> LabelDecoder:
        return Automatic()


@dataclass(frozen=True)
class LabelPerceptron(_ByEpochs):
    r"""Adds :math:`\phi(y^*)-\phi(\hat y)` where the best set is wrong (Collins 2002); averaged over all examples seen.

    The best set is found by enumeration, so there are at most 20 labels. O(2^K K + features) an example.
    """

    epochs: int = 10

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> OnlinePerceptron:
        return OnlinePerceptron(problem, start, seed)


@dataclass(frozen=True)
class LabelPegasos(_ByEpochs):
    r"""Minimises :math:`\frac\lambda2|\theta|^2+\frac1n\sum\max_y[\Delta(y^*,y)+\theta\cdot(\phi(y)-\phi(y^*))]`.

    :math:`\Delta` is the number of wrong labels, ``strength`` :math:`\lambda`. Steps along subgradients of ``batch``
    random examples (:class:`~loopwise.learn.label_sets.online.OnlinePegasos`); the answer is the mean of the weights of
    the last epoch, unless ``average`` is false. ``maximiser``: :class:`LinearProgram`, some milliseconds an example, or
    :class:`Exactly`. It starts at 0 whatever weights there are. An epoch is as many draws as there are examples.
    """

    strength: float = 1e-3  # lambda
    epochs: int = 5
    batch: int = 1
    maximiser: Maximiser = field(default_factory=LinearProgram)
    average: bool = True
    _positive: ClassVar[tuple[str, ...]] = ("strength", "batch")

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> OnlinePegasos:
        return OnlinePegasos(
            problem, seed, self.maximiser, strength=self.strength, batch=self.batch, average=self.average
        )


# --- Walks (Wick et al. 2011, sections 3 and 5.2) --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WalkLearner(_ByEpochs):
    """What walks share: ``sweeps`` over the labels of each example, ``epochs`` times, from ``start``.

    ``proposal``: how the next state is found. ``metric``: the signal, by default the number of right labels, so that
    margins are whole numbers. The answer is the mean of the weights after every step; the history shows the share of
    steps that changed the weights.
    """

    epochs: int = 10
    sweeps: int = 50
    proposal: walk.Proposal = field(default_factory=walk.GibbsChange)
    metric: Measure = field(default_factory=Correct)
    start: walk.Start = walk.Start.TRUTH
    temperature: float = 1.0
    averaging: walk.Averaging = field(default_factory=walk.Averaging)
    _positive: ClassVar[tuple[str, ...]] = ("sweeps", "temperature")

    def objective(self, problem: LabelProblem, start: LabelWeights, seed: int) -> WalkObjective:
        learner = self._for(problem).make(label_model(problem), seed)
        if start.vector.any():
            learner.set_weights(start.vector)
        objective = learner.objective(label_documents(problem), steps=walk.Sweeps(self.sweeps))
        objective.shown = _changed
        return objective

    def stream(self, problem: LabelProblem, start: LabelWeights, seed: int) -> Stream:
        """Walks over batches; the answer is the mean over all of them."""
        learner = self._for(problem).make(label_model(problem), seed)
        if start.vector.any():
            learner.set_weights(start.vector)

        def go_on(batch: LabelProblem) -> Floats:
            learner.objective(label_documents(batch), steps=walk.Sweeps(self.sweeps)).round(silent)
            return learner.weights.copy()

        return go_on

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        """The learner of :mod:`loopwise.walk`; its ``tally`` says what happened."""
        raise NotImplementedError

    def _for(self, problem: LabelProblem) -> WalkLearner:
        """With what depends on the inputs settled."""
        return self

    def _shared(self, step: walk.Step, seed: int) -> dict[str, Any]:
        engine: walk.WalkEngine = walk.Fastest() if isinstance(step, walk.AdaGrad) else LabelSets()
        return {
            "metric": self.metric,
            "step": step,
            "temperature": self.temperature,
            "averaging": self.averaging,
            "engine": engine,
            "seed": seed,
        }


def _changed(tally: walk.Tally) -> float:
    return tally.updates / max(tally.steps, 1)


@dataclass(frozen=True, kw_only=True)
class MarginLearner(WalkLearner):
    """Walks whose updates ask for a margin; ``kind``: the learner of :mod:`loopwise.walk`.

    ``step``: by default MIRA's, with a cap that knows how long the inputs are: ``share`` of the step that meets a
    margin of 1 at an input of mean square length. Small caps regularise.
    """

    step: walk.Step | None = None
    share: float = 0.03
    margin: walk.Margin = field(default_factory=walk.OmegaMargin)
    kind: ClassVar[Callable[..., walk.Learner]]
    _positive: ClassVar[tuple[str, ...]] = (*WalkLearner._positive, "share")

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        if self.step is None:
            raise ValueError("a learner whose step depends on the inputs is made for these; give step=walk.MIRA(...)")
        options = {"margin": self.margin, "start": self.start, **self._shared(self.step, seed), **self._own()}
        return type(self).kind(model, self.proposal, **options)

    def _own(self) -> dict[str, Any]:
        """Options that no other learner has."""
        return {}

    def _for(self, problem: LabelProblem) -> MarginLearner:
        return self if self.step is not None else replace(self, step=walk.MIRA(self.share / _change(problem)))


def _change(problem: LabelProblem) -> float:
    """What a change of one label changes of the features, squared, on average: both rows of its input, and two entries
    of each of its pairs."""
    squares = float((problem.rows.data**2).sum()) / max(1, len(problem))
    return 2.0 * (squares + problem.labels - 1)


@dataclass(frozen=True, kw_only=True)
class LabelSampleRank(MarginLearner):
    """Ranks each state of a walk against the proposed one: the atomic update touches one label's weights."""

    kind = walk.SampleRank


@dataclass(frozen=True, kw_only=True)
class LabelSampleRankSVM(MarginLearner):
    """Compares each state of the walk with the truth, where the margin is not met (section 3.5)."""

    kind = walk.SampleRankSVM


@dataclass(frozen=True, kw_only=True)
class LabelSampleRankSVM1(MarginLearner):
    """:class:`LabelSampleRankSVM` with the walk back at the truth after every step."""

    kind = walk.SampleRankSVM1


@dataclass(frozen=True, kw_only=True)
class LabelHybrid(MarginLearner):
    """Both constraints, local and towards the truth, as section 5.2 suggests; ``on_ties``: the second only where the
    first says nothing."""

    on_ties: bool = False
    kind = walk.Hybrid

    def _own(self) -> dict[str, Any]:
        return {"on_ties": self.on_ties}


@dataclass(frozen=True, kw_only=True)
class LabelCD(WalkLearner):
    """Contrastive divergence: towards the truth, ``steps_away`` steps from it, always."""

    step: walk.Step = field(default_factory=lambda: walk.Decaying(0.01))
    steps_away: int = 1

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        if self.start is not walk.Start.TRUTH:
            raise ValueError(f"contrastive divergence begins at the truth, not at {self.start.name}; leave start out")
        return walk.CD(model, self.proposal, steps_away=self.steps_away, **self._shared(self.step, seed))


@dataclass(frozen=True, kw_only=True)
class LabelPCD(WalkLearner):
    """Persistent contrastive divergence: towards the truth at every step of a walk that goes on."""

    step: walk.Step = field(default_factory=lambda: walk.Decaying(0.01))

    def make(self, model: walk.Model, seed: int) -> walk.Learner:
        return walk.PCD(model, self.proposal, start=self.start, **self._shared(self.step, seed))
