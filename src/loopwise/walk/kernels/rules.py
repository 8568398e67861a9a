"""Compiled updates of the weights: step rules, margins, exact sparse averaging.

In: a feature difference, how much the signal gains by it, a :class:`Rule`. Out: new weights, new sums for the average.
Below the stages. The plain walk (:mod:`loopwise.walk.learning.updates`) does the same arithmetic in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.walk.kernels.codes import (
    ACTIVE,
    ADAGRAD,
    DECAYING,
    MET,
    RANKED,
    TRUTH_MARGIN,
    UNIT,
    UPDATES,
    VIOLATED,
)
from loopwise.walk.kernels.delta import KEYS, dot, squared_norm


class Rule(NamedTuple):
    """What a walk learns from its steps."""

    step: int  # UNIT, DECAYING, ADAGRAD or MIRA
    rate: float
    cap: float  # of MIRA
    floor: float  # of AdaGrad's denominator
    margin_scale: float
    margin_constant: float
    tolerance: float  # signals that differ by no more are equal
    temperature: float
    stale: bool  # accept with the scores before the update
    atomic: bool  # rank the current state against the proposed one
    truth: int  # NO_TRUTH, TRUTH_MARGIN or TRUTH_ALWAYS
    truth_on_ties: bool  # only where the signals are equal
    every: int  # steps between two updates towards the truth
    reset: bool  # go back to the truth after each of them
    rebuild: int  # steps after which the difference to the truth is computed anew


class Learning(NamedTuple):
    """The weights and what goes with them; all change in place."""

    weights: np.ndarray  # float64 [weights]
    sums: np.ndarray  # float64 [weights]: the u of the average
    squares: np.ndarray  # float64 [weights], or [0] unless AdaGrad
    clock: np.ndarray  # int64 [2]: steps so far, steps before averaging begins


@inlined
def take_step(rule, learning, delta, sign, shortfall, norm, tally):
    """Adds the step along ``sign * delta`` to the weights; the factor eta, or NaN where it differs by weight."""
    time = learning.clock[0]
    lag = np.float64(max(time - 1 - learning.clock[1], 0))
    tally[UPDATES] += 1
    for place in range(delta.keys[0]):
        tally[ACTIVE] += delta.values[place] != 0.0
    if rule.step == ADAGRAD:
        for place in range(delta.keys[0]):
            key, slope = delta.keys[KEYS + place], sign * delta.values[place]
            if slope != 0.0:
                learning.squares[key] += slope * slope
                change = rule.rate * slope / (math.sqrt(learning.squares[key]) + rule.floor)
                learning.weights[key] += change
                learning.sums[key] += lag * change
        return np.nan
    if rule.step == UNIT:
        eta = rule.rate
    elif rule.step == DECAYING:
        eta = rule.rate / math.sqrt(np.float64(time))
    else:
        eta = min(rule.cap, shortfall / norm)
    scale = sign * eta
    for place in range(delta.keys[0]):
        key, change = delta.keys[KEYS + place], scale * delta.values[place]
        learning.weights[key] += change
        learning.sums[key] += lag * change
    return eta


@inlined
def rank_pair(rule, learning, delta, gain, tally):
    """The atomic update; the score of ``delta`` before and after it."""
    score = dot(delta, learning.weights)
    if abs(gain) <= rule.tolerance:
        return score, score
    tally[RANKED] += 1
    sign = 1.0 if gain > 0.0 else -1.0
    margin = rule.margin_scale * abs(gain) + rule.margin_constant
    if not margin - sign * score > MET * margin:
        return score, score
    tally[VIOLATED] += 1
    norm = squared_norm(delta)
    if norm == 0.0:
        return score, score
    eta = take_step(rule, learning, delta, sign, margin - sign * score, norm, tally)
    if rule.step == ADAGRAD:
        return score, dot(delta, learning.weights)
    return score, score + sign * eta * norm


@leaf
def learn_from_truth(rule, learning, truth, gap, tally):
    """An update towards the truth along ``truth``, features of the truth minus those of the state."""
    norm = squared_norm(truth)
    shortfall = 0.0
    if rule.truth == TRUTH_MARGIN:
        if gap <= rule.tolerance:
            return
        tally[RANKED] += 1
        margin = rule.margin_scale * gap + rule.margin_constant
        shortfall = margin - dot(truth, learning.weights)
        if not shortfall > MET * margin:
            return
        tally[VIOLATED] += 1
    if norm > 0.0:
        take_step(rule, learning, truth, 1.0, shortfall, norm, tally)
