"""From the loss a user names to what is trained: its positive labels, its weights, the decoder made for it, its start.

In: a loss of ``lw.loss``, classes. Out: a goal, a decoder, stages. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.decode.base import BeliefDecoder
from loopwise.decode.pointwise import Identity, Max, SoftArgmax
from loopwise.inference.by_variable import label_list
from loopwise.learn.evaluate import Goal
from loopwise.learn.stages import WARM_UP, Stage
from loopwise.loss.base import Loss
from loopwise.loss.f_measure import FBeta
from loopwise.loss.likelihood import LikelihoodObjective, SurrogateLikelihood
from loopwise.loss.reduction import Mean, Pooled
from loopwise.loss.univariate import MAE


def checked_goal(loss: Any, classes: Sequence[NDArray[Any]], positive: Any) -> Goal:
    """The loss to train for (None: likelihood); an F measure with its positive labels, over all rows at once.

    A row with one output has no F of its own: of such rows the macro average (``Mean``, the default of losses) would
    count mistakes. With several outputs the loss's reduction stands.
    """
    if loss is None:
        loss = SurrogateLikelihood()
    if not isinstance(loss, Loss | LikelihoodObjective):
        raise ValueError(
            f"loss must be one of lw.loss, such as lw.loss.MSE() or lw.loss.F1(), or None for the likelihood, not "
            f"{loss!r}"
        )
    if not isinstance(loss, FBeta):
        if positive is not None:
            raise ValueError(
                f"positive is about F measures; {type(loss).__name__} has no positive class, so leave it out"
            )
        return loss
    chosen = label_list(loss.positive) if positive is None else positive_values(classes, positive)
    pooled = len(classes) == 1 and isinstance(loss.reduction, Mean)
    return replace(loss, positive=chosen, reduction=Pooled() if pooled else loss.reduction)


def positive_values(classes: Sequence[NDArray[Any]], positive: Any) -> list[int]:
    """The numbers of the labels ``positive`` (one, or a list), which must be the same in every output."""
    labels = list(positive) if isinstance(positive, list | tuple | set | frozenset | np.ndarray) else [positive]
    found = []
    for label in labels:
        places = {known.tolist().index(label) if label in known.tolist() else None for known in classes}
        if places == {None} or len(places) > 1:
            shown = "; ".join(str(known.tolist()[:8]) for known in classes[:4])
            raise ValueError(
                f"positive is {label!r}, which is no class of y, or not the same one in every output; name one of "
                f"{shown}"
            )
        found += [place for place in places if place is not None]
    return found


def decoder_for(goal: Goal) -> BeliefDecoder:
    """The decoder that goes with a loss: soft decisions for losses that count decisions, beliefs for the others."""
    if isinstance(goal, LikelihoodObjective):
        return Max()
    return SoftArgmax() if isinstance(goal, MAE | FBeta) else Identity()


def stages_for(goal: Goal, first: Goal | None, epochs: int, *, whole: bool) -> tuple[Stage, ...]:
    """``first`` (a likelihood) before a goal that is none: losses of decisions are not convex. None: only the goal.

    ``whole``: an epoch is a whole minimisation; then ``first`` has as many as the goal, else a few.
    """
    last = Stage(goal, epochs)
    if isinstance(goal, LikelihoodObjective) or first is None:
        return (last,)
    return Stage(first, epochs if whole else WARM_UP), last
