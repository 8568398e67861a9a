r"""Stages of training: one goal after another, each from the weights of the last.

In: a goal. Out: :class:`Stage` objects, and how many epochs each may have. Stage: learning. Losses of decisions are not
convex: the published continuations start where training is easy (Stoyanov et al. 2011, section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopwise.arguments import checked_whole
from loopwise.learn.course import epochs_of as epochs_of
from loopwise.learn.evaluate import Goal
from loopwise.loss.base import Loss, Measure
from loopwise.loss.interpolated import Interpolated
from loopwise.loss.likelihood import LikelihoodObjective, SurrogateLikelihood

CONVERGED = 1e-3  # relative improvement an epoch (ERMA spec, section 7)
WARM_UP = 3  # epochs of likelihood before the loss itself (the "-in" settings)


@dataclass(frozen=True)
class Stage:
    """A goal and how long it is trained for.

    ``epochs``: at most so many; None shares what is left evenly with the later stages that do not say either, and what
    a stage leaves over goes to the later ones. ``until_converged``: the stage ends before, once an epoch improves the
    loss relatively by less than ``tolerance`` against both of the last two. Optimisers forget their gains when a stage
    begins, since they were learnt on another loss; ``keep_gains`` prevents that.
    """

    goal: Goal
    epochs: int | None = None
    until_converged: bool = False
    tolerance: float = CONVERGED
    keep_gains: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.goal, Measure | LikelihoodObjective):
            raise ValueError(
                f"a goal must be a loss such as lw.loss.MSE() or a likelihood such as lw.loss.SurrogateLikelihood(), "
                f"not {self.goal!r}"
            )
        if isinstance(self.goal, Measure) and not isinstance(self.goal, Loss):
            raise ValueError(
                f"{type(self.goal).__name__} is a metric, which has no gradient; train for a loss of lw.loss and give "
                "the metric as measure"
            )
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"a stage must have at least 1 epoch, not {self.epochs}")
        if not self.tolerance >= 0:
            raise ValueError(f"the tolerance of a stage must not be negative, got {self.tolerance}")

    def converged(self, scores: Sequence[float]) -> bool:
        """Whether the losses of the stage's epochs say that it may end."""
        return self.until_converged and has_converged(scores, self.tolerance)


Goals = Goal | Stage | Sequence[Stage]


def staged(goal: Goals, epochs: int = WARM_UP) -> tuple[Stage, ...]:
    """``epochs`` of :class:`~loopwise.loss.SurrogateLikelihood`, then ``goal`` from there: the ``-in`` settings.

    ``staged(hybrid(goal))`` is ``-hyb-in``.

    >>> from loopwise.loss import F1
    >>> [(type(stage.goal).__name__, stage.epochs) for stage in staged(F1())]
    [('SurrogateLikelihood', 3), ('F1', None)]
    """
    return (Stage(SurrogateLikelihood(), epochs), *as_stages(goal))


def hybrid(goal: Goals) -> tuple[Stage, ...]:
    r"""From the MSE of the beliefs to ``goal`` in steps, each until it converges: the ``-hyb`` settings.

    :math:`\lambda\,\ell_{goal} + (1-\lambda)\,\mathrm{MSE}` with :math:`\lambda = 0, \tfrac12, 1` (or as an
    :class:`~loopwise.loss.Interpolated` goal says). Of several stages the last one is replaced.

    >>> from loopwise.loss import F1
    >>> [stage.goal.weight for stage in hybrid(F1())]
    [0.0, 0.5, 1.0]
    """
    *before, last = as_stages(goal)
    if not isinstance(last.goal, Loss):
        raise ValueError(
            f"{type(last.goal).__name__} cannot be mixed with the MSE: hybrid training is for losses; "
            "leave hybrid out, or give a loss"
        )
    mixed = last.goal if isinstance(last.goal, Interpolated) else Interpolated(last.goal)
    steps = (Stage(mixed.at(number), until_converged=True) for number in range(mixed.stages))
    return (*before, *steps)


def as_stages(goal: Goals) -> tuple[Stage, ...]:
    """A goal, a stage or several, as stages."""
    if isinstance(goal, Stage):
        return (goal,)
    if isinstance(goal, Measure | LikelihoodObjective):
        return (Stage(goal),)
    stages = tuple(goal) if isinstance(goal, Sequence) else ()
    if not stages or not all(isinstance(stage, Stage) for stage in stages):
        raise ValueError(
            f"the goal must be a loss such as lw.loss.MSE(), a likelihood or stages, such as lw.learn.staged(...), not "
            f"{goal!r}"
        )
    return stages


def target(stages: Sequence[Stage]) -> Goal:
    """What the stages lead to: the goal to report, without what is only mixed in for training."""
    goal = stages[-1].goal
    if isinstance(goal, Interpolated) and goal.weight == 1:
        return goal.target
    return goal


def check_budget(stages: Sequence[Stage], epochs: int) -> None:
    """Refuses ``epochs`` that do not suffice for every stage to have one."""
    checked_whole("epochs", epochs)
    needed = sum(1 if stage.epochs is None else stage.epochs for stage in stages[:-1]) + 1
    if needed > epochs:
        raise ValueError(
            f"{epochs} epochs do not suffice: the stages before the last take {needed - 1}, and one more is needed; "
            "give more epochs"
        )


def has_converged(scores: Sequence[float], tolerance: float) -> bool:
    """Whether the last score is relatively better by less than ``tolerance`` than each of the two before it.

    >>> has_converged([1.0, 0.5, 0.4999], 1e-3), has_converged([0.5, 0.49995, 0.4999], 1e-3)
    (False, True)
    """
    if len(scores) < 3:
        return False
    *_, second, first, last = scores
    return all(earlier - last < tolerance * abs(earlier) for earlier in (first, second))
