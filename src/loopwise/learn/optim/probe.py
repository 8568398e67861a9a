"""The learning-rate probe: try a ladder of rates on a sample, from the same start, and take the best.

In: parameters, a way to make an optimiser of a rate, the losses of a few batches. Out: a rate; the parameters are as
before. Stage: learning.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loopwise.learn.optim.steps import Loss, finish, take_step
from loopwise.notices import GradientWarning

logger = logging.getLogger(__name__)

MakeOptimizer = Callable[[list[Tensor], float], torch.optim.Optimizer]


@dataclass(frozen=True)
class Probe:
    """What a probe found: the ``rate`` to use, the ``tried`` ``(rate, loss)`` pairs in order, the loss ``before``."""

    rate: float
    tried: tuple[tuple[float, float], ...]
    before: float

    @property
    def improved(self) -> bool:
        """Whether any rate was better than no training at all."""
        return min(loss for _, loss in self.tried) < self.before


def probe(
    params: Iterable[Tensor],
    optimizer: MakeOptimizer,
    batches: Sequence[Loss],
    *,
    evaluate: Callable[[], Tensor | float] | None = None,
    start: float = 0.1,
    factor: float = 2.0,
    trials: int = 10,
    passes: int = 1,
    safety: float = 1.0,
) -> Probe:
    """The best of a geometric ladder of learning rates (Bottou 2012, section 5; the parser's rule of doubling).

    Each trial starts from the current parameters, takes one step of ``optimizer(params, rate)`` on each of
    ``batches`` (functions that give a batch's loss and call no backward), ``passes`` times over, and is judged by
    ``evaluate()``, by default the mean loss of the batches. Rates are ``start``, ``start * factor``, ... until one
    is worse than no training, then ``start / factor``, ``start / factor**2``, ... until ``trials`` are used. The best
    rate is multiplied by ``safety`` (the parser takes a half). A rate that leads where the loss or its gradient
    cannot be had, such as from a fixed point that is not stable or to a damping above 1, is as bad as one that
    diverges. Parameters are put back, whatever happens.
    Cost: ``trials`` times the training and judging of the sample.

    Raises
    ------
    ValueError
        Where the loss is not finite to begin with, or after each trial; what the last one raised where no trial
        has a loss or a gradient.

    >>> theta = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
    >>> found = probe([theta], lambda params, rate: torch.optim.SGD(params, lr=rate), [lambda: theta.square().sum()])
    >>> found.rate, theta.item()  # a step of 0.5 leads straight to the minimum; of the ladder 0.4 comes closest
    (0.4, 4.0)
    """
    params = list(params)
    _check(batches, start, factor, trials, passes, safety)
    judge = evaluate if evaluate is not None else lambda: _mean(batches)
    kept = [param.detach().clone() for param in params]
    tried: list[tuple[float, float]] = []
    refused: ValueError | None = None
    try:
        before = _value(judge)
        if not math.isfinite(before):
            raise ValueError(
                f"the loss is {before} before any step; a rate cannot be chosen from there; "
                "start at other weights, such as 0"
            )
        rate, upwards = start, True
        while len(tried) < trials:
            try:
                loss = _trial(params, optimizer, batches, judge, rate, passes)
            except ValueError as problem:  # where the steps led; all was well at the start
                loss, refused = math.inf, problem
            tried.append((rate, loss))
            logger.info("rate %g: loss %.6g, %.6g before", rate, loss, before)
            _restore(params, kept)
            if upwards and not loss < before:
                rate, upwards = start, False
            rate = rate * factor if upwards else rate / factor
    finally:
        _restore(params, kept)
    best, loss = min(tried, key=lambda pair: pair[1])
    if not math.isfinite(loss):
        if refused is not None:
            raise refused
        lowest = min(rate for rate, _ in tried)
        raise ValueError(f"training diverged at every rate from {start:g} down to {lowest:g}; start lower")
    return Probe(best * safety, tuple(tried), before)


def _trial(
    params: list[Tensor],
    optimizer: MakeOptimizer,
    batches: Sequence[Loss],
    judge: Callable[[], Tensor | float],
    rate: float,
    passes: int,
) -> float:
    """Loss after training at ``rate``; infinite where that led out of the finite numbers."""
    stepper = optimizer(params, rate)
    for _ in range(passes):
        for batch in batches:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GradientWarning)  # of points to which no one will go
                loss = take_step(stepper, batch)
            if not (bool(torch.isfinite(loss)) and all(bool(torch.isfinite(param).all()) for param in params)):
                return math.inf
    finish(stepper)
    value = _value(judge)
    return value if math.isfinite(value) else math.inf


def _mean(batches: Sequence[Loss]) -> float:
    return sum(float(batch()) for batch in batches) / len(batches)


def _value(judge: Callable[[], Tensor | float]) -> float:
    with torch.no_grad():
        return float(judge())


def _restore(params: list[Tensor], kept: list[Tensor]) -> None:
    with torch.no_grad():
        for param, values in zip(params, kept, strict=True):
            param.copy_(values)
            param.grad = None


def _check(batches: Sequence[Loss], start: float, factor: float, trials: int, passes: int, safety: float) -> None:
    if not len(batches):
        raise ValueError("a probe needs at least one batch; give examples")
    for name, value, right in [
        ("start", start, start > 0),
        ("factor", factor, factor > 1),
        ("trials", trials, trials >= 1),
        ("passes", passes, passes >= 1),
        ("safety", safety, safety > 0),
    ]:
        if not right:
            least = {"factor": "above 1", "trials": "at least 1", "passes": "at least 1"}.get(name, "positive")
            raise ValueError(f"{name} must be {least}, not {value}")
