"""How far messages moved, part by part of a union.

In: messages before and after a sweep, in any arrangement, and the part of each number. Out: the largest change of each
part in nats. Stage: below inference. What counts as a change is as in ``convergence``.
"""

from __future__ import annotations

import math

from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import limits_of, log_change, ratio_of


@kernel
def part_changes(part, near, new, old, log, change):
    """``change[p]``: by how many nats a normalised log message of part ``p`` moved at most, where ``near[p]``; 0 for
    other parts. ``part[place]`` is -1 where no message stands; ``log``: whether messages are logarithms."""
    tiny, rounding = limits_of(new)
    for p in range(change.shape[0]):
        change[p] = 0.0 if log else 1.0
    for place in range(new.shape[0]):
        p = part[place]
        if p >= 0 and near[p]:
            if log:
                change[p] = max(change[p], log_change(new[place], old[place], rounding))
            else:
                change[p] = max(change[p], ratio_of(new[place], old[place], tiny))
    if not log:
        for p in range(change.shape[0]):
            change[p] = max(math.log(change[p]) - rounding, 0.0)
