"""What a parser is trained for.

In: models of sentences, beliefs of their arcs, gold trees. Out: the loss of each sentence, and adjoints. Stage: use.
All but the likelihood are taken through the truncated inference and see the original gold trees; the likelihood needs
gold trees that the model can produce, so it is given the nearest ones, and gold arcs that pruning cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loopwise.inference.families.tree_models import Floats, TreeModels, TreeRun
from loopwise.loss import MSE, SurrogateLikelihood, UnivariateQuadratic


@dataclass(frozen=True, eq=False)
class Gold:
    """Gold trees: which arcs are theirs, and how many of a sentence's were pruned.

    ``known``: arcs to words whose head is known, which alone count; None: all.
    """

    arcs: NDArray[np.float64]  # [arcs], 0 or 1
    missing: Floats  # [sentences]
    known: NDArray[np.bool_] | None = None  # [arcs]

    @property
    def barred(self) -> NDArray[np.bool_]:
        """Arcs that known heads leave no place for."""
        assert self.known is not None
        return np.asarray(self.known & (self.arcs == 0.0))


@dataclass(frozen=True)
class CLL:
    r"""Conditional log-likelihood, with beliefs for marginals: the surrogate of loopy models, exact for others.

    Gradient: belief-weighted less gold features; the value is the Bethe approximation of log Z less the gold score.
    """

    name: ClassVar[str] = "cll"
    possible_gold: ClassVar[bool] = True
    clip: ClassVar[float] = math.inf

    def of_scores(
        self, models: TreeModels, run: TreeRun, unary: Floats, scores: Floats, gold: Gold
    ) -> tuple[Floats, Floats, Floats]:
        """The loss of each sentence, adjoints of the scores of arcs and of pairs."""
        values, joint = run.partition()
        arrays, right = models.arrays, gold.arcs
        shift = np.repeat(arrays.edge_start[:-1], np.diff(arrays.pair_start))
        both = right[arrays.first + shift] * right[arrays.second + shift]
        score = models.sums(right * unary) + models.pair_sums(both * scores)
        return values - score, run.beliefs - right, joint - both

    def of_partial(self, run: TreeRun, held: TreeRun) -> tuple[Floats, Floats, Floats]:
        """The same where some heads are not known: ``held`` is a run on the trees that agree with those that are."""
        (values, joint), (held_values, held_joint) = run.partition(), held.partition()
        return values - held_values, run.beliefs - held.beliefs, joint - held_joint


@dataclass(frozen=True)
class SquaredDistance:
    r""":math:`2\sum_e(b_e-y_e)^2`: squared distance of the beliefs to the gold tree (Gormley et al. 2015, eq. 14)."""

    name: ClassVar[str] = "l2"
    possible_gold: ClassVar[bool] = False
    clip: ClassVar[float] = math.inf

    def of_beliefs(self, models: TreeModels, beliefs: Floats, gold: Gold, share: float) -> tuple[Floats, Floats]:
        """The loss of each sentence (gold arcs that were pruned have b = 0 and add a constant), adjoints of beliefs."""
        apart = beliefs - gold.arcs if gold.known is None else np.where(gold.known, beliefs - gold.arcs, 0.0)
        return 2.0 * (models.sums(apart * apart) + gold.missing), 4.0 * apart


@dataclass(frozen=True)
class AnnealedRisk:
    r"""Expected number of wrong heads under the decoder softened to trees of log weights :math:`b_e/\mathcal T`.

    :math:`\mathcal T` falls in a straight line from ``start`` to ``end`` over all updates of the run (Gormley et al.
    2015, section 3.2). Gradients grow like its inverse, so those of one sentence are clipped to the norm ``clip``.
    """

    start: float = 0.1
    end: float = 1e-4
    clip: float = 5.0
    name: ClassVar[str] = "ar"
    possible_gold: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.end <= self.start:
            raise ValueError(f"temperatures must fall and stay above 0, not go from {self.start} to {self.end}")
        if not self.clip > 0:
            raise ValueError(f"clip must be positive, not {self.clip}")

    def of_beliefs(self, models: TreeModels, beliefs: Floats, gold: Gold, share: float) -> tuple[Floats, Floats]:
        """The loss of each sentence, known heads less the marginals of its gold arcs, and adjoints of beliefs.
        ``share`` of the run is over."""
        temperature = self.start + (self.end - self.start) * share
        soft = models.first_order().propagate(beliefs / temperature, np.zeros(0), taped=True)
        losses = models.sums(gold.arcs) + gold.missing - models.sums(gold.arcs * soft.beliefs)
        return losses, soft.pull_back(-gold.arcs)[0] / temperature


Objective = CLL | SquaredDistance | AnnealedRisk
Goal = object  # an objective, several one after another, or a loss of loopwise.loss that means the same


def objectives_of(loss: Goal) -> tuple[Objective, ...]:
    """One or several; ``(SquaredDistance(), AnnealedRisk())`` trains for the first, then from there for the second."""
    if isinstance(loss, Sequence) and not isinstance(loss, str):
        if not loss:
            raise ValueError("there is nothing to train for: the list of objectives is empty; give at least one")
        return tuple(objective for entry in loss for objective in objectives_of(entry))
    if isinstance(loss, CLL | SquaredDistance | AnnealedRisk):
        return (loss,)
    if isinstance(loss, SurrogateLikelihood):
        return (CLL(),)
    if isinstance(loss, MSE | UnivariateQuadratic):
        return (SquaredDistance(),)
    raise ValueError(
        f"a parser is trained for CLL(), L2() or AnnealedRisk() of loopwise.apps.parser.objectives, not {loss!r}"
    )
