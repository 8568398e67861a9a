"""The best set of binary labels, all pairs of which interact: by enumeration, or by cooled Gibbs sweeps.

In: what each label gains by itself, and with each other label. Out: best labels. Below the stages.
"""

from __future__ import annotations

import math

from loopwise.compiled.decorators import kernel
from loopwise.inference.gibbs.kernels.gibbs import next_uniform, seed_stream


@kernel(_nrt=False)
def best_sets(fields, couplings, kept, best):
    """The best of all 2^K sets under ``fields . y + y . couplings . y / 2``, one example after another.

    ``fields`` float64 [examples, K], ``couplings`` float64 [K, K], symmetric, 0 on the diagonal; ``kept`` float64 [K]
    is for work; ``best`` int64 [examples, K] is filled. Sets go in the order of a Gray code: one label changes at a
    time, and O(K) of what the others then feel. Of equal sets the first in that order wins.
    """
    labels = fields.shape[1]
    for example in range(len(fields)):
        for label in range(labels):
            kept[label] = fields[example, label]
        score, top, code, top_code = 0.0, 0.0, 0, 0
        for number in range(1, 1 << labels):
            label = 0
            while (number >> label) & 1 == 0:
                label += 1
            code ^= 1 << label
            sign = 1.0 if (code >> label) & 1 else -1.0
            score += sign * kept[label]
            for other in range(labels):
                kept[other] += sign * couplings[label, other]
            if score > top:
                top, top_code = score, code
        for label in range(labels):
            best[example, label] = (top_code >> label) & 1


@kernel(_nrt=False)
def cool_sets(fields, couplings, sweeps, first, last, seed, generator, kept, state, best):
    """As :func:`best_sets`, by Gibbs sweeps that cool from temperature ``first`` to ``last``; the best set met.

    ``generator`` uint64 [4], ``kept`` float64 [K] and ``state`` int64 [K] are for work. O(K^2) a sweep.
    """
    labels = fields.shape[1]
    factor = math.exp(math.log(last / first) / max(sweeps, 1))
    for example in range(len(fields)):
        seed_stream(generator, seed, example)
        score, top, temperature = 0.0, 0.0, first
        for label in range(labels):  # from no label at all
            kept[label] = fields[example, label]
            state[label] = 0
            best[example, label] = 0
        for _ in range(sweeps):
            for label in range(labels):
                new = 1 if next_uniform(generator) * (1.0 + math.exp(-kept[label] / temperature)) < 1.0 else 0
                if new == state[label]:
                    continue
                sign = 1.0 if new == 1 else -1.0
                state[label] = new
                score += sign * kept[label]
                for other in range(labels):
                    kept[other] += sign * couplings[label, other]
            if score > top:
                top = score
                for label in range(labels):
                    best[example, label] = state[label]
            temperature *= factor
