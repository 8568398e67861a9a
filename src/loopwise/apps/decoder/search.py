"""Legs found by trying: strengths of memory drawn at random, those kept that fail least on shots.

In: a decoder's settings, shots or a sampler. Out: legs. Stage: use. It looks at the failures themselves, which no
gradient does; a leg takes as many runs over the shots that matter as there are candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.legs import Leg
from loopwise.apps.decoder.rules import Rule
from loopwise.apps.decoder.shots import Shots, ShotSampler
from loopwise.learn.progress import progress_bar


def search_legs(
    code: Code,
    source: Shots | ShotSampler,
    plan: Sequence[int],
    *,
    rule: Rule | None = None,
    layered: bool = True,
    solutions: int = 1,
    candidates: int = 40,
    shots: int = 50_000,
    interval: tuple[float, float] = (-0.5, 0.75),
    seed: int = 0,
    progress: bool = True,
) -> list[Leg]:
    """Legs of a relay, each the best of some that were drawn, given those before it.

    Parameters
    ----------
    code: the code; its priors are those that legs are tried with.
    source: shots to count failures on, or a sampler that ``shots`` are drawn from. Failures on them are too good to be
        true afterwards: judge by others.
    plan: sweeps of each leg.
    rule, layered, solutions: as of :class:`~loopwise.apps.Decoder`.
    candidates: how many are drawn for each leg.
    interval: within which each candidate draws an interval of its own, and its strengths from that.

    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1)
    >>> from loopwise.apps.decoder import Flips
    >>> search_legs(code, Flips(code), [3, 3], candidates=2, shots=100, progress=False)
    [Leg(3 sweeps, memory), Leg(3 sweeps, memory)]
    """
    low, high = interval
    if not low <= high < 1:
        raise ValueError(f"the interval of memory strengths must rise and end below 1, not {interval!r}")
    if candidates < 1 or not plan:
        raise ValueError("a search needs at least one candidate and the sweeps of at least one leg")
    random = np.random.default_rng(seed)
    given = source if isinstance(source, Shots) else source.draw(shots, random)
    looked, legs = given, list[Leg]()

    def decoder(made: list[Leg]) -> Decoder:
        return Decoder(code, rule=rule, layered=layered, solutions=solutions, legs=made)

    with progress_bar(progress, len(plan) * candidates) as tell:
        for number, sweeps in enumerate(plan):
            best = None
            for candidate in range(candidates):
                least, most = np.sort(random.uniform(low, high, 2))
                leg = Leg(code, sweeps, memory=random.uniform(least, most, code.bits))
                tried = decoder([*legs, leg])
                answer = tried.run(looked.syndromes, log_odds=looked.log_odds)
                wrong = int(failed(tried, looked, answer).sum())
                if best is None or wrong < best[0]:
                    best = wrong, leg
                tell(number * candidates + candidate + 1, f"leg {number}: {best[0]} failures of {len(given)} shots")
            assert best is not None
            legs.append(best[1])
            if number == 0:  # shots that one leg gets right are left alone from here on
                answer = decoder(legs).run(given.syndromes, log_odds=given.log_odds)
                looked = given.take(np.flatnonzero(failed(decoder(legs), given, answer)))
    return legs
