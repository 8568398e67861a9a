r"""L-BFGS for millions of weights whose gradient is cheap: little else may cost.

In: a function that gives value and gradient of a vector. Out: the vector that minimises it. Stage: use.

:class:`loopwise.learn.optim.LBFGS` serves any torch loss through SciPy; here the gradient of a text takes less than
SciPy's own work. Inner products of all vectors are kept, and the recursion is over numbers (Chen, Wang & Zhou 2014): an
iteration reads the vectors in four passes, which kernels share among threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from loopwise.apps.tagger.chains import Floats
from loopwise.kernels.threads import in_threads

Function = Callable[[Floats], tuple[float, Floats]]
Told = Callable[[int, float], bool]
Keep = Callable[[Callable[[], Any]], None]

_ENOUGH, _CURVATURE = 1e-4, 0.9  # the constants of Wolfe's conditions (Nocedal & Wright 2006, section 3.1)
_TRIALS = 20  # of step lengths in one search


@dataclass(frozen=True, eq=False)
class Found:
    """Where a minimisation ended, and why."""

    point: Floats
    value: float
    reason: str


@dataclass(eq=False)
class _Place:
    """A point on the line that is searched: how far, its value, its slope along the line, point and gradient."""

    step: float
    value: float
    slope: float
    point: Floats
    gradient: Floats


def minimise_lbfgs(
    function: Function,
    start: Floats,
    *,
    iterations: int,
    tolerance: float,
    memory: int,
    told: Told,
    keep: Keep | None = None,
    state: Any = None,
    threads: int = 1,
) -> Found:
    """Stops after ``iterations``, or when one changes the value by less than ``tolerance`` of itself, or if told to.

    ``told(iteration, value)``: True stops. ``keep`` is given, after each iteration, a function of the state there;
    with such a ``state`` the minimisation goes on from it as if it had never stopped, at the same number of threads.
    """
    algebra = Algebra(threads)
    run = _Run.begin(function, start, algebra, memory) if state is None else _Run.of_state(state, algebra, memory)
    while run.iteration < iterations:
        here = run.here
        if run.change <= tolerance * max(abs(here.value), 1.0):
            return Found(here.point, here.value, "the objective hardly changes")
        direction = run.past.direction(here.gradient)
        slope = algebra.dot(direction, here.gradient)
        if not slope < 0.0:
            return Found(here.point, here.value, "the gradient vanishes")
        first = 1.0 if run.past.count else min(1.0, 1.0 / math.sqrt(-slope))
        there = _search(function, algebra, here, direction, slope, first)
        if there is None:
            return Found(here.point, here.value, "no step along the direction lowers the objective")
        run.go(there)
        if told(run.iteration, there.value):
            return Found(there.point, there.value, "told to stop")
        if keep is not None:
            keep(run.state)
    hardly = run.change <= tolerance * max(abs(run.here.value), 1.0)
    ended = "the objective hardly changes" if hardly else "the iterations are used up"
    return Found(run.here.point, run.here.value, ended)


@dataclass(eq=False)
class _Run:
    """Where a minimisation stands. ``change``: by how much the last iteration lowered the value."""

    iteration: int
    here: _Place
    past: _Past
    change: float = math.inf

    @staticmethod
    def begin(function: Function, start: Floats, algebra: Algebra, memory: int) -> _Run:
        value, gradient = function(start)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            raise ValueError(
                f"training cannot start where the objective is {value} or its gradient is not finite; "
                "start at other weights"
            )
        return _Run(0, _Place(0.0, value, 0.0, start.copy(), gradient), _Past(algebra, memory, len(start)))

    def go(self, there: _Place) -> None:
        """An iteration ends at ``there``."""
        self.past.add(there.point - self.here.point, there.gradient - self.here.gradient)
        self.change, self.here = self.here.value - there.value, there
        self.iteration += 1

    def state(self) -> dict[str, Any]:
        """Everything that later iterations depend on."""
        here, past, kept = self.here, self.past, min(self.past.count, self.past.memory)
        return {
            "iteration": self.iteration,
            "value": here.value,
            "change": self.change,
            "count": past.count,
            "point": torch.from_numpy(here.point),
            "gradient": torch.from_numpy(here.gradient),
            "points": torch.from_numpy(past.vectors[:kept]),
            "gradients": torch.from_numpy(past.vectors[past.memory : past.memory + kept]),
            "products": torch.from_numpy(past.products),
        }

    @staticmethod
    def of_state(state: Mapping[str, Any], algebra: Algebra, memory: int) -> _Run:
        """The inverse of :meth:`state`."""
        point, gradient = state["point"].numpy().copy(), state["gradient"].numpy().copy()
        past = _Past(algebra, memory, len(point))
        past.count, past.products = int(state["count"]), state["products"].numpy().copy()
        for first, name in ((0, "points"), (memory, "gradients")):
            past.vectors[first : first + len(state[name])] = state[name].numpy()
        here = _Place(0.0, float(state["value"]), 0.0, point, gradient)
        return _Run(int(state["iteration"]), here, past, float(state["change"]))


@dataclass(frozen=True)
class Algebra:
    """Products and sums of long vectors on some threads, each with a part of the entries."""

    threads: int = 1

    def products(self, vectors: Floats, vector: Floats) -> Floats:
        """Of each row with ``vector``."""
        from loopwise.kernels.vectors import inner_products

        found = np.zeros((self.threads, len(vectors)))
        in_threads(self.threads, lambda part: inner_products(vectors, vector, *self._ends(vector, part), found[part]))
        total: Floats = found.sum(axis=0)
        return total

    def add(self, weights: Floats, vectors: Floats, out: Floats) -> None:
        """Adds weighted rows to ``out``."""
        from loopwise.kernels.vectors import weighted_sum

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
