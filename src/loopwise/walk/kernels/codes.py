"""Numbers by which compiled walks know proposals, signals, step rules and start states.

In: nothing. Out: integers, and where walks go, read by kernels and by the classes that describe walks. Below the
stages. No Numba here, so that describing a walk costs nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Start states.
TRUTH, RANDOM, KEEP, SINGLETONS = 0, 1, 2, 3
# Proposals that change one label.
GIBBS, ALL_VALUES, UNIFORM, FORCED = 0, 1, 2, 3
# Signals of labellings, and of clusterings.
HAMMING, COUNTS, ENTITY = 0, 1, 2
PAIR_ACCURACY, PAIR_F, B_CUBED = 0, 1, 2
# Step rules.
UNIT, DECAYING, ADAGRAD, MIRA = 0, 1, 2, 3
# A margin that is met but for so small a share of it is met: a step that should meet it exactly leaves rounding.
MET = 1e-12
# Updates towards the truth.
NO_TRUTH, TRUTH_MARGIN, TRUTH_ALWAYS = 0, 1, 2
# Places in a tally: steps, proposals that change something, accepted ones, pairs that the signal orders, those whose
# margin was not met, updates, non-zero features in all updates together.
STEPS, MOVED, ACCEPTED, RANKED, VIOLATED, UPDATES, ACTIVE = 0, 1, 2, 3, 4, 5, 6
TALLY = 7
# Features of an entity: of each predicate, places ALL to NONE and one for each mean that is exceeded; of its size; of
# how many members have each value of an attribute, and whether all have it.
ALL, SOME, MOST, NONE, MEAN = 0, 1, 2, 3, 4
MEANS = (0.1, 0.25, 0.5, 0.75, 0.9)
PER_PREDICATE = MEAN + len(MEANS)
SIZE_BINS = 7
COUNT_BINS = 5
PER_VALUE = COUNT_BINS + 1


class Visits(NamedTuple):
    """Documents in the order of their visits."""

    document: Any  # int64
    steps: Any  # int64
    start: Any  # int64, TRUTH, RANDOM, KEEP or SINGLETONS
    stream: Any  # int64, number of the random stream
    seed: int
