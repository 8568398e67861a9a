r"""What a chain is trained for, and by which learner: each an objective of the library.

In: a :class:`~loopwise.learn.chain.problem.ChainProblem`, the linear-chain model of a text's or a sequence's features.
Out: an objective for :func:`loopwise.learn.trainer.train`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise import loss as losses
from loopwise.apps.class_weights import class_weights, weighted
from loopwise.apps.goals import checked_goal
from loopwise.inference.base import Inference
from loopwise.learn.chain.condensing import Condensed
from loopwise.learn.chain.likelihood import NegativeLogLikelihood, seen_places
from loopwise.learn.chain.online import OnlineChain
from loopwise.learn.chain.problem import ChainFunction, ChainProblem, ChainWeights
from loopwise.learn.chain.risk import ExactRisk, RiskUnder
from loopwise.learn.chain.second_order import SecondOrder
from loopwise.learn.chain.skip import SkipChain, SkipLikelihood, SkipRisk
from loopwise.learn.descent import MEMORY, Descent, DescentOptions, EpochOptions, Smooth
from loopwise.learn.trainer import Limits
from loopwise.learn.vector import VectorObjective
from loopwise.loss.base import Loss, Measure
from loopwise.loss.chains import (
    EntityF1,
    EntityFBeta,
    GoldTags,
    OfElements,
    SoftLoss,
    SoftmaxMargin,
    TokenHamming,
    WeightedLikelihood,
)
from loopwise.loss.f_measure import FBeta
from loopwise.loss.labels import Correct
from loopwise.loss.likelihood import LikelihoodObjective as Likelihoods
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.potentials.linear import Floats, MatrixDesign
from loopwise.walk.learning.margins import Margin, ScaledMargin
from loopwise.walk.learning.steps import MIRA, Step
from loopwise.walk.plan import Sweeps
from loopwise.walk.proposal import Proposal
from loopwise.walk.single_site import AllValues
from loopwise.walk.world import Start


class ChainLearner(Protocol):
    """A strategy for choosing weights: a frozen dataclass of options with these."""

    @property
    def limits(self) -> Limits:
        """How many rounds it takes at most."""
        ...

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> VectorObjective:
        """What is trained for the gold tags of ``problem``; ``start`` is not changed."""
        ...


@dataclass(frozen=True)
class ChainLikelihood(DescentOptions):
    r"""Minimises :math:`-\sum_i\log p(y_i\mid x_i)+\frac{\lambda}{2}|w|^2`, convex, by L-BFGS (Lafferty et al. 2001).

    ``l2``: :math:`\lambda` (twice what crfsuite calls ``c2``). ``tolerance``: stop when an iteration changes the value
    by less than this share. ``memory``: pairs of differences that L-BFGS keeps. ``seen_only``: features and steps have
    weights only with tags they occur with in training (what crfsuite does by default); the others stay zero, so nothing
    is learnt from what is never seen together. An iteration costs one forward-backward pass,
    O(tokens x (features + K) x K).
    """

    l2: float = 1.0
    iterations: int = 200
    tolerance: float = 1e-6
    memory: int = MEMORY
    seen_only: bool = False

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> Descent:
        small = Condensed.of(problem)
        return _descent([self.smooth(small.problem)], small, start)

    def smooth(self, problem: ChainProblem) -> Smooth:
        """The function that is minimised, over a problem with fewer weights."""
        free = seen_places(problem) if self.seen_only else None
        goal = problem.of_vector(likelihood_of(problem))
        return Smooth(goal, self.l2, self.iterations, self.tolerance, self.memory, free)


@dataclass(frozen=True)
class ChainERM(DescentOptions):
    r"""Minimises :math:`n\,\ell(\mu(w),y)+\frac{\lambda}{2}|w|^2` by L-BFGS (Stoyanov, Ropson & Eisner 2011).

    :math:`\ell` is ``loss`` of the text, :math:`\mu(w)` its marginals, ``n`` the number of tokens, so that ``l2`` has
    the weight against a wrong token that it has for :class:`ChainLikelihood` (and less against an entity, in F1: there
    are more tokens). The problem is not convex: it starts from the weights that ``begin`` finds (None: from those
    given, where zero is a poor choice). ``inference``: None for exact marginals, whose adjoint is a covariance (O(K^2)
    a token); or a method such as ``lw.BP(iterations=3)``. ``class_weight``: None, ``"balanced"``, or ``{name:
    weight}``, what entities of each type count in ``EntityF1`` and ``EntityFBeta``, or tokens of each right tag in
    ``TokenHamming``.
    """

    loss: SoftLoss = field(default_factory=EntityF1)
    l2: float = 1.0
    iterations: int = 50
    tolerance: float = 1e-6
    memory: int = MEMORY
    begin: ChainLikelihood | None = field(default_factory=ChainLikelihood)
    inference: Inference | None = None
    class_weight: Any = None

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> Descent:
        small = Condensed.of(problem)
        first = [] if self.begin is None else [self.begin.smooth(small.problem)]
        goal = small.problem.of_vector(self._risk(small.problem))
        return _descent([*first, Smooth(goal, self.l2, self.iterations, self.tolerance, self.memory)], small, start)

    def _risk(self, problem: ChainProblem) -> ChainFunction:
        loss = self.loss if self.class_weight is None else _weighted(self.loss, self.class_weight, problem)
        return risk_of(problem, loss, self.inference)


def likelihood_of(problem: ChainProblem) -> ChainFunction:
    """The negative log-likelihood of what is known; with links, under the inference of the problem."""
    return SkipLikelihood(problem) if isinstance(problem, SkipChain) else NegativeLogLikelihood(problem)


def risk_of(problem: ChainProblem, loss: SoftLoss, inference: Inference | None = None) -> ChainFunction:
    """A loss of marginals: exact ones, those of the problem's own inference where there are links, or of another."""
    if isinstance(problem, SkipChain):
        return SkipRisk(problem if inference is None else replace(problem, inference=inference), loss)
    return ExactRisk(problem, loss) if inference is None else RiskUnder(problem, loss, inference)


