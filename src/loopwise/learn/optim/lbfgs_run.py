r"""L-BFGS over one vector, an iteration at a time: also for millions of weights whose gradient is cheap.

In: a function that gives value and gradient of a vector. Out: :class:`LBFGSRun`, which goes towards its minimum.
Stage: learning. The one L-BFGS of the library: :class:`loopwise.optim.LBFGS` is this for torch losses,
:class:`~loopwise.learn.descent.Descent` for compiled objectives. Inner products of all vectors are kept, and the
recursion is over numbers (Chen, Wang & Zhou 2014): an iteration reads the vectors in four passes, which kernels share
among threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.compiled.threads import in_threads

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]

_ENOUGH, _CURVATURE = 1e-4, 0.9  # the constants of Wolfe's conditions (Nocedal & Wright 2006, section 3.1)
_TRIALS = 20  # of step lengths in one search
FLAT, STILL = "the gradient vanishes", "the objective hardly changes"


@dataclass(eq=False)
class _Place:
    """A point on the line that is searched: how far, its value, its slope along the line, point and gradient."""

    step: float
    value: float
    slope: float
    point: Floats
    gradient: Floats


class LBFGSRun:
    """Where a minimisation stands: ``point``, ``value``, ``gradient``; why it ended, empty while it goes on.

    Limited-memory BFGS (Liu & Nocedal 1989) with a line search for Wolfe's strong conditions. A trial point without a
    finite value or gradient counts as too far; such a start is an error. It ends when an iteration changes the value by
    less than ``tolerance`` of itself (of 1 for smaller values).

    Parameters
    ----------
    memory:
        Pairs of differences kept.
    is_flat:
        Whether a gradient is small enough to end.
    threads:
        That products of vectors are shared by; sums, and so last digits, depend on it.
    state:
        What :attr:`state` was, to go on from there as if nothing had happened.

    >>> run = LBFGSRun(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2))
    >>> while run.step() is not None: pass
    >>> run.point.tolist(), run.ended
    ([3.0, 3.0], 'the gradient vanishes')
    """

    def __init__(
        self,
        function: Function,
        start: Floats,
        *,
        memory: int = 6,
        tolerance: float = 0.0,
        is_flat: Callable[[Floats], bool] | None = None,
        threads: int = 1,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.function, self.tolerance, self.is_flat = function, tolerance, is_flat
        self._algebra = Algebra(threads)
        self._past = _Past(self._algebra, memory, len(start))
        self.iteration, self.ended = 0, ""
        self._change = math.inf  # by how much the last iteration lowered the value
        if state is not None:
            self._load(state)
            return
        value, gradient = function(start)
        check_start(value, gradient)
        self._here = _Place(0.0, value, 0.0, start.copy(), gradient)
        self._judge()

    @property
    def converged(self) -> bool:
        """Whether it ended where the function is flat, and not for want of a way down."""
        return self.ended in (FLAT, STILL)

    @property
    def point(self) -> Floats:
        return self._here.point

    @property
    def value(self) -> float:
        return self._here.value

    @property
    def gradient(self) -> Floats:
        return self._here.gradient

    def step(self) -> float | None:
        """One iteration: the value after it, or None if there is no way down, and then ``ended`` says why."""
        here = self._here
        direction = self._past.direction(here.gradient)
        slope = self._algebra.dot(direction, here.gradient)
        if not slope < 0.0:
            self.ended = FLAT
            return None
        first = 1.0 if self._past.count else min(1.0, 1.0 / math.sqrt(-slope))
        there = _search(self.function, self._algebra, here, direction, slope, first)
        if there is None:
            self.ended = "no step along the direction lowers the objective"
            return None
        self._past.add(there.point - here.point, there.gradient - here.gradient)
        self._change, self._here = here.value - there.value, there
        self.iteration += 1
        self._judge()
        return there.value

    def _judge(self) -> None:
        if self.is_flat is not None and self.is_flat(self._here.gradient):
            self.ended = FLAT
        elif self._change <= self.tolerance * max(abs(self._here.value), 1.0):
            self.ended = STILL

    def state(self) -> dict[str, Any]:
        """Everything that later iterations depend on."""
        here, past, kept = self._here, self._past, min(self._past.count, self._past.memory)
        return {
            "iteration": self.iteration,
            "value": here.value,
            "change": self._change,
            "ended": self.ended,
            "count": past.count,
            "point": torch.from_numpy(here.point),
            "gradient": torch.from_numpy(here.gradient),
            "points": torch.from_numpy(past.vectors[:kept]),
            "gradients": torch.from_numpy(past.vectors[past.memory : past.memory + kept]),
            "products": torch.from_numpy(past.products),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        point, gradient = state["point"].numpy().copy(), state["gradient"].numpy().copy()
        past, memory = self._past, self._past.memory
        past.count, past.products = int(state["count"]), state["products"].numpy().copy()
        for first, name in ((0, "points"), (memory, "gradients")):
            past.vectors[first : first + len(state[name])] = state[name].numpy()
        self._here = _Place(0.0, float(state["value"]), 0.0, point, gradient)
        self.iteration, self._change, self.ended = int(state["iteration"]), float(state["change"]), str(state["ended"])


def check_start(value: float, gradient: Floats) -> None:
    """Refuses a start without a finite value and gradient."""
    if not (math.isfinite(value) and np.isfinite(gradient).all()):
        raise ValueError(
            f"L-BFGS cannot start where the loss is {value} or its gradient is not finite; start at other weights, "
            "such as 0"
        )


@dataclass(frozen=True)
class Algebra:
    """Products and sums of long vectors on some threads, each with a part of the entries."""

    threads: int = 1

    def products(self, vectors: Floats, vector: Floats) -> Floats:
        """Of each row with ``vector``."""
        from loopwise.compiled.vectors import inner_products

        found = np.zeros((self.threads, len(vectors)))
        in_threads(self.threads, lambda part: inner_products(vectors, vector, *self._ends(vector, part), found[part]))
        total: Floats = found.sum(axis=0)
        return total

    def add(self, weights: Floats, vectors: Floats, out: Floats) -> None:
        """Adds weighted rows to ``out``."""
        from loopwise.compiled.vectors import weighted_sum

        in_threads(self.threads, lambda part: weighted_sum(weights, vectors, *self._ends(out, part), out))

    def dot(self, one: Floats, two: Floats) -> float:
        return float(self.products(one[None], two)[0])

    def _ends(self, vector: Floats, part: int) -> tuple[int, int]:
        return len(vector) * part // self.threads, len(vector) * (part + 1) // self.threads


class _Past:
    """The last differences of points and gradients, and all their inner products."""

    def __init__(self, algebra: Algebra, memory: int, size: int) -> None:
        self.algebra, self.memory, self.count = algebra, memory, 0
        self.vectors = np.empty((2 * memory, size))  # differences of points, then of gradients, in a ring
        self.products = np.zeros((2 * memory, 2 * memory))

    def add(self, point: Floats, gradient: Floats) -> None:
        if not self.algebra.dot(point, gradient) > 0.0:
            return  # no curvature to learn from
        place = self.count % self.memory
        self.vectors[place], self.vectors[self.memory + place] = point, gradient
        self.count += 1
        for row in (place, self.memory + place):
            self.products[row] = self.products[:, row] = self._with(self.vectors[row])

    def _with(self, vector: Floats) -> Floats:
        """Products with the vectors there are."""
        found, kept = np.zeros(2 * self.memory), min(self.count, self.memory)
        for first in (0, self.memory):
            found[first : first + kept] = self.algebra.products(self.vectors[first : first + kept], vector)
        return found

    def direction(self, gradient: Floats) -> Floats:
        """Minus the inverse Hessian's estimate times the gradient: the two loops on coefficients, then one sum."""
        if not self.count:
            return -gradient
        kept = min(self.count, self.memory)
        recent = [(self.count - 1 - age) % self.memory for age in range(kept)]  # the newest first
        slopes = self._with(gradient)
        # Coefficients of the result in the vectors, and of the gradient.
        own, weights, alpha = 1.0, np.zeros(2 * self.memory), np.zeros(self.memory)
        for place in recent:
            product = own * slopes[place] + float(weights @ self.products[place])
            alpha[place] = product / self.products[place, self.memory + place]
            weights[self.memory + place] -= alpha[place]
        newest = recent[0]
        scale = self.products[newest, self.memory + newest] / self.products[self.memory + newest, self.memory + newest]
        own, weights = own * scale, weights * scale
        for place in reversed(recent):
            row = self.memory + place
            product = own * slopes[row] + float(weights @ self.products[row])
            weights[place] += alpha[place] - product / self.products[place, row]
        found: Floats = -own * gradient
        for first in (0, self.memory):
            self.algebra.add(-weights[first : first + kept], self.vectors[first : first + kept], found)
        return found


