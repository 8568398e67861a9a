"""The learners: SampleRank and its relatives, all on the same walk.

In: a model, a proposal, a metric. Out: learners with ``fit`` and ``decode``. Stage: walking (Wick et al. 2011). They
differ in what they compare, and in where the walk goes on:

======================  =======================================  ===============================================
learner                 walk                                     update at each step
======================  =======================================  ===============================================
SampleRank              goes on within a document                between current and proposed, if badly ranked
SampleRankSVM           goes on                                  towards the truth, if its margin is not met
SampleRankSVM1          back to the truth after each step        the same, after one step
CD                      back to the truth after k steps          towards the truth, always
PCD                     goes on                                  towards the truth, always
Hybrid                  goes on                                  SampleRank's and SampleRankSVM's
======================  =======================================  ===============================================

Beside options of its own each takes those of all, :class:`~loopwise.walk.learning.learner.Common`.
"""

from __future__ import annotations

from typing import Any, Unpack

from loopwise.walk.learning.learner import Common, Learner
from loopwise.walk.learning.margins import Margin, OmegaMargin
from loopwise.walk.learning.rules import Accept, LearningRule, Towards
from loopwise.walk.learning.steps import Decaying, Step, Unit
from loopwise.walk.models.model import Model
from loopwise.walk.proposal import Proposal
from loopwise.walk.world import Start


class SampleRank(Learner):
    r"""Ranks the current state of a walk against the proposed one (Wick et al. 2011, algorithm 1).

    For a pair with signals that differ by :math:`\Delta`, y+ the better and y- the worse, let :math:`\hat\nabla =
    \phi(y^+) - \phi(y^-)`. If the margin is not met, :math:`\theta \cdot \hat\nabla < \Delta`, the weights go
    :math:`\eta \hat\nabla` further. Then the proposal is accepted or not, by Metropolis and Hastings with the weights
    after the update (``accept_with``). A step costs what the factors touched by the move cost; the average of all
    iterates is exact and as sparse as the updates.

    >>> import loopwise as lw
    >>> from loopwise.walk import GibbsChange, GraphDocument, GraphModel, MIRA, SampleRank
    >>> graph = lw.chain(4)
    >>> documents = [GraphDocument(graph, [0, 1, 1, 0]), GraphDocument(graph, [0, 1, 1, 0])]
    >>> model, metric = GraphModel(lw.TablePotentials(graph)), lw.metric.Accuracy()
    >>> learner = SampleRank(model, GibbsChange(), metric=metric, step=MIRA())
    >>> learner.fit(documents, steps=200, epochs=2).decode(documents[0], steps=200).tolist()
    [0, 1, 1, 0]
    """

    def __init__(
        self,
        features: Model,
        proposal: Proposal,
        *,
        metric: Any,
        step: Step | None = None,
        margin: Margin | None = None,
        accept_with: Accept = Accept.UPDATED,
        temperature: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = LearningRule(
            step=step or Unit(), margin=margin or OmegaMargin(), accept_with=accept_with, temperature=temperature
        )
        super().__init__(features, proposal, metric=metric, rule=rule, **common)


class _AgainstTruth(Learner):
    """A learner that compares the state with the truth."""

    def __init__(
        self, features: Model, proposal: Proposal, *, metric: Any, rule: LearningRule, **common: Unpack[Common]
    ) -> None:
        start = common.get("start", Start.TRUTH)
        if rule.reset and start is not Start.TRUTH:
            raise ValueError(
                f"{type(self).__name__} goes back to the truth: its walks begin there, not at {start.name}"
            )
        super().__init__(features, proposal, metric=metric, rule=rule, **common)


class SampleRankSVM(_AgainstTruth):
    r"""Compares each state of the walk with the truth (section 3.3): a structured SVM whose rivals are sampled.

    A step along :math:`D_t = \phi(y^*) - \phi(y_t)`, taken after the accept decision, if :math:`\theta \cdot D_t <
    \Delta(y^*, y_t)`. ``margin=ConstantMargin(1)`` is the 0-1 loss. A step costs the length of :math:`D_t`.
    """

    reset = False

    def __init__(
        self,
        features: Model,
        proposal: Proposal,
        *,
        metric: Any,
        step: Step | None = None,
        margin: Margin | None = None,
        temperature: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = LearningRule(
            step=step or Unit(),
            margin=margin or OmegaMargin(),
            temperature=temperature,
            atomic=False,
            towards=Towards.MARGIN,
            reset=self.reset,
        )
        super().__init__(features, proposal, metric=metric, rule=rule, **common)


class SampleRankSVM1(SampleRankSVM):
    """:class:`SampleRankSVM` whose walk goes back to the truth after every step: only neighbours of the truth."""

    reset = True


class CD(_AgainstTruth):
    r"""Contrastive divergence (Hinton 2002): along :math:`\phi(y^*) - \phi(y_k)`, k ``steps_away`` from the truth.

    Gradients of a likelihood, so the steps decay unless told.
    """

    def __init__(
        self,
        features: Model,
        proposal: Proposal,
        *,
        metric: Any,
        steps_away: int = 1,
        step: Step | None = None,
        temperature: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = LearningRule(
            step=step or Decaying(),
            temperature=temperature,
            atomic=False,
            towards=Towards.ALWAYS,
            every=steps_away,
            reset=True,
        )
        super().__init__(features, proposal, metric=metric, rule=rule, **common)


class PCD(_AgainstTruth):
    r"""Persistent contrastive divergence (Tieleman 2008): a step along :math:`\phi(y^*) - \phi(y_t)` at every step.

    The walk is never reset within a visit; ``start=Start.PREVIOUS`` keeps it over epochs too.
    """

    def __init__(
        self,
        features: Model,
        proposal: Proposal,
        *,
        metric: Any,
        step: Step | None = None,
        temperature: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = LearningRule(step=step or Decaying(), temperature=temperature, atomic=False, towards=Towards.ALWAYS)
        super().__init__(features, proposal, metric=metric, rule=rule, **common)


class Hybrid(_AgainstTruth):
    """Both constraints: the pair of current and proposed state, and the state against the truth (section 6).

    ``on_ties``: the second only where the pair's signals are equal, and so the first says nothing.
    """

    def __init__(
        self,
        features: Model,
        proposal: Proposal,
        *,
        metric: Any,
        step: Step | None = None,
        margin: Margin | None = None,
        on_ties: bool = False,
        accept_with: Accept = Accept.UPDATED,
        temperature: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = LearningRule(
            step=step or Unit(),
            margin=margin or OmegaMargin(),
            accept_with=accept_with,
            temperature=temperature,
            towards=Towards.MARGIN,
            on_ties=on_ties,
        )
        super().__init__(features, proposal, metric=metric, rule=rule, **common)
