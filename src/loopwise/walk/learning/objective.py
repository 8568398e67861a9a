"""A walk that learns, as the trainer sees it: a round is a walk over every document.

In: a learner, documents. Out: :class:`WalkObjective`. Stage: walking. The walks of an epoch depend on seed, epoch and
documents alone, so weights and counts say nearly all of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopwise.learn.distributed import ALONE, Team
from loopwise.learn.progress import Tell
from loopwise.learn.vector import VectorObjective
from loopwise.walk.learning.updates import Floats, Tally
from loopwise.walk.plan import WalkPlan
from loopwise.walk.sessions import WalkSession
from loopwise.walk.world import Start

if TYPE_CHECKING:
    from loopwise.walk.learning.learner import Learner


class WalkObjective(VectorObjective):
    """One call of :meth:`Learner.fit` in progress.

    ``tally``: of the last round. ``shown``: what the history shows of it as a loss, the share of badly ranked pairs.
    Where walks go on from where the last ones ended, the learner knows these ends while the objective is used.
    """

    def __init__(
        self, learner: Learner, plan: WalkPlan, sessions: Sequence[WalkSession], jobs: int = 1, team: Team = ALONE
    ) -> None:
        self.learner, self.plan, self.sessions, self.jobs, self.team = learner, plan, sessions, jobs, team
        self.tally = Tally()
        self.shown: Callable[[Tally], float] = _badly_ranked
        self._find_ends()

    def round(self, tell: Tell) -> float:
        self.tally = self.learner.epoch(self.plan, self.sessions, self.jobs, self.team)
        tell(1.0, f"{self.tally.violated_share:.1%} of {self.tally.ranked:,} pairs badly ranked")
        return self.shown(self.tally)

    def now(self) -> Floats:
        return self.learner.weights

    def state(self) -> dict[str, Any]:
        return self.learner.state_dict()

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.learner.load_state_dict(dict(state))
        self._find_ends()

    def _find_ends(self) -> None:
        ends = self.learner.ends
        if self.plan.start is Start.PREVIOUS and len(ends) == len(self.sessions):
            for session, states in zip(self.sessions, ends, strict=True):
                session.set_states(states)


def _badly_ranked(tally: Tally) -> float:
    return tally.violated_share