def _search(
    function: Function, algebra: Algebra, here: _Place, direction: Floats, slope: float, first: float
) -> _Place | None:
    """A step that meets Wolfe's strong conditions, or lowers the value at least; None if none does.

    Steps are doubled until an interval holds such a step, which is then narrowed by cubic interpolation (Nocedal &
    Wright 2006, algorithms 3.5 and 3.6). A point without a finite value counts as too far.
    """
    low = _Place(0.0, here.value, slope, here.point, here.gradient)
    high: _Place | None = None
    step, best = first, None
    for _ in range(_TRIALS):
        trial = _at(function, algebra, here, direction, step)
        finite = math.isfinite(trial.value) and math.isfinite(trial.slope)
        if finite and trial.value < here.value and (best is None or trial.value < best.value):
            best = trial
        if not finite or trial.value > here.value + _ENOUGH * step * slope or trial.value > low.value:
            high = trial
        elif abs(trial.slope) <= -_CURVATURE * slope:
            return trial
        elif trial.slope > 0.0 or (high is not None and trial.slope * (high.step - low.step) >= 0.0):
            low, high = trial, low
        else:
            low = trial
        step = 2.0 * step if high is None else _between(low, high)
    return best


def _at(function: Function, algebra: Algebra, here: _Place, direction: Floats, step: float) -> _Place:
    point = here.point + step * direction
    value, gradient = function(point)
    return _Place(step, value, algebra.dot(gradient, direction), point, gradient)


def _between(one: _Place, two: _Place) -> float:
    """Where the cubic through values and slopes of both ends is least, kept away from the ends; else the middle."""
    middle, width = 0.5 * (one.step + two.step), two.step - one.step
    if not (math.isfinite(two.value) and math.isfinite(two.slope)):
        return one.step + 0.1 * width
    shared = one.slope + two.slope - 3.0 * (one.value - two.value) / (one.step - two.step)
    inner = shared * shared - one.slope * two.slope
    if inner < 0.0:
        return middle
    root = math.copysign(math.sqrt(inner), width)
    bottom = two.slope - one.slope + 2.0 * root
    if bottom == 0.0:
        return middle
    step = two.step - width * (two.slope + root - shared) / bottom
    return step if 0.05 <= (step - one.step) / width <= 0.95 else middle
