r"""Smooth functions of all weights with an L2 penalty, minimised one after another by L-BFGS.

In: functions that give value and gradient, compiled or not. Out: :class:`Descent`, whose rounds are iterations. Stage:
learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loopwise.arguments import checked_number, checked_whole
from loopwise.learn.optim.lbfgs_run import Algebra, Floats, Function, LBFGSRun
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits
from loopwise.learn.vector import VectorObjective

Change = Callable[[Floats], Floats]
MEMORY = 6  # pairs of differences that L-BFGS keeps


@dataclass(frozen=True, eq=False)
class Smooth:
    r"""``function`` + :math:`\frac{\lambda}{2}|w|^2`, for ``iterations`` at most.

    ``tolerance``: it ends when an iteration changes the value by less than this part of it; ``gradient_tolerance``: or
    when no entry of the gradient is larger. ``free``: the places of the vector that may change, if not all; the others
    are zero.
    """

    function: Function
    l2: float = 0.0
    iterations: int = 200
    tolerance: float = 1e-6
    memory: int = MEMORY
    free: NDArray[np.int64] | None = None
    gradient_tolerance: float | None = None

    def __post_init__(self) -> None:
        check_descent(self.l2, self.iterations)

    def is_flat(self, gradient: Floats) -> bool:
        """Whether a gradient is as small as is asked."""
        return self.gradient_tolerance is not None and bool(
            np.abs(gradient).max(initial=0.0) <= self.gradient_tolerance
        )


class Descent(VectorObjective):
    """Minimises ``stages`` from ``start``, each from where the one before ended; a round is an iteration.

    ``narrow`` and ``widen``: from the weights of users to those that the functions take, and back, where these are
    fewer (:class:`loopwise.learn.chain.condensing.Condensed`). ``selects``: whether the best iteration on development
    data is chosen, which stops a minimisation early, or the last.
    """

    def __init__(
        self,
        stages: Sequence[Smooth],
        start: Floats,
        *,
        threads: int = 1,
        narrow: Change | None = None,
        widen: Change | None = None,
        selects: bool = False,
    ) -> None:
        self.stages, self.start, self.threads = stages, start, threads
        self._narrow, self._widen, self.selects = narrow, widen, selects
        self._algebra = Algebra(threads)
        self._stage = 0
        self._run: LBFGSRun | None = None

    @property
    def limits(self) -> Limits:
        """As many rounds as the stages have iterations."""
        return Limits.rounds(*(stage.iterations for stage in self.stages))

    def begin(self, restart: int, stage: int) -> None:
        start = self.now()
        point, free = start if self._narrow is None else self._narrow(start), self.stages[stage].free
        self._begin(stage, len(point), point if free is None else point[free], None)

    def _begin(self, stage: int, size: int, start: Floats, state: Mapping[str, Any] | None) -> None:
        self._stage, chosen = stage, self.stages[stage]
        self._size, self._goal = size, _Penalised(chosen, size, self._algebra)
        self._run = LBFGSRun(
            self._goal,
            start,
            memory=chosen.memory,
            tolerance=chosen.tolerance,
            is_flat=chosen.is_flat,
            threads=self.threads,
            state=state,
        )

    def round(self, tell: Tell) -> float | None:
        assert self._run is not None
        return self._run.step()

    @property
    def ended(self) -> str:
        assert self._run is not None
        over = self._run.iteration >= self.stages[self._stage].iterations
        return self._run.ended or ("the iterations are used up" if over else "")

    def now(self) -> Floats:
        if self._run is None:
            return self.start
        found = self._goal.vector(self._run.point)
        return found.copy() if self._widen is None else self._widen(found)

    def measure(self) -> float | None:
        return super().measure() if self.selects else None

    def state(self) -> dict[str, Any]:
        assert self._run is not None
        return {"stage": self._stage, "size": self._size, "run": self._run.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._begin(int(state["stage"]), int(state["size"]), state["run"]["point"].numpy(), state["run"])


class _Penalised:
    """A stage's function of the free places, with its penalty. It knows no descent: a cycle would keep big arrays."""

    def __init__(self, stage: Smooth, size: int, algebra: Algebra) -> None:
        self.stage, self.algebra = stage, algebra
        self._whole = np.zeros(size if stage.free is not None else 0)

    def vector(self, point: Floats) -> Floats:
        """What the function takes."""
        if self.stage.free is None:
            return point
        self._whole[self.stage.free] = point
        return self._whole

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        stage = self.stage
        value, gradient = stage.function(self.vector(point))
        own = gradient if stage.free is None else gradient[stage.free]
        own += stage.l2 * point
        return value + 0.5 * stage.l2 * self.algebra.dot(point, point), own


class DescentOptions:
    """What learners share that descend by L-BFGS: checks, and how many rounds they take at most. Frozen dataclasses
    with these options; ``begin``: the learner whose weights they start from, if they have one."""

    l2: float
    iterations: int

    def __post_init__(self) -> None:
        check_descent(self.l2, self.iterations)

    @property
    def limits(self) -> Limits:
        """How many rounds it takes at most."""
        begin = getattr(self, "begin", None)
        return Limits.rounds(*(() if begin is None else (begin.iterations,)), self.iterations)


class EpochOptions:
    """The same of learners that go over the examples ``epochs`` times; ``_positive`` names other options that must be
    above 0."""

    epochs: int
    _positive: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        checked_whole("epochs", self.epochs)
        for name in self._positive:
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be a positive number, not {value}")

    @property
    def limits(self) -> Limits:
        """How many rounds it takes at most."""
        return Limits.rounds(self.epochs)


def check_descent(l2: float, iterations: int) -> None:
    """Refuses options without meaning."""
    checked_number("l2", l2, above=False)
    checked_whole("iterations", iterations)
