"""Ways to train: the six learners of the published comparison, each with its step and margin.

In: nothing. Out: :class:`Variant`, which makes a learner for a model. Stage: use (Wick et al. 2011, Table 1).

Where the paper is silent: accuracy of pairs differs by about 1e-4 between neighbouring clusterings, so that MIRA's
weights, which just meet that margin, would be far too small for a walk at temperature 1. Its margin is 10, so that a
walk at that temperature goes against a pair that meets it once in :math:`e^{10}` times, and its steps are not capped.
Steps of contrastive divergence decay, for its updates never end. All weights are averages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from loopwise.loss.clustering import PairwiseAccuracy
from loopwise.walk import (
    CD,
    MIRA,
    PCD,
    ClusterModel,
    ConstantMargin,
    Decaying,
    Learner,
    Margin,
    MentionMover,
    SampleRank,
    SampleRankSVM,
    SampleRankSVM1,
    Start,
    Step,
    Unit,
)


@dataclass(frozen=True)
class Variant:
    """A learner of :mod:`loopwise.walk`, its options, and the signal that orders clusterings.

    ``margin`` None: the learner's own, the difference of the signals. ``walk``: where its walks begin.
    """

    name: str = "SampleRank"
    learner: Callable[..., Learner] = SampleRank
    step: Step = field(default_factory=Unit)
    margin: Margin | None = None
    metric: Any = field(default_factory=PairwiseAccuracy)
    walk: Start = Start.TRUTH

    def make(self, model: ClusterModel, seed: int) -> Learner:
        """The learner, at its beginning."""
        more: dict[str, Any] = {} if self.margin is None else {"margin": self.margin}
        return self.learner(model, MentionMover(), metric=self.metric, step=self.step, seed=seed, **more)


def default_variant() -> Variant:
    """MIRA steps in walks of which every other begins where decoding does, each mention alone.

    From the truth alone a walk never sees the half-made entities that a search passes through, and learns nothing of
    them: where no entity has a single mention, such weights tie mentions in pairs that nothing dissolves again.
    """
    return Variant("SampleRank (MIRA)", SampleRank, MIRA(cap=inf), ConstantMargin(10.0), walk=Start.MIXED)


def published_variants() -> tuple[Variant, ...]:
    """The rows of Table 1, best first."""
    zero_one = ConstantMargin(1.0)
    return (
        Variant("SampleRank (MIRA)", SampleRank, MIRA(cap=inf), ConstantMargin(10.0)),
        Variant("SampleRank"),
        Variant("SampleRank-SVM-1", SampleRankSVM1, Unit(), zero_one),
        Variant("CD-1", CD, Decaying(), None),
        Variant("SampleRank-SVM", SampleRankSVM, Unit(), zero_one),
        Variant("PCD", PCD, Decaying(), None),
    )
