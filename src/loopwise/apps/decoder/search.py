"""Legs found by trying: small random changes of a decoder's numbers, kept where fewer shots fail.

In: a decoder, shots or a sampler. Out: another decoder. Stage: use. It looks at the failures themselves, which no
gradient does. Most shots are decoded by any numbers, so a change is tried on those that failed before, and on all
shots only if it mends some of these: the shots that fail then join the others.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.legs import MOST_MEMORY, Leg
from loopwise.apps.decoder.shots import Shots, ShotSampler, check_source
from loopwise.arguments import checked_whole
from loopwise.learn.progress import progress_bar

STEPS = {"memory": 0.08, "spread": 0.15, "scale": 0.05, "early": 0.1, "prior": 0.08}  # standard deviations of changes
FIRST_SWEEPS = 3.0  # sweeps in which the scale of the first messages dies away
_GROW, _SHRINK = 1.3, 0.97  # of steps after a change that helps and one that does not
_SMALLEST, _LARGEST = 0.2, 1.5


def search_legs(
    decoder: Decoder,
    source: Shots | ShotSampler,
    *,
    tries: int = 200,
    shots: int = 50_000,
    seed: int = 0,
    progress: bool = True,
) -> Decoder:
    """A decoder with legs that fail less, found by trying ``tries`` changes of those given.

    Memory is shifted and spread, messages scaled (those of the first sweeps by themselves), priors weighed, and sweeps
    go from one leg to another; their sum stays.

    Parameters
    ----------
    decoder: with the legs to begin from, :func:`relay`'s for instance; it is not changed.
    source: shots to count failures on, or a sampler that ``shots`` are drawn from. Failures on them are too good to be
        true afterwards: judge by others.

    Returns
    -------
    A decoder with the same settings.

    >>> from loopwise.apps.decoder import Code, Flips, relay
    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1)
    >>> begun = Decoder(code, legs=relay(code, 1, 3))
    >>> search_legs(begun, Flips(code), tries=2, shots=100, progress=False).legs
    [Leg(3 sweeps, sweep, memory, prior), Leg(3 sweeps, sweep, memory, prior)]
    """
    checked_whole("tries", tries)
    check_source(source)
    random = np.random.default_rng(seed)
    given = source if isinstance(source, Shots) else source.draw(shots, random)
    best, step = _open(decoder), 1.0
    failures = _failures(best, given)
    hard, fewest = failures.copy(), int(failures.sum())
    with progress_bar(progress, tries) as tell:
        for number in range(tries):
            tried = _changed(best, random, step)
            looked = np.flatnonzero(hard)
            better = False
            if int(_failures(tried, given.take(looked)).sum()) < int(failures[looked].sum()):
                found = _failures(tried, given)
                hard |= found
                better = int(found.sum()) < fewest
                if better:
                    best, failures, fewest = tried, found, int(found.sum())
            step = min(_LARGEST, step * _GROW) if better else max(_SMALLEST, step * _SHRINK)
            tell(number + 1, f"{fewest} failures of {len(given)} shots")
    return best


def _failures(decoder: Decoder, shots: Shots) -> NDArray[np.bool_]:
    return failed(decoder, shots, decoder.run(shots.syndromes, log_odds=shots.log_odds))


def _open(decoder: Decoder) -> Decoder:
    """A copy whose legs have all the numbers that are searched for."""
    found = copy.copy(decoder)
    found.legs = [copy.deepcopy(leg) for leg in decoder.legs]
    for leg in found.legs:
        leg.open(sweeps=True, memory=True, priors=True)
        leg.requires_grad_(False)
    return found


def _changed(decoder: Decoder, random: np.random.Generator, step: float) -> Decoder:
    """A copy with some of its numbers changed a little."""
    found = _open(decoder)
    for leg in found.legs:
        _change(leg, random, step)
    if len(found.legs) > 1 and random.random() < 0.3:
        source, target = random.choice(len(found.legs), 2, replace=False)
        moved = min(int(random.integers(1, 5)), found.legs[source].sweeps - 1)
        _resize(found.legs[source], -moved)
        _resize(found.legs[target], moved)
    return found


@torch.no_grad()
def _change(leg: Leg, random: np.random.Generator, step: float) -> None:
    """Some numbers of one leg, each in place with a probability of a third."""

    def drawn(name: str) -> float:
        return step * STEPS[name] * random.normal() if random.random() < 1 / 3 else 0.0

    assert leg.memory is not None and leg.sweep is not None and leg.prior is not None
    middle = leg.memory.mean()
    memory = middle + drawn("memory") + (leg.memory - middle) * np.exp(drawn("spread"))
    leg.memory.copy_(memory.clamp(max=MOST_MEMORY))
    leg.sweep.add_(drawn("scale") + drawn("early") * torch.exp(-torch.arange(leg.sweeps) / FIRST_SWEEPS))
    leg.prior.add_(drawn("prior"))


@torch.no_grad()
def _resize(leg: Leg, more: int) -> None:
    """So many sweeps more or fewer; new ones are as the last one was."""
    assert leg.sweep is not None
    sweeps = leg.sweeps + more
    kept = leg.sweep[:sweeps]
    leg.sweep = torch.nn.Parameter(torch.cat([kept, kept[-1:].expand(sweeps - len(kept))]), requires_grad=False)
    leg.sweeps = sweeps
