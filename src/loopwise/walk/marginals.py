"""Marginals estimated by walks.

In: a session, weights. Out: probabilities of events, and R-hat. Stage: walking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.inference.gibbs.method import MIXED, check_count, split_r_hat
from loopwise.walk.cooling import Cooling
from loopwise.walk.models.model import Model
from loopwise.walk.randomness import stream_number
from loopwise.walk.sessions import Sampling, Searching, Visiting, WalkSession

_SAMPLING = 1 << 28  # the epoch of streams that sample
_NEVER = 1 << 62  # a score from scratch is not wanted

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Marginals:
    """``probabilities``: of values, ``[variables, K]``, or of sharing an entity, ``[mentions, mentions]``.

    ``r_hat``: the largest split R-hat of all events; ``mixed`` where it is below the threshold of
    :class:`loopwise.Gibbs`.
    """

    probabilities: Floats
    r_hat: float

    @property
    def mixed(self) -> bool:
        return self.r_hat < MIXED


def estimate(
    session: WalkSession,
    model: Model,
    document: Any,
    weights: Floats,
    *,
    samples: int,
    burn_in: int,
    thinning: int,
    chains: int,
    temperature: float,
    seed: int,
) -> Marginals:
    """Counts events over ``chains`` walks of ``samples`` samples each, from different starts."""
    check_count("samples", samples, 4)
    check_count("thinning", thinning, 1)
    check_count("chains", chains, 1)
    check_count("burn_in", burn_in, 0)
    even = samples - samples % 2
    sampling = Sampling(burn_in, thinning, even)
    visits = [
        Visiting(0, burn_in + even * thinning, model.decoding_start(), stream_number(_SAMPLING + chain, 0))
        for chain in range(chains)
    ]
    how = Searching(Cooling(temperature, temperature), _NEVER, sampling)
    found = session.search(weights, visits, how, seed)
    counts = np.stack([each.counts for each in found])[None]  # [1, chains, 2, cells]
    shrink = split_r_hat(counts, np.ones((1, chains), dtype=np.bool_), even // 2)
    shares = counts.sum(axis=(0, 1, 2)) / (chains * even)
    return Marginals(model.marginals(document, shares), float(shrink.max(initial=1.0)))