def _weighted(loss: SoftLoss, wish: Any, problem: ChainProblem) -> SoftLoss:
    """A loss with class weights: of types of entities, or of tags."""
    if isinstance(loss, EntityFBeta):
        gold = GoldTags(problem.gold, problem.chains.start, problem.labels)
        weights = class_weights(wish, np.array(gold.kinds.types), gold.spans.type)
        return EntityFBeta(loss.beta, dict(zip(gold.kinds.types, weights.tolist(), strict=True)))
    if isinstance(loss, TokenHamming):
        goal = weighted(losses.Hamming(), class_weights(wish, np.array(problem.labels), problem.gold))
        assert isinstance(goal, Loss)
        return OfElements(goal)
    raise ValueError(f"class_weight means nothing to {type(loss).__name__}; use EntityF1, EntityFBeta or Hamming")


def check_order(order: int, learner: object) -> None:
    """Refuses what chains of second order cannot do."""
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, not {order!r}")
    if order == 2 and not (isinstance(learner, ChainLikelihood) and not learner.seen_only):
        raise ValueError(
            "chains of second order are trained by likelihood, with weights for all tags; use Likelihood(), or order=1"
        )


def of_order(problem: ChainProblem, order: int) -> ChainProblem:
    """The problem, or the same with states of two tags."""
    if order == 1:
        return problem
    allowed = problem.allowed
    if allowed is None and len(problem.gold):
        allowed = problem.gold[:, None] == np.arange(problem.states)
    return SecondOrder(
        problem.unary, problem.steps, problem.chains, problem.labels, problem.gold, allowed, problem.rules
    )


def _descent(stages: Sequence[Smooth], small: Condensed, start: ChainWeights) -> Descent:
    shape = small.problem.start()
    return Descent(
        stages,
        start.vector,
        threads=small.problem.chains.threads,
        narrow=lambda vector: small.narrow(start.like(vector)).vector,
        widen=lambda vector: small.widen(shape.like(vector)).vector,
    )


@dataclass(frozen=True)
class ChainPerceptron(EpochOptions):
    r"""At each sentence :math:`w\leftarrow w+\phi(y)-\phi(\hat y)`, :math:`\hat y` the best path; gives the mean.

    (Collins 2002.) The mean is over all steps, also those without a change. The history shows the share of wrong
    tokens.
    """

    epochs: int = 10

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> OnlineChain:
        return OnlineChain(problem, start, seed)


@dataclass(frozen=True)
class ChainSVM(EpochOptions):
    r"""Minimises :math:`\frac12|w|^2+C\sum_i\max_y[\Delta(y,y_i)+\theta\cdot(\phi(y)-\phi(y_i))]`.

    :math:`\Delta` is ``cost`` for each wrong token; the inner maximum is a best path with these costs added
    (Tsochantaridis et al. 2005). ``c``: :math:`C`, sensible from about 0.0001 (a nearly constant model) to 10 (nearly a
    perceptron with margin). Steps are those of Pegasos (Shalev-Shwartz et al. 2011) with strength :math:`1/(Cn)`; the
    answer is the mean over all epochs but the first. The history shows the objective, divided by :math:`Cn`, of weights
    as they change.
    """

    c: float = 0.1
    epochs: int = 10
    cost: float = 1.0
    _positive: ClassVar[tuple[str, ...]] = ("c", "cost")

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> OnlineChain:
        strength = 1.0 / (self.c * max(problem.sentences, 1))
        skip = 1 if self.epochs > 1 else 0
        return OnlineChain(problem, start, seed, cost=self.cost, strength=strength, skip=skip)


