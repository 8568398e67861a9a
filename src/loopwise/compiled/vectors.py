"""Inner products and sums of a few long vectors, a stretch of them at a time.

In: vectors in rows. Out: numbers, or another vector. Below the stages. Libraries of linear algebra have threads of
their own, which wait at the processor's expense: beside threads that do other work they cost more than they gain.
"""

from __future__ import annotations

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel, kernel

STRETCH = 8192  # entries that stay in a cache while all rows are gone through


@kernel(fastmath={"contract", "reassoc", "nsz"})
def inner_products(vectors, vector, first, last, out):
    """Adds the products of entries ``first`` to ``last - 1`` of each row with those of ``vector`` to ``out``."""
    for begin in range(first, last, STRETCH):
        end = min(begin + STRETCH, last)
        for row in range(len(vectors)):
            one, two, total = vectors[row, begin:end], vector[begin:end], 0.0
            for place in range(U(end - begin)):
                total += one[place] * two[place]
            out[row] += total


@fused_kernel
def weighted_sum(weights, vectors, first, last, out):
    """Adds ``weights`` times the rows to entries ``first`` to ``last - 1`` of ``out``."""
    for begin in range(first, last, STRETCH):
        end = min(begin + STRETCH, last)
        for row in range(len(vectors)):
            weight, one, two = weights[row], vectors[row, begin:end], out[begin:end]
            for place in range(U(end - begin)):
                two[place] += weight * one[place]
