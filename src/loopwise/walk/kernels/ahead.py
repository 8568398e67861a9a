"""What the next step of a compiled walk will draw: its memory can be fetched while this step is still at work.

In: a random stream. Out: the numbers it will give, the stream left as it was. Below the stages. A wrong guess costs a
needless fetch and changes nothing.
"""

from __future__ import annotations

from loopwise.compiled.decorators import inlined
from loopwise.inference.gibbs.kernels.gibbs import next_uniform


@inlined
def uniform_ahead(generator, skipped):
    """The next uniform number, or with ``skipped`` the one after it."""
    one, two, three, four = generator[0], generator[1], generator[2], generator[3]
    if skipped:
        next_uniform(generator)
    found = next_uniform(generator)
    generator[0], generator[1], generator[2], generator[3] = one, two, three, four
    return found