@dataclass(frozen=True)
class ChainSampleRank(EpochOptions):
    r"""Ranks the tags of a sentence before and after each change of one tag, as the signal has them.

    (Wick et al. 2011, section 5.3.) ``sweeps`` over each sentence an epoch, token after token, from ``start``: where
    the sentence was left in the epoch before, by default, and from the right tags in the first.
    ``proposal``: Gibbs draws; the value that the model likes best is ranked against the right one (``AllValues``, which
    learns more from a step), or the old one against the drawn one (``GibbsChange``, as published). The signal is
    ``metric``, by default the number of right tags; ``margin``: by default five times its difference. This start and
    this margin had the best mean F1 on development data of five corpora. ``step``: by default the smallest that meets
    the margin. The answer is the mean of the weights after every step; the history shows the share of pairs that were
    badly ranked. A step costs O(K x features of the token) and no dynamic program.
    """

    epochs: int = 10
    sweeps: int = 1
    step: Step = field(default_factory=MIRA)
    margin: Margin = field(default_factory=lambda: ScaledMargin(5.0))
    proposal: Proposal = field(default_factory=lambda: AllValues(scan=True))
    metric: Measure = field(default_factory=Correct)
    start: Start = Start.PREVIOUS
    _positive: ClassVar[tuple[str, ...]] = ("sweeps",)

    def objective(self, problem: ChainProblem, start: ChainWeights, seed: int) -> VectorObjective:
        from loopwise.walk.chains import chain_documents, chain_model
        from loopwise.walk.learning.learners import SampleRank as Walk

        walk = Walk(
            chain_model(start),
            self.proposal,
            metric=self.metric,
            step=self.step,
            margin=self.margin,
            start=self.start,
            seed=seed,
        )
        if start.vector.any():
            walk.set_weights(start.vector)
        return walk.objective(chain_documents(problem), steps=Sweeps(self.sweeps))


# --- Losses that a chain of feature vectors is trained for -----------------------------------------------------------


def objective_of(
    loss: Any, problem: ChainProblem, classes: NDArray[Any], positive: Any, weights: Floats | None
) -> tuple[ChainFunction, ChainFunction | None]:
    """What to minimise, and what to minimise first (None: nothing), since losses of marginals are not convex.

    All are sums over the elements, so that a penalty weighs alike.
    """
    if positive is not None and not isinstance(loss, FBeta):
        raise ValueError(f"positive is about F measures; loss {loss!r} has no positive class, so leave it out")
    if isinstance(loss, SoftmaxMargin):
        return likelihood_of(_augmented(problem, loss.cost, weights)), None
    likelihood = likelihood_of(problem)
    if loss is None or (isinstance(loss, SurrogateLikelihood) and not loss.joint):
        if weights is None:
            return likelihood, None
        if isinstance(problem, SkipChain):
            raise ValueError(
                "with skip, class_weight needs a loss of elements, such as lw.loss.MSE() or SoftmaxMargin(): with "
                "links the likelihood is no product along the chain, of which each element could have its weight"
            )
        return risk_of(problem, WeightedLikelihood(weights)), likelihood
    return risk_of(problem, _soft(loss, classes, positive, weights)), likelihood


def _soft(loss: Any, classes: NDArray[Any], positive: Any, weights: Floats | None) -> SoftLoss:
    """A loss as a function of marginals."""
    if isinstance(loss, Loss):
        goal = checked_goal(loss, [classes], positive)
        chosen = goal if weights is None else weighted(goal, weights)
        assert isinstance(chosen, Loss)
        return OfElements(chosen)
    if isinstance(loss, Likelihoods) or not callable(loss):
        raise ValueError(
            f"a chain is not trained for {loss!r}: give None for the likelihood, a loss such as lw.loss.F1(), or "
            "SoftmaxMargin()"
        )
    if weights is not None:
        raise ValueError(f"class_weight means nothing to {type(loss).__name__}; leave it out, or choose another loss")
    soft: SoftLoss = loss
    return soft


def _augmented(problem: ChainProblem, cost: float, weights: Floats | None) -> ChainProblem:
    """The problem with costs added to the scores of wrong labels: constants, so slopes stay what they are."""
    assert isinstance(problem.unary, MatrixDesign)
    element = np.arange(problem.tokens)
    own = np.ones(problem.states) if weights is None else weights
    known = problem.gold >= 0
    costs = np.repeat(np.where(known, cost * own[problem.gold], cost)[:, None], problem.states, axis=1)
    costs[element[known], problem.gold[known]] = 0.0
    if problem.allowed is not None:
        costs[problem.allowed] = 0.0
    return replace(problem, unary=MatrixDesign(problem.unary.matrix, costs))
