"""Legs picked from a pool, each for the shots that those before it fail at.

In: a decoder, shots or a sampler. Out: a decoder with other legs. Stage: use. Legs that begin anew do not hear of one
another, so each is run once, and whatever sequence of them fails at is known: the likeliest solution is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.legs import MOST_MEMORY, Leg
from loopwise.apps.decoder.search import FIRST_SWEEPS
from loopwise.apps.decoder.shots import Shots, ShotSampler, check_source
from loopwise.arguments import checked_whole
from loopwise.learn.progress import progress_bar

PLAIN = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # strengths of memory, the same for all bits
# Intervals that numbers of other legs are drawn from: the middle of their strengths, how far these are from it, what
# all messages and the first of them are scaled by (logarithms), and how far priors of bits are from one another.
MIDDLE, WIDTH, SCALE, EARLY, UNEVEN = (0.05, 0.3), (0.0, 0.4), (-0.15, 0.0), (-0.2, 0.0), (0.05, 0.4)
PRIOR = 0.1  # the standard deviation of what all priors are scaled by
_EVEN = 6  # one leg of so many has the same numbers for all bits
_EXCHANGES = 3  # rounds in which each leg may be exchanged
_PROBES = 16  # legs that say which shots are easy


def leg_pool(code: Code, count: int, sweeps: int, *, seed: int = 0) -> list[Leg]:
    """Legs of many kinds that begin anew, each with an order of checks of its own: memory the same for all bits; or
    memory and priors drawn for each bit, and messages scaled, more in the first sweeps.

    >>> leg_pool(Code.of([[1, 1]], 0.1), 9, 10)[-1]
    Leg(10 sweeps, sweep, memory, prior, order)
    """
    random = np.random.default_rng(seed)
    return [_drawn(code, number, sweeps, random) for number in range(count)]


@torch.no_grad()
def _drawn(code: Code, number: int, sweeps: int, random: np.random.Generator) -> Leg:
    middle, width, scale, early, uneven = (random.uniform(*of) for of in (MIDDLE, WIDTH, SCALE, EARLY, UNEVEN))
    order, own = random.permutation(code.checks.count), number % _EVEN > 0
    if number < len(PLAIN):
        return Leg(code, sweeps, memory=PLAIN[number], resumes=False, order=order)
    memory = middle + own * width * random.uniform(-1, 1, code.bits)
    leg = Leg(code, sweeps, memory=np.minimum(memory, MOST_MEMORY), resumes=False, order=order)
    leg.open(sweeps=True, priors=True)
    leg.requires_grad_(False)
    assert leg.sweep is not None and leg.prior is not None
    leg.sweep.add_(scale + early * torch.exp(-torch.arange(sweeps) / FIRST_SWEEPS))
    prior = PRIOR * random.normal() + own * uneven * random.normal(size=code.bits)
    leg.prior.add_(torch.as_tensor(prior, dtype=leg.prior.dtype))
    return leg


def pick_legs(
    decoder: Decoder,
    source: Shots | ShotSampler,
    sweeps: Sequence[int],
    *,
    pool: Sequence[Leg] | int = 60,
    shots: int = 40_000,
    seed: int = 0,
    progress: bool = True,
) -> Decoder:
    """A decoder with a leg for each number in ``sweeps``, picked from a pool: one after another the leg that leaves the
    fewest failures with those before it; then each is exchanged as long as that helps.

    Parameters
    ----------
    decoder: its rule, schedule, precision, budget and distance are kept, its legs are not. With a budget there may be
        more legs than it has sweeps for: those that come last serve shots that others explain soon.
    source: shots to count failures on, or a sampler that ``shots`` are drawn from. Failures on them are too good to be
        true afterwards: judge by others.
    sweeps: of each leg, in order.
    pool: legs to pick from, or how many to draw (:func:`leg_pool`). They begin anew, whatever they say.

    Returns
    -------
    A decoder that runs all its legs on every shot and takes the likeliest solution.

    >>> from loopwise.apps.decoder import Flips
    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1)
    >>> pick_legs(Decoder(code), Flips(code), [3, 2], pool=4, shots=100, progress=False).legs
    [Leg(3 sweeps, memory, order), Leg(2 sweeps, memory, order)]
    """
    places = [checked_whole("each leg's number of sweeps", count) for count in sweeps]
    if not places:
        raise ValueError("sweeps is empty; give a number for each leg")
    check_source(source)
    given = source if isinstance(source, Shots) else source.draw(shots, np.random.default_rng([seed, 3]))
    legs = leg_pool(decoder.code, pool, max(places), seed=seed) if isinstance(pool, int) else list(pool)
    if not legs:
        raise ValueError("the pool is empty; give at least one leg")
    outcomes = _outcomes(decoder, [_cut(leg, max(places)) for leg in legs], given, min(places), progress)
    budget = sum(places) if decoder.budget is None else decoder.budget
    found = copy.copy(decoder)
    found.legs = [_cut(legs[one], count) for one, count in zip(outcomes.pick(places, budget), places, strict=True)]
    found.solutions = len(places)
    return found


@torch.no_grad()
def _cut(leg: Leg, sweeps: int) -> Leg:
    """A copy that makes so many sweeps and begins anew; weights of sweeps that are missing are as the last one."""
    found = copy.deepcopy(leg)
    found.resumes, found.sweeps = False, sweeps
    if leg.sweep is not None:
        kept = leg.sweep[:sweeps]
        found.sweep = torch.nn.Parameter(torch.cat([kept, kept[-1:].expand(sweeps - len(kept))]), requires_grad=False)
    return found


@dataclass(frozen=True, eq=False)
class _State:
    """Of each shot: the sweeps it may make, the cost of its best solution, whether it fails."""

    left: NDArray[np.int32]
    cost: NDArray[np.float32]
    wrong: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """What each leg makes of each shot, ``[legs, shots]``."""

    costs: NDArray[np.float32]  # of its solution, infinite where there is none
    sweeps: NDArray[np.int32]  # after which it was there
    wrong: NDArray[np.bool_]

    def pick(self, places: Sequence[int], budget: int) -> list[int]:
        """The legs, one for each place."""
        chosen: list[int] = []
        fewest = 0
        for place in range(len(places)):
            one, fewest = self._best(self._after(chosen, places, self._start(budget)), [], places[place:])
            chosen.append(one)
        for _ in range(_EXCHANGES):
            before = fewest
            for place in range(len(places)):
                state = self._after(chosen[:place], places, self._start(budget))
                one, failures = self._best(state, chosen[place + 1 :], places[place:])
                if failures < fewest:
                    chosen[place], fewest = one, failures
            if fewest == before:
                break
        return chosen

    def _start(self, budget: int) -> _State:
        shots = self.costs.shape[1]
        return _State(np.full(shots, budget, np.int32), np.full(shots, np.inf, np.float32), np.ones(shots, np.bool_))

    def _after(self, legs: Sequence[int], places: Sequence[int], state: _State) -> _State:
        """After some legs, with the sweeps of ``places``."""
        for leg, count in zip(legs, places, strict=False):
            most = np.minimum(state.left, count)
            cost = np.where(self.sweeps[leg] <= most, self.costs[leg], np.float32(np.inf))
            better = cost < state.cost
            state = _State(
                state.left - np.minimum(self.sweeps[leg], most),
                np.where(better, cost, state.cost),
                np.where(better, self.wrong[leg], state.wrong),
            )
        return state

    def _best(self, state: _State, later: Sequence[int], places: Sequence[int]) -> tuple[int, int]:
        """The leg that fails least at the first of ``places``, with those that come ``later``, and how often."""
        failures = [int(self._after([one, *later], places, state).wrong.sum()) for one in range(len(self.costs))]
        return int(np.argmin(failures)), min(failures)


def _outcomes(decoder: Decoder, legs: list[Leg], shots: Shots, fewest: int, progress: bool) -> _Outcomes:
    """In a large pool, shots that some legs from all over it decode in the ``fewest`` sweeps, each of them, are left
    out: others decode them, too, but for few."""
    one = copy.copy(decoder)
    one.second, one.solutions, one.budget = None, 1, None
    probes = np.unique(np.linspace(0, len(legs) - 1, _PROBES).astype(int))
    turns = [*probes.tolist(), *np.setdiff1d(np.arange(len(legs)), probes).tolist()]
    found: dict[int, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = {}
    with progress_bar(progress, len(legs)) as tell:
        for number, leg in enumerate(turns):
            if number == _PROBES:
                hard = np.any([wrong | (sweeps > fewest) for _, sweeps, wrong in found.values()], axis=0)
                shots = shots.take(hard)
                found = {
                    which: (cost[hard], sweeps[hard], wrong[hard]) for which, (cost, sweeps, wrong) in found.items()
                }
            one.legs = [legs[leg]]
            answer = one.run(shots.syndromes, log_odds=shots.log_odds)
            odds = decoder._odds(shots.log_odds, len(shots))
            cost = np.where(answer.explained, (answer.corrections * odds).sum(1, dtype=np.float64), np.inf)
            found[leg] = cost.astype(np.float32), answer.sweeps.astype(np.int32), failed(one, shots, answer)
            tell(number + 1, f"{int(found[leg][2].sum())} failures of {len(shots)} shots by itself")
    return _Outcomes(*(np.stack(column) for column in zip(*(found[leg] for leg in range(len(legs))), strict=True)))
