"""Legs picked from a pool, each for the shots that those before it fail at.

In: a decoder, shots or a sampler. Out: a decoder with other legs. Stage: use. Legs that begin anew do not hear of one
another, so each is run once, and whatever set of them fails at is known: the likeliest solution of the set is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.legs import MOST_MEMORY, Leg
from loopwise.apps.decoder.shots import Shots, ShotSampler
from loopwise.learn.progress import progress_bar

PLAIN = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # strengths of memory, the same for all bits
MIDDLE, WIDTH = (-0.05, 0.3), (0.05, 0.6)  # of intervals that other strengths are drawn from
SCALE, PRIOR, UNEVEN = 0.1, 0.15, 0.2  # standard deviations of log-weights: messages, priors, priors of single bits
_EXCHANGES = 3  # rounds in which each leg may be exchanged


def leg_pool(code: Code, count: int, sweeps: int, *, seed: int = 0) -> list[Leg]:
    """Legs of many kinds that begin anew: memory the same for all bits or drawn from an interval that is drawn itself,
    messages and priors as they are or weighed.

    >>> leg_pool(Code.of([[1, 1]], 0.1), 9, 10)[-1]
    Leg(10 sweeps, sweep, memory, prior)
    """
    random = np.random.default_rng(seed)
    return [_drawn(code, number, sweeps, random) for number in range(count)]


@torch.no_grad()
def _drawn(code: Code, number: int, sweeps: int, random: np.random.Generator) -> Leg:
    middle, width = random.uniform(*MIDDLE), random.uniform(*WIDTH)
    memory = np.minimum(random.uniform(middle - width, middle + width, code.bits), MOST_MEMORY)
    if number < len(PLAIN):
        return Leg(code, sweeps, memory=PLAIN[number], resumes=False)
    leg = Leg(code, sweeps, memory=memory, resumes=False)
    leg.open(sweeps=True, priors=True)
    leg.requires_grad_(False)
    assert leg.sweep is not None and leg.prior is not None
    if number % 2:
        leg.sweep.fill_(SCALE * random.normal())
        leg.prior.fill_(PRIOR * random.normal())
    if number % 3 == 0:
        leg.prior.add_(torch.as_tensor(UNEVEN * random.normal(size=code.bits), dtype=leg.prior.dtype))
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
    decoder: its rule, schedule and precision are kept, its legs are not.
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
    [Leg(3 sweeps, memory), Leg(2 sweeps, memory)]
    """
    places = [int(count) for count in sweeps]
    if not places or min(places) < 1:
        raise ValueError(f"sweeps must be whole numbers of at least 1, one for each leg, not {list(sweeps)!r}")
    given = source if isinstance(source, Shots) else source.draw(shots, np.random.default_rng([seed, 3]))
    legs = leg_pool(decoder.code, pool, max(places), seed=seed) if isinstance(pool, int) else list(pool)
    if not legs:
        raise ValueError("the pool is empty; give at least one leg")
    outcomes = _outcomes(decoder, [_cut(leg, max(places)) for leg in legs], given, progress)
    found = copy.copy(decoder)
    found.legs = [_cut(legs[one], count) for one, count in zip(outcomes.pick(places), places, strict=True)]
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
class _Outcomes:
    """What each leg makes of each shot, ``[legs, shots]``."""

    costs: NDArray[np.float64]  # of its solution, infinite where there is none
    sweeps: NDArray[np.int64]  # after which it was there
    wrong: NDArray[np.bool_]

    def pick(self, places: Sequence[int]) -> list[int]:
        """The legs, one for each place."""
        chosen: list[int] = []
        for place in range(len(places)):
            chosen.append(self._best(chosen, places, place)[0])
        fewest = self._best(chosen[:-1], places, len(places) - 1)[1]
        for _ in range(_EXCHANGES):
            before = fewest
            for place in range(len(places)):
                others = [*chosen[:place], -1, *chosen[place + 1 :]]
                one, failures = self._best(others, places, place)
                if failures < fewest:
                    chosen[place], fewest = one, failures
            if fewest == before:
                break
        return chosen

    def _best(self, others: list[int], places: Sequence[int], place: int) -> tuple[int, int]:
        """The leg that fails least at ``place`` beside the ``others`` (-1: the place itself), and how often."""
        cost, wrong = np.full(self.costs.shape[1], np.inf), np.ones(self.costs.shape[1], np.bool_)
        for other, count in zip(others, places, strict=False):
            if other >= 0:
                mine = self._within(other, count)
                wrong = np.where(mine < cost, self.wrong[other], wrong)
                cost = np.minimum(mine, cost)
        failures = [
            int(np.where(self._within(one, places[place]) < cost, self.wrong[one], wrong).sum())
            for one in range(len(self.costs))
        ]
        return int(np.argmin(failures)), min(failures)

    def _within(self, leg: int, sweeps: int) -> NDArray[np.float64]:
        return np.where(self.sweeps[leg] <= sweeps, self.costs[leg], np.inf)


def _outcomes(decoder: Decoder, legs: list[Leg], shots: Shots, progress: bool) -> _Outcomes:
    """Of shots that no leg decides differently from others nothing is kept."""
    odds = decoder._odds(shots.log_odds, len(shots))
    one = copy.copy(decoder)
    one.second, one.solutions = None, 1
    columns: list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]] = []
    with progress_bar(progress, len(legs)) as tell:
        for number, leg in enumerate(legs):
            one.legs = [leg]
            answer = one.run(shots.syndromes, log_odds=shots.log_odds)
            cost = np.where(answer.explained, (answer.corrections * odds).sum(1, dtype=np.float64), np.inf)
            columns.append((cost, answer.sweeps, failed(one, shots, answer)))
            tell(number + 1, f"{int(columns[-1][2].sum())} failures of {len(shots)} shots by itself")
    costs, sweeps, wrong = (np.stack(column) for column in zip(*columns, strict=True))
    matter = wrong.any(0) | (sweeps > sweeps.min()).any(0)
    return _Outcomes(costs[:, matter], sweeps[:, matter], wrong[:, matter])
