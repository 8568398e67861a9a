"""Shots near failure: those that carry nearly all of the gradient, and nearly all of what is counted.

In: a decoder, a sampler. Out: some of the shots it draws. Stage: use.
"""

from __future__ import annotations

import copy

import numpy as np

from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.shots import Shots, ShotSampler
from loopwise.arguments import checked_whole

_DRAWN = 8192  # shots drawn at a time


def hard_shots(
    decoder: Decoder, source: ShotSampler, count: int, *, sweeps: int, most: int = 1_000_000, seed: int = 0
) -> Shots:
    """Shots that a decoder has not decoded right after ``sweeps`` sweeps of its first leg, with fewer than it has: near
    failures as well as failures, as often as they are among all. So a decoder may be trained and judged on these alone:
    to the gradient of a loss that is 0 where all is right, and to what is counted, the others add next to nothing.

    Parameters
    ----------
    count: how many are looked for.
    most: how many are drawn at most; fewer than ``count`` may be found among them.

    >>> from loopwise.apps.decoder import Code, Flips
    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1)
    >>> len(hard_shots(Decoder(code), Flips(code), 5, sweeps=1))
    5
    """
    for name, value in (("count", count), ("sweeps", sweeps), ("most", most)):
        checked_whole(name, value)
    probe = copy.copy(decoder)
    probe.legs, probe.second, probe.budget = decoder.legs[:1], None, sweeps
    random = np.random.default_rng([seed, 11])
    found: list[Shots] = []
    drawn = 0
    while drawn < most and sum(map(len, found)) < count:
        shots = source.draw(min(_DRAWN, most - drawn), random)
        drawn += len(shots)
        answer = probe.run(shots.syndromes, log_odds=shots.log_odds)
        found.append(shots.take(failed(probe, shots, answer)))
    return Shots.joined(found).take(slice(count))
